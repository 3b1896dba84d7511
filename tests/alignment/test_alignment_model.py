"""The whole model: it learns ten pairs by heart, survives saving, and two devices give one device's weights."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.ranking_loss import ranking_losses
from keras_imagesent.errors import InputError
from keras_imagesent.model.run import Run
from keras_imagesent.training.optimizers import build_optimizer

SMALL = {"feature_dim": 12, "vocabulary_size": 30, "dim": 16, "units": 10, "word_dim": 8, "number_of_regions": 3}

COSINE = {"similarity": "cosine", "temperature": 0.05, "score": "mean_max_sim", "negatives": "softmax"}


def ten_pairs(number=10):
    rng = np.random.default_rng(0)
    token_ids = rng.integers(1, 31, (number, 20)).astype("int32")
    token_ids[np.arange(20) >= rng.integers(3, 9, (number, 1))] = 0
    return {
        "region_features": rng.normal(size=(number, 3, 12)).astype("float32"),
        "region_mask": np.ones((number, 3), bool),
        "box_scores": rng.uniform(0.01, 1, (number, 3)).astype("float32"),
        "token_ids": token_ids,
        "photo_ids": np.arange(number, dtype="int64"),
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": "defrag"},
        {"whole_frame": True},
        {"negatives": "hardest"},
        COSINE,
        {**COSINE, "prior": 0.5},
        {**COSINE, "frame_dim": 8},
    ],
    ids=["paper", "defrag", "whole frame", "hardest", "cosine", "prior", "beside the frame"],
)
def test_learns_ten_pairs_by_heart(options):
    keras.utils.set_random_seed(0)
    model = build_alignment(**SMALL, dropout=0.0, **options)
    model.compile(optimizer=build_optimizer("adam", 0.01), jit_compile=False)
    model.fit(tf.data.Dataset.from_tensors(ten_pairs()).repeat(150), verbose=0)
    outputs = model(ten_pairs())
    assert np.array_equal(np.argmax(outputs["scores"], axis=1), np.arange(10))
    number = 3 if "frame_dim" in options else 1  # the loss of the sum, and of each score alone
    assert float(tf.reduce_mean(outputs["losses"])) / number < 0.5


def test_learns_by_the_detectors_classes_where_the_vectors_say_nothing():
    keras.utils.set_random_seed(0)
    pairs = ten_pairs()
    pairs["region_features"][:] = 1.0
    pairs["class_scores"] = np.random.default_rng(1).uniform(size=(10, 3, 5)).astype("float32")
    model = build_alignment(**SMALL, dropout=0.0, classes=5, **COSINE)
    model.compile(optimizer=build_optimizer("adam", 0.01), jit_compile=False)
    model.fit(tf.data.Dataset.from_tensors(pairs).repeat(150), verbose=0)
    assert np.array_equal(np.argmax(model(pairs)["scores"], axis=1), np.arange(10))
    pairs["class_scores"] = pairs["class_scores"][::-1]
    assert not np.array_equal(np.argmax(model(pairs)["scores"], axis=1), np.arange(10))


def test_the_frame_beside_the_regions_adds_its_score_and_each_has_its_loss():
    model = build_alignment(**SMALL, dropout=0.0, prior=0.5, frame_dim=8, **COSINE)
    pairs = ten_pairs()
    pairs["region_mask"][3:, 1:] = False
    outputs = {name: np.asarray(value) for name, value in model(pairs).items()}
    v = np.asarray(model.get_layer("region_encoder")({k: pairs[k] for k in ("region_features", "box_scores")}))
    s = np.asarray(model.get_layer("sentence_encoder")({"token_ids": pairs["token_ids"]}))
    space = np.isin(np.arange(v.shape[-1]), range(16, 24))
    alone = []
    for here, there in ((~space, pairs["region_mask"]), (space, pairs["region_mask"] & (np.arange(3) == 0))):
        similarity = np.einsum("krd,ltd->kltr", v[..., here], s[..., here])
        best = np.where(there[:, None, None], similarity, -np.inf).max(axis=-1) * (pairs["token_ids"] > 0)
        alone.append(best.sum(axis=-1) / (pairs["token_ids"] > 0).sum(axis=-1))
    np.testing.assert_allclose(outputs["scores"], sum(alone), rtol=1e-4, atol=1e-4)
    losses = [ranking_losses(x.astype("float32"), pairs["photo_ids"], 1.0, "softmax") for x in (sum(alone), *alone)]
    np.testing.assert_allclose(outputs["losses"], sum(np.asarray(x) for x in losses), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="not with 'defrag'"):
        build_alignment(**SMALL, frame_dim=8, score="defrag")


def test_the_frames_weight_counts_in_answers_and_not_in_training():
    model, pairs = build_alignment(**SMALL, dropout=0.0, frame_dim=8, **COSINE), ten_pairs()
    before = {training: model(pairs, training=training)["scores"].numpy() for training in (True, False)}
    model.get_layer("region_encoder").get_layer("beside_frame").weight.assign(3.0)
    np.testing.assert_allclose(model(pairs, training=True)["scores"], before[True], atol=1e-5)
    np.testing.assert_allclose(before[True], before[False], atol=1e-5)
    assert not np.allclose(model(pairs, training=False)["scores"], before[False], atol=1e-2)


def test_saved_and_loaded_gives_the_same_numbers(tmp_path):
    model = build_alignment(**SMALL, similarity="cosine", whole_frame=True, embeddings=np.ones((30, 8), "float32"))
    model.save(tmp_path / "model.keras")
    for path in (tmp_path, tmp_path / "model.keras"):
        again = Run(path, "alignment").model
        np.testing.assert_array_equal(again(ten_pairs())["losses"], model(ten_pairs())["losses"])
    assert again.get_layer("scores").whole_frame


def test_what_is_no_alignment_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="no alignment model at"):
        Run(tmp_path, "alignment").model  # noqa: B018
    (tmp_path / "model.keras").write_bytes(b"nothing")
    with pytest.raises(InputError, match="damaged"):
        Run(tmp_path, "alignment").model  # noqa: B018
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name="other").save(tmp_path / "model.keras")
    with pytest.raises(InputError, match="'other', not alignment"):
        Run(tmp_path, "alignment").model  # noqa: B018


def test_two_devices_give_one_devices_weights():
    """In a process of its own: the CPU can be split only before TensorFlow starts."""
    script = """
import keras, numpy as np, tensorflow as tf
from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.training.devices import choose_strategy
from keras_imagesent.training.optimizers import build_optimizer
from tests.alignment.test_alignment_model import SMALL, ten_pairs

two = choose_strategy("cpu:0,cpu:1")
assert two.num_replicas_in_sync == 2

def train(strategy, negatives, frame_dim, optimizer):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = build_alignment(**SMALL, dropout=0.0, negatives=negatives, frame_dim=frame_dim)
        size = 1 if negatives == "softmax" else 8  # hinges are summed over the batch, softmax losses averaged
        optimizer = build_optimizer(optimizer, 0.05 / size, weight_decay=1e-3 * size, clip=0.02 * size)
        model.compile(optimizer=optimizer, jit_compile=False)
    pairs = tf.data.Dataset.from_tensor_slices(ten_pairs(13)).batch(8)  # 8 pairs, then 5: 3 on one, 2 on the other
    history = model.fit(pairs, epochs=3, verbose=0).history["loss"]
    return history, model.get_weights()

for settings in (("sum", 0, "sgd"), ("hardest", 0, "sgd"), ("softmax", 8, "sgd"), ("softmax", 8, "adam")):
    one_loss, one = train(tf.distribute.get_strategy(), *settings)
    two_loss, other = train(two, *settings)
    np.testing.assert_allclose(two_loss, one_loss, rtol=1e-5)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5)
print("the same")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "the same" in result.stdout, result.stderr[-3000:]
