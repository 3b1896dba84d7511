"""Small files of shipped models."""

import keras
import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.model.save_small import save_small
from keras_imagesent.shipped import shipped


def test_small_files_hold_the_rounded_weights_at_less_than_half_the_size(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((300,)), keras.layers.Dense(400, name="a"), keras.layers.Dense(7, name="b")])
    for weight in model.weights:  # biases too, which are too small to be stored as float16
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    exact = model.get_weights()
    model.save(tmp_path / "large.keras")
    save_small(model, tmp_path / "small.keras")
    loaded = keras.saving.load_model(tmp_path / "small.keras")
    for mine, theirs, kept in zip(exact, loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(theirs, mine.astype("float16").astype("float32"))
        np.testing.assert_array_equal(kept, theirs)  # what is measured afterwards is what was stored
    assert (tmp_path / "small.keras").stat().st_size < 0.5 * (tmp_path / "large.keras").stat().st_size
    assert sorted(file.name for file in tmp_path.iterdir()) == ["large.keras", "small.keras"]


def test_says_what_is_missing():
    with pytest.raises(InputError, match="no shipped unicorn.keras"):
        shipped("unicorn.keras")
