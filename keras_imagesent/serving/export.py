"""Trained models as files that run without this package."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_imagesent.data.photo_bytes import Photo, photo_bytes
from keras_imagesent.errors import InputError
from keras_imagesent.silence import silenced

FORMATS = ("saved-model", "onnx", "litert", "web")


def export(
    model,
    out: str | Path,
    format: str = "saved-model",
    float16: bool = False,
    photos: Sequence[Photo] = (),
    documents: Sequence[Path] = (),
    web_runtime: str | Path | None = None,
    int8: bool = False,
) -> list[Path]:
    """Writes a loaded model for TF Serving, ONNX Runtime, LiteRT or the browser.

    Args:
        model: from `load`.
        out: folder to write to. A SavedModel becomes the next version in it, as TF Serving has it, and the folder's
            name is the model's name.
        format: "saved-model", "onnx", "litert" or "web" (a page for any web server).
        float16: whether weights are stored in float16, at half the size (LiteRT writes all precisions, the page int8).
        photos: real photos, for the ranges of int8 and for warm-up requests; without them scenes are drawn.
        documents: files to put beside the model, such as its card.
        web_runtime: for the page, a folder with the npm package onnxruntime-web; without it npm is asked.
        int8: for ONNX, whether weights are stored in int8, at a quarter of the size.

    Returns:
        The files or folders that were written.

    Example:
        >>> [path.name for path in ki.export(model, "exported/imagesent")]
        ['1']
    """
    if format not in FORMATS:
        raise InputError(f"no format {format!r}: there are {', '.join(FORMATS)}")
    out, photo_model = Path(out), getattr(model, "tensors", model)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: name a folder to write to")
    if int8 and (float16 or format != "onnx"):
        raise InputError("int8 is for ONNX, instead of float16: LiteRT's export and the page have it without asking")
    photos = [photo_bytes(photo) for photo in photos]
    precision = "int8" if int8 else "float16" if float16 else "float32"
    with silenced():
        written = _write(photo_model, out, format, precision, photos, documents, web_runtime)
    if format != "saved-model":
        for document in documents:
            shutil.copy(document, out)
    return written


def _write(photo_model, out, format, precision, photos, documents, web_runtime):
    if format == "saved-model":
        from keras_imagesent.serving.saved_model import export_saved_model

        return [export_saved_model(photo_model, out, documents, photos[:1], precision == "float16")]
    if format == "onnx":
        from keras_imagesent.serving.onnx_export import export_onnx

        return export_onnx(photo_model, out, precision=precision)
    if format == "web":
        from keras_imagesent.serving.web_export import export_web

        return export_web(photo_model, out, web_runtime)
    from keras_imagesent.serving.litert_export import export_litert

    return export_litert(photo_model, out, photos=representative(photos, photo_model.image_size))


def representative(photos, size):
    """Pixels (N,S,S,3) of the photos, or of drawn scenes where there are none."""
    from keras_imagesent.data.scenes import make_scenes
    from keras_imagesent.regions.pillow_photo import read_pixels

    if not photos:
        with tempfile.TemporaryDirectory() as folder:
            make_scenes(Path(folder) / "scenes", 50)
            photos = [file.read_bytes() for file in sorted((Path(folder) / "scenes" / "images").iterdir())]
    return np.stack([read_pixels(photo, size) for photo in photos])


def documents(shipped_models: bool) -> list[Path]:
    """LICENSE and NOTICE of this package as far as they are installed; the card, if the models are the shipped ones."""
    root = Path(__file__).parents[1]
    places = [root.parent, *root.parent.glob("keras_imagesent-*.dist-info/licenses")]
    found = [place / name for name in ("LICENSE", "NOTICE") for place in places]
    if shipped_models:
        found += [place / "saved_models" / "MODEL_CARD.md" for place in (root, root.parent)]
    return [path for path in found if path.is_file()]
