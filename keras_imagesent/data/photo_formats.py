"""Photos in formats that the graph does not decode, made into one that it does: WebP, TIFF, AVIF, HEIC."""

import io

import numpy as np
from PIL import Image, ImageOps

from keras_imagesent.data.photo_check import MAX_PIXELS
from keras_imagesent.errors import InputError

GRAPH_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp")  # what the graph decodes
ENDINGS = (*GRAPH_ENDINGS, ".webp", ".tif", ".tiff", ".avif", ".heic", ".heif")
_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")


def format_of(content: bytes) -> str | None:
    """ "WEBP", "TIFF", "AVIF" or "HEIF" by the first bytes; None for all other files."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WEBP"
    if content[:4] in (b"II*\0", b"MM\0*"):
        return "TIFF"
    if content[4:8] == b"ftyp" and content[8:12] in _BRANDS:
        return "AVIF" if b"avi" in content[8:32] else "HEIF"
    return None


def to_decodable(content: bytes, lossless: bool = True) -> bytes:
    """The same photo, upright, as a BMP or (not lossless, for sending) a JPEG; JPEG, PNG, GIF and BMP stay as they are.

    The first picture of several; transparency over white, 16 bits to 8. What is no photo is given back unchanged.

    Example:
        >>> to_decodable(Path("phone.heic").read_bytes())[:2]
        b'BM'
    """
    kind = format_of(content)
    if kind is None:
        return content
    if kind == "HEIF":
        _register_heif()
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as image:
            if image.width * image.height > MAX_PIXELS:
                raise InputError(f"{image.width} x {image.height} pixels are more than {MAX_PIXELS:,}: make it smaller")
            photo = _to_rgb(ImageOps.exif_transpose(image))
    except InputError:
        raise
    except Image.DecompressionBombError:
        raise InputError(f"more than {MAX_PIXELS:,} pixels: make it smaller") from None
    except Exception as error:  # on damaged files Pillow's decoders raise anything
        raise InputError(f"a truncated or damaged {kind} photo: {error}") from None
    packed = io.BytesIO()
    if lossless:
        photo.save(packed, "BMP")
    else:
        photo.save(packed, "JPEG", quality=95, subsampling=0)
    return packed.getvalue()


def _to_rgb(image):
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):  # 32 bits a pixel: the range is the photo's own
        values = np.asarray(image, np.float32)
        low, high = float(values.min()), float(values.max())
        return Image.fromarray((255 * (values - low) / max(high - low, 1e-9)).astype(np.uint8)).convert("RGB")
    if image.mode in ("LA", "RGBA", "PA", "La", "RGBa") or "transparency" in image.info:
        rgba = np.asarray(image.convert("RGBA")).astype(np.int32)
        color, alpha = rgba[..., :3], rgba[..., 3:]
        return Image.fromarray(((color * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8))
    return image.convert("RGB")


def _register_heif():
    """Teaches Pillow HEIC. pi-heif only decodes; pillow-heif's wheels hold x265 as well, which is under the GPL."""
    try:
        from pi_heif import register_heif_opener
    except ImportError:
        raise InputError("a HEIC photo needs pi-heif, which is not installed: pip install pi-heif") from None
    register_heif_opener()
