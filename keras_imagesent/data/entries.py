"""What every reader of a data set gives back, and how it reads its file."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from keras_imagesent.errors import InputError


@dataclass
class Entry:
    """One photo as a data set's file names it; `folder` is where the file says it lies, below the photos' folder.

    `place` is where the photo lies when the data set's file holds the photos themselves (`photo_places`).
    """

    filename: str
    split: str
    captions: list[str] = field(default_factory=list)
    folder: str = ""
    lines: list[str] = field(default_factory=list, repr=False)  # of a table: where each caption stands
    place: object = None
    data_set: str = field(default="", repr=False)  # as the file calls itself


@dataclass(frozen=True)
class Problem:
    """Something in a data set that was set aside, why, and the line of the file that names it, if it has lines."""

    item: str
    reason: str
    where: str = field(default="", compare=False)

    def __str__(self):
        return f"{self.item[:80]}{f' ({self.where})' if self.where else ''}: {self.reason}"

    def to_json(self):
        """What `problems.json` says of it."""
        return {"item": self.item, "reason": self.reason} | ({"where": self.where} if self.where else {})


def read_text(path):
    """A file's text; bytes that are no UTF-8 stay in it as lone surrogates, so that only their captions are lost."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name the file in it that holds the captions")
    if not path.exists():
        raise InputError(f"no file {path}: check the path")
    content = path.read_bytes()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path} is UTF-16 text: save it as UTF-8")
    text = content.decode("utf-8-sig", errors="surrogateescape")
    if not text.strip():
        raise InputError(f"{path} is empty")
    if "\0" in text[:1000]:
        raise InputError(f"{path} is no text: name the file that holds the captions")
    return text


def is_utf8(text):
    """Whether a text can be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def parse_json(text, source):
    """JSON, or what is wrong with it and where."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source} is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{source} is not a data set: {error}") from None
    except RecursionError:
        raise InputError(f"{source} is not a data set: its JSON is nested too deeply") from None
