"""Trained models as small files."""

import io
import tempfile
import zipfile
from pathlib import Path

from keras_imagesent.data.atomic import whole_file


def save_small(model, path):
    """Saves a model with its weights rounded to float16, at less than half the size; it still computes in float32.

    The arrays inside the `.keras` file become float16; Keras casts them to its variables' float32 when it loads them.

    Example:
        save_small(build_backbone(weights="pip"), "saved_models/backbone.keras")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for weight in model.weights:
        if "float" in str(weight.dtype):
            weight.assign(weight.numpy().astype("float16").astype(weight.dtype))
    with tempfile.TemporaryDirectory() as folder, whole_file(path) as small:
        large = Path(folder) / "large.keras"
        model.save(large)
        with zipfile.ZipFile(large) as source, zipfile.ZipFile(small, "w") as target:
            for entry in source.infolist():
                content = source.read(entry)
                if entry.filename.endswith(".h5"):
                    content = _halve(content)
                target.writestr(zipfile.ZipInfo(entry.filename), content)


def _halve(content):
    """The same HDF5 file with its large float32 arrays as float16, compressed."""
    import h5py

    packed = io.BytesIO()
    with h5py.File(io.BytesIO(content)) as source, h5py.File(packed, "w") as target:

        def copy(name, item):
            if isinstance(item, h5py.Group):
                copied = target.require_group(name)
            elif item.dtype == "float32" and item.size > 1000:
                half = item[()].astype("float16")
                copied = target.create_dataset(name, data=half, compression="gzip", compression_opts=9, shuffle=True)
            else:
                copied = target.create_dataset(name, data=item[()])
            for key, value in item.attrs.items():
                copied.attrs[key] = value

        copy("/", source)
        source.visititems(copy)
    return packed.getvalue()
