"""What a photo's header declares, read without decoding and in bounded time: its size and what decoding will take."""

import dataclasses
import re

from keras_imagesent.data.photo_check import (
    MAX_FRAME_PIECES,
    MAX_PARTS,
    MAX_PIXELS,
    MAX_SCANS,
    TOO_LARGE,
    TOO_MANY_PARTS,
)

_JPEG_MARKER = re.compile(rb"\xff[\x02-\xcf\xd8-\xfe]")  # not a stuffed 0xFF, a restart, or filling
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
MOST_COEFFICIENT_BYTES = 512 * 2**20  # a JPEG in several scans is held whole, two bytes for each value


@dataclasses.dataclass(frozen=True)
class Header:
    """A photo's `kind` ("jpeg", "png", "gif", "bmp" or ""), stored size, and why it is refused (None when it is not).

    `decoding_bytes` is what decoding takes at the most, in any export of ours so far. `end` is where the part ends that
    a decoder has to see: the first frame of a GIF, all of any other photo.
    """

    kind: str
    width: int = 0
    height: int = 0
    decoding_bytes: int = 0
    end: int = 0
    refusal: str | None = None


def read_header(image_bytes):
    """The header of an encoded photo. What is no photo has no kind: a decoder will say so.

    Example:
        read_header(Path("phone.jpg").read_bytes())  # Header(kind='jpeg', width=4032, height=3024, ...)
    """
    for magic, read in _READERS.items():
        if image_bytes.startswith(magic):
            header = read(image_bytes)
            if header.refusal is None and header.width * header.height > MAX_PIXELS:
                return dataclasses.replace(header, refusal=TOO_LARGE)
            return header
    return Header("", end=len(image_bytes))


def _read_jpeg(data):
    """Segments (0xFF, marker, length) up to the end, with the scans among them: each is a pass over the picture."""
    width = height = values = scans = filling = at = 0
    at, coefficients = 2, False
    for _ in range(MAX_PARTS):
        found = _JPEG_MARKER.search(data, at)
        if not found:
            break
        filling += found.start() - at if scans == 0 else 0
        marker = data[found.start() + 1]
        if marker == 0xD9:
            break
        if marker in _JPEG_SIZES and found.end() + 8 <= len(data):
            width = max(width, _number(data, found.end() + 5, 2))
            height = max(height, _number(data, found.end() + 3, 2))
            values = max(values, data[found.end() + 7])
            coefficients |= marker not in (0xC0, 0xC1)
        scans += marker == 0xDA
        at = found.end() + max(2, _number(data, found.end(), 2))
        if scans > MAX_SCANS or filling > MAX_PARTS:
            return Header("jpeg", width, height, end=len(data), refusal=TOO_MANY_PARTS)
    else:
        return Header("jpeg", width, height, end=len(data), refusal=TOO_MANY_PARTS)
    held = 2 * min(values, 4) * width * height if coefficients or scans > 1 else 0
    refusal = TOO_LARGE if held > MOST_COEFFICIENT_BYTES else None
    return Header("jpeg", width, height, 6 * width * height + held, len(data), refusal)


def _read_png(data):
    """Chunks: length, name, content, sum."""
    width, height, at = _number(data, 16, 4), _number(data, 20, 4), 8
    for _ in range(MAX_PARTS):
        if at + 8 > len(data) or data[at + 4 : at + 8] == b"IEND":
            return Header("png", width, height, 60 * width * height, len(data))
        at += 12 + _number(data, at, 4)
    return Header("png", width, height, end=len(data), refusal=TOO_MANY_PARTS)


def _read_gif(data):
    """A palette, blocks (0x21, kind, pieces that begin with their length, 0), the first frame (0x2C) and its pieces."""
    width, height = _number(data, 6, 2, "little"), _number(data, 8, 2, "little")
    at, parts, pieces = 13 + _palette_length(_byte(data, 10)), 0, 0
    while parts < MAX_PARTS and _byte(data, at) == 0x21:
        at, walked = _skip_pieces(data, at + 2, MAX_PARTS - parts)
        parts += 1 + walked
    if parts < MAX_PARTS:
        at, pieces = _skip_pieces(data, at + 11 + _palette_length(_byte(data, at + 9)), MAX_FRAME_PIECES)
    if parts >= MAX_PARTS or pieces >= MAX_FRAME_PIECES:
        return Header("gif", width, height, end=len(data), refusal=TOO_MANY_PARTS)
    return Header("gif", width, height, 12 * width * height, min(at, len(data)))


def _read_bmp(data):
    """The height is signed: negative means top row first."""
    width, height = (int.from_bytes(data[at : at + 4], "little", signed=True) for at in (18, 22))
    return Header("bmp", abs(width), abs(height), 16 * abs(width) * abs(height), len(data))


_READERS = {b"\xff\xd8\xff": _read_jpeg, b"\x89PNG\r\n\x1a\n": _read_png, b"GIF8": _read_gif, b"BM": _read_bmp}


def _skip_pieces(data, at, most):
    """The place behind the pieces, and how many they were; at most `most` are looked at."""
    for number in range(most):
        length = _byte(data, at)
        at += 1 + length
        if not length:
            return at, number
    return at, most


def _palette_length(flags):
    return 3 * 2 ** (flags % 8 + 1) if flags >= 128 else 0


def _byte(data, at):
    return data[at] if at < len(data) else 0


def _number(data, at, width, order="big"):
    return int.from_bytes(data[at : at + width], order)
