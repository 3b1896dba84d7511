import pytest

from keras_imagesent.data.dataset import Dataset, Photo, join_datasets, read_dataset, set_aside
from keras_imagesent.errors import InputError
from tests.data.small_sets import make_photo, write


def numbered(name, number, split="train"):
    return Dataset([Photo(f"{name}{i}.jpg", f"{name}{i}.jpg", split, ["a dog"], i) for i in range(number)])


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
