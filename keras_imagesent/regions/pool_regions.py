"""Region vectors from one pass of the backbone."""

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("keras_imagesent")
class PoolRegions(layers.Layer):
    """The mean of a feature map under each box: (B,h,w,F), (B,R,4) -> (B,R,F).

    A cell counts by the share of it that the box covers, so the whole frame gives the plain average. Two small
    interpolation products and one matrix product: every runtime has them. A box without area gives zeros.
    """

    def call(self, inputs):
        feature_map, boxes = inputs
        rows, columns, channels = feature_map.shape[1:]
        across = _coverage(boxes[..., 0], boxes[..., 2], columns)  # (B,R,w)
        down = _coverage(boxes[..., 1], boxes[..., 3], rows)  # (B,R,h)
        weights = ops.reshape(down[..., :, None] * across[..., None, :], (-1, boxes.shape[1], rows * columns))
        return ops.matmul(weights, ops.reshape(feature_map, (-1, rows * columns, channels)))

    def compute_output_shape(self, input_shape):
        (batch, *_, channels), (_, regions, _) = input_shape
        return batch, regions, channels


def _coverage(start, end, cells):
    """How much of an interval lies in each of `cells` equal cells of 0..1, as shares that sum to 1."""
    edges = ops.arange(cells, dtype=start.dtype) / cells
    covered = ops.minimum(end[..., None], edges + 1 / cells) - ops.maximum(start[..., None], edges)
    covered = ops.maximum(covered, 0.0)
    return covered / ops.maximum(ops.sum(covered, axis=-1, keepdims=True), 1e-9)
