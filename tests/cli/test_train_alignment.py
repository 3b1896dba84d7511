"""`imagesent train-alignment` and `align` as a person would type them; a killed run; what a person gets wrong."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_imagesent.alignment.choose_beta import choose_beta
from keras_imagesent.alignment.snippets import joining_words, opening_words, snippets
from keras_imagesent.cli.main import main
from keras_imagesent.evaluation.alignment_tables import (
    average_checkpoints,
    grounding_table,
    magnitude_tables,
    read_items,
    retrieval_table,
)
from keras_imagesent.model.run import Run
from tests.tiny_prepared import PLACES, THINGS, write_tiny_prepared

SMALL = ["--dim", "24", "--units", "16", "--word-dim", "12", "--batch-size", "20", "--learning-rate", "0.02"]
SMALL += ["--validation", "val", "--dropout", "0.1", "--preset", "paper", "--optimizer", "adam", "--schedule", "cosine"]
SMALL += ["--no-unit"]  # the tiny folder's patch of noise is short; at unit length it would be as loud as a thing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alignment")
    write_tiny_prepared(folder / "prepared")
    command = ["train-alignment", str(folder / "prepared"), "--out", str(folder / "run"), *SMALL, "--epochs", "12"]
    assert main(command) == 0
    return folder


@pytest.fixture(scope="module")
def prepared(folder):
    from keras_imagesent.data.prepared import Prepared

    return Prepared.open(folder / "prepared")


def log_of(run):
    with open(run / "log.csv") as file:
        return [{k: float(v) for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_learns_and_leaves_a_whole_run(folder, prepared):
    rows = log_of(folder / "run")
    assert rows[-1]["loss"] < rows[0]["loss"] / 3
    assert max(row["search_r10"] for row in rows) > 90
    settings = json.loads((folder / "run" / "settings.json").read_text())
    assert settings["dim"] == 24 and settings["preset"] == "paper" and settings["seed"] == 0
    names = {path.name for path in (folder / "run").iterdir()}
    assert names >= {"model.keras", "vocabulary.json", "settings.json", "log.csv", "best", "tensorboard", "state"}
    assert len(list((folder / "run" / "best").glob("*.keras"))) == 5
    encoder = Run(folder / "run").model.get_layer("region_encoder")
    assert encoder.get_layer("feature_dropout").rate == 0.1 and encoder.get_layer("region_projection").units == 24
    mean = np.asarray(encoder.get_layer("centre").mean)
    photos = prepared.load("train")
    np.testing.assert_allclose(mean, photos.region_features.astype("f4").mean(axis=(0, 1)), atol=1e-3)


def test_a_killed_run_goes_on_with_the_same_losses(folder):
    command = [sys.executable, "-m", "keras_imagesent", "train-alignment", str(folder / "prepared"), *SMALL]
    command += ["--epochs", "12", "--save-minutes", "0", "--out", str(folder / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log, state = folder / "killed" / "log.csv", folder / "killed" / "state" / "state.npz"
    while process.poll() is None and not (log.exists() and len(log.read_text().splitlines()) >= 3):
        time.sleep(0.02)
    written = state.stat().st_mtime_ns
    while process.poll() is None and state.stat().st_mtime_ns == written:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(log_of(folder / "killed")) < 12, "the run had ended before it was killed"
    assert main([*command[3:-1], str(folder / "killed")]) == 0
    whole = log_of(folder / "run")
    for ours, theirs in zip(log_of(folder / "killed"), whole, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)


def test_learns_from_what_the_detector_took_the_regions_for(tmp_path, capsys):
    write_tiny_prepared(tmp_path / "prepared", named=True)
    command = [
        "train-alignment",
        str(tmp_path / "prepared"),
        *SMALL,
        "--epochs",
        "20",
        "--patience",
        "20",
        "--seed",
        "1",
        "--out",
    ]
    assert main([*command, str(tmp_path / "named"), "--classes"]) == 0
    assert Run(tmp_path / "named").model.input["class_scores"].shape == (None, 4, len(THINGS))
    assert max(row["search_r10"] for row in log_of(tmp_path / "named")) > 90
    assert main([*command, str(tmp_path / "blind")]) == 0  # as the paper: the vectors alone, and here they say nothing
    assert "class_scores" not in Run(tmp_path / "blind").model.input
    assert max(row["search_r10"] for row in log_of(tmp_path / "blind")) < 70
    phrases = tmp_path / "phrases.jsonl"
    assert (
        main(["align", str(tmp_path / "prepared"), "--alignment", str(tmp_path / "named"), "--out", str(phrases)]) == 0
    )
    assert "doesn't match the expected structure" not in capsys.readouterr().err


def test_a_run_starts_from_another(folder):
    folders = [str(folder / "prepared"), "--start-from", str(folder / "run"), "--out", str(folder / "more")]
    assert main(["train-alignment", *folders, *SMALL, "--epochs", "1"]) == 0
    assert log_of(folder / "more")[0]["loss"] < log_of(folder / "run")[0]["loss"] / 2


def test_phrases_and_pairs_of_a_split(folder, capsys):
    out, pairs = folder / "phrases.jsonl", folder / "pairs.jsonl"
    command = ["align", str(folder / "prepared"), "--alignment", str(folder / "run"), "--split", "val"]
    assert main([*command, "--out", str(out), "--pairs", str(pairs), "--beta", "0"]) == 0
    assert "40 sentences" in capsys.readouterr().out
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    right = []
    for line in lines:
        words = line["sentence"].split()
        assert not any("zzz" in phrase["words"] for phrase in line["phrases"])  # outside the vocabulary, at the end
        for phrase in line["phrases"]:
            assert phrase["words"] == " ".join(words[phrase["first"] : phrase["last"] + 1])
            assert phrase["box"] == pytest.approx(PLACES[phrase["region"]].tolist(), abs=1e-4)
        of_word = {w: p["region"] for p in line["phrases"] for w in p["words"].split()}
        left, other = [word for word in words if word in THINGS][:: 1 if words[0] == "a" else -1]
        right += [of_word[left] == 1, of_word[other] == 2]
    assert np.mean(right) > 0.8
    found = [json.loads(line) for line in pairs.read_text().splitlines()]
    assert len(found) == sum(phrase["first"] < phrase["last"] for line in lines for phrase in line["phrases"])
    assert set(found[0]) == {"filename", "photo_id", "region", "box", "snippet", "score"}
    assert main([*command, "--out", str(out), "--beta", "1000"]) == 0
    assert all(len(json.loads(line)["phrases"]) == 1 for line in out.read_text().splitlines())


def test_snippets_name_one_thing_each_and_leave_nothing_open():
    captions = [["a dog", "a cat with a dog"] * 500, ["a rare kid runs"]]
    openers = opening_words(captions)
    assert openers == {"a", "cat", "with"}  # "rare" and "kid" were used too seldom to tell
    joiners = joining_words(captions, openers)
    assert joiners == {"cat", "with"}  # no sentence begins with them
    openers, joiners = {"a", "red", "with", "in"}, {"with", "in"}

    def cut(text, most):
        return [" ".join(part) for part in snippets(text.split(), openers, joiners, most)]

    assert cut("A dog with a red ball in a", 3) == ["A dog", "a red ball"]
    assert cut("A dog with a red ball in a", 5) == ["A dog", "a red ball"]
    assert cut("A dog with a red ball in a", 6) == ["A dog with a red ball"]
    assert cut("A dog with a red ball in a hat", 6) == ["A dog with a red ball", "a hat"]
    assert cut("with a", 6) == [] and cut("a kid", 6) == ["a kid"] and cut("kid in a hat", 2) == ["a hat"]
    assert cut("with a Dog, in the red", 2) == ["a Dog,"]
    assert cut("dogs chase many other dogs", 2) == ["dogs chase many other dogs"]  # nowhere to cut


def test_tables(folder, prepared):
    photos, run = prepared.load("val"), Run(folder / "run", "alignment")
    table = retrieval_table({"tiny": run}, photos, "val", "flickr8k", average=True, command="imagesent evaluate")
    assert [row[0] for row in table.rows] == ["tiny", "tiny, its 5 best epochs", "the paper's BRNN, Flickr8K test"]
    best = max(log_of(folder / "run"), key=lambda row: row["recall_sum"])
    assert table.rows[0][1] == pytest.approx(best["annotation_r1"])
    assert table.rows[1][1] == average_checkpoints(run, photos)["annotation_r1"]
    assert "20 photos, 40 sentences" in table.to_markdown() and " ± " in table.to_markdown()
    assert json.loads(table.to_json())["split"] == "val"

    items = read_items(folder / "prepared" / "phrase_boxes.csv")
    grounding = grounding_table({"tiny": run}, photos, items, "val")
    accuracy = {row[0]: row[1] for row in grounding.rows}
    assert accuracy["tiny"] > 80 and accuracy[f"tiny, MRF with beta {run.beta:g}"] > 60
    assert accuracy["whole frame"] == 0 and accuracy["random region"] == pytest.approx(25)
    assert accuracy["best region"] == 100 and accuracy["largest detector score"] == 0
    beta, found = choose_beta(run.model, photos, betas=(0.0, 0.2, 100.0))
    shares, lengths = ({beta: figures[n] for beta, figures in found.items()} for n in (0, 1))
    assert shares[beta] == max(shares.values()) and shares[100.0] < shares[0.0]
    assert 1 <= lengths[0.0] <= lengths[0.2] < lengths[100.0]
    assert run.beta == choose_beta(run.model, photos)[0]  # training chose it there, and kept it

    words, regions = magnitude_tables(run, photos, "val")
    smallest, largest = ([row[column] for row in words.rows] for column in (0, 2))
    assert smallest == sorted(smallest) and largest == sorted(largest, reverse=True) and smallest[0] < largest[0]
    assert regions.rows[0][2] >= regions.rows[-1][2] and len({row[0] for row in regions.rows}) == 20


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train-alignment", "nowhere", "--out", "x"], "nowhere: not a prepared folder"),
        (["train-alignment", "PREPARED", "--out", "x", "--validation", "test"], "has no split test"),
        (["train-alignment", "PREPARED", "--out", "x", "--dropout", "1"], "dropout is a share"),
        (["train-alignment", "PREPARED", "--out", "x", "--dim", "0"], "dim must be above 0"),
        (["train-alignment", "PREPARED", "--out", "x", "--frame-dim", "-1"], "frame_dim must be 0 or more"),
        (["train-alignment", "PREPARED", "--out", "x", "--score", "defrag"], "frame_dim must be 0"),
        (["train-alignment", "PREPARED", "--out", "x", "--start-from", "RUN"], "a run of another shape"),
        (["train-alignment", "PREPARED", "--out", "x", "--word-vectors", "none.txt"], "no word vectors at none.txt"),
        (["train-alignment", "PREPARED", "--out", "x", "--devices", "gpu:7"], "no device 'gpu:7' here"),
        (["train-alignment", "PREPARED", "--out", "RUN", "--dim", "25"], "holds a run with other settings"),
        (["align", "PREPARED", "--alignment", "RUN"], "say where to write"),
        (["align", "PREPARED", "--alignment", "nowhere", "--out", "x"], "no alignment model at nowhere"),
        (["align", "PREPARED", "--alignment", "RUN", "--out", "x", "--beta", "-1"], "--beta must be 0 or more"),
        (["align", "nothing.jpg", "a dog"], "neither a photo nor a prepared folder"),
    ],
)
def test_mistakes_end_in_one_line(folder, arguments, complaint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"PREPARED": str(folder / "prepared"), "RUN": str(folder / "run")}
    assert main([names.get(argument, argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error and len(error.strip().splitlines()) <= 2


def test_search_tries_and_takes_the_best(folder):
    out = folder / "searched"
    command = ["train-alignment", str(folder / "prepared"), "--out", str(out), *SMALL, "--epochs", "1", "--search", "2"]
    assert main([*command, "--search-epochs", "1"]) == 0
    results = json.loads((out / "search" / "results.json").read_text())
    best = max(results, key=lambda result: result["recall_sum"])
    settings = json.loads((out / "settings.json").read_text())
    assert len(results) == 2 and settings["learning_rate"] == best["learning_rate"]


def test_the_users_own_script(folder, prepared):
    script = Path(__file__).parents[2] / "scripts" / "train_alignment_in_python.py"
    command = [sys.executable, str(script), str(folder / "prepared"), str(folder / "own.keras")]
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(script.parents[1])}
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.count("'recall_sum'") == 5
    assert Run(folder / "own.keras", "alignment").model.get_layer("scores").score == "max_sim"
