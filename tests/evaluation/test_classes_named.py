"""Region captions that name the detector's class, counted by hand."""

from types import SimpleNamespace

import numpy as np

from keras_imagesent.evaluation import classes_named
from keras_imagesent.evaluation.classes_named import class_words, classes_table, names_class
from keras_imagesent.regions.coco_labels import COCO_LABELS


def test_every_class_has_words_and_its_own_name_is_among_them():
    assert list(class_words()) == list(COCO_LABELS)
    assert [label for label in COCO_LABELS if not names_class(f"a {label}", label)] == []
    assert names_class("two kittens", "cat") and not names_class("a black dog", "bus")


def test_only_sure_regions_that_are_there_count(monkeypatch):
    cat, bus = COCO_LABELS.index("cat"), COCO_LABELS.index("bus")
    scores = np.zeros((12, 4, 80), np.float16)
    scores[:, 1, cat], scores[:, 2, bus], scores[:, 3, bus] = 0.9, 0.5, 0.9
    scores[0, 2, bus] = 0.85
    mask = np.ones((12, 4), bool)
    mask[:, 3] = False
    asked = []

    def region_captions(photos, rows, regions):
        asked.extend(zip(rows.tolist(), regions.tolist(), strict=True))
        return ["a kitten" if row < 6 else "a dog" for row in rows]

    monkeypatch.setattr(classes_named, "CaptionSearch", lambda run: SimpleNamespace(region_captions=region_captions))
    photos = SimpleNamespace(class_scores=scores, region_mask=mask)
    table = classes_table({"best": "run"}, photos, "dev")
    assert sorted(asked) == sorted([(row, 1) for row in range(12)] + [(0, 2)])
    assert table.rows == [["all of them", 13, 100 * 6 / 13], ["cat", 12, 50.0]]
