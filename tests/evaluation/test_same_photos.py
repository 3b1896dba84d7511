import dataclasses

import numpy as np
import pytest

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.captioning.captioner import build_captioner
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.same_photos import centred_cosines, same_photos_table
from keras_imagesent.model.run import Run
from tests.tiny_prepared import FEATURES, write_tiny_prepared


def test_cosines_are_of_what_is_left_when_the_mean_is_gone():
    vectors = np.array([[11.0, 10], [9, 10], [10, 11], [10, 9]])
    np.testing.assert_allclose(centred_cosines(vectors, vectors), 1)
    np.testing.assert_allclose(centred_cosines(vectors, vectors[[1, 0, 3, 2]]), -1)
    np.testing.assert_allclose(centred_cosines(vectors, vectors[[2, 3, 1, 0]]), 0, atol=1e-12)


def test_equal_twins_agree_in_all_and_others_do_not(tmp_path):
    prepared = write_tiny_prepared(tmp_path / "prepared", {"train": 30, "val": 12})
    photos, words = prepared.load("val"), prepared.vocabulary
    sizes = {"units": 8, "word_dim": 8}
    alignment = Run.of(build_alignment(FEATURES, len(words), dim=8, number_of_regions=4, **sizes), words)
    captioner = Run.of(build_captioner(FEATURES, len(words), **sizes), words)
    table = same_photos_table(alignment, captioner, {"large": photos}, {"small": photos})
    assert [row[0] for row in table.rows] == ["large", "small", "difference"] and table.rows[2][1:] == [0.0] * 6
    assert "the same for 12 of them" in table.note and "1.000 on average, 1.000 at least" in table.note
    noise = np.random.default_rng(0).normal(scale=9, size=photos.region_features.shape).astype(np.float16)
    other = dataclasses.replace(photos, region_features=noise)
    table = same_photos_table(alignment, captioner, {"large": photos}, {"small": other})
    assert "the same for 12 of them" not in table.note and "1.000 on average" not in table.note
    with pytest.raises(InputError, match="not the same photos"):
        same_photos_table(alignment, captioner, {"a": photos}, {"b": prepared.load("train")})
