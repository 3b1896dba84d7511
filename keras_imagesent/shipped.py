"""Where the trained models lie that come with the package."""

from pathlib import Path

from keras_imagesent.errors import InputError

_HERE = Path(__file__).parent


def shipped(name):
    """Path of a shipped model, in an installed wheel or in a clone.

    Example:
        shipped("backbone.keras"), shipped("captioner")
    """
    for folder in (_HERE / "saved_models", _HERE.parent / "saved_models"):
        if (folder / name).exists():
            return folder / name
    raise InputError(
        f"this installation has no shipped {name}. Name a model of your own, or install from a complete clone or wheel."
    )
