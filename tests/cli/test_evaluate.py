"""`imagesent evaluate` as a person would type it, on models trained for a moment."""

import json

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.cli.main import main
from keras_imagesent.data.scenes import make_scenes
from tests.tiny_prepared import FEATURES, write_tiny_prepared


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import keras

    folder = tmp_path_factory.mktemp("evaluate")
    write_tiny_prepared(folder / "prepared", {"train": 60, "tune": 20, "val": 20})
    prepared, small = str(folder / "prepared"), ["--units", "16", "--word-dim", "12", "--batch-size", "20"]
    assert (
        main(["train-alignment", prepared, "--out", str(folder / "alignment"), *small, "--dim", "8", "--epochs", "1"])
        == 0
    )
    pairs = str(folder / "pairs.jsonl")
    assert main(["align", prepared, "--alignment", str(folder / "alignment"), "--pairs", pairs, "--beta", "0"]) == 0
    for name, more in {"captioner": [], "regions": ["--pairs", pairs, "--frame"]}.items():
        command = ["train-captioner", prepared, "--out", str(folder / name), *small, *more]
        assert main([*command, "--epochs", "2", "--learning-rate", "0.02"]) == 0
    (folder / "photos").mkdir()
    for n in range(20):
        pixels = np.random.default_rng(n).integers(0, 255, (30, 40, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"val_{n}.jpg")
    pixels = keras.Input((32, 32, 3))
    keras.Model(pixels, keras.layers.Conv2D(FEATURES, 3, 8)(pixels)).save(folder / "backbone.keras")
    return folder


def test_every_table_is_printed_and_written(folder, capsys):
    command = ["evaluate", str(folder / "prepared"), "--split", "val", "--alignment", str(folder / "alignment")]
    command += ["--captioner", f"best={folder / 'captioner'}", "--average", "--beams", "1", "2", "--paper", "Flickr8K"]
    command += ["--region-captioner", str(folder / "regions"), "--photos", str(folder / "photos")]
    command += ["--phrase-boxes", str(folder / "prepared" / "phrase_boxes.csv"), "--pairs", str(folder / "pairs.jsonl")]
    assert main([*command, "--backbone", str(folder / "backbone.keras"), "--out", str(folder / "tables")]) == 0
    printed = capsys.readouterr().out
    tables = {table["name"]: table for table in json.loads((folder / "tables" / "tables.json").read_text())}
    assert set(tables) == {"retrieval", "grounding", "captions", "beams", "reranking", "regions", "betas"}
    assert all(f"### {table['title']}" in printed for table in tables.values())
    assert (folder / "tables" / "tables.md").read_text().count("### ") == 7
    captions = {row[0]: row[1:] for row in tables["captions"]["rows"]}
    assert next(iter(captions)).startswith("best, beam 3")
    assert captions["the paper, Flickr8K test"][:4] == [57.9, 38.3, 24.5, 16.0]
    assert len(captions["best, its 2 best epochs"][0]) == 2  # mean and standard deviation
    assert captions["nearest photo's caption"][0] > 40
    assert [row[0] for row in tables["beams"]["rows"]][:3] == [
        "best, beam 1",
        "best, beam 2, length penalty 0",
        "best, beam 2, length penalty 0.7",
    ]
    regions = [row[0] for row in tables["regions"]["rows"]]
    assert regions[:3] == [
        "region model, beam 3",
        "whole-frame model fed regions, beam 3",
        "best training snippet by the alignment",
    ]
    assert "Weights chosen by CIDEr on photos set aside (5 best: 0: " in tables["reranking"]["note"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--split", "val"], "holds vectors of 16 numbers"),
        (["--captioner", "nowhere"], "no run at nowhere"),
        (["--region-captioner", "run", "--phrase-boxes", "boxes.csv"], "say where the photos are"),
        (["--captioner", "{}/captioner", "--split", "dev"], "no split 'dev'"),
        (["--captioner", "{}/captioner", "{}/captioner"], "two runs are called captioner"),
    ],
)
def test_mistakes_end_in_a_line(folder, capsys, wrong, message):
    assert main(["evaluate", str(folder / "prepared"), *(text.format(folder) for text in wrong)]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_each_data_set_is_measured_by_itself(folder, tmp_path, capsys):
    """Beside the paper's row where the set is one of the paper's; human boxes only where there are some."""
    photos = {"train": 60, "tune": 20, "val": 40}
    write_tiny_prepared(tmp_path / "prepared", photos, sets=["COCO", "scenes"])
    boxes = (tmp_path / "prepared/phrase_boxes.csv").read_text().splitlines()
    odd = [line for line in boxes if line.startswith("val") and int(line.split(".")[0].split("_")[1]) % 2]
    (tmp_path / "boxes.csv").write_text("\n".join([boxes[0], *odd]) + "\n")
    command = ["evaluate", str(tmp_path / "prepared"), "--split", "val", "--alignment", str(folder / "alignment")]
    command += ["--captioner", f"best={folder / 'captioner'}", "--beams", "1", "--boxes", str(tmp_path / "boxes.csv")]
    assert main([*command, "--out", str(tmp_path / "first")]) == 0
    tables = {(t["name"], t["data_set"]): t for t in json.loads((tmp_path / "first/tables.json").read_text())}
    names = ("retrieval", "captions", "beams", "reranking")
    expected = {(name, of_set) for name in names for of_set in ("COCO", "scenes")}
    assert set(tables) == expected | {("grounding", "scenes"), ("betas", "")}
    retrieval = tables["retrieval", "COCO"]
    assert retrieval["rows"][-1][0] == "the paper's BRNN, MSCOCO 1K test" and "20 photos" in retrieval["note"]
    assert "20 photos are not the paper's 1,000." in retrieval["note"]
    assert [row[0] for row in tables["captions", "COCO"]["rows"]][-1] == "the paper, MSCOCO test"
    theirs = [row[0] for (_, of_set), table in tables.items() if of_set == "scenes" for row in table["rows"]]
    assert theirs and not any("paper" in name for name in theirs)
    assert "### Retrieval, scenes" in capsys.readouterr().out
    assert main([*command, "--subset", "7", "--out", str(tmp_path / "few")]) == 0
    few = json.loads((tmp_path / "few/tables.json").read_text())[0]
    assert few["note"].startswith("7 photos, 14 sentences")


def test_a_data_sets_own_file_and_the_shipped_models_are_enough(tmp_path, capsys):
    make_scenes(tmp_path / "scenes", 12)
    command = ["evaluate", str(tmp_path / "scenes/dataset.json"), "--photos", str(tmp_path / "scenes/images")]
    command += ["--split", "val", "--beams", "1", "--phrase-boxes", str(tmp_path / "scenes/phrase_boxes.csv")]
    assert main([*command, "--out", str(tmp_path / "tables")]) == 0
    tables = {table["name"]: table for table in json.loads((tmp_path / "tables/tables.json").read_text())}
    assert {"retrieval", "grounding", "captions", "regions"} <= set(tables)
    assert [row[0] for row in tables["retrieval"]["rows"]] == ["shipped"]  # scenes are none of the paper's sets
    assert tables["retrieval"]["rows"][0][1] > 0  # of two photos one is described best by its own sentence
    prepared = tmp_path / "tables/dataset.prepared"
    before = {path.name: path.stat().st_mtime_ns for path in prepared.glob("*.tfrecord*")}
    assert before and main([*command, "--out", str(tmp_path / "tables")]) == 0  # a second time nothing is extracted
    assert {path.name: path.stat().st_mtime_ns for path in prepared.glob("*.tfrecord*")} == before

    assert main(["evaluate", str(tmp_path / "scenes/dataset.json")]) == 2
    assert "say where its photos are with --photos" in capsys.readouterr().err
