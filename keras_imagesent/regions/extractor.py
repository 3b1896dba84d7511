"""Pixels -> boxes -> vectors: the paper's 19 best detections and the whole frame."""

import keras
from keras import layers, ops

from keras_imagesent.regions.crop_regions import crop_vectors
from keras_imagesent.regions.pool_regions import PoolRegions
from keras_imagesent.regions.select_boxes import PROPOSALS


def build_extractor(backbone, detector=None, crop_from=None):
    """Pixels (B,S,S,3) -> `boxes (B,20,4)`, `box_scores`, `region_mask` and `region_features (B,20,F)`; and, from a
    detector that names what it finds, `class_scores (B,20,C)`.

    Region 0 is the whole frame. By default the backbone looks once at the photo and each box pools its feature map
    (`PoolRegions` says why); with `crop_from` each box is cut out of the pixels and looked at on its own.

    Args:
        backbone: pixels -> feature map; for crops also pixels -> vector, such as VGG16's second dense layer.
        detector: pixels -> `boxes (B,19,4)`, `box_scores (B,19)` and perhaps `class_scores (B,19,C)`; None makes the
            first two inputs of the model.
        crop_from: side of the photos that crops are cut from; the crops themselves have the backbone's input size.

    Example:
        extractor = build_extractor(build_backbone(), build_detector())
        extractor(pixels)["region_features"]
    """
    size = crop_from or backbone.input_shape[1]
    inputs = pixels = keras.Input((size, size, 3), name="pixels")
    if detector is None:
        found = {"boxes": keras.Input((PROPOSALS, 4), name="boxes")}
        found["box_scores"] = keras.Input((PROPOSALS,), name="box_scores")
        inputs = {"pixels": pixels, **found}
    else:
        found = detector(pixels)
    boxes, scores = AddWholeFrame(name="add_whole_frame")([found["boxes"], found["box_scores"]])
    if crop_from:
        features = crop_vectors(backbone, pixels, boxes) * ops.cast(scores > 0, "float32")[..., None]
    else:
        features = PoolRegions(name="pool_regions")([backbone(pixels), boxes])
    outputs = {"boxes": boxes, "box_scores": scores, "region_mask": scores > 0, "region_features": features}
    if "class_scores" in found:
        outputs["class_scores"] = ops.pad(found["class_scores"], [[0, 0], [1, 0], [0, 0]])  # the frame is of no class
    return keras.Model(inputs, outputs, name="extractor")


def is_backbone(model):
    """Whether a model makes a map of vectors out of pixels."""
    return _takes_pixels(model) and isinstance(model.output_shape, tuple) and len(model.output_shape) == 4


def is_detector(model):
    """Whether a model finds boxes in pixels."""
    return _takes_pixels(model) and isinstance(model.output, dict) and {"boxes", "box_scores"} <= set(model.output)


def _takes_pixels(model):
    return isinstance(model.input_shape, tuple) and len(model.input_shape) == 4


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
