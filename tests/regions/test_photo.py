"""Every kind of photo gives the pixels that Pillow gives, upright; a broken one harms only its own row."""

import io
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_imagesent.errors import InputError
from keras_imagesent.regions import photo as in_graph
from keras_imagesent.regions.pillow_photo import read_photo, read_pixels
from tests.conftest import SHARED, needs_shared

HEIGHT, WIDTH = 23, 31


def picture():
    """A picture without symmetry, so that every turn shows."""
    x, y = np.meshgrid(np.linspace(0, 1, WIDTH), np.linspace(0, 1, HEIGHT))
    return Image.fromarray(np.uint8(255 * np.stack([x, y, (x > 0.7) & (y < 0.4)], -1)))


def encode(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif(way, endian="<"):
    tags = Image.Exif()
    tags.endian = endian
    tags[0x010F] = "a maker"
    tags[0x0112] = way
    return tags.tobytes()


def with_alpha():
    image = picture()
    image.putalpha(Image.fromarray(np.uint8(np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % 256)))
    return image


def photos():
    image, clear = picture(), with_alpha()
    gray, few = image.convert("L"), image.convert("P")
    deep = Image.fromarray(np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH) * 91)
    found = {
        "jpeg": encode(image, "JPEG"),
        "progressive": encode(image, "JPEG", progressive=True),
        "big-endian": encode(image, "JPEG", exif=exif(6, ">")),
        "gray jpeg": encode(gray, "JPEG"),
        "cmyk": encode(image.convert("CMYK"), "JPEG"),
        "png": encode(image, "PNG"),
        "rgba": encode(clear, "PNG"),
        "gray alpha": encode(clear.convert("LA"), "PNG"),
        "palette": encode(image.convert("P"), "PNG"),
        "clear palette": encode(image.convert("P"), "PNG", transparency=3),
        "clear colour": encode(image, "PNG", transparency=(0, 0, 0)),
        "one bit": encode(image.convert("1"), "PNG"),
        "16 bit": encode(deep, "PNG"),
        "gif": encode(image.convert("P"), "GIF"),
        "animated": encode(image, "GIF", save_all=True, append_images=[image.rotate(180)]),
        "clear gif": encode(few, "GIF", transparency=few.getpixel((3, 3)), comment=700 * b"x"),
        "clear gray gif": encode(gray, "GIF", transparency=gray.getpixel((3, 3))),
        "clear animated": encode(
            few, "GIF", save_all=True, append_images=[few.rotate(180)], transparency=few.getpixel((3, 3))
        ),
        "several pictures": encode(image, "MPO", save_all=True, append_images=[image.rotate(180)]),
        "bmp": encode(image, "BMP"),
        "gray bmp": encode(gray, "BMP"),
        "palette bmp": encode(image.convert("P"), "BMP"),
        "1 x 1": encode(image.resize((1, 1)), "PNG"),
    }
    return found | {
        f"{kind} {way}": encode(image, kind, exif=exif(way)) for way in range(1, 9) for kind in ("JPEG", "PNG")
    }


PHOTOS = photos()
PARTIAL_GIF = PHOTOS["gif"][:6] + bytes([99, 0, 99, 0]) + PHOTOS["gif"][10:]  # a frame smaller than the screen
decode = tf.function(in_graph.decode_photo, input_signature=[tf.TensorSpec((), tf.string)])


@pytest.mark.parametrize("name", PHOTOS)
def test_graph_and_pillow_give_the_same_pixels(name):
    np.testing.assert_array_equal(decode(PHOTOS[name]), np.asarray(read_photo(PHOTOS[name])))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_all_eight_orientations_come_out_upright(kind):
    upright = np.asarray(picture()).astype(int)
    stored = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # way -> Pillow's transposition that a camera would have made
    for way, turn in stored.items():
        turned = picture().transpose(Image.Transpose(turn))
        pixels = decode(encode(turned, kind, exif=exif(way), **({"quality": 100} if kind == "JPEG" else {})))
        assert np.abs(pixels.numpy().astype(int) - upright).mean() < 3, way


def test_transparency_lies_over_white_and_16_bits_keep_the_upper_8():
    half = Image.new("RGBA", (1, 1), (0, 100, 200, 128))
    assert decode(encode(half, "PNG")).numpy().tolist() == [[[127, 177, 227]]]
    assert decode(PHOTOS["clear gif"]).numpy()[3, 3].tolist() == [255, 255, 255]
    deep = Image.fromarray(np.array([[0x12FF]], np.uint16))
    assert decode(encode(deep, "PNG")).numpy().tolist() == [[[0x12, 0x12, 0x12]]]


@pytest.mark.parametrize("colour", [2, 4, 6])
def test_16_bit_png_in_colour_and_with_transparency(colour):
    """Pillow writes no such file, so it is put together by hand: colour type 2 is RGB, 4 gray with alpha, 6 RGBA."""
    samples = np.random.default_rng(colour).integers(0, 65536, (5, 7, {2: 3, 4: 2, 6: 4}[colour])).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in samples)
    header = struct.pack(">IIBBBBB", 7, 5, 16, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    upper = (samples >> 8).astype(int)
    pixels = np.repeat(upper[..., :1], 3, axis=-1) if colour == 4 else upper[..., :3]
    alpha = upper[..., -1:] if colour != 2 else 255
    expected = (pixels * alpha + 255 * (255 - alpha) + 127) // 255
    np.testing.assert_array_equal(decode(png), expected)
    np.testing.assert_array_equal(np.asarray(read_photo(png)), expected)


def test_damaged_exif_says_upright():
    good = encode(picture(), "JPEG", exif=exif(6))
    at = good.index(b"Exif\0\0")
    for damaged in (
        good[: at + 10] + b"\xff" * 4 + good[at + 14 :],  # the directory lies outside the file
        good[: at + 6] + b"\0" * 8 + good[at + 14 :],
        good[: at + 6] + b"\xff" * 200,  # and the file ends there
    ):
        assert in_graph.orientation(damaged).numpy() == 1


def test_a_broken_row_harms_no_other():
    jpeg = encode(picture(), "JPEG")
    rows = [
        jpeg,
        b"",
        b"junk",
        jpeg[: len(jpeg) // 2],
        encode(picture(), "PNG")[:60],
        b"BM",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        PARTIAL_GIF,
        encode(picture().convert("1"), "BMP"),
        jpeg,
    ]
    pixels, status = in_graph.decode_pixels(tf.constant(rows), 16)
    good = read_pixels(jpeg, 16)
    assert status.numpy().tolist() == [b"ok"] + [in_graph.BROKEN.encode()] * 9 + [b"ok"]
    assert not pixels[1:10].numpy().any()
    np.testing.assert_allclose(pixels[0], good, atol=1)
    np.testing.assert_array_equal(pixels[0], pixels[10])
    for row in rows[1:-1]:
        with pytest.raises(InputError):
            read_photo(row)


def test_an_image_bomb_is_refused_unread():
    kinds = {
        kind: encode(Image.new("L" if kind == "GIF" else "RGB", (300, 200)), kind)
        for kind in ("JPEG", "PNG", "GIF", "BMP")
    }
    _, status = in_graph.decode_pixels(tf.constant(list(kinds.values())), 8, max_pixels=59_999)
    assert status.numpy().tolist() == [in_graph.TOO_LARGE.encode()] * 4
    _, status = in_graph.decode_pixels(tf.constant(list(kinds.values())), 8, max_pixels=60_000)
    assert status.numpy().tolist() == [b"ok"] * 4


def test_an_empty_batch_is_answered():
    pixels, status = in_graph.decode_pixels(tf.constant([], tf.string), 8)
    assert pixels.shape == (0, 8, 8, 3) and status.shape == (0,)


def test_a_whole_batch_runs_in_a_saved_model(tmp_path):
    module = tf.Module()
    module.decode = tf.function(
        lambda image_bytes: in_graph.decode_pixels(image_bytes, 16), input_signature=[tf.TensorSpec((None,), tf.string)]
    )
    tf.saved_model.save(module, str(tmp_path))
    pixels, status = tf.saved_model.load(str(tmp_path)).decode(tf.constant([PHOTOS["JPEG 6"], b"x"]))
    np.testing.assert_allclose(pixels[0], read_pixels(PHOTOS["JPEG 6"], 16), atol=1)
    assert status[1] == in_graph.BROKEN


def test_pillow_names_the_photo_it_cannot_read(tmp_path):
    (tmp_path / "notes.jpg").write_text("no photo")
    with pytest.raises(InputError, match=r"notes\.jpg: not a whole JPEG"):
        read_pixels(tmp_path / "notes.jpg", 8)
    with pytest.raises(InputError, match=r"absent\.jpg: no such file"):
        read_pixels(tmp_path / "absent.jpg", 8)


@needs_shared
def test_real_photos_squash_as_in_pillow():
    paths = sorted((SHARED / "flickr8k" / "images").iterdir())[:20]
    pixels, status = in_graph.decode_pixels(tf.constant([path.read_bytes() for path in paths]), 384)
    expected = np.stack([read_pixels(path, 384) for path in paths])
    assert set(status.numpy()) == {b"ok"}
    assert np.abs(pixels - expected).max() <= 1
    assert np.abs(pixels - expected).mean() < 0.25
