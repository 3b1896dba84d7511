"""Region vectors by cropping pixels, as in the paper: every region goes through the network on its own."""

import keras
import numpy as np
from keras import layers, ops


@keras.saving.register_keras_serializable("keras_imagesent")
class CropRegions(layers.Layer):
    """Cuts boxes out of photos and resizes them, antialiased: (B,S,S,3), (B,R,4) -> (B*R,size,size,3).

    Written as one interpolation matrix for each axis, which every runtime has; a box without area gives zeros.

    Args:
        size: side of the square crops.
    """

    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def call(self, inputs):
        pixels, boxes = inputs
        side, regions = pixels.shape[1], boxes.shape[1]
        across = resize_matrix(boxes[..., 0], boxes[..., 2], side, self.size)  # (B,R,size,S)
        down = resize_matrix(boxes[..., 1], boxes[..., 3], side, self.size)
        rows = ops.reshape(down, (-1, regions * self.size, side))
        x = ops.matmul(rows, ops.reshape(pixels, (-1, side, side * 3)))  # (B, R*size, S*3)
        x = ops.reshape(x, (-1, regions, self.size, side, 3))
        x = ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4)), (-1, regions, side, self.size * 3))
        x = ops.reshape(ops.matmul(across, x), (-1, self.size, self.size, 3))  # columns first, then rows
        return ops.transpose(x, (0, 2, 1, 3))

    def compute_output_shape(self, input_shape):
        return None, self.size, self.size, 3

    def get_config(self):
        return {**super().get_config(), "size": self.size}


def resize_matrix(start, end, side, size):
    """How much each of `side` pixels counts in each of `size` resized ones of an interval: (B,R) -> (B,R,size,side).

    The triangle filter of antialiased bilinear resizing, as in Pillow: its half width is one pixel, or one resized
    pixel where the crop is made smaller.
    """
    length = (end - start)[..., None, None] * side  # in pixels
    step = length / size
    centre = start[..., None, None] * side + (np.arange(size, dtype="float32")[:, None] + 0.5) * step  # (B,R,size,1)
    distance = ops.abs(np.arange(side, dtype="float32") + 0.5 - centre) / ops.maximum(step, 1.0)
    # pixels outside the box do not count: a crop knows nothing of what lies around it
    inside = ops.abs(np.arange(side, dtype="float32") + 0.5 - (start + end)[..., None, None] * (side / 2))
    counts = (inside < length / 2 + 0.499) & (length > 0)  # at least a sliver of the pixel
    weight = ops.maximum(1.0 - distance, 0.0) * ops.cast(counts, start.dtype)
    return weight / ops.maximum(ops.sum(weight, axis=-1, keepdims=True), 1e-9)


def crop_vectors(backbone, pixels, boxes):
    """(B,S,S,3), (B,R,4) -> (B,R,F): each crop's vector, or the average of its feature map."""
    crops = CropRegions(backbone.input_shape[1], name="crop_regions")([pixels, boxes])
    vectors = backbone(crops)
    if len(vectors.shape) == 4:
        vectors = layers.GlobalAveragePooling2D(name="average")(vectors)
    return ops.reshape(vectors, (-1, boxes.shape[1], vectors.shape[-1]))
