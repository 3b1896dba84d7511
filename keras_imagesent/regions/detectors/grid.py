"""Fixed boxes, for photos without a detector."""

import keras
import numpy as np
from keras import layers, ops

from keras_imagesent.regions.squash import IMAGE_SIZE

# 9 overlapping windows of half the side, 4 halves, 2 middle strips, 3 thirds of the width, 1 large middle: 19 boxes,
# the larger first, because whoever asks for fewer wants the ones that hold more
_THIRDS = [(0, 0, 1 / 3, 1), (1 / 3, 0, 2 / 3, 1), (2 / 3, 0, 1, 1)]
_HALVES = [(0, 0, 0.5, 1), (0.5, 0, 1, 1), (0, 0, 1, 0.5), (0, 0.5, 1, 1), (0.25, 0, 0.75, 1), (0, 0.25, 1, 0.75)]
_WINDOWS = [(x, y, x + 0.5, y + 0.5) for y in (0, 0.25, 0.5) for x in (0, 0.25, 0.5)]
GRID = np.array([(0.15, 0.15, 0.85, 0.85), *_HALVES, *_THIRDS, *_WINDOWS], np.float32)


def build_grid(image_size=IMAGE_SIZE):
    """Pixels (B,S,S,3) -> the same 19 `boxes` for every photo, larger ones first, with `box_scores` of 1.

    Example:
        extractor = build_extractor(build_backbone(), build_grid())
    """
    pixels = keras.Input((image_size, image_size, 3), name="pixels")
    boxes, scores = FixedBoxes(name="fixed_boxes")(pixels)
    return keras.Model(pixels, {"boxes": boxes, "box_scores": scores}, name="grid")


@keras.saving.register_keras_serializable("keras_imagesent")
class FixedBoxes(layers.Layer):
    """Repeats the grid for each photo of the batch."""

    def call(self, pixels):
        nothing = ops.zeros_like(pixels[:, :1, 0, :1])  # (B,1,1)
        return nothing + GRID, nothing[..., 0] + np.ones(len(GRID), np.float32)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], len(GRID), 4), (input_shape[0], len(GRID))
