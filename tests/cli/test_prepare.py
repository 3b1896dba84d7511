"""`imagesent prepare` as a person types it, right and wrong."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
from keras import layers
from PIL import Image

from keras_imagesent.cli.main import main
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.regions import prepare as module
from keras_imagesent.regions.detectors.grid import GRID
from tests.regions.tiny_photos import SIZE, write_photos

REMARKS = r"photo/s\]|are few|stands under"  # of a run that goes on; twelve photos with one caption are odd


def tiny_backbone(vector=False):
    pixels = keras.Input((SIZE, SIZE, 3), name="pixels")
    x = layers.Conv2D(5, 8, strides=8, activation="relu", name="conv")(pixels)
    return keras.Model(pixels, layers.GlobalMaxPooling2D(name="pool")(x) if vector else x)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = write_photos(tmp_path_factory.mktemp("photos"), 12)
    keras.utils.set_random_seed(0)
    tiny_backbone().save(folder / "map.keras")
    tiny_backbone(vector=True).save(folder / "vector.keras")
    return folder


def typed(source, out, *more):
    """The shortest right command, with more behind it."""
    command = f"prepare {source}/dataset.json --photos {source}/images --out {out} --threshold 2"
    command += f" --backbone {source}/map.keras --detector grid --image-size {SIZE}"
    return [*command.split(), *more]


def test_the_right_command(source, tmp_path, capsys):
    out = tmp_path / "prepared"
    assert main(typed(source, out, "--set-aside", "2")) == 0
    name, _, splits = capsys.readouterr().out.rstrip().partition(": ")
    assert name == str(out) and set(splits.split(", ")) == {"train 6 photos", "tune 2 photos", "val 4 photos"}
    photos = Prepared.open(out).load("tune")
    assert photos.region_features.shape == (2, 20, 5)
    np.testing.assert_array_equal(photos.boxes[0, 1:], GRID)
    assert all(problem.get("used") for problem in json.loads((out / "problems.json").read_text()))  # nothing set aside
    assert main(typed(source, out, "--set-aside", "2")) == 0  # again: nothing left to do
    assert main(typed(source, out)) == 2
    assert "made with other settings (set_aside 2, now 0)" in capsys.readouterr().err


SMALL_SHARDS = """
import sys
from keras_imagesent.cli.main import main
from keras_imagesent.regions import prepare
prepare.PHOTOS_PER_SHARD, prepare.BATCH_SIZE = 24, 4
sys.exit(main(sys.argv[1:]))
"""


def start(command):
    """`imagesent ...` with small shards, in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", SMALL_SHARDS, *command], stderr=subprocess.DEVNULL)


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_several_data_sets_in_one_folder(source, tmp_path, capsys):
    (tmp_path / "more").mkdir()
    for path in (source / "images").iterdir():
        pixels = 255 - np.asarray(Image.open(path).convert("RGB"))
        Image.fromarray(pixels).save(tmp_path / "more" / f"more_{path.stem}.png")
    names = sorted(path.name for path in (tmp_path / "more").iterdir())
    rows = [f"{name},a zebra number {n},{'test' if n < 3 else 'train'}" for n, name in enumerate(names)]
    (tmp_path / "more.csv").write_text("filename,caption,split\n" + "\n".join(rows))
    out = tmp_path / "prepared"
    command = typed(source, out, "--set-aside", "2")
    command[1:2] = [f"scenes={source}/dataset.json", f"zoo={tmp_path}/more.csv"]
    command[command.index("--photos") + 1 : command.index("--out")] = [
        f"scenes={source}/images",
        f"zoo={tmp_path}/more",
    ]
    assert main(command) == 0
    prepared = Prepared.open(out)
    assert sorted(prepared.load("tune").data_sets) == ["scenes", "scenes", "zoo", "zoo"]
    test = prepared.load("test")
    assert test.data_sets == ["zoo"] * 3 and "zebra" in prepared.vocabulary.words
    train = prepared.load("train")
    zoo = train.of_set("zoo")
    assert zoo.filenames == [name for name in train.filenames if name.startswith("more_")]
    assert len(zoo.captions) == len(zoo.region_features) == len(names) - 3 - 2

    command[command.index("--photos") + 1 : command.index("--out")] = [f"scenes={source}/images"]
    assert main(command) == 2
    assert "--photos needs one folder for each data set (scenes, zoo)" in capsys.readouterr().err


def test_photos_that_only_measure_a_model_take_its_words(source, tmp_path):
    assert main(typed(source, tmp_path / "run")) == 0
    name = min(path.name for path in (source / "images").iterdir())
    (tmp_path / "test.csv").write_text(f"filename,caption,split\n{name},a zebra and a circle,test\n")
    command = typed(source, tmp_path / "prepared", "--words-of", str(tmp_path / "run"))
    command[1] = f"{tmp_path}/test.csv"
    assert main(command) == 0
    prepared = Prepared.open(tmp_path / "prepared")
    assert prepared.splits == ["test"]
    assert prepared.vocabulary.words == Prepared.open(tmp_path / "run").vocabulary.words


def test_killed_in_the_middle_it_goes_on_and_the_bytes_are_those_of_an_unbroken_run(source, tmp_path, monkeypatch):
    photos = write_photos(tmp_path / "photos", 120)
    shutil.copy(source / "map.keras", photos)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    for parts in (2, 5):  # the second process goes on where the first was killed
        process = start(typed(photos, broken))
        while process.poll() is None and len(list(broken.glob(".*.parts/?????"))) < parts:
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert not (broken / "problems.json").exists()
    left = content(broken)
    assert any(".parts" in name for name in left)
    monkeypatch.setattr(module, "PHOTOS_PER_SHARD", 24)
    monkeypatch.setattr(module, "BATCH_SIZE", 4)
    assert main(typed(photos, broken)) == 0
    assert main(typed(photos, whole)) == 0
    assert content(broken) == content(whole)
    assert sum(name.endswith(".tfrecord") for name in content(whole)) == 4 + 2


def test_shares_of_the_work_are_together_the_whole(source, tmp_path, capsys):
    shared, whole = tmp_path / "shared", tmp_path / "whole"
    assert main(typed(source, shared, "--shard", "2/2")) == 0
    assert "1 of 2 shards belong to the other shares" in capsys.readouterr().err
    assert main(typed(source, shared, "--shard", "1/2")) == 0
    assert main(typed(source, whole)) == 0
    assert content(shared) == content(whole)


def test_boxes_of_a_file_and_crops(source, tmp_path, capsys):
    boxes = tmp_path / "boxes.csv"
    boxes.write_text("filename,x0,y0,x1,y1,score\n000.png,0,0,0.5,0.5,0.3\n000.png,0.5,0.5,1,1,0.9\n")
    for regions, backbone in (("pool", "map"), ("crop", "vector")):
        command = typed(source, tmp_path / regions, "--region-vectors", regions, "--detector", str(boxes))
        command[command.index("--backbone") + 1] = f"{source}/{backbone}.keras"
        assert main(command) == 0, capsys.readouterr().err
        photos = Prepared.open(tmp_path / regions).load("train")
        assert photos.region_mask.sum(axis=1).tolist() == [3] + [1] * 7
        np.testing.assert_allclose(photos.boxes[0, :3], [[0, 0, 1, 1], [0.5, 0.5, 1, 1], [0, 0, 0.5, 0.5]])
        np.testing.assert_allclose(photos.box_scores[0, :3], [1, 0.9, 0.3], rtol=1e-6)


def test_a_broken_photo_is_listed_and_the_rest_is_prepared(source, tmp_path, capsys):
    broken = shutil.copytree(source, tmp_path / "photos")
    (broken / "images" / "003.png").write_bytes(b"no photo")
    assert main(typed(broken, tmp_path / "out")) == 2
    assert "003.png" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["problems.json"]
    assert main(typed(broken, tmp_path / "out", "--max-broken", "0.2")) == 0
    problems = json.loads((tmp_path / "out" / "problems.json").read_text())
    assert [problem["item"] for problem in problems if not problem.get("used")] == ["003.png"]


@pytest.mark.parametrize(
    "more, message",
    [
        (["--photos", "nowhere"], "nowhere: no such file or folder (the photos)"),
        (["--set-aside", "8"], "cannot set aside 8 of 8 training photos"),
        (["--set-aside", "many"], "'many' is not a whole number"),
        (["--set-aside", "-1"], "--set-aside"),
        (["--max-broken", "1.5"], "'1.5' is not a share between 0 and 1"),
        (["--shard", "5/4"], "'5/4' is not a share of the work such as 1/4"),
        (["--shard", "1"], "'1' is not a share of the work such as 1/4"),
        (["--threshold", "99"], "no word occurs 99 times"),
        (["--backbone", "vgg17"], "no backbone is called 'vgg17'"),
        (["--backbone", "absent.keras"], "absent.keras is no .keras file"),
        (["--backbone", "efficientnet-lite0", "--image-size", "100"], "multiple of 32"),
        (["--image-size", "0"], "--image-size: 0 pixels are not from 32 to 2048"),
        (["--image-size", "99968"], "--image-size: 99968 pixels are not from 32 to 2048"),
        (["--out", "/dev/null/prepared"], "/dev/null: a file. Name a folder to write to"),
        (["--image-size", "64"], "map.keras takes 32 pixels: add --image-size 32"),
        (["--detector", "yolov9"], "no detector is called 'yolov9'. There are yolov4-tiny, grid"),
        (["--detector", "absent.csv"], "absent.csv: cannot be read as text"),
        (["--detector", "."], ".: not a SavedModel"),
        (["--detector-checkpoint", "ckpt-1"], "belong to Model Garden's detectors, not to grid"),
        (["--region-vectors", "all"], "invalid choice: 'all'"),
        (["--colour", "red"], "unrecognized arguments: --colour red"),
    ],
)
def test_mistakes_end_in_one_or_two_lines(source, tmp_path, capsys, more, message):
    out = tmp_path / "out"
    try:
        status = main(typed(source, out, *more))
    except SystemExit as exit:
        status = exit.code
    error = [line for line in capsys.readouterr().err.splitlines() if not re.search(REMARKS, line)]
    assert status == 2
    assert message in " ".join(error)
    assert len(error) <= 2
    assert not out.exists()


def test_other_mistakes(source, tmp_path, capsys):
    command = typed(source, tmp_path / "out")
    assert main(["prepare", "absent.json", *command[2:]]) == 2
    assert "absent.json: no such file or folder (the data set)" in capsys.readouterr().err
    vector = [*command, "--backbone", f"{source}/vector.keras"]
    assert main(vector) == 2
    assert "gives one vector for a picture, not a map to pool: add --region-vectors crop" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(typed(source, tmp_path / "file")) == 2
    assert "file: a file. Name a folder to write to" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all I have")
    assert main(typed(source, tmp_path / "mine")) == 2
    assert "not empty and not a prepared folder" in capsys.readouterr().err
