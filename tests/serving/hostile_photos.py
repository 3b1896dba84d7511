"""Photos made to keep a decoder busy or to fill the memory; all of them are small."""

import io
import struct
import zlib

from PIL import Image

from tests.serving.photos import draw, encode


def many_pieces_gif(pieces=450_000):
    """A comment of one-byte pieces before the frame."""
    gif = encode(draw(8, 8, 1).convert("P"), "GIF")
    start = 13 + 3 * 2 ** (gif[10] % 8 + 1)
    return gif[:start] + b"\x21\xfe" + b"\x01x" * pieces + b"\0" + gif[start:]


def later_frame_gif(size=20_000):
    """8 x 8, with a second frame that is not."""
    gif = encode(draw(8, 8, 1).convert("P"), "GIF")
    return gif[:-1] + b"\x2c" + struct.pack("<HHHHB", 0, 0, size, size, 0) + b"\x02\x01\x44\0;"


def many_chunks_png(chunks=100_000):
    png = encode(draw(8, 8, 1), "PNG")
    return png[:33] + chunks * (struct.pack(">I", 0) + b"teXt" + struct.pack(">I", zlib.crc32(b"teXt"))) + png[33:]


def filled_jpeg(fill=200_000):
    jpeg = encode(draw(8, 8, 1))
    return jpeg[:2] + b"\xff" * fill + jpeg[2:]


def many_scans_jpeg(scans=200):
    """The last scan over and over: each is a pass over the whole picture."""
    jpeg = encode(draw(64, 64, 1), progressive=True)
    last = jpeg.rindex(b"\xff\xda")
    return jpeg[:-2] + (jpeg[last:-2]) * scans + jpeg[-2:]


def huge_png(width=12_000, height=9_990):
    """One gray level, 120 megapixels."""
    stream = io.BytesIO()
    Image.new("L", (width, height), 77).save(stream, "PNG")
    return stream.getvalue()


def hostile_photos():
    """Name -> (bytes, the status that refuses it)."""
    return {
        "pieces": (many_pieces_gif(), "too many parts"),
        "chunks": (many_chunks_png(), "too many parts"),
        "fill": (filled_jpeg(), "too many parts"),
        "scans": (many_scans_jpeg(), "too many parts"),
        "frames": (later_frame_gif(), "ok"),
    }
