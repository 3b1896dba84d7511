"""The frame's weight is the one that retrieves best, and the model then scores with it."""

import keras
import numpy as np
import pytest

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.evaluation.frame_weight import WEIGHTS, measure_frame_weights, set_frame_weight
from keras_imagesent.evaluation.retrieval import measure_retrieval
from keras_imagesent.model.run import Run
from tests.tiny_prepared import write_tiny_prepared


def build(prepared, **options):
    keras.utils.set_random_seed(0)
    return build_alignment(
        prepared.feature_dim, len(prepared.vocabulary), dim=16, units=12, word_dim=8, number_of_regions=4, **options
    )


def test_the_best_of_all_weights_is_kept(tmp_path):
    prepared = write_tiny_prepared(tmp_path / "prepared")
    photos = prepared.load("val")
    model = build(prepared, frame_dim=16, similarity="cosine", score="mean_max_sim", prior=0.3)
    weight = model.get_layer("region_encoder").get_layer("beside_frame").weight
    sums = {}
    for each in WEIGHTS:
        weight.assign(each)
        sums[each] = measure_retrieval(model, photos)["recall_sum"]
    assert len(set(sums.values())) > 3  # the weight matters here
    before = [np.array(value) for value in model.get_weights()]
    chosen = measure_frame_weights(model, photos)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)  # measuring changes nothing
    set_frame_weight(model, chosen["frame_weight"])
    assert chosen["recall_sum"] == pytest.approx(max(sums.values()))
    assert float(weight) == pytest.approx(chosen["frame_weight"])
    assert measure_retrieval(model, photos)["recall_sum"] == pytest.approx(chosen["recall_sum"])
    model.save(tmp_path / "model.keras")
    assert measure_retrieval(Run(tmp_path, "alignment").model, photos)["search_r5"] == chosen["search_r5"]


def test_a_model_without_a_frame_beside_is_only_measured(tmp_path):
    prepared = write_tiny_prepared(tmp_path / "prepared")
    model, photos = build(prepared), prepared.load("val")
    assert measure_frame_weights(model, photos) == measure_retrieval(model, photos)
