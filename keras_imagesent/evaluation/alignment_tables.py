"""The tables of the alignment model: retrieval, grounding, magnitudes."""

import dataclasses
from pathlib import Path

import numpy as np

from keras_imagesent.alignment.choose_beta import choose_beta
from keras_imagesent.evaluation.grounding import measure_grounding, read_entities, read_phrase_boxes
from keras_imagesent.evaluation.magnitudes import region_magnitudes, word_magnitudes
from keras_imagesent.evaluation.paper_rows import RIVALS, paper_set, retrieval_row
from keras_imagesent.evaluation.retrieval import measure_retrieval
from keras_imagesent.evaluation.tables import Table

MEASURES = [f"{way}_{name}" for way in ("annotation", "search") for name in ("r1", "r5", "r10", "median", "mean")]
HEADS = [f"{way} {name}" for way in ("annotation", "search") for name in ("R@1", "R@5", "R@10", "Med r", "Mean r")]


def average_checkpoints(run, photos, folds=1):
    """Each of a run's best epochs measured alone, as the paper does: `{measure: (mean, standard deviation)}`.

    Example:
        average_checkpoints(Run("runs/alignment"), prepared.load("dev"))["annotation_r1"]  # (22.1, 0.6)
    """
    results = [measure_retrieval(epoch.model, photos, folds) for epoch in run.best_epochs]
    spread = {name: [result[name] for result in results] for name in results[0]}
    return {name: (float(np.mean(values)), float(np.std(values))) for name, values in spread.items()}


def in_own_words(run, photos):
    """The photos with their sentences in a run's own words."""
    token_ids = [[run.vocabulary.encode(text) for text in captions] for captions in photos.captions]
    return dataclasses.replace(photos, token_ids=token_ids)


def retrieval_table(runs, photos, split, paper="", average=False, folds=1, command=""):
    """Retrieval of several runs, `{name: Run}`, above the row of the data set that the paper calls so, if it has one.

    With `average`, every run has a second row: the mean of its best epochs with the standard deviation.

    Example:
        retrieval_table({"best": Run("runs/alignment")}, prepared.load("dev"), "dev").to_markdown()
    """
    rows = []
    for name, run in runs.items():
        known = in_own_words(run, photos)
        result = measure_retrieval(run.model, known, folds)
        rows.append([name, *(result[measure] for measure in MEASURES)])
        if average:
            results = average_checkpoints(run, known, folds)
            rows.append([f"{name}, its {len(run.best_epochs)} best epochs", *(results[m] for m in MEASURES)])
    if paper_set(paper) == "Flickr8K" and any(run.settings.get("sentences", "brnn") != "brnn" for run in runs.values()):
        rows += [[f"{name}, Flickr8K test", *values] for name, values in RIVALS.items()]
    if theirs := retrieval_row(paper, len(photos.filenames) / folds):
        rows.append([f"the paper's BRNN, {theirs[0]} test", *theirs[1]])
    sentences = sum(len(captions) for captions in photos.captions)
    note = f"{len(photos.filenames)} photos, {sentences} sentences, ties counted against the model"
    note += f", mean of {folds} folds." if folds > 1 else "."
    return Table("retrieval", "Retrieval", ["model", *HEADS], rows, note, command, split)


def read_items(phrase_boxes, sentences=None):
    """Phrase boxes from a CSV, or from Flickr30k Entities' folder of annotations (with its folder of sentences)."""
    path = Path(phrase_boxes)
    if path.is_dir():
        return read_entities(path, sentences or path.parent / "Sentences")
    return read_phrase_boxes(path)


def grounding_table(runs, photos, items, split, command=""):
    """Grounding of several runs, each word for itself and tied with the run's beta, beside what needs no model.

    Example:
        grounding_table({"best": Run("runs/alignment")}, photos, read_items("phrase_boxes_dev.csv"), "dev")
    """
    rows = []
    for name, run in runs.items():
        if run.settings.get("sentences") == "trees":  # its fragments are no words of a phrase
            continue
        model = run.model
        found = measure_grounding(model, photos, items, run.vocabulary)
        rows.append([name, *found["model"].values()])
        chained = measure_grounding(model, photos, items, run.vocabulary, run.beta)["model"]
        rows.append([f"{name}, MRF with beta {run.beta:g}", *chained.values()])
    others = ("whole frame", "random region", "largest detector score", "best region")
    rows += [[name, *found[name].values()] for name in others]
    note = (
        f"{found['items']} phrases with boxes drawn by people, {found['plural']} with several: IoU >= 0.5 with the box "
        "around all of them, as Flickr30k Entities has it; with any one of them; and the centre inside one. "
        "`best region` is the most that any choice among the regions could reach."
    )
    columns = ["region chosen by", "IoU >= 0.5, %", "with any box, %", "pointing, %"]
    return Table("grounding", "Phrase grounding", columns, rows, note, command, split)


def beta_table(runs, photos, split, command=""):
    """How strongly neighboring words are tied (Eq. 12): the measure that chooses beta, and how long phrases get by it.

    Example:
        beta_table({"best": Run("runs/alignment")}, prepared.load("tune"), "tune").to_markdown()
    """
    rows = []
    for name, run in runs.items():
        if run.settings.get("sentences") == "trees":
            continue
        best, measured = choose_beta(run.model, in_own_words(run, photos))
        rows += [
            [name + (", chosen" if beta == best else ""), f"{beta:g}", *figures] for beta, figures in measured.items()
        ]
    note = (
        "Chosen without boxes: of the words that two captions of a photo share, the share on the same region, minus "
        "that of words of different things (never within three words of each other) on the same region."
    )
    columns = ["model", "beta", "regions kept, %", "words of a phrase"]
    return Table("betas", "Ties between neighboring words", columns, rows, note, command, split, digits=2)


def has_lengths(run):
    """Whether the lengths of a run's vectors enter its score: those of a cosine model do not."""
    return not any(layer.name == "word_norm" for layer in run.model.get_layer("sentence_encoder").layers)


def magnitude_tables(run, photos, split, command="", name=""):
    """Two tables: the words with the longest and shortest vectors, and the regions with the longest."""
    model = run.model
    sentences = [ids for captions in in_own_words(run, photos).token_ids for ids in captions]
    largest, smallest = word_magnitudes(model, sentences, run.vocabulary)
    rows = [
        [*low, *high] for low, high in zip([(m, w) for w, m in smallest], [(m, w) for w, m in largest], strict=True)
    ]
    of_run = f", {name}" if name else ""
    words = Table(
        "word_magnitudes",
        f"Mean length of word vectors{of_run}",
        ["smallest", "word", "largest", "word"],
        rows,
        "Words seen at least 5 times; a cosine model's vectors before they get unit length.",
        command,
        split,
        digits=2,
    )
    found = [
        [photos.filenames[row], " ".join(f"{corner:.3f}" for corner in photos.boxes[row, region]), length]
        for row, region, length in region_magnitudes(model, photos)
    ]
    columns = ["photo", "box", "length"]
    regions = Table(
        "region_magnitudes", f"Regions with the longest vectors{of_run}", columns, found, "", command, split, digits=2
    )
    return [words, regions]
