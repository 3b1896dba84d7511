"""Optional dependencies, asked for by name only when they are needed."""

import importlib

from keras_imagesent.errors import InputError


def require(module, extra):
    """Imports an optional module, or says which extra brings it.

    Example:

    >>> onnxruntime = require("onnxruntime", extra="onnx")
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        # A module that is there but fails over one of its own imports is named as well: the cure is the same extra.
        missing = error.name or module
        raise InputError(
            f"this needs {missing.partition('.')[0]}, which is not installed: pip install 'keras_imagesent[{extra}]'"
        ) from error
