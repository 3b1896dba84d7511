"""Weights stored in float16, at half the size, in graphs that go on computing in float32."""

import keras
import numpy as np
import tensorflow as tf

from keras_imagesent.serving.onnx_weights import LEAST


class HalfWeights(keras.StatelessScope):
    """A scope in which graphs read the large float32 weights of Keras models from float16 copies, cast back.

    The models stay as they are. Only graphs that are traced inside the scope read the copies.

    Example:
        >>> with HalfWeights():
        ...     function = tf.function(model).get_concrete_function(specification)
    """

    def __init__(self):
        super().__init__()
        self.halves = {}  # id of a Keras variable -> its float16 copy

    def get_current_value(self, variable):
        """What Keras reads instead of the variable's own value; None leaves it as it is."""
        if variable.dtype != "float32" or np.prod(variable.shape) < LEAST:
            return super().get_current_value(variable)
        if id(variable) not in self.halves:
            with tf.init_scope():
                self.halves[id(variable)] = tf.Variable(variable._value.numpy().astype(np.float16), trainable=False)
        return tf.cast(self.halves[id(variable)], tf.float32)
