"""The examples in the docstrings of the public names do what they say, in a folder with small models and scenes."""

import doctest
import importlib
import inspect
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import keras_imagesent as ki


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the examples may use: `ki`, `model`, and a folder with scenes, a prepared folder, runs and `dog.jpg`."""
    from tests.tiny_pipeline import write_pipeline

    folder = tmp_path_factory.mktemp("examples")
    model = write_pipeline(folder, scenes=40)
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "dog.jpg")
    (folder / "prepared").rename(folder / "old")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield {"ki": ki, "np": np, "model": ki.ImageSent(model)}


# In the order of a person's work: what one writes, a later one reads.
EXAMPLES = [
    "Caption", "Region", "Phrase", "prepare", "Prepared", "load", "ImageSent", "build_alignment", "build_captioner",
    "train_alignment", "train_captioner", "Run", "align_split", "evaluate", "export", "Collection",
]  # fmt: skip
MODULES = ["data.photo_bytes", "presets"]


def test_every_public_name_has_an_example_that_runs():
    assert {*EXAMPLES, "InputError"} == set(ki.__all__)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(names, name):
    tried = run_examples(getattr(ki, name), name, names)
    assert tried > 0, f"{name} has no example"


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(names, module):
    module = importlib.import_module(f"keras_imagesent.{module}")
    assert run_examples(module, module.__name__, {**names, **vars(module)}) > 0


def test_the_users_own_script_takes_a_folder_just_prepared(names, monkeypatch, capsys):
    folder = Path("mine")
    ki.prepare(
        "scenes/dataset.json", "scenes/images", folder, tune=4, threshold=1, image_size=64, backbone="backbone.keras",
        detector="detector.keras",
    )  # fmt: skip
    monkeypatch.setattr("sys.argv", ["train", str(folder), "own.keras"])
    runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "train_alignment_in_python.py"))
    assert capsys.readouterr().out.count("'recall_sum'") == 5
    assert ki.Run("own.keras", "alignment").model.get_layer("scores").score == "max_sim"


def run_examples(thing, name, names):
    """Runs the examples of a function, or of a class and its methods; how many lines there were."""
    tried = 0
    # `thing` may be known by another name in its module, so the finder is told the module
    module = thing if inspect.ismodule(thing) else inspect.getmodule(thing)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for test in doctest.DocTestFinder().find(thing, name, module, globs=dict(names)):
        lines = []
        result = doctest.DocTestRunner(optionflags=flags).run(test, out=lines.append)
        assert result.failed == 0, "".join(lines)
        tried += result.attempted
    return tried
