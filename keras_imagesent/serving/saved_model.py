"""One SavedModel with every signature, in TF Serving's layout `<name>/<version>/`."""

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_imagesent.data.atomic import remove_leftovers, whole_folder
from keras_imagesent.model.photo_model import BOX, IMAGE_BYTES, SENTENCES
from keras_imagesent.serving.half_weights import HalfWeights
from keras_imagesent.serving.model_json import size_and_checksum, tensor, write_about
from keras_imagesent.serving.warmup import write_warmup

EXTRA = "assets.extra"


def export_saved_model(photo_model, folder, documents=(), warmup_photos=(), float16=False):
    """Writes the model as the next version of `folder` and returns that version's folder.

    The version is written under a temporary name and moved into place whole: a server that watches the folder never
    sees half of it. Vocabulary, preprocessing, settings, metrics and the `documents` (licence, model card) travel in
    `assets.extra`, with warm-up requests for every signature. With `float16` large weights are stored at half the size
    and computed with in float32; the given model stays as it is.

    Example:
        >>> export_saved_model(load_photo_model(), "saved_models/imagesent")
        PosixPath('saved_models/imagesent/1')
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    with whole_folder(folder / "version") as unfinished:
        interface = _write_graph(photo_model, unfinished, float16)
        extra = unfinished / EXTRA
        extra.mkdir()
        for document in documents:
            shutil.copy(document, extra)
        write_warmup(unfinished, folder.name, warmup_requests(photo_model, warmup_photos))
        files = sorted(path for path in unfinished.rglob("*") if path.is_file())
        entries = [{"file": os.path.relpath(path, extra), **size_and_checksum(path)} for path in files]
        write_about(photo_model, extra, "saved-model", entries, signatures=interface)
        return _move_into_place(unfinished, folder)


def signatures(photo_model):
    """Signature name -> (function, input specifications), for the parts that the model has."""
    found = {}
    if photo_model.captioner:
        found["serving_default"] = photo_model.caption, [IMAGE_BYTES]
        found["caption_features"] = photo_model.caption_features, photo_model.caption_features.input_signature
    if photo_model.region_captioner:
        found["describe"] = photo_model.describe, [IMAGE_BYTES]
        found["describe_box"] = photo_model.describe_box, [IMAGE_BYTES, BOX]
    if photo_model.alignment:
        found["align"] = photo_model.align, [IMAGE_BYTES, SENTENCES]
        found["embed_image"] = photo_model.embed_image, [IMAGE_BYTES]
        found["embed_sentence"] = photo_model.embed_sentence, [SENTENCES]
    return found


def warmup_requests(photo_model, photos=()):
    """A real request for every signature: the given encoded photos, or a drawn one."""
    images = list(photos) or [_drawn_photo()]
    sentences = ["a dog runs through the grass"] * len(images)
    inputs = {
        "image_bytes": images,
        "sentences": sentences,
        "box": np.tile(np.array([0.2, 0.2, 0.8, 0.9], np.float32), (len(images), 1)),
    }
    for each in photo_model.caption_features.input_signature if photo_model.captioner else ():
        inputs[each.name] = np.full((1, *each.shape[1:]), 0.1).astype(each.dtype.as_numpy_dtype)  # a mask of True
    return [
        (name, {spec.name: inputs[spec.name] for spec in specifications})
        for name, (_, specifications) in signatures(photo_model).items()
    ]


def _write_graph(photo_model, folder, float16):
    """Saves the signatures alone: Keras's archive saves the functions beside them, and so every graph twice.

    Returns each signature's inputs and outputs.
    """
    traced = photo_model.untraced() if float16 else photo_model
    halves = HalfWeights()  # owns the float16 copies until they are saved
    with halves if float16 else contextlib.nullcontext():
        functions = {
            name: function.get_concrete_function(*specifications)
            for name, (function, specifications) in signatures(traced).items()
        }
    saved = tf.Module()
    weights = dict.fromkeys(weight.ref() for function in functions.values() for weight in function.variables)
    saved.weights = [weight.deref() for weight in weights]
    if photo_model.alignment:
        saved.word_table = photo_model.word_table
    tf.saved_model.save(saved, str(folder), functions)
    return {
        name: {
            "inputs": _tensors(function.structured_input_signature[0]),
            "outputs": _tensors(function.structured_outputs),
        }
        for name, function in functions.items()
    }


def _tensors(specifications):
    """Inputs or outputs as `model.json` describes them."""
    if isinstance(specifications, dict):
        named = specifications.items()
    else:
        named = ((value.name, value) for value in specifications)
    return {name: tensor(name, value.dtype.name, value.shape) for name, value in named}


def _move_into_place(unfinished, folder):
    """Renames to the next free version number; another exporter may be faster, then to the one after."""
    while True:
        taken = [int(child.name) for child in folder.iterdir() if child.name.isdecimal()]
        version = folder / str(max(taken, default=0) + 1)
        try:
            os.rename(unfinished, version)
            return version
        except OSError:
            if not version.exists():
                raise


def _drawn_photo():
    """A JPEG of a sky, a meadow and a brown thing on it."""
    photo = np.zeros((120, 160, 3), np.uint8)
    photo[:60], photo[60:], photo[50:100, 60:110] = (130, 180, 240), (80, 150, 60), (120, 80, 40)
    return tf.io.encode_jpeg(photo).numpy()
