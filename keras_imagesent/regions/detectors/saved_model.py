"""Any detection SavedModel that follows the output names of Model Garden and the TF object-detection API."""

from pathlib import Path

import tensorflow as tf

from keras_imagesent.errors import InputError
from keras_imagesent.regions.detectors.detections import build_detections
from keras_imagesent.regions.squash import IMAGE_SIZE


def build_saved_model_detector(folder, image_size=IMAGE_SIZE):
    """The detector in a SavedModel folder: pixels -> `boxes (B,19,4)`, `box_scores (B,19)`.

    Takes models fed with images (uint8 or float, also one at a time or of one size) or with encoded image bytes.
    A SavedModel is a program: load only what you trust.

    Example:
        detector = build_saved_model_detector("efficientdet_d0/saved_model")
    """
    folder = Path(folder)
    try:
        loaded = tf.saved_model.load(str(folder))
    except (OSError, tf.errors.OpError, ValueError, KeyError) as error:
        raise InputError(f"{folder}: not a SavedModel ({str(error).splitlines()[0]}). Name its folder.") from None
    signature = loaded.signatures.get("serving_default") or next(iter(loaded.signatures.values()), None)
    given = sorted(signature.structured_outputs) if signature else []
    if not {"detection_boxes", "detection_scores"} <= set(given):
        raise InputError(
            f"{folder}: no detector, it gives {', '.join(given) or 'nothing'}. "
            "A signature must give detection_boxes and detection_scores."
        )
    inputs = signature.structured_input_signature[1]
    if len(inputs) != 1:
        raise InputError(f"{folder}: its signature takes {', '.join(sorted(inputs))}. One input, the image, is needed.")
    (name, spec), outputs = *inputs.items(), signature.structured_outputs

    def serve(pixels):
        return signature(**{name: _as_wanted(pixels, spec)})

    def serve_each(pixels):
        """One photo at a time, for models with a batch of 1."""
        wanted = {key: tf.float32 for key in outputs if key in _USED}
        return tf.map_fn(
            lambda row: {key: tf.cast(serve(row[None])[key][0], tf.float32) for key in wanted},
            pixels,
            fn_output_signature=wanted,
        )

    detector = build_detections(
        serve_each if spec.shape.rank and spec.shape[0] == 1 else serve, image_size, "saved_model"
    )
    detector.loaded = loaded  # the functions live as long as what was loaded
    return detector


_USED = {"detection_boxes", "detection_scores", "num_detections", "image_info"}


def _as_wanted(pixels, spec):
    """uint8 photos in the form that the signature takes."""
    if spec.dtype == tf.string:
        return tf.map_fn(tf.io.encode_png, pixels, fn_output_signature=tf.TensorSpec((), tf.string))
    if spec.shape.rank == 4 and spec.shape[1] and spec.shape[2]:
        resized = tf.image.resize(pixels, spec.shape[1:3], antialias=True)
        pixels = tf.round(tf.clip_by_value(resized, 0.0, 255.0))
    return tf.cast(pixels, spec.dtype)
