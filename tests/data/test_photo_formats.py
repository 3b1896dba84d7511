"""What every photo owner has: WebP, TIFF, AVIF and HEIC, and folders with other files in them."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.cli.photo_list import Complaints, list_photos
from keras_imagesent.data.photo_batches import read_in_batches
from keras_imagesent.data.photo_check import look_at
from keras_imagesent.data.photo_formats import ENDINGS, format_of, to_decodable
from keras_imagesent.errors import InputError
from keras_imagesent.regions.pillow_photo import read_photo

HEIC = Path(__file__).with_name("phone.heic")  # `drawn` by pillow-heif


def drawn(mode="RGB"):
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[:24], pixels[24:], pixels[:, :16] = (200, 40, 40), (40, 60, 200), (240, 240, 240)
    return Image.fromarray(pixels).convert(mode)


def encoded(image, kind, **options):
    packed = io.BytesIO()
    image.save(packed, kind, **options)
    return packed.getvalue()


def opened(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)


@pytest.mark.parametrize(
    ("kind", "options", "mode"),
    [
        ("WEBP", {"lossless": True}, "RGB"),
        ("WEBP", {"quality": 95}, "RGB"),
        ("TIFF", {}, "RGB"),
        ("TIFF", {"compression": "tiff_lzw"}, "RGB"),
        ("TIFF", {}, "CMYK"),
        ("AVIF", {"quality": 95}, "RGB"),
    ],
)
def test_the_picture_stays_the_same(kind, options, mode):
    content = encoded(drawn(mode), kind, **options)
    assert format_of(content) == kind
    for lossless, allowed in ((True, 12), (False, 16)):
        result = to_decodable(content, lossless)
        assert result[:2] == (b"BM" if lossless else b"\xff\xd8")
        difference = np.abs(opened(result) - opened(encoded(drawn(), "PNG")))
        assert np.median(difference) <= 2 and np.percentile(difference, 90) <= allowed


def test_a_phones_heic():
    pixels = opened(to_decodable(HEIC.read_bytes()))
    assert np.median(np.abs(pixels - opened(encoded(drawn(), "PNG")))) <= 4
    assert read_photo(HEIC).size == (64, 48)


@pytest.mark.parametrize("kind", ["WEBP", "TIFF", "AVIF"])
def test_orientation_and_transparency(kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    image = drawn("RGBA")
    image.putalpha(Image.fromarray(np.repeat([[0], [255]], 24, axis=0).repeat(64, axis=1).astype(np.uint8)))
    pixels = opened(to_decodable(encoded(image, kind, exif=exif)))
    assert pixels.shape == (64, 48, 3)
    assert (pixels[:, -10:] > 250).all()  # the clear upper half, turned to the right, over white
    assert pixels[40:, :10, 2].min() > 150  # the blue lower half


def test_sixteen_bits_keep_their_upper_eight():
    values = np.arange(64 * 48, dtype=np.uint16).reshape(48, 64) * 16
    pixels = opened(to_decodable(encoded(Image.fromarray(values), "TIFF")))
    assert (pixels[..., 0] == values >> 8).all()


def test_what_the_graph_decodes_is_left_alone_and_what_is_no_photo_too():
    for content in (encoded(drawn(), "JPEG"), encoded(drawn(), "PNG"), b"no photo", b"", b"RIFF1234WAVE"):
        assert to_decodable(content) == content


@pytest.mark.parametrize("kind", ["WEBP", "TIFF", "AVIF", "HEIF"])
def test_a_damaged_photo_is_named(kind, tmp_path):
    content = HEIC.read_bytes() if kind == "HEIF" else encoded(drawn(), kind)
    cut = content[: len(content) // 2]
    with pytest.raises(InputError, match=f"a truncated or damaged {kind} photo"):
        to_decodable(cut)
    (tmp_path / "cut").write_bytes(cut)
    assert f"damaged {kind} photo" in look_at(tmp_path / "cut")[1]
    (tmp_path / "whole").write_bytes(content)
    assert look_at(tmp_path / "whole")[1] is None


def test_a_folder_says_what_it_skips(tmp_path, capsys):
    for name in ("a.jpg", "b.HEIC", "c.webp", "film.mov", "raw.dng", "second.mov", "README", ".DS_Store"):
        (tmp_path / name).write_bytes(HEIC.read_bytes())
    photos = list_photos([str(tmp_path)])
    assert [path.name for path in photos] == ["a.jpg", "b.HEIC", "c.webp"]
    said = capsys.readouterr().err
    assert said == (
        f"imagesent: {tmp_path}: 4 files skipped that are no photos (2 .mov, 1 .dng, 1 without an ending)\n"
        if said.index(".dng") < said.index("without")
        else f"imagesent: {tmp_path}: 4 files skipped that are no photos (2 .mov, 1 without an ending, 1 .dng)\n"
    )
    assert {".heic", ".webp", ".avif", ".tif"} < set(ENDINGS)


def test_a_damaged_one_is_complained_of_and_the_others_are_read(tmp_path, capsys):
    (tmp_path / "cut.webp").write_bytes(encoded(drawn(), "WEBP")[:40])
    (tmp_path / "phone.heic").write_bytes(HEIC.read_bytes())
    complain = Complaints()
    ((paths, contents),) = read_in_batches(sorted(tmp_path.iterdir()), complain)
    assert [path.name for path in paths] == ["phone.heic"] and contents[0][:2] == b"BM"
    assert "cut.webp: a truncated or damaged WEBP photo" in capsys.readouterr().err and complain.exit_status == 1
