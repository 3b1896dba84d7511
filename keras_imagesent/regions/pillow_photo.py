"""The Pillow twin of `regions.photo`, for programs without TensorFlow (ONNX Runtime, LiteRT)."""

import io
import math
import os
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from keras_imagesent.data.photo_check import FORMATS, FULL_SIZE_PIXELS, MAX_PIXELS, undecodable
from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError
from keras_imagesent.regions.squash import squash

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def read_pixels(photo, size):
    """The upright photo squashed to a square: path or bytes -> float32 (size,size,3), the graph's pixels.

    Example:
        pixels = read_pixels("phone.jpg", 320)[None]  # what the ONNX and LiteRT files take
    """
    return squash(np.asarray(read_photo(photo)), size)


def read_photo(photo, most_pixels=None):
    """The upright photo as an RGB Pillow image: EXIF orientation applied, transparency over white.

    With `most_pixels` it is reduced by a whole number while it is read, so that it has no more.

    Example:
        read_photo("phone.jpg").size
    """
    name = photo if isinstance(photo, (str, os.PathLike)) else "the photo"
    try:
        content = Path(photo).read_bytes() if isinstance(photo, (str, os.PathLike)) else photo
        source = io.BytesIO(to_decodable(content))
        with Image.open(source, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise InputError(f"{name}: too many pixels ({image.width} x {image.height}). Make it smaller.")
            if reason := undecodable(image):
                raise InputError(f"{name}: {reason}.")
            _reduce_jpeg(image, FULL_SIZE_PIXELS)
            if most_pixels:
                _reduce_jpeg(image, most_pixels)
            image.load()
            factor = math.ceil(math.sqrt(image.width * image.height / most_pixels)) if most_pixels else 1
            upright = _to_rgb_in_strips(image, factor)
            turn = _TURNS.get(_orientation(image))
    except FileNotFoundError:
        raise InputError(f"{name}: no such file. Check the path.") from None
    except Image.DecompressionBombError:
        raise InputError(f"{name}: too many pixels. Make it smaller.") from None
    except InputError:
        raise
    except Exception as error:  # on damaged files Pillow's decoders raise anything
        raise InputError(f"{name}: not a whole JPEG, PNG, GIF or BMP photo ({error}).") from None
    return upright if turn is None else upright.transpose(turn)


def _orientation(image):
    exif = Image.Exif()
    try:
        exif.load(image.info.get("exif", b""))
        return exif.get(0x0112, 1)
    except (SyntaxError, ValueError, struct.error):  # a damaged header says nothing about the photo
        return 1


def _reduce_jpeg(image, most_pixels):
    """Decode a large JPEG at a half or a quarter of its size, as the graph does; other kinds are left as they are."""
    for _ in range(2):
        if image.format in ("JPEG", "MPO") and image.width * image.height > most_pixels:
            image.draft(image.mode, (-(-image.width // 2), -(-image.height // 2)))


def _to_rgb_in_strips(image, factor):
    """RGB, reduced by `factor`. A strip at a time: the sums over transparency need many bytes a pixel."""
    rows = factor * max(1, 2**22 // (factor * image.width))
    whole = Image.new("RGB", (-(-image.width // factor), -(-image.height // factor)))
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        whole.paste(_to_rgb(strip, image.format).reduce(factor), (0, top // factor))
    return whole


def _to_rgb(image, kind):
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "CMYK":  # as TensorFlow's decoder: Adobe's values are inverted, Pillow has turned them back
        inks = 255 - np.asarray(image).astype(np.int32)
        return Image.fromarray((inks[..., :3] * inks[..., 3:] // 255).astype(np.uint8))
    if kind in ("PNG", "GIF") and (image.mode in ("LA", "RGBA", "PA") or "transparency" in image.info):
        rgba = np.asarray(image.convert("RGBA")).astype(np.int32)
        colour, alpha = rgba[..., :3], rgba[..., 3:]
        return Image.fromarray(((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8))
    return image.convert("RGB")
