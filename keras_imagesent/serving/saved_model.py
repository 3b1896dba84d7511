"""One SavedModel with every signature, in TF Serving's layout `<name>/<version>/`."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_imagesent import __version__
from keras_imagesent.data.atomic import remove_leftovers, whole_folder
from keras_imagesent.model.photo_model import BOX, IMAGE_BYTES, SENTENCES
from keras_imagesent.serving.warmup import write_warmup

EXTRA = "assets.extra"


def export_saved_model(photo_model, folder, documents=(), warmup_photos=()):
    """Writes the model as the next version of `folder` and returns that version's folder.

    The version is written under a temporary name and moved into place whole: a server that watches the folder never
    sees half of it. Vocabulary, preprocessing, settings, metrics and the `documents` (licence, model card) travel in
    `assets.extra`, with warm-up requests for every signature.

    Example:
        >>> export_saved_model(load_photo_model(), "saved_models/imagesent")
        PosixPath('saved_models/imagesent/1')
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    with whole_folder(folder / "version") as unfinished:
        _write_graph(photo_model, unfinished)
        extra = unfinished / EXTRA
        extra.mkdir()
        for name, text in describe_model(photo_model).items():
            (extra / name).write_text(text, encoding="utf-8")
        for document in documents:
            shutil.copy(document, extra)
        write_warmup(unfinished, folder.name, warmup_requests(photo_model, warmup_photos))
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


def describe_model(photo_model):
    """File name -> text of what a user of the model must know: vocabularies, preprocessing, settings, metrics."""
    parts = {
        name: getattr(photo_model, name)
        for name in ("captioner", "region_captioner", "alignment")
        if getattr(photo_model, name)
    }
    model = {
        "made_by": f"keras_imagesent {__version__}",
        "tensorflow": tf.__version__,
        "preprocessing": preprocessing(photo_model),
        "beam": photo_model.beam,
        "captions": photo_model.n_captions,
        "max_length": photo_model.max_length,
        "length_penalty": photo_model.length_penalty,
        "beta": photo_model.beta,
        "rerank": photo_model.rerank,
        # captioning/confidence.py says how these make a confidence out of a caption and its log probability
        "confidence": parts["captioner"].settings.get("confidence") if "captioner" in parts else None,
        "training": {name: part.settings for name, part in parts.items()},
        "metrics": {name: part.metrics for name, part in parts.items()},
        "vocabularies": {name: f"vocabulary-{part.vocabulary.digest}.json" for name, part in parts.items()},
    }
    files = {"model.json": json.dumps(model, indent=1)}
    for part in parts.values():
        vocabulary = part.vocabulary
        content = {"sentences": vocabulary.sentences, "words": vocabulary.words, "counts": vocabulary.counts}
        files[f"vocabulary-{vocabulary.digest}.json"] = json.dumps(content, ensure_ascii=False)
    return files


def preprocessing(photo_model):
    """What happens to a photo before the graph's `pixels`, in words and numbers."""
    return {
        "image_size": photo_model.image_size,
        "range": "0..255, RGB, float32, whole numbers",
        "orientation": "EXIF applied",
        "transparency": "over white",
        "resize": "squashed to a square, bilinear with antialiasing (Pillow's BILINEAR)",
        "boxes": "x0, y0, x1, y1 in 0..1 of the upright photo; region 0 is the whole frame",
    }


def warmup_requests(photo_model, photos=()):
    """A real request for every signature: the given encoded photos, or a drawn one."""
    images = list(photos) or [_drawn_photo()]
    sentences = ["a dog runs through the grass"] * len(images)
    features = photo_model.caption_features.input_signature[0].shape[1] if photo_model.captioner else 0
    inputs = {
        "image_bytes": images,
        "sentences": sentences,
        "box": np.tile(np.array([0.2, 0.2, 0.8, 0.9], np.float32), (len(images), 1)),
        "image_features": np.full((1, features), 0.1, np.float32),
    }
    return [
        (name, {spec.name: inputs[spec.name] for spec in specifications})
        for name, (_, specifications) in signatures(photo_model).items()
    ]


def _write_graph(photo_model, folder):
    """Saves the signatures alone: Keras's archive saves the functions beside them, and so every graph twice."""
    functions = {
        name: function.get_concrete_function(*specifications)
        for name, (function, specifications) in signatures(photo_model).items()
    }
    saved = tf.Module()
    weights = dict.fromkeys(weight.ref() for function in functions.values() for weight in function.variables)
    saved.weights = [weight.deref() for weight in weights]
    if photo_model.alignment:
        saved.word_table = photo_model.word_table
    tf.saved_model.save(saved, str(folder), functions)


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
