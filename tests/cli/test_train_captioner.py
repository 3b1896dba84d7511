"""`imagesent train-captioner` as a person would type it, and what a person gets wrong."""

import csv
import json

import keras
import numpy as np
import pytest

from keras_imagesent.captioning.alarms import find_alarms
from keras_imagesent.cli.main import main
from keras_imagesent.data.prepared import Prepared
from tests.tiny_prepared import THINGS, write_tiny_prepared

SMALL = ["--units", "48", "--word-dim", "16", "--batch-size", "20", "--learning-rate", "0.02", "--dropout", "0.1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captioner")
    write_tiny_prepared(folder / "prepared")
    with open(folder / "pairs.jsonl", "w") as pairs:
        prepared_captions = read_captions(folder / "prepared")
        for filename, captions in prepared_captions:
            words = [word for word in captions[0].split() if word in THINGS]
            for region, word in enumerate(words, start=1):
                pairs.write(json.dumps({"filename": filename, "region": region, "snippet": f"a {word}"}) + "\n")
    command = ["train-captioner", str(folder / "prepared"), "--out", str(folder / "run"), *SMALL]
    assert main([*command, "--epochs", "12", "--decay", "0.9", "--patience", "12"]) == 0
    return folder


def read_captions(prepared):
    photos = Prepared.open(prepared).load("train")
    return list(zip(photos.filenames, photos.captions, strict=True))


def log_of(run):
    with open(run / "log.csv") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_learns_and_leaves_a_whole_run(folder):
    rows = log_of(folder / "run")
    assert rows[-1]["loss"] < rows[0]["loss"] / 2
    assert max(row["cider"] for row in rows) > 2
    assert rows[-1]["perplexity_shuffled"] > 1.5 * rows[-1]["perplexity"]
    settings = json.loads((folder / "run" / "settings.json").read_text())
    assert settings["cell"] == "lstm" and settings["units"] == 48 and settings["monitor"] == "cider"
    centring = keras.saving.load_model(folder / "run" / "model.keras").get_layer("image_encoder").get_layer("centring")
    frames = Prepared.open(folder / "prepared").load("train").region_features[:, 0].astype("f4")
    np.testing.assert_allclose(centring.mean, frames.mean(axis=0), atol=1e-3)
    assert float(centring.scale) == pytest.approx(1 / (frames - frames.mean(axis=0)).std(), rel=1e-3)
    names = {path.name for path in (folder / "run").iterdir()}
    assert names >= {"model.keras", "vocabulary.json", "settings.json", "log.csv", "best", "tensorboard", "state"}


def test_regions_with_the_whole_frame_beside_say_what_the_region_shows(folder, capsys):
    command = ["train-captioner", str(folder / "prepared"), "--pairs", str(folder / "pairs.jsonl"), "--frame", *SMALL]
    assert main([*command, "--out", str(folder / "regions"), "--epochs", "8", "--cell", "relu", "--decay", "0.9"]) == 0
    from keras_imagesent.captioning.caption_photos import Searcher

    prepared = Prepared.open(folder / "prepared")
    photos = prepared.load("val")
    model = keras.saving.load_model(folder / "regions" / "model.keras")
    features = np.concatenate([photos.region_features[:, 1], photos.region_features[:, 0]], axis=1)
    token_ids, _ = Searcher(model)(features)
    said = [prepared.vocabulary.decode(ids[0]) for ids in token_ids]
    wanted = ["a " + next(w for w in captions[0].split() if w in THINGS) for captions in photos.captions]
    assert np.mean([one == other for one, other in zip(said, wanted, strict=True)]) > 0.8


def test_self_critical_training_raises_cider(folder):
    """From a captioner that has only begun to learn, so that there is something to raise."""
    command = ["train-captioner", str(folder / "prepared"), *SMALL]
    assert main([*command, "--out", str(folder / "begun"), "--epochs", "4"]) == 0
    before = max(row["cider"] for row in log_of(folder / "begun"))
    command += ["--self-critical", "--start-from", str(folder / "begun"), "--learning-rate", "0.002", "--dropout", "0"]
    assert main([*command, "--out", str(folder / "critical"), "--epochs", "5", "--patience", "5"]) == 0
    assert max(row["cider"] for row in log_of(folder / "critical")) > before + 0.2


@pytest.mark.parametrize(
    ("change", "alarm"),
    [
        ({}, None),
        ({"distinct_captions": 1}, "every photo gets the same caption"),
        ({"distinct_captions": 5}, "only 5 different captions for 500 photos"),
        ({"perplexity_shuffled": 15.1}, "the captions ignore the photo"),
        ({"loss": 5.0}, "the loss explodes: it was 3 and is 5"),
    ],
)
def test_alarms_name_the_classic_failures(change, alarm):
    good = {"loss": 3.0, "perplexity": 15.0, "perplexity_shuffled": 25.0, "distinct_captions": 200, "photos": 500}
    alarms = find_alarms([good, {**good, **change}])
    assert len(alarms) == (alarm is not None)
    assert alarm is None or alarms[0].startswith(alarm)


def test_settings_of_a_folder_are_kept(folder, capsys):
    command = ["train-captioner", str(folder / "prepared"), "--out", str(folder / "run"), *SMALL, "--decay", "0.9"]
    assert main([*command, "--cell", "gru", "--epochs", "12", "--patience", "12"]) == 2
    assert "cell was 'lstm' and is 'gru'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--both"], "both and validation_pairs need pairs"),
        (["--self-critical"], "name its run as start_from"),
        (["--dropout", "1"], "dropout is a share"),
        (["--units", "0"], "units must be above 0"),
        (["--pairs", "nothing.jsonl"], "no file nothing.jsonl"),
        (["--validation", "test"], "has no split test"),
        (["--start-from", "nowhere"], "no captioner model at nowhere"),
    ],
)
def test_mistakes_end_in_a_line(folder, tmp_path, capsys, wrong, message):
    assert main(["train-captioner", str(folder / "prepared"), "--out", str(tmp_path / "new"), *SMALL, *wrong]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (tmp_path / "new").exists()


def test_pairs_that_are_no_pairs_are_told_with_their_line(folder, tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text('{"filename": "train_0.jpg", "region": 1, "snippet": "a dog"}\nnonsense\n')
    command = ["train-captioner", str(folder / "prepared"), "--out", str(tmp_path / "new"), *SMALL]
    assert main([*command, "--pairs", str(tmp_path / "bad.jsonl")]) == 2
    assert "bad.jsonl, line 2" in capsys.readouterr().err
