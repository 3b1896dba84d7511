"""The networks of keras.applications by name, each with its own preprocessing inside."""

import inspect

import keras

from keras_imagesent.errors import InputError


def build_application(name, image_size=224, weights="imagenet"):
    """Pixels (B,S,S,3) in 0..255 -> the last feature map (B,h,w,F), or the output of a named layer.

    Args:
        name: a network's name in any case (`resnet50`, `efficientnetv2b0`), or `network/layer`; `vgg16/fc2` is the
            paper's 4096-d vector, at the 224 pixels that its dense layers are made for.
        weights: `"imagenet"`, which Keras downloads on first use, None for random ones, or a weights file.

    Example:
        build_application("vgg16/fc2", 224)(pixels).shape  # (B, 4096)
    """
    network, _, layer = name.partition("/")
    build, preprocess = _find(network)
    pixels = keras.Input((image_size, image_size, 3), name="pixels")
    options = {"weights": weights, "include_top": bool(layer), "input_shape": (image_size, image_size, 3)}
    try:
        model = build(**options)
    except ValueError as error:
        raise InputError(f"{network} cannot be built for {image_size} pixels: {str(error).splitlines()[0]}") from None
    except Exception as error:  # urllib's and the operating system's, when there is no network
        raise InputError(f"the weights of {network} cannot be had ({error}). Is there a network?") from None
    if layer:
        names = [each.name for each in model.layers]
        if layer not in names:
            raise InputError(f"{network} has no layer {layer!r}. The last ones are: {', '.join(names[-5:])}.")
        model = keras.Model(model.inputs, model.get_layer(layer).output, name=f"{model.name}_{layer}")
    return keras.Model(pixels, model(preprocess(pixels)), name=f"{network}_backbone")


def names():
    """The networks there are, as `build_application` takes them."""
    return sorted(name.lower() for name, value in vars(keras.applications).items() if inspect.isfunction(value))


def _find(network):
    """The builder and the preprocessing of a network."""
    for name, build in vars(keras.applications).items():
        if inspect.isfunction(build) and name.lower() == network.lower():
            return build, inspect.getmodule(build).preprocess_input
    raise InputError(
        f"no backbone is called {network!r}. There are efficientnet-lite0, efficientnet-lite1, efficientnet-lite2 "
        f"and those of keras.applications: {', '.join(names())}."
    )
