"""Pixels -> boxes -> vectors: the paper's 19 best detections and the whole frame."""

import keras
from keras import layers, ops

from keras_imagesent.regions.pool_regions import PoolRegions


def build_extractor(backbone, detector):
    """Pixels (B,S,S,3) -> `boxes (B,20,4)`, `box_scores`, `region_mask` and `region_features (B,20,F)`.

    Region 0 is the whole frame. The backbone looks once at the photo; each box pools its feature map.

    Example:
        extractor = build_extractor(build_backbone(), build_detector())
        extractor(pixels)["region_features"]
    """
    pixels = keras.Input(backbone.input_shape[1:], name="pixels")
    found = detector(pixels)
    boxes, scores = AddWholeFrame(name="add_whole_frame")([found["boxes"], found["box_scores"]])
    features = PoolRegions(name="pool_regions")([backbone(pixels), boxes])
    outputs = {"boxes": boxes, "box_scores": scores, "region_mask": scores > 0, "region_features": features}
    return keras.Model(pixels, outputs, name="extractor")


@keras.saving.register_keras_serializable("keras_imagesent")
class AddWholeFrame(layers.Layer):
    """Put the whole frame, with score 1, before the detections."""

    def call(self, inputs):
        boxes, scores = inputs
        nothing = ops.zeros_like(boxes[:, :1, :2])
        frame = ops.concatenate([nothing, nothing + 1], axis=-1)
        return ops.concatenate([frame, boxes], axis=1), ops.concatenate([nothing[..., 0] + 1, scores], axis=1)

    def compute_output_shape(self, input_shape):
        (batch, number, _), _ = input_shape
        return (batch, number + 1, 4), (batch, number + 1)
