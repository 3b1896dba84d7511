"""Edges of dependency trees as fragments of a sentence, as in DeFrag: the paper compares its BRNN with them."""

import keras
import tensorflow as tf
from keras import ops

from keras_imagesent.data.dependency_edges import RELATIONS


@keras.saving.register_keras_serializable("keras_imagesent")
class SplitEdges(keras.layers.Layer):
    """Numbers of an `EdgeVocabulary` -> the words at both ends and the relation, each `(B,T)`; zeros at padding."""

    def __init__(self, vocabulary_size, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size

    def call(self, token_ids):
        words = self.vocabulary_size
        code = ops.maximum(token_ids - 1, 0)
        there = ops.cast(token_ids > 0, "int32")
        dependents, rest = code % words, code // words
        return {
            "dependents": (dependents + 1) * there,
            "heads": (rest % words + 1) * there,
            "relations": rest // words,
        }

    def compute_output_spec(self, token_ids):
        return {name: keras.KerasTensor(token_ids.shape, "int32") for name in ("dependents", "heads", "relations")}

    def get_config(self):
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size}


@keras.saving.register_keras_serializable("keras_imagesent")
class RelationDense(keras.layers.Layer):
    """`relu(W_R x + b_R)` with weights of their own for each relation R.

    Call arguments:
        x `(B,T,D)`; relations `(B,T)`, numbers in 0..len(RELATIONS).
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, x_shape, relations_shape=None):
        # as wide as one relation's matrix, not as all of them together
        spread = keras.initializers.RandomUniform(*(sign * (6 / (x_shape[-1] + self.units)) ** 0.5 for sign in (-1, 1)))
        self.kernel = self.add_weight((len(RELATIONS), x_shape[-1], self.units), spread, name="kernel")
        self.bias = self.add_weight((len(RELATIONS), self.units), "zeros", name="bias")

    def call(self, x, relations):
        rows = tf.reshape(x, [-1, x.shape[-1]])
        number = tf.reshape(relations, [-1])
        parts = tf.dynamic_partition(rows, number, len(RELATIONS))
        places = tf.dynamic_partition(tf.range(tf.shape(rows)[0]), number, len(RELATIONS))
        found = [tf.nn.relu(part @ self.kernel[r] + self.bias[r]) for r, part in enumerate(parts)]
        return tf.reshape(tf.dynamic_stitch(places, found), [-1, x.shape[1], self.units])

    def compute_output_spec(self, x, relations):
        return keras.KerasTensor((*x.shape[:-1], self.units), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "units": self.units}
