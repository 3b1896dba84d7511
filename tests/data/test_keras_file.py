"""Model and state files from a stranger, or damaged: nothing in them runs, and what is wrong is said in one line."""

import io
import json
import pickle
import zipfile

import keras
import numpy as np
import pytest

from keras_imagesent.data.keras_file import load_keras_file
from keras_imagesent.errors import InputError
from keras_imagesent.training.state import read_progress, restore_state, write_state
from tests.broken import TIMES, break_content


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="dense")])
    path = tmp_path_factory.mktemp("model") / "model.keras"
    model.save(path)
    return path


def with_config(source, target, change):
    """A copy of a .keras file whose config.json is changed."""
    with zipfile.ZipFile(source) as good, zipfile.ZipFile(target, "w") as bad:
        for entry in good.infolist():
            content = good.read(entry)
            bad.writestr(entry.filename, change(json.loads(content)) if entry.filename == "config.json" else content)
    return target


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def hostile_layers(trap):
    """Layers and functions that are known to have run code, or tried to, when a model was loaded."""
    command = f"touch {trap}"
    lambda_of = {"class_name": "__lambda__", "config": {"value": "4wAAAAA=", "defaults": None, "closure": None}}
    call = {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"}
    return {
        "lambda": {"class_name": "Lambda", "module": "keras.layers", "config": {"name": "x", "function": lambda_of}},
        "os.system": {"class_name": "Lambda", "module": "keras.layers", "config": {"name": "x", "function": call}},
        "arguments": {
            "class_name": "Lambda",
            "module": "keras.layers",
            "config": {"name": "x", "function": call, "arguments": {"command": command}},
        },
        "module": {"class_name": "system", "module": "os", "config": {"command": command}},
        "Popen": {"class_name": "Popen", "module": "subprocess", "config": {"args": command, "shell": True}},
        "function": {"class_name": "function", "module": "builtins", "config": "exec", "registered_name": "exec"},
        "unsafe switch": {
            "class_name": "function",
            "module": "keras.config",
            "config": "enable_unsafe_deserialization",
            "registered_name": "enable_unsafe_deserialization",
        },
        "get_file": {
            "class_name": "function",
            "module": "keras.utils",
            "config": "get_file",
            "registered_name": "get_file",
        },
    }


@pytest.mark.parametrize("name", hostile_layers(""))
@pytest.mark.parametrize("place", ["whole", "layer", "activation"])
def test_nothing_in_a_hostile_model_runs(name, place, model_file, tmp_path):
    hostile = hostile_layers(tmp_path / "ran")[name]

    def change(config):
        if place == "whole":
            config = hostile
        elif place == "layer":
            config["config"]["layers"][1] = {**hostile, "build_config": {"input_shape": [None, 3]}}
        else:
            config["config"]["layers"][1]["config"]["activation"] = hostile
        return json.dumps(config)

    with pytest.raises(InputError, match="is no Keras model that can be read"):
        load_keras_file(with_config(model_file, tmp_path / "hostile.keras", change))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("entry", ["../../escaped", "/tmp/escaped-imagesent", "assets/../../escaped", "assets/x"])
def test_a_hostile_archive_writes_nothing_outside(entry, model_file, tmp_path):
    bad = tmp_path / "deep" / "er" / "hostile.keras"
    bad.parent.mkdir(parents=True)
    with_config(model_file, bad, json.dumps)
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr(entry, "x")
    with pytest.raises(InputError, match="it holds|damaged"):
        load_keras_file(bad)
    assert not list(tmp_path.rglob("escaped*")) and not (tmp_path.parent / "escaped").exists()


def test_a_pickle_in_a_state_does_not_run(tmp_path):
    state = tmp_path / "state.npz"
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "|O", "fortran_order": False, "shape": ()})
    array.write(pickle.dumps(Trap(tmp_path / "ran")))
    with zipfile.ZipFile(state, "w") as archive:
        archive.writestr("progress.npy", array.getvalue())
    with pytest.raises(InputError, match="not the state of a training"):
        read_progress(state)
    state.write_bytes(pickle.dumps(Trap(tmp_path / "ran")))
    with pytest.raises(InputError, match="damaged"):
        read_progress(state)
    assert not (tmp_path / "ran").exists()


def test_a_flipped_bit_in_a_model_is_noticed(model_file, tmp_path):
    right = load_keras_file(model_file).get_weights()
    content, rng, refused = model_file.read_bytes(), np.random.default_rng(0), 0
    for turn in range(60 * TIMES):
        bad = tmp_path / "bad.keras"
        if turn % 2:
            flipped = bytearray(content)
            flipped[int(rng.integers(0, len(content)))] ^= 1 << int(rng.integers(0, 8))
            bad.write_bytes(flipped)
        else:
            bad.write_bytes(break_content(content, rng))
        try:
            weights = load_keras_file(bad).get_weights()
            for one, other in zip(weights, right, strict=True):
                np.testing.assert_array_equal(one, other)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 30 * TIMES


def test_a_broken_state_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss="mse")
    state = tmp_path / "state.npz"
    write_state(state, model, {"epoch": 1})
    content, rng = state.read_bytes(), np.random.default_rng(1)
    right = [np.asarray(variable) for variable in model.variables]
    for _ in range(40 * TIMES):
        state.write_bytes(break_content(content, rng))
        try:
            assert read_progress(state) == {"epoch": 1}
            restore_state(state, model)
            for variable, value in zip(model.variables, right, strict=True):
                np.testing.assert_array_equal(variable, value)
        except InputError as error:
            assert "state.npz" in str(error)
