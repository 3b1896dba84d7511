"""A trained model from disk, with the vocabulary it speaks and what is known of it."""

import dataclasses
from pathlib import Path

import keras

from keras_imagesent.alignment.alignment_model import Alignment
from keras_imagesent.captioning.captioner import Captioner
from keras_imagesent.data.keras_file import load_keras_file
from keras_imagesent.data.run_files import read_best, read_settings
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.regions import yolo  # noqa: F401  registers its layers
from keras_imagesent.regions.extractor import is_backbone, is_detector
from keras_imagesent.shipped import shipped


@dataclasses.dataclass
class Run:
    """A trained model with the vocabulary it speaks, how it was trained, and what it scored on validation photos."""

    model: keras.Model
    vocabulary: Vocabulary
    settings: dict = dataclasses.field(default_factory=dict)
    metrics: dict = dataclasses.field(default_factory=dict)


def load_run(path, name):
    """A trained model from its run folder, or from a `.keras` file beside its `vocabulary.json`."""
    if path is False:
        return None
    path = Path(path or shipped(name))
    file = path / "model.keras" if path.is_dir() else path
    return Run(
        load_keras(file, "alignment" if name == "alignment" else "captioner"),
        Vocabulary.load(file.with_name("vocabulary.json")),
        read_settings(file),
        next((entry["scores"] for entry in read_best(file)), {}),
    )


def load_keras(path, kind):
    """A model from its `.keras` file; one of another kind than a person meant is refused by name.

    Args:
        kind: "backbone", "detector", "captioner" or "alignment".

    Example:
        load_keras("runs/captioner/model.keras", "captioner")
    """
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder, and no run: name a .keras file that is a {kind}")
    model = load_keras_file(path)
    found = kind_of(model)
    if found != kind:
        what = f"of the kind {found}" if found else f"{model.name!r}"
        raise InputError(f"{path} is {what}, not {kind}: {MADE_BY[kind]}")
    return model


MADE_BY = {
    "backbone": "name the .keras file that makes a map of vectors out of pixels",
    "detector": "name the .keras file that finds boxes",
    "captioner": "name a run of `imagesent train-captioner`",
    "alignment": "name a run of `imagesent train-alignment`",
}


def kind_of(model):
    """ "alignment", "captioner", "detector" or "backbone"; None for any other model."""
    if isinstance(model, Alignment):
        return "alignment"
    if isinstance(model, Captioner):
        return "captioner"
    if is_detector(model):
        return "detector"
    return "backbone" if is_backbone(model) else None


def own_beta(run):
    """The beta that a run chose on its validation split; 1 if it chose none."""
    settings = read_settings(run)
    return 1.0 if settings.get("beta") is None else float(settings["beta"])
