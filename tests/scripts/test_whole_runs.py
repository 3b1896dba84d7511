"""The scripts that make what we ship, run whole: a few scenes, tiny networks, a folder whose name has a blank.

Every `imagesent` command of a script is run here, in the test's own process, so that TensorFlow starts once, with flags
behind it that make it small.
"""

import contextlib
import json
import os
import runpy
import shutil
import socketserver
import subprocess
import sys
import threading

import numpy as np
import pytest

from keras_imagesent import shipped
from keras_imagesent.cli.main import main
from keras_imagesent.data.scenes import make_scenes
from keras_imagesent.data.vocabulary import Vocabulary
from tests.conftest import ROOT
from tests.serving.tiny import tiny_backbone, tiny_detector

# Stands for `python` in the scripts: hands its arguments to the test and ends as the test says.
PYTHON = """
import json, os, socket, sys
with socket.create_connection(("127.0.0.1", {port})) as door:
    door.sendall(json.dumps([os.getcwd(), *sys.argv[1:]]).encode() + b"\\n")
    sys.exit(int(door.makefile().readline()))
"""


class Small:
    """What is behind each verb to make it small."""

    def __init__(self, tree):
        words = tree / "vectors.txt"
        words.write_text("a 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8\nred 0.8 0.7 0.6 0.5 0.4 0.3 0.2 0.1\n")
        networks = [f"--{name}={tree}/saved_models/{name}.keras" for name in ("backbone", "detector")]
        self.words = str(words)
        self.flags = {
            "scenes": ["--number", "24"],
            "prepare": ["--set-aside", "4", "--threshold", "1", "--image-size", "64", *networks],
            "train-alignment": ["--dim", "8", "--units", "8", "--word-dim", "8", "--epochs", "1"],
            "train-captioner": ["--units", "8", "--word-dim", "8", "--epochs", "1"],
            "evaluate": ["--beams", "1"],
            "export": ["--max-length", "5"],
        }

    def __call__(self, command):
        return [self.words if word == "glove" else word for word in command] + self.flags.get(command[0], [])


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A clone in small: the scripts, tiny networks for the shipped ones, scenes for Flickr8k."""
    tree = tmp_path_factory.mktemp("a folder") / "with blanks"
    (tree / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", tree / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "keras_imagesent").symlink_to(ROOT / "keras_imagesent")
    (tree / "saved_models").mkdir()
    tiny_backbone().save(tree / "saved_models/backbone.keras")
    tiny_detector().save(tree / "saved_models/detector.keras")
    data = tree.parent / "shared/flickr8k"
    make_scenes(data, 24)
    (data / "phrase_boxes.csv").rename(data / "phrase_boxes_dev.csv")
    return tree


@pytest.fixture(scope="module")
def run_script(tree):
    """Runs a script of the tree; its commands come to this process one by one."""
    small, asked = Small(tree), []

    class Door(socketserver.StreamRequestHandler):
        def handle(self):
            folder, module, package, *command = json.loads(self.rfile.readline())
            assert (module, package) == ("-m", "keras_imagesent")
            asked.append(command[0])
            with contextlib.chdir(folder):
                status = main(small(command))
            self.wfile.write(f"{status}\n".encode())

    with pytest.MonkeyPatch.context() as patch, socketserver.TCPServer(("127.0.0.1", 0), Door) as server:
        patch.setattr(shipped, "_HERE", tree / "keras_imagesent")
        (tree / "bin/client.py").write_text(PYTHON.format(port=server.server_address[1]))
        (tree / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tree}/bin/client.py" "$@"\n')
        (tree / "bin/python").chmod(0o755)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def run(name, *arguments):
            asked.clear()
            path = f"{tree}/bin{os.pathsep}{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                [tree / "scripts" / name, *arguments],
                cwd=tree.parent,
                env={**os.environ, "PATH": path, "PYTHONPATH": str(tree)},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, f"{name}: {asked}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
            return list(asked)

        yield run
        server.shutdown()


@pytest.fixture(scope="module")
def runs(tree, run_script):
    run_script("flickr8k")
    return tree / "runs/flickr8k"


def test_flickr8k_makes_models_tables_exports_and_the_report(runs, run_script):
    for name in ("alignment", "captioner", "region-captioner", "alignment-paper", "captioner-paper"):
        assert (runs / name / "model.keras").is_file(), name
    tables = {table["name"] for table in json.loads((runs / "evaluation/tables.json").read_text())}
    assert tables >= {"retrieval", "grounding", "captions", "reranking", "regions"}
    assert (runs / "exported/imagesent/1/saved_model.pb").is_file() and (runs / "report/index.html").is_file()
    page = (runs / "RESULTS.md").read_text()
    assert "| paper, its 1 best epochs |" in page and "### Captions of regions" in page
    assert run_script("flickr8k") == []  # nothing is done twice


def test_ship_models_writes_every_form_of_the_runs(tree, runs, capsys, monkeypatch):
    parts = [str(runs / name) for name in ("alignment", "captioner", "region-captioner")]
    script = tree / "scripts/ship_models"
    monkeypatch.setattr(sys, "argv", [str(script), "runs", *parts])
    runpy.run_path(str(script), run_name="__main__")
    shipped_files = tree / "saved_models"
    for file in ("onnx/caption_pixels.onnx", "litert/caption_pixels-float16.tflite", "imagesent/1/saved_model.pb"):
        assert (shipped_files / file).is_file(), file
    for part in ("alignment", "captioner", "region_captioner"):
        settings = json.loads((shipped_files / part / "settings.json").read_text())
        assert str(tree) not in json.dumps(settings) and settings["seed"] == 0  # no path of the machine that trained
        assert json.loads((shipped_files / part / "best/scores.json").read_text())["best"][0]["scores"]
        words = Vocabulary.load(shipped_files / part / "vocabulary.json").words
        assert words == Vocabulary.load(runs / part.replace("_", "-") / "vocabulary.json").words
    import keras

    for weight in keras.saving.load_model(shipped_files / "captioner/model.keras", compile=False).weights:
        np.testing.assert_array_equal(weight, np.asarray(weight).astype("f2").astype("f4"))


def test_ablations_add_their_tables(runs, run_script):
    asked = run_script("ablations")
    assert asked.count("train-alignment") >= 9 and asked.count("evaluate") == 3
    page = (runs / "RESULTS.md").read_text()
    assert "### Retrieval, one epoch" in page and "all positive regions (Eq. 7)" in page


def test_scenes_measure_their_captions(tree, run_script):
    assert run_script("scenes").count("evaluate") == 2
    tables = json.loads((tree / "runs/scenes/tables/captions/tables.json").read_text())
    assert "truth" in {table["name"] for table in tables}
