"""Fine-tuning from photos, and one device against two."""

import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

from keras_imagesent.captioning.captioner import build_captioner, log_probs_of
from keras_imagesent.captioning.fine_tune import FineTuning, build_photo_captioner
from keras_imagesent.data.caption_pairs import CaptionPairs
from keras_imagesent.training.optimizers import build_optimizer


def small_backbone():
    pixels = keras.Input((32, 32, 3))
    x = keras.layers.Rescaling(1 / 255)(pixels)
    x = keras.layers.Conv2D(6, 3, 8, name="look")(x)
    return keras.Model(pixels, keras.layers.BatchNormalization(name="norm")(x), name="backbone")


def test_both_parts_learn_each_at_its_rate_and_come_apart_again(tmp_path):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    names = [f"{n}.png" for n in range(4)]
    for name in names:
        Image.fromarray(rng.integers(0, 255, (32, 32, 3), np.uint8)).save(tmp_path / name)
    backbone, captioner = small_backbone(), build_captioner(6, 5, units=8, word_dim=4, max_words=3)
    sentences = [[1, 2], [3], [4, 5], [2]]
    pairs = CaptionPairs(np.zeros((4, 1, 6)), range(4), [0] * 4, sentences, ["said"] * 4, max_words=3)
    tuning = FineTuning(captioner, backbone, pairs, names, tmp_path, batch_size=2, seed=0)
    pixels = tuning.read(names)
    tokens = tf.constant(pairs.token_ids)
    vectors = tf.reduce_mean(backbone(pixels), axis=[1, 2])
    np.testing.assert_allclose(
        log_probs_of(tuning.model, pixels, tokens), log_probs_of(captioner, vectors, tokens), atol=1e-5
    )
    before = [w.numpy() for w in (backbone.get_layer("look").kernel, captioner.get_layer("output").kernel)]
    statistics = backbone.get_layer("norm").moving_mean.numpy()
    optimizer = build_optimizer("adam", 1e-2)
    optimizer.slow_down(backbone.trainable_variables, 1e-3)
    tuning.model.compile(optimizer)
    tuning.model.fit(tuning.batches(), steps_per_epoch=2, verbose=0)
    after = [w.numpy() for w in (backbone.get_layer("look").kernel, captioner.get_layer("output").kernel)]
    slow, fast = (np.abs(a - b).max() for a, b in zip(before, after, strict=True))
    assert 0 < slow < 3e-5 and fast > 5e-3  # Adam steps as far as its learning rate
    np.testing.assert_array_equal(backbone.get_layer("norm").moving_mean, statistics)
    tuning.model.save(tmp_path / "model.keras")
    tuning.split(tmp_path)
    loaded = [keras.saving.load_model(tmp_path / name) for name in ("backbone.keras", "model.keras")]
    vectors = tf.reduce_mean(loaded[0](pixels), axis=[1, 2])
    np.testing.assert_allclose(
        log_probs_of(loaded[1], vectors, tokens), log_probs_of(tuning.model, pixels, tokens), atol=1e-5
    )


def test_the_photo_captioner_is_saved_and_loaded(tmp_path):
    captioner = build_captioner(6, 5, units=8, word_dim=4, max_words=3)
    model = build_photo_captioner(small_backbone(), captioner)
    twin = type(model).from_config(model.get_config())
    twin.set_weights(model.get_weights())
    pixels, tokens = tf.random.uniform((2, 32, 32, 3), maxval=255.0), tf.constant([[1, 2, 0], [3, 0, 0]])
    np.testing.assert_allclose(log_probs_of(twin, pixels, tokens), log_probs_of(model, pixels, tokens), atol=1e-6)


TWO_DEVICES = """
import numpy as np, tensorflow as tf, keras
from keras_imagesent.captioning.captioner import build_captioner
from keras_imagesent.training.devices import choose_strategy
from keras_imagesent.training.optimizers import build_optimizer

two = choose_strategy("cpu:0,cpu:1")
rng = np.random.default_rng(0)
features = rng.normal(size=(13, 6)).astype("float32")  # 8 and then 5: the last batch does not divide evenly
tokens = rng.integers(1, 6, (13, 4)).astype("int32")
tokens[np.arange(4) >= rng.integers(1, 5, (13, 1))] = 0
weights = []
for strategy in (tf.distribute.get_strategy(), two):
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = build_captioner(6, 5, units=8, word_dim=4, max_words=4)
        model.compile(build_optimizer("sgd", 0.5, clip=0.01))  # most gradients are clipped
    pairs = tf.data.Dataset.from_tensor_slices({"image_features": features, "token_ids": tokens}).batch(8)
    model.fit(pairs, epochs=2, verbose=0)
    weights.append(model.get_weights())
print(max(np.abs(a - b).max() for a, b in zip(*weights)))
"""


def test_two_devices_learn_what_one_learns():
    done = subprocess.run([sys.executable, "-c", TWO_DEVICES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) < 1e-6
