"""Region vectors from one pass of the backbone."""

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("keras_imagesent")
class PoolRegions(layers.Layer):
    """The mean of a feature map under each box: (B,h,w,F), (B,R,4) -> (B,R,F).

    A cell counts by the share of it that the box covers, so the whole frame gives the plain average. Two small
    interpolation products and one matrix product: every runtime has them. A box without area gives zeros.

    The default, rather than the paper's crops (`CropRegions`), because the backbone looks once instead of 20 times:
    with the detector counted, a photo takes less than a third of the time, and one look is what a phone or a server
    can afford. The vectors are not the crops': a pooled one has seen the surroundings of its box. On 48 photos of
    Flickr8k (`scripts/benchmark extraction`) the cosine between the two is 0.81 for whole frames and 0.40 for boxes,
    so a model trained on one kind must be given the same kind.
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
