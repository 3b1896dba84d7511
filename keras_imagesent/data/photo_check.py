"""Whether a file is a whole photo that can be used."""

import hashlib
from io import BytesIO

from PIL import Image, UnidentifiedImageError

MAX_PIXELS = 120_000_000  # more than any phone takes today
FORMATS = ("JPEG", "PNG", "GIF", "BMP")  # what TensorFlow decodes
MISSING = "there is no such file"


def look_at(path):
    """One photo's digest (None when it cannot be read), and the reason it is broken (None when it is not)."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, MISSING
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    if not content:
        return None, "the file is empty"
    return hashlib.sha256(content).digest(), _broken(content)


def _broken(content):
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                return f"{width} x {height} pixels are more than {MAX_PIXELS:,}: make it smaller"
            image.draft("RGB", (width // 8, height // 8))  # a JPEG is read to its end all the same, but faster
            image.load()
    except Image.DecompressionBombError:
        return f"more than {MAX_PIXELS:,} pixels: make it smaller"
    except UnidentifiedImageError:
        return f"not a photo in one of the formats {', '.join(FORMATS)}"
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's decoders raise on damaged files
        return f"truncated or damaged: {error}"
    return None
