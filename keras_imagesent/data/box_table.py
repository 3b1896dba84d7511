"""CSV files with a box in every row: filename, x0, y0, x1, y1 in 0..1 of the upright photo, and columns of text."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_imagesent.errors import InputError

CORNERS = ("x0", "y0", "x1", "y1")


def read_box_table(path: str | Path, columns: tuple[str, ...]) -> Iterator[tuple[str, dict, np.ndarray]]:
    """Where a row stands, its cells by column, and its box `(4,)` float64; the first row that is wrong is named.

    Args:
        columns: the columns of text that every row must have, beside the corners.

    Example:

    >>> for where, row, box in read_box_table("boxes.csv", ("filename",)):
    ...     row["filename"], box
    """
    needed = (*columns, *CORNERS)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in needed if name not in (table.fieldnames or [])]
            if missing:
                raise InputError(f"{path}: the first line lacks {', '.join(missing)}. Needed: {','.join(needed)}.")
            for row in table:
                where = f"line {table.line_num}"
                if None in (row[name] for name in columns):
                    raise InputError(f"{path}, {where}: it ends too early. Needed: {','.join(needed)}.")
                yield where, row, check_box([row[name] for name in CORNERS], f"{path}, {where}")
    except FileNotFoundError:
        raise InputError(f"no file {path}: give a CSV with the columns {','.join(needed)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no UTF-8 text: give a CSV with the columns {','.join(needed)}") from None
    except csv.Error as error:
        raise InputError(f"{path}: not CSV after line {table.reader.line_num} ({error})") from None


def check_box(corners, where: str) -> np.ndarray:
    """Four numbers or texts as a box `(4,)` inside the photo, or what is wrong with them."""
    try:
        box = np.array([float(corner) for corner in corners])
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{where}: a number is missing or is no number. A box is four numbers in 0..1.") from None
    finite = np.isfinite(box).all()
    if finite and box.max() > 2:
        raise InputError(f"{where}: pixels. Give shares of the photo's width and height, 0 to 1.")
    box = np.clip(box, 0.0, 1.0)
    if not (finite and box[2] > box[0] and box[3] > box[1]):
        raise InputError(f"{where}: no box inside the photo. Correct or remove it.")
    return box
