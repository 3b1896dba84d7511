"""Whether a file is a whole photo that can be used."""

import hashlib
import struct
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from keras_imagesent.errors import InputError

MAX_PIXELS = 120_000_000  # more than any phone takes today
FULL_SIZE_PIXELS = 32_000_000  # a JPEG of more is decoded at a half or a quarter of its size
MAX_PARTS = 4_096  # of a photo's header: chunks, segments, fill bytes, pieces of a GIF's comments
MAX_FRAME_PIECES = 16_384  # of a GIF's first frame, of 255 bytes each
MAX_SCANS = 100  # of a JPEG: each is a pass over the whole picture; encoders write 1 to 20
TOO_LARGE = "too many pixels"
TOO_MANY_PARTS = "too many parts"
FORMATS = ("JPEG", "PNG", "GIF", "BMP")  # what TensorFlow decodes
DECODED_BMP = {(8, 0), (24, 0), (32, 0), (32, 3)}  # bits a pixel, compression
MISSING = "there is no such file"


def look_at(path):
    """One photo's digest (None when it cannot be read), and the reason it is broken (None when it is not)."""
    try:
        if isinstance(path, Path) and path.exists() and not (path.is_file() or path.is_dir()):
            return None, "a pipe or a device, not a file"
        content = path.read_bytes()
    except FileNotFoundError:
        return None, MISSING
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    if not content:
        return None, "the file is empty"
    from keras_imagesent.data.photo_formats import to_decodable  # which takes its limit from here

    try:
        return hashlib.sha256(content).digest(), _broken(to_decodable(content))
    except InputError as error:
        return hashlib.sha256(content).digest(), str(error)


def undecodable(image):
    """Why TensorFlow cannot decode what Pillow has opened, and not yet loaded; None when it can."""
    if image.format == "BMP":
        image.fp.seek(28)
        if struct.unpack("<HI", image.fp.read(6)) not in DECODED_BMP:
            return "a BMP that is compressed or not of 8, 24 or 32 bits a pixel: save it as PNG or JPEG"
    if image.format == "GIF" and image.tile[0][1] != (0, 0, *image.size):
        return "a GIF whose first picture does not fill it: save it as PNG or JPEG"
    return None


def _broken(content):
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                return f"{width} x {height} pixels are more than {MAX_PIXELS:,}: make it smaller"
            if reason := undecodable(image):
                return reason
            if min(width, height) >= 8:
                image.draft("RGB", (width // 8, height // 8))  # a JPEG is read to its end all the same, but faster
            image.load()
    except Image.DecompressionBombError:
        return f"more than {MAX_PIXELS:,} pixels: make it smaller"
    except UnidentifiedImageError:
        return f"not a photo in one of the formats {', '.join(FORMATS)}, WebP, TIFF, AVIF, HEIC"
    except Exception as error:  # on damaged files Pillow's decoders raise anything
        return f"truncated or damaged: {error}"
    return None
