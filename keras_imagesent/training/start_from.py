"""Training that starts from another run: its words are kept, and the new data's words are added."""

from pathlib import Path

from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError


def words_of(run):
    """The vocabulary of a run folder, or beside a `.keras` file."""
    run = Path(run)
    model = run / "model.keras" if run.is_dir() else run
    if not model.is_file():
        raise InputError(f"no model at {model}: start_from names a run folder or a .keras file")
    return Vocabulary.load(model.with_name("vocabulary.json"))


def add_words(prepared, run):
    """The prepared photos with their sentences in the run's words and, behind those, the photos' own.

    Example:
        prepared = add_words(Prepared.open("mine"), "runs/flickr8k")
        len(prepared.vocabulary)  # the run's words and the new ones
    """
    vocabulary = words_of(run)
    if vocabulary.words == prepared.vocabulary.words:
        return prepared
    together = vocabulary.extended(prepared.vocabulary)
    print(f"words: {len(vocabulary)} of the run to start from, {len(together) - len(vocabulary)} new")
    return prepared.in_words(together)
