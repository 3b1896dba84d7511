"""What detectors of the Model Garden and of the TF object-detection API answer, as our boxes."""

import keras
import tensorflow as tf
from keras import layers

from keras_imagesent.regions.select_boxes import PROPOSALS


def build_detections(serve, image_size, name):
    """A detector from a function that gives `detection_boxes`, `detection_scores` and perhaps `num_detections`.

    The function runs frozen inside the model: its weights are not the model's, and the model cannot be saved.

    Args:
        serve: uint8 (B,S,S,3) -> dict of the outputs.

    Example:
        detector = build_detections(tf.saved_model.load("ssd/saved_model").signatures["serving_default"], 384, "ssd")
    """
    pixels = keras.Input((image_size, image_size, 3), name="pixels")
    boxes, scores = Detections(serve, name="detections")(pixels)
    return keras.Model(pixels, {"boxes": boxes, "box_scores": scores}, name=name)


class Detections(layers.Layer):
    """Pixels -> the 19 best boxes, by a function that follows the usual output names."""

    def __init__(self, serve, **kwargs):
        super().__init__(trainable=False, **kwargs)
        self.serve = serve

    def call(self, pixels):
        return best_boxes(self.serve(tf.cast(pixels, tf.uint8)), pixels.shape[1])

    def compute_output_shape(self, input_shape):
        return (input_shape[0], PROPOSALS, 4), (input_shape[0], PROPOSALS)


def best_boxes(outputs, image_size):
    """Detector outputs -> boxes (B,19,4) as x0, y0, x1, y1 in 0..1 and scores (B,19), the best first.

    Boxes come as y0, x0, y1, x1. The object-detection API gives them in 0..1; Model Garden in pixels of its own
    input, with `image_info` to undo its scaling, unless it was exported with normalized coordinates. Boxes none of
    which reaches beyond 2 are taken as normalized: no detector gives boxes of two pixels only.
    """
    boxes = tf.cast(outputs["detection_boxes"], tf.float32)  # (B,N,4)
    scores = tf.cast(outputs["detection_scores"], tf.float32)  # (B,N)
    extent = float(image_size)
    if "image_info" in outputs:  # (B,4,2): original size, scaled size, scale, offset; each as height, width
        info = tf.cast(outputs["image_info"], tf.float32)
        extent = tf.tile(info[:, 0:1] * info[:, 2:3], (1, 1, 2))
    boxes = tf.where(tf.reduce_max(boxes) <= 2.0, boxes, boxes / extent)
    boxes = tf.clip_by_value(tf.gather(boxes, (1, 0, 3, 2), axis=-1), 0.0, 1.0)
    real = (boxes[..., 2] > boxes[..., 0]) & (boxes[..., 3] > boxes[..., 1])
    if "num_detections" in outputs:
        number = tf.cast(tf.reshape(outputs["num_detections"], (-1, 1)), tf.int32)
        real &= tf.range(tf.shape(boxes)[1])[None] < number
    scores = tf.where(real, scores, 0.0)
    missing = tf.maximum(PROPOSALS - tf.shape(scores)[1], 0)
    scores, best = tf.math.top_k(tf.pad(scores, ((0, 0), (0, missing))), PROPOSALS)
    boxes = tf.gather(tf.pad(boxes, ((0, 0), (0, missing), (0, 0))), best, batch_dims=1)
    boxes = tf.where(scores[..., None] > 0, boxes, 0.0)
    return tf.ensure_shape(boxes, (None, PROPOSALS, 4)), tf.ensure_shape(scores, (None, PROPOSALS))
