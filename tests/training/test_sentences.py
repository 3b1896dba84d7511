"""Alignments without a BRNN learn too, and stand in one table with those that have one."""

import itertools
import json

import pytest

from keras_imagesent.cli.main import main
from keras_imagesent.data import dependency_edges
from keras_imagesent.model.run import Run
from tests.tiny_prepared import write_tiny_prepared

SMALL = [
    "--preset",
    "paper",
    "--dim",
    "16",
    "--units",
    "16",
    "--word-dim",
    "12",
    "--batch-size",
    "20",
    "--epochs",
    "15",
]
SMALL += ["--optimizer", "adam", "--learning-rate", "0.01"]


def neighbors(sentence):
    """A parser for want of one: every word depends on the next."""
    words = sentence.lower().split()
    return [(one, other, "det" if one == "a" else "conj") for one, other in itertools.pairwise(words)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    write_tiny_prepared(folder / "prepared", {"train": 60, "val": 20})
    return folder


def test_each_learns_and_all_stand_in_one_table(folder, monkeypatch, capsys):
    monkeypatch.setattr(dependency_edges, "spacy_parser", lambda: neighbors)
    for name in ("words", "bigrams", "trees"):
        options = [*SMALL, "--sentences", name, "--out", str(folder / name)]
        assert main(["train-alignment", str(folder / "prepared"), *options]) == 0
        losses = [row["loss"] for row in Run(folder / name).log]
        assert losses[-1] < 0.9 * losses[0], name
    names = [str(folder / name) for name in ("words", "bigrams", "trees")]
    boxes = ["--boxes", str(folder / "prepared/phrase_boxes.csv"), "--out", str(folder / "tables")]
    assert main(["evaluate", str(folder / "prepared"), "--split", "val", "--alignment", *names, *boxes]) == 0
    tables = json.loads((folder / "tables/tables.json").read_text())
    retrieval = {row[0]: row[1] for row in tables[0]["rows"]}
    assert list(retrieval) == ["words", "bigrams", "trees"]
    best = max(Run(folder / "trees").log, key=lambda row: row["recall_sum"])
    assert retrieval["trees"] == pytest.approx(best["annotation_r1"])  # measured on edges, as it was trained
    grounded = [row[0] for row in tables[1]["rows"]]
    assert "words" in grounded and "trees" not in grounded
    lengths = [table["title"] for table in tables if table["name"] == "word_magnitudes"]
    assert lengths == ["Mean length of word vectors, words", "Mean length of word vectors, bigrams"]


def test_without_the_parser_the_extra_is_named(folder, capsys, monkeypatch):
    monkeypatch.setattr(dependency_edges, "MODEL", "no_such_parser")
    options = [*SMALL, "--sentences", "trees", "--out", str(folder / "none")]
    assert main(["train-alignment", str(folder / "prepared"), *options]) == 2
    assert "keras_imagesent[trees]" in capsys.readouterr().err
