"""Do region captions name what the detector is sure of? The words of its 80 classes stand in `class_words.json`."""

import json
from functools import cache
from pathlib import Path

import numpy as np

from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.regions.coco_labels import COCO_LABELS

SURE = 0.8  # a class score from which on the caption should name the class
LEAST_REGIONS = 10  # a class has a row of its own if so many regions are of it


@cache
def class_words():
    """`{class: the words that name it}`, for COCO's 80 classes."""
    content = json.loads(Path(__file__).with_name("class_words.json").read_text("utf-8"))
    return {name: frozenset(words) for name, words in content.items()}


def names_class(caption, label):
    """Whether a caption names a class of the detector, or a synonym of it.

    Example:
        >>> names_class("a kitten on a bed", "cat"), names_class("a black dog", "bus")
        (True, False)
    """
    return bool(class_words()[label] & set(tokenize(caption)))


def classes_table(runs, photos, split, command=""):
    """Of the regions with a class score of at least 0.8: the share of captions that name the class, of each region
    captioner of `{name: Run}`, over all and for each class. The detector's classes must be COCO's.

    Example:
        >>> classes_table({"best": Run("runs/regions")}, prepared.load("dev"), "dev").rows[0]
        ['all of them', 1204, 71.3]
    """
    best = photos.class_scores.max(axis=2)
    rows, regions = np.nonzero((best >= SURE) & photos.region_mask)
    labels = [COCO_LABELS[number] for number in photos.class_scores[rows, regions].argmax(axis=1)]
    named = {}
    for name, run in runs.items():
        captions = CaptionSearch(run).region_captions(photos, rows, regions) if len(rows) else []
        named[name] = np.array([names_class(*pair) for pair in zip(captions, labels, strict=True)], bool)
    often = [(label, labels.count(label)) for label in dict.fromkeys(labels)]
    often = [(label, number) for label, number in often if number >= LEAST_REGIONS]

    def row(title, chosen):
        shares = [100 * float(of_run[chosen].mean()) if chosen.any() else None for of_run in named.values()]
        return [title, int(chosen.sum()), *shares]

    labels = np.array(labels, dtype=object)
    table = [row("all of them", np.ones(len(rows), bool))]
    table += [row(label, labels == label) for label, _ in sorted(often, key=lambda pair: -pair[1])]
    note = (
        f"Regions whose class score is at least {SURE}, with what the detector takes them for: the share of captions "
        f"that name the class or a word listed for it in evaluation/class_words.json; classes with at least "
        f"{LEAST_REGIONS} regions. This measure is our own, not the paper's."
    )
    columns = ["class", "regions", *(f"{name}, %" for name in runs)]
    return Table("classes_named", "Region captions that name the class", columns, table, note, command, split)
