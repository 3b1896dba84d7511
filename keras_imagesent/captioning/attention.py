"""A captioner that looks at the photo's regions at every word."""

import keras
from keras import ops

NEVER = -1e9  # the score of a region that is not there; its share is 0


@keras.saving.register_keras_serializable("keras_imagesent")
class RegionAttention(keras.layers.Layer):
    """Adds to each hidden state what it finds among the photo's regions.

    `h + W_o c`, where `c` is the mean of the regions' vectors `m_r`, weighted by `softmax_r(m_r . W_q h / sqrt(A))`.
    The output layer reads the sum; the recurrence goes on with `h` alone, so that all words of a sentence, or all
    sentences in a beam, look at their photo in one product (Lu et al., 2017, look so as well).

    Call arguments:
        hidden: (B, K, units) K hidden states for each photo.
        memory: (B, R, A) the regions.
        present: (B, R) bool, False for regions that are not there.

    Example:
        >>> hidden = RegionAttention(name="attention")(hidden, memory, region_mask)  # (B, K, units)
    """

    def build(self, hidden_shape, memory_shape, present_shape=None):
        units, size = hidden_shape[-1], memory_shape[-1]
        self.query = self.add_weight((units, size), "glorot_uniform", name="query")
        self.value = self.add_weight((size, units), "glorot_uniform", name="value")

    def call(self, hidden, memory, present):
        found = ops.matmul(ops.matmul(hidden, self.query), ops.transpose(memory, (0, 2, 1)))  # (B, K, R)
        scores = ops.where(present[:, None, :], found * memory.shape[-1] ** -0.5, NEVER)
        return hidden + ops.matmul(ops.matmul(ops.softmax(scores, axis=-1), memory), self.value)

    def compute_output_shape(self, hidden_shape, memory_shape=None, present_shape=None):
        return hidden_shape
