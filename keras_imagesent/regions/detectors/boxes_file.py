"""Boxes that somebody else has found, from COCO JSON or CSV."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from keras_imagesent.data.box_table import check_box, read_box_table
from keras_imagesent.errors import InputError

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
        with open(path, encoding="utf-8-sig") as file:
            is_json = file.read(1000).lstrip().startswith(("{", "["))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error}). Give COCO JSON or CSV.") from None
    found = defaultdict(list)
    for where, filename, box, score in _coco(path) if is_json else _csv(path):
        try:
            score = float(score)
        except (ValueError, TypeError, OverflowError):
            score = 0.0
        if not 0 < score < np.inf:
            raise InputError(f"{path}, {where}: its score is no number above 0. Correct or remove it.")
        found[filename].append([*box, score])
    if not found:
        raise InputError(f"{path}: no boxes in it.")
    rows = {filename: np.array(values, np.float32) for filename, values in found.items()}
    return {filename: (values[:, :4], values[:, 4]) for filename, values in rows.items()}


def _coco(path):
    try:
        content = json.loads(path.read_text("utf-8-sig"))
        images = {image["id"]: image for image in content["images"]}
        for number, annotation in enumerate(content["annotations"]):
            where, image = f"annotation {number}", images[annotation["image_id"]]
            x, y, width, height = map(float, annotation["bbox"])
            across, down = float(image["width"]), float(image["height"])
            corners = x / across, y / down, (x + width) / across, (y + height) / down
            if not isinstance(image["file_name"], str):
                raise TypeError("file_name is no text")
            yield where, image["file_name"], check_box(corners, f"{path}, {where}"), annotation.get("score", 1.0)
    except InputError:
        raise
    except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: not COCO JSON with images and annotations ({what}).") from None


def _csv(path):
    for where, row, box in read_box_table(path, ("filename",)):
        yield where, row["filename"], box, row.get("score") or 1
