"""The whole model: it learns ten pairs by heart, survives saving, and two devices give one device's weights."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.alignment.alignment_model import build_alignment, load_alignment
from keras_imagesent.errors import InputError
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
        {"regions": "whole-frame"},
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
    assert float(tf.reduce_mean(outputs["losses"])) < 0.5


def test_saved_and_loaded_gives_the_same_numbers(tmp_path):
    model = build_alignment(
        **SMALL, similarity="cosine", regions="whole-frame", word_vectors=np.ones((30, 8), "float32")
    )
    model.save(tmp_path / "model.keras")
    for path in (tmp_path, tmp_path / "model.keras"):
        again = load_alignment(path)
        np.testing.assert_array_equal(again(ten_pairs())["losses"], model(ten_pairs())["losses"])
    assert again.get_layer("scores").whole_frame


def test_what_is_no_alignment_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="no alignment model at"):
        load_alignment(tmp_path)
    (tmp_path / "model.keras").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a model that this version reads"):
        load_alignment(tmp_path)
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name="other").save(tmp_path / "model.keras")
    with pytest.raises(InputError, match="'other', which is no alignment model"):
        load_alignment(tmp_path)


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

def train(strategy, negatives):
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = build_alignment(**SMALL, dropout=0.0, negatives=negatives)
        model.compile(optimizer=build_optimizer("sgd", 0.05, weight_decay=1e-3, clip=0.02), jit_compile=False)
    pairs = tf.data.Dataset.from_tensor_slices(ten_pairs(13)).batch(8)  # 8 pairs, then 5: 3 on one, 2 on the other
    history = model.fit(pairs, epochs=3, verbose=0).history["loss"]
    return history, model.get_weights()

for negatives in ("sum", "hardest"):
    one_loss, one = train(tf.distribute.get_strategy(), negatives)
    two_loss, other = train(two, negatives)
    np.testing.assert_allclose(two_loss, one_loss, rtol=1e-5)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(b, a, atol=2e-6)
print("the same")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "the same" in result.stdout, result.stderr[-3000:]
