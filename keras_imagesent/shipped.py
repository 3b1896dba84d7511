"""The trained models that come with the package: where they lie, and how they are made small."""

import os
import zipfile
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


def save_small(model, path):
    """Saves a model with its weights rounded to float16, at about half the size; it still computes in float32.

    Keras stores float32, but the bits that rounding clears compress away, and a compressed `.keras` file loads as any.

    Example:
        save_small(build_backbone(weights="pip"), "saved_models/backbone.keras")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for weight in model.weights:
        if "float" in str(weight.dtype):
            weight.assign(weight.numpy().astype("float16").astype(weight.dtype))
    large, small = (path.with_name(f".{path.stem}.{kind}.keras") for kind in ("large", "small"))
    model.save(large)
    with zipfile.ZipFile(large) as source, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for entry in source.infolist():
            content = source.read(entry)
            target.writestr(zipfile.ZipInfo(entry.filename), content, zipfile.ZIP_DEFLATED, 9)
    large.unlink()
    os.replace(small, path)
