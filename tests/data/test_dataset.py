"""A data set as a whole: leaks between splits, broken photos, how much may be broken, setting aside."""

import shutil
import struct
import zlib

import pytest
from PIL import Image

from keras_imagesent.data.dataset import Dataset, Photo, read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from keras_imagesent.data.set_aside import set_aside
from keras_imagesent.errors import InputError
from tests.data.small_sets import TOKENS, karpathy, make_photo, read, write

# ---- leaks


def test_a_photo_in_two_splits_stops_everything(folder):
    with pytest.raises(
        InputError, match=r"^a photo stands in two splits: a.jpg is in train and in test; leave it in one"
    ):
        read(folder, karpathy(("a.jpg", "train", ["A dog."]), ("a.jpg", "test", ["A dog."])))
    lists = {"train": write(folder / "x", "a.jpg\nb.jpg\n"), "dev": write(folder / "y", "a.jpg\nb.jpg\n")}
    with pytest.raises(InputError, match="a.jpg is in train and in dev, and 1 more photos"):
        read(folder, TOKENS, split_files=lists)


def test_the_same_picture_under_two_names_is_a_leak_too(folder):
    shutil.copy(folder / "images/a.jpg", folder / "images/copy.jpg")
    photos = ("a.jpg", "train", ["A dog."]), ("copy.jpg", "test", ["A dog."])
    with pytest.raises(InputError, match=r"a.jpg in train and copy.jpg in test are the same picture"):
        check_dataset(read(folder, karpathy(*photos)))
    same_split = read(folder, karpathy(photos[0], ("copy.jpg", "train", ["A dog."])))
    assert len(check_dataset(same_split).photos) == 2


# ---- what is wrong with the photos


def bomb(width, height):
    """A small PNG that claims a large size."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(10_000)))
        + chunk(b"IEND", b"")
    )


def broken_photos(folder):
    """One photo of each kind of broken: name -> what its problem must say."""
    images = folder / "images"
    noise = Image.effect_noise((300, 200), 90).convert("RGB")
    noise.save(images / "whole.jpg")
    whole = (images / "whole.jpg").read_bytes()
    noise.save(images / "progressive.jpg", progressive=True)
    noise.save(images / "whole.png")
    noise.save(images / "photo.ppm")
    write(images / "cut.jpg", whole[: len(whole) // 2])
    write(images / "cut_late.jpg", whole[:-2000])
    write(images / "cut.png", (images / "whole.png").read_bytes()[:5000])
    write(images / "text.jpg", "<html>404 not found</html>")
    write(images / "empty.jpg", b"")
    write(images / "bomb.png", bomb(60_000, 60_000))
    write(images / "large.png", bomb(12_000, 12_000))
    noise.convert("1").save(images / "two_colours.bmp")
    write(images / "flat.png", bomb(0, 0))
    noise.convert("P").save(images / "whole.gif")
    partial = bytearray((images / "whole.gif").read_bytes())
    partial[6:10] = struct.pack("<HH", 400, 300)  # the screen, not the frame
    write(images / "partial.gif", bytes(partial))
    (images / "folder.jpg").mkdir()
    return {
        "missing.jpg": "there is no such file",
        "cut.jpg": "truncated or damaged",
        "cut_late.jpg": "truncated or damaged",
        "cut.png": "truncated or damaged",
        "text.jpg": "not a photo in one of the formats JPEG, PNG, GIF, BMP",
        "photo.ppm": "not a photo in one of the formats",
        "empty.jpg": "the file is empty",
        "bomb.png": "more than 120,000,000 pixels: make it smaller",
        "large.png": "12000 x 12000 pixels are more than 120,000,000",
        "folder.jpg": "cannot be read: Is a directory",
        "two_colours.bmp": "a BMP that is compressed or not of 8, 24 or 32 bits a pixel: save it as PNG or JPEG",
        "flat.png": "not a photo in one of the formats",
        "partial.gif": "a GIF whose first picture does not fill it",
    }


def test_broken_photos_are_set_aside_with_the_reason(folder):
    broken = broken_photos(folder)
    make_photo(folder / "images" / "tiny.jpg", size=(1, 5))
    whole = ["a.jpg", "d.png", "whole.jpg", "whole.png", "progressive.jpg", "whole.gif", "tiny.jpg"]
    dataset = read(folder, karpathy(*[(name, "train", ["A dog."]) for name in [*whole, *broken]]))
    checked = check_dataset(dataset, max_broken=0.9)
    assert [photo.filename for photo in checked.photos] == whole
    assert [problem.item for problem in checked.problems] == list(broken)
    for problem in checked.problems:
        assert problem.reason.startswith(broken[problem.item])


def test_more_than_the_stated_share_stops_the_run(folder):
    names = ["a.jpg", "b.jpg", "c.jpg", "d.png"]
    content = karpathy(*[(name, "train", ["A dog."]) for name in names], ("lost.jpg", "train", ["A dog."]))
    dataset = read(folder, content)
    assert len(check_dataset(dataset, max_broken=0.2).photos) == 4
    with pytest.raises(InputError) as error:
        check_dataset(dataset, max_broken=0.19)
    assert str(error.value) == (
        "1 of 5 items are broken, 20.0%; 19.0% are allowed: mend them or allow more with --max-broken "
        "(lost.jpg: there is no such file)"
    )


def test_captions_count_towards_the_share(folder):
    dataset = read(folder, karpathy(("a.jpg", "train", ["A dog.", "..."])))
    with pytest.raises(InputError, match="1 of 2 items are broken"):
        check_dataset(dataset)


def test_the_wrong_folder_is_told_from_broken_photos(folder):
    (folder / "other").mkdir()
    dataset = read_dataset(write(folder / "data", karpathy(("a.jpg", "train", ["A dog."]))), folder / "other")
    with pytest.raises(InputError, match=r"^none of the 1 photos is there \(the first would be .*other/a.jpg\): give"):
        check_dataset(dataset, max_broken=1)


def test_a_split_that_ends_up_empty_stops_the_run(folder):
    dataset = read(folder, karpathy(("a.jpg", "train", ["A dog."]), ("lost.jpg", "test", ["A dog."])))
    with pytest.raises(InputError, match="no photo of split 'test' is left: all 1 are broken"):
        check_dataset(dataset, max_broken=0.9)


def test_progress_sees_every_photo(folder):
    seen = []

    def progress(looks, total):
        seen.append(total)
        return looks

    check_dataset(read(folder, karpathy(("a.jpg", "train", ["A."]), ("b.jpg", "train", ["B."]))), progress=progress)
    assert seen == [2]


# ---- setting aside


def photos(**splits):
    names = [split for split, number in splits.items() for _ in range(number)]
    return Dataset([Photo(f"{n}.jpg", None, split, ["A."], n) for n, split in enumerate(names)])


def test_set_aside_takes_training_photos_and_the_seed_decides_which():
    dataset = photos(train=50, dev=10)
    moved = set_aside(dataset, 7, seed=1)
    assert moved.splits == {"train": 43, "tune": 7, "dev": 10}
    assert moved == set_aside(dataset, 7, seed=1)
    assert moved != set_aside(dataset, 7, seed=2)
    assert [photo.photo_id for photo in moved.photos] == list(range(60))
    assert dataset.splits == {"train": 50, "dev": 10}


def test_set_aside_leaves_something_to_train_on():
    with pytest.raises(InputError, match="cannot set aside 50 of 50 training photos"):
        set_aside(photos(train=50), 50)
    with pytest.raises(InputError, match="has a split 'tune' of its own"):
        set_aside(photos(train=5, tune=5), 1)
