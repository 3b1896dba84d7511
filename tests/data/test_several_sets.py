import pytest

from keras_imagesent.data.dataset import Dataset, Photo, join_datasets, read_dataset
from keras_imagesent.data.set_aside import set_aside
from keras_imagesent.errors import InputError
from tests.data.small_sets import make_photo, write


def numbered(name, number, split="train"):
    return Dataset([Photo(f"{name}{i}.jpg", f"{name}{i}.jpg", split, [f"a dog, {name}{i}"], i) for i in range(number)])


def test_joined_photos_know_their_set_and_have_numbers_of_their_own():
    joined = join_datasets({"one": numbered("a", 2), "two": numbered("b", 3, "val")})
    assert [photo.data_set for photo in joined.photos] == ["one", "one", "two", "two", "two"]
    assert [photo.photo_id for photo in joined.photos] == [0, 1, 2, 3, 4]
    assert joined.splits == {"train": 2, "val": 3}


def test_a_file_name_in_two_sets_is_refused():
    with pytest.raises(InputError, match=r"a0\.jpg is a photo of one and of two"):
        join_datasets({"one": numbered("a", 2), "two": numbered("a", 1)})


def test_each_set_gives_its_share_of_the_photos_set_aside():
    joined = set_aside(join_datasets({"one": numbered("a", 50), "two": numbered("b", 9)}), 5)
    tune = [photo.data_set for photo in joined.photos if photo.split == "tune"]
    assert tune.count("one") == tune.count("two") == 5


def test_photos_with_five_captions_are_set_aside_first():
    captions = [["a dog"] * number for number in [1] * 30 + [5] * 4 + [7] * 2 + [3] * 5]
    dataset = Dataset([Photo(f"{i}.jpg", f"{i}.jpg", "train", texts, i) for i, texts in enumerate(captions)])

    def moved(number, seed=0):
        tune = [photo for photo in set_aside(dataset, number, seed).photos if photo.split == "tune"]
        return sorted(len(photo.captions) for photo in tune)

    assert all(number >= 5 for seed in range(5) for number in moved(4, seed))
    assert moved(8) == [3, 3, 5, 5, 5, 5, 7, 7]


def test_a_photo_that_another_set_has_at_another_size_is_not_set_aside():
    def one(name, numbers):
        return Dataset([Photo(f"{name}{i}.jpg", "", "train", [f"photo {i}"] * 5, i) for i in numbers])

    joined = set_aside(join_datasets({"small": one("s", range(20)), "large": one("l", range(15))}), 4)
    tune = [photo for photo in joined.photos if photo.split == "tune"]
    assert [photo.data_set for photo in tune] == ["small"] * 4
    assert all(int(photo.filename[1:-4]) >= 15 for photo in tune)


def test_a_set_that_is_too_small_to_set_photos_aside_is_named():
    with pytest.raises(InputError, match="cannot set aside 9 of 9 training photos of two"):
        set_aside(join_datasets({"one": numbered("a", 50), "two": numbered("b", 9)}), 9)


def test_a_set_that_only_reports_gives_no_photos():
    joined = set_aside(join_datasets({"one": numbered("a", 50), "two": numbered("b", 9, "val")}), 5)
    assert joined.splits == {"train": 45, "tune": 5, "val": 9}


def test_problems_name_their_set(tmp_path):
    make_photo(tmp_path / "images" / "a.jpg")
    table = write(tmp_path / "mine.csv", "filename,caption\na.jpg,A dog.\nb.jpg,...\n")
    joined = join_datasets({"mine": read_dataset(table, tmp_path / "images")})
    assert any(problem.item.startswith("mine: b.jpg") for problem in joined.problems)
