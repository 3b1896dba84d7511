"""Clipping element by element after the sum, decay that spares biases, and errors by name."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.errors import InputError
from keras_imagesent.training.devices import choose_strategy
from keras_imagesent.training.optimizers import build_optimizer


def test_each_element_is_clipped_on_its_own():
    weight = keras.Variable(np.zeros(3, "float32"), name="kernel")
    build_optimizer("sgd", 1.0, momentum=0.0, clip=5.0).apply([tf.constant([3.0, 50.0, -7.0])], [weight])
    np.testing.assert_allclose(weight, [-3, -5, 5])


def test_a_row_that_occurs_twice_is_clipped_once():
    table = keras.Variable(np.zeros((3, 1), "float32"), name="embeddings")
    slices = tf.IndexedSlices(tf.constant([[4.0], [4.0], [-1.0]]), tf.constant([1, 1, 2]), tf.constant([3, 1]))
    build_optimizer("sgd", 1.0, momentum=0.0, clip=5.0).apply([slices], [table])
    np.testing.assert_allclose(table, [[0], [-5], [1]])


def test_weights_decay_and_biases_do_not():
    kernel, bias = keras.Variable([2.0], name="kernel"), keras.Variable([2.0], name="bias")
    build_optimizer("adam", 0.5, weight_decay=0.1).apply([tf.zeros(1), tf.zeros(1)], [kernel, bias])
    np.testing.assert_allclose([kernel[0], bias[0]], [2 * (1 - 0.5 * 0.1), 2])


def test_adam_in_one_pass_is_keras_adam():
    rng = np.random.default_rng(0)
    start = rng.normal(size=(4, 3)).astype("float32")
    ours, theirs = keras.Variable(start, name="kernel"), keras.Variable(start, name="kernel")
    optimizer = build_optimizer("adam", 0.1, weight_decay=0.01, clip=0.5)
    plain = keras.optimizers.Adam(0.1, weight_decay=0.01)
    for _ in range(5):
        gradient = rng.normal(size=start.shape).astype("float32")
        optimizer.apply([tf.constant(gradient)], [ours])
        plain.apply([tf.constant(gradient.clip(-0.5, 0.5))], [theirs])
    assert abs(np.asarray(ours) - start).max() > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_cosine_rises_and_falls_to_nothing():
    optimizer = build_optimizer("adam", 0.5, schedule="cosine", steps=20)
    rates = [float(optimizer._learning_rate(step)) for step in (0, 1, 2, 11, 20)]
    assert rates == pytest.approx([0.0, 0.25, 0.5, 0.25, 0.0])
    few = build_optimizer("adam", 0.5, schedule="cosine", steps=4)
    assert float(few._learning_rate(0)) == 0.5


def test_unknown_names():
    with pytest.raises(InputError, match="no optimizer is called 'adagrad'; choose one of sgd, adam, rmsprop"):
        build_optimizer("adagrad", 0.1)
    with pytest.raises(InputError, match="no learning rate schedule"):
        build_optimizer("sgd", 0.1, schedule="steep")
    with pytest.raises(InputError, match="no device 'gpu:3' here; there are"):
        choose_strategy("gpu:3")
    assert choose_strategy("cpu:0").num_replicas_in_sync == 1
