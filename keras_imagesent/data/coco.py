"""COCO's captions JSON (`captions_train2017.json`), read through pycocotools."""

import contextlib
import io
import re

from pycocotools.coco import COCO

from keras_imagesent.data.entries import Entry, Problem
from keras_imagesent.errors import InputError


def read_coco(content, source):
    """Parsed JSON -> entries and problems; the split is what the file's name says (`captions_val2014.json`: val).

    Example:

    >>> entries, problems = read_coco(json.load(open("captions_val2017.json")), Path("captions_val2017.json"))
    """
    named = re.search(r"(train|val|test)(\d*)", source.stem)
    split = named[1] if named else "train"
    coco = COCO()
    coco.dataset = content
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools reports its progress there
            coco.createIndex()
        entries = {
            number: Entry(image["file_name"], split, folder=named[0] if named else "")
            for number, image in coco.imgs.items()
        }
        problems = []
        for annotation in coco.anns.values():
            if annotation["image_id"] in entries:
                entries[annotation["image_id"]].captions.append(annotation["caption"])
            else:
                problems.append(Problem(f"{source.name} caption {annotation['id']}", "its photo is not in the file"))
        if not all(isinstance(entry.filename, str) for entry in entries.values()):
            raise TypeError("file_name")
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"{source} is not COCO captions JSON: images need id and file_name, annotations id, image_id and caption "
            "(instances_*.json holds boxes: name captions_*.json)"
        ) from None
    return list(entries.values()), problems
