"""A run folder: where a trained model lies, with its words, its settings and its scores."""

import csv
import hashlib
import shutil
from functools import cached_property
from pathlib import Path

from keras_imagesent.data.dependency_edges import EdgeVocabulary
from keras_imagesent.data.keras_file import load_keras_file
from keras_imagesent.data.run_files import read_best, read_settings
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.shipped import shipped

MODEL, VOCABULARY, SETTINGS, LOG = "model.keras", "vocabulary.json", "settings.json", "log.csv"
BEST, SCORES = "best", "scores.json"
BETA = 1.0  # of a run that chose none


class Run:
    """What a training wrote, each part read from the disk when it is first asked for.

    ```
    runs/alignment/
      model.keras      the best epoch
      vocabulary.json  the words it knows
      settings.json    how it was trained, and what was chosen afterwards (beta)
      log.csv          one line for each epoch
      best/            the best epochs, and scores.json: what each scored on the validation photos
      state/           what a continued training needs
      tensorboard/     the curves
    ```

    Args:
        path: a run folder, or a `.keras` file in it (one of the best epochs, say).
        kind: "alignment" or "captioner", to refuse a model of another kind; None takes any.

    Example:
        >>> run = ki.Run("alignment", "alignment")
        >>> run.beta, run.vocabulary.words[:2], run.model.name
        (1.0, ['a', 'dog'], 'alignment')
    """

    def __init__(self, path: str | Path, kind: str | None = None):
        path, self.kind = Path(path), kind
        self.file = path if path.suffix == ".keras" else path / MODEL
        self.folder = self.file.parent.parent if self.file.parent.name == BEST else self.file.parent

    @classmethod
    def of(cls, model, vocabulary: Vocabulary, settings: dict | None = None, metrics: dict | None = None) -> "Run":
        """A run that lies in no folder: a model in memory, with the vocabulary it knows.

        Example:
            Run.of(build_captioner(1280, len(vocabulary)), vocabulary)
        """
        run = cls("memory")
        run.model, run.vocabulary, run.settings, run.metrics = model, vocabulary, settings or {}, metrics or {}
        return run

    @cached_property
    def model(self):
        """The Keras model of the best epoch, without its optimizer."""
        if not self.file.is_file():
            what = MADE_BY.get(self.kind, "name a run folder")
            raise InputError(f"no {self.kind or 'trained'} model at {self.folder}: {what} or its .keras file")
        return load_keras(self.file, self.kind)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""
        words = Vocabulary.load(self.folder / VOCABULARY)
        return EdgeVocabulary(words) if self.settings.get("sentences") == "trees" else words

    @cached_property
    def settings(self) -> dict:
        """How the model was trained; empty if nobody wrote it down."""
        return read_settings(self.folder)

    @cached_property
    def metrics(self) -> dict:
        """What the best epoch scored on the validation photos; empty if nobody wrote it down."""
        return next((entry["scores"] for entry in read_best(self.folder)), {})

    @property
    def beta(self) -> float:
        """How strongly neighboring words are tied (Eq. 12): chosen after the training, else 1."""
        beta = self.settings.get("beta")
        return BETA if beta is None else float(beta)

    @property
    def log(self) -> list[dict]:
        """The rows of `log.csv`, one for each epoch; empty for a run that brings none, such as a shipped one."""
        path = self.folder / LOG
        if not path.is_file():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]

    @property
    def best_epochs(self) -> list["Run"]:
        """The best epochs that were kept, the best first."""
        best = [entry for entry in read_best(self.folder) if "file" in entry] if self.folder.is_dir() else []
        if not best:
            raise InputError(f"{self.folder} holds no best epochs: name the run folder of a training")
        return [Run(self.folder / BEST / entry["file"], self.kind) for entry in best]

    @property
    def digest(self) -> str:
        """What tells one trained model from another: the SHA-256 of its file."""
        if not self.file.is_file():
            raise InputError(f"{self.folder} holds no {self.file.name}: is the training finished?")
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    def check_vectors(self, prepared):
        """An `InputError` if the run has learned from vectors that were made in another way than the folder's."""
        for name, theirs in (self.settings.get("vectors") or {}).items():
            here = prepared.vectors[name]
            files = str(theirs).endswith(".keras") or str(here).endswith(".keras")  # whose names say nothing
            if theirs and here and theirs != here and not files:
                raise InputError(
                    f"{self.folder} has learned from vectors made with {name} {theirs}, {prepared.folder} holds those "
                    f"of {here}: prepare the photos as its own were"
                )

    def copy_to(self, folder: str | Path) -> "Run":
        """Copies the model with its vocabulary and settings into another folder, without log and state."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.file, folder / MODEL)
        for name in (VOCABULARY, SETTINGS):
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)
        return Run(folder, self.kind)


def find_run(path, name: str) -> Run | None:
    """The run at `path`; None takes the shipped one called `name`, False gives None.

    Example:
        find_run(None, "captioner").model.name  # 'captioner'
    """
    if path is False:
        return None
    return Run(shipped(name) if path is None else path, "alignment" if name == "alignment" else "captioner")


MADE_BY = {
    "backbone": "name the .keras file that makes a map of vectors out of pixels",
    "detector": "name the .keras file that finds boxes",
    "captioner": "name a run of `imagesent train-captioner`",
    "alignment": "name a run of `imagesent train-alignment`",
}


def load_keras(path, kind=None):
    """A model from its `.keras` file; one of another kind than a person meant is refused by name.

    Args:
        path: the `.keras` file.
        kind: "backbone", "detector", "captioner" or "alignment"; None takes any model.

    Example:
        load_keras("runs/captioner/model.keras", "captioner")
    """
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder, and no run: name a .keras file that is a {kind}")
    model = load_keras_file(path)
    found = kind_of(model)
    if kind and found != kind:
        what = f"of the kind {found}" if found else f"{model.name!r}"
        raise InputError(f"{path} is {what}, not {kind}: {MADE_BY[kind]}")
    return model


def kind_of(model):
    """ "alignment", "captioner", "detector" or "backbone"; None for any other model."""
    from keras_imagesent.alignment.alignment_model import Alignment
    from keras_imagesent.captioning.captioner import Captioner
    from keras_imagesent.regions.extractor import is_backbone, is_detector

    if isinstance(model, Alignment):
        return "alignment"
    if isinstance(model, Captioner):
        return "captioner"
    if is_detector(model):
        return "detector"
    return "backbone" if is_backbone(model) else None
