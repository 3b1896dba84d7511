"""Checksums of what imagesent itself writes, so that a damaged file is noticed and never read as another one.

They guard against accidents (a bad disk, a cut copy, an editor), not against people.
"""

import json
import zlib
from pathlib import Path

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.errors import InputError


def checksum(content, before: int = 0) -> int:
    """The CRC-32 of some bytes or of an array's; `before` is that of what stands before them."""
    return zlib.crc32(content, before)


def file_checksum(path: str | Path) -> int:
    """The checksum of a file, read a piece at a time."""
    value = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            value = checksum(piece, value)
    return value


def write_sealed(path: str | Path, content: dict) -> None:
    """Writes JSON with its own checksum, whole or not at all."""
    write_whole(path, json.dumps({"checksum": _seal(content), "content": content}))


def read_sealed(path: str | Path) -> dict:
    """The content of a file that `write_sealed` wrote; anything else is refused as damaged."""
    try:
        sealed = json.loads(Path(path).read_bytes())
        if sealed["checksum"] == _seal(sealed["content"]):
            return sealed["content"]
        reason = "its checksum is wrong"
    except (ValueError, RecursionError):
        reason = "no JSON text"
    except (KeyError, TypeError):
        reason = "without a checksum, as older versions wrote it"
    raise InputError(f"{path} is damaged ({reason}): make the index anew")


def _seal(content):
    return checksum(json.dumps(content, sort_keys=True).encode())
