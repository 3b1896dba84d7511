"""`model.json`, which lies beside every export and says all that a program needs to use it."""

import hashlib
import json
from pathlib import Path

from keras_imagesent.errors import InputError

NAME = "model.json"
SCHEMA = Path(__file__).parent / "model.schema.json"


def read_about(folder: Path) -> dict:
    """The contents of `model.json` in an exported folder.

    Example:
        >>> read_about(Path("exported/onnx"))["preprocessing"]["image_size"]
        320
    """
    path = Path(folder) / NAME
    try:
        about = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} has no {NAME}: name a folder that `imagesent export` wrote") from None
    except ValueError:
        raise InputError(f"{path} is no JSON text: export again") from None
    if not isinstance(about, dict) or "files" not in about:
        raise InputError(f"{path} does not say which files there are: export again with this version")
    return about


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
