"""Thumbnails and crops of photos as a phone takes them: turned by EXIF, of another mode, unreadable."""

import os

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.errors import InputError
from keras_imagesent.report.pictures import draw_regions
from keras_imagesent.report.thumbnails import WIDTH, crop_region, make_thumbnails

RED, BLUE = (254, 0, 0), (0, 0, 254)


@pytest.fixture
def phone_photo(tmp_path):
    """Stored lying, left half red and right half blue; upright, after a turn to the right, red is above blue."""
    image = Image.new("RGB", (200, 100), BLUE)
    image.paste(RED, (0, 0, 100, 100))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    image.save(tmp_path / "phone.jpg", exif=exif, quality=95)
    return tmp_path / "phone.jpg"


def colour(image, x, y):
    return np.asarray(image.convert("RGB"))[y, x]


def test_a_thumbnail_stands_upright(phone_photo, tmp_path):
    (name,) = make_thumbnails(["phone.jpg"], tmp_path, tmp_path / "thumbs")
    with Image.open(tmp_path / "thumbs" / name) as thumbnail:
        assert thumbnail.size == (WIDTH, 2 * WIDTH) and thumbnail.getexif().get(0x0112, 1) == 1
        np.testing.assert_allclose(colour(thumbnail, 200, 100), RED, atol=12)
        np.testing.assert_allclose(colour(thumbnail, 200, 700), BLUE, atol=12)


def test_a_crop_is_taken_from_the_upright_photo(phone_photo):
    upper = crop_region(phone_photo, [0, 0, 1, 0.4])
    lower = crop_region(phone_photo, [0, 0.6, 1, 1])
    assert upper.size == lower.size == (100, 80)  # of 100 x 200
    np.testing.assert_allclose(colour(upper, 50, 40), RED, atol=12)
    np.testing.assert_allclose(colour(lower, 50, 40), BLUE, atol=12)


def test_a_thumbnail_is_made_once_and_again_when_the_photo_is_newer(phone_photo, tmp_path):
    (name,) = make_thumbnails(["phone.jpg"], tmp_path, tmp_path / "thumbs")
    thumbnail = tmp_path / "thumbs" / name
    thumbnail.write_bytes(b"kept")
    make_thumbnails(["phone.jpg"], tmp_path, tmp_path / "thumbs")
    assert thumbnail.read_bytes() == b"kept"
    later = thumbnail.stat().st_mtime + 1
    os.utime(phone_photo, (later, later))
    make_thumbnails(["phone.jpg"], tmp_path, tmp_path / "thumbs")
    assert thumbnail.read_bytes() != b"kept"


def test_a_photo_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "text.jpg").write_text("no photo")
    with pytest.raises(InputError, match="cannot read the photo .*text.jpg"):
        make_thumbnails(["text.jpg"], tmp_path, tmp_path / "thumbs")


@pytest.mark.parametrize("kind", ["TIFF", "WEBP", "PPM", "ICO"])
def test_only_the_listed_formats_are_opened(kind, tmp_path):
    photo = tmp_path / "photo.jpg"
    Image.new("RGB", (32, 32), "red").save(photo, kind)
    with pytest.raises(InputError, match="cannot read the photo"):
        make_thumbnails(["photo.jpg"], tmp_path, tmp_path / "thumbs")
    with pytest.raises(InputError, match="cannot draw on"):
        draw_regions(photo, [[0, 0, 1, 1]], ["a dog"])
    with pytest.raises(OSError, match="cannot identify"):
        crop_region(photo, [0, 0, 1, 1])
