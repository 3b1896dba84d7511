"""Boxes that somebody else has found, from COCO JSON or CSV."""

import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from keras_imagesent.errors import InputError

_COLUMNS = ("filename", "x0", "y0", "x1", "y1")
NO_BOXES = np.zeros((0, 4), np.float32), np.zeros(0, np.float32)


def read_boxes(path):
    """Filename -> (boxes (n,4) as x0, y0, x1, y1 in 0..1 of the upright photo, scores (n,)).

    COCO JSON: `images` with id, file_name, width and height, `annotations` with image_id, bbox (x, y, width, height in
    pixels) and perhaps score. CSV: the columns filename, x0, y0, x1, y1 in 0..1, and perhaps score. Boxes without a
    score count 1.

    Example:
        boxes, scores = read_boxes("boxes.csv")["dog.jpg"]
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error}). Give COCO JSON or CSV.") from None
    found = defaultdict(list)
    read = _coco if text.lstrip().startswith(("{", "[")) else _csv
    for where, filename, *box, score in read(path, text):
        box = np.clip(np.array(box, np.float64), 0.0, 1.0)
        if not (np.isfinite([*box, score]).all() and box[2] > box[0] and box[3] > box[1] and score > 0):
            raise InputError(f"{path}, {where}: no box inside the photo with a score above 0. Correct or remove it.")
        found[filename].append([*box, score])
    if not found:
        raise InputError(f"{path}: no boxes in it.")
    rows = {filename: np.array(values, np.float32) for filename, values in found.items()}
    return {filename: (values[:, :4], values[:, 4]) for filename, values in rows.items()}


def _coco(path, text):
    try:
        content = json.loads(text)
        images = {image["id"]: image for image in content["images"]}
        for number, annotation in enumerate(content["annotations"]):
            image = images[annotation["image_id"]]
            x, y, width, height = annotation["bbox"]
            across, down = 1 / image["width"], 1 / image["height"]
            box = x * across, y * down, (x + width) * across, (y + height) * down
            yield f"annotation {number}", image["file_name"], *box, annotation.get("score", 1.0)
    except (ValueError, KeyError, TypeError, ZeroDivisionError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: not COCO JSON with images and annotations ({what}).") from None


def _csv(path, text):
    rows = csv.DictReader(text.splitlines())
    missing = [name for name in _COLUMNS if name not in (rows.fieldnames or [])]
    if missing:
        raise InputError(f"{path}: the first line lacks {', '.join(missing)}. Needed: {','.join(_COLUMNS)}[,score].")
    for row in rows:
        where = f"line {rows.line_num}"
        try:
            box, score = [float(row[name]) for name in _COLUMNS[1:]], float(row.get("score") or 1)
        except (ValueError, TypeError):
            raise InputError(f"{path}, {where}: a number is missing or is no number. Correct the line.") from None
        if max(box) > 2:
            raise InputError(f"{path}, {where}: pixels. Give shares of the photo's width and height, 0 to 1.")
        yield where, row["filename"], *box, score
