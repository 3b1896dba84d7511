"""ONNX and LiteRT pieces: all of them, their operations, their numbers, and the example scripts without TensorFlow."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_imagesent.runtime.about import SCHEMA
from keras_imagesent.serving import onnx_export
from keras_imagesent.serving.litert_export import export_litert, operators
from keras_imagesent.serving.onnx_export import convert, export_onnx, same_numbers, sample_inputs
from keras_imagesent.serving.pieces import pieces
from keras_imagesent.serving.saved_model import export_saved_model
from tests.serving.photos import draw, encode, rotated
from tests.serving.tiny import SIZE, teach, tiny_photo_model

SCRIPTS = Path(__file__).parents[2] / "scripts"
PIECES = [
    "image_encoder",
    "captioner",
    "detector",
    "region_encoder",
    "region_captioner",
    "sentence_encoder",
    "alignment",
]
PHOTOS = [encode(draw(90, 60, seed)) for seed in range(20)]


@pytest.fixture(scope="module")
def model():
    model = tiny_photo_model()
    teach(model, PHOTOS, epochs=30)
    return model


@pytest.fixture(scope="module")
def onnx_folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    export_onnx(model, folder)
    return folder


@pytest.fixture(scope="module")
def litert_folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("litert")
    pixels, _ = model._decode(tf.constant(PHOTOS))
    export_litert(model, folder, photos=pixels.numpy())
    return folder


def test_a_file_that_computes_something_else_is_not_kept(model, tmp_path, monkeypatch):
    def convert_wrongly(function, specifications, name):
        converted = convert(function, specifications, name)
        largest = max(converted.graph.initializer, key=lambda weight: np.prod(weight.dims))
        values = onnx.numpy_helper.to_array(largest)
        largest.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(1.1), largest.name))
        return converted

    monkeypatch.setattr(onnx_export, "convert", convert_wrongly)
    with pytest.raises(RuntimeError, match="image_encoder: ONNX Runtime's .*image_features are not TensorFlow's"):
        export_onnx(model, tmp_path, names=["image_encoder"])
    assert list(tmp_path.glob("*.onnx")) == []


def wanted(model, name, rows):
    function, specifications = pieces(model)[name]
    inputs = sample_inputs(specifications, rows)
    outputs = function(*(tf.constant(inputs[specification.name]) for specification in specifications))
    return inputs, {key: value.numpy() for key, value in outputs.items()}


@pytest.mark.parametrize("name", PIECES)
def test_onnx(model, onnx_folder, name):
    path = onnx_folder / f"{name}.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(path)
    assert all(isinstance(value.shape[0], str | None) for value in session.get_inputs())  # a dynamic batch
    for rows in (1, 3):
        inputs, expected = wanted(model, name, rows)
        outputs = dict(zip([value.name for value in session.get_outputs()], session.run(None, inputs), strict=True))
        assert set(outputs) == set(expected)
        for key in expected:
            np.testing.assert_allclose(outputs[key], expected[key], atol=1e-4)
    metadata = session.get_modelmeta().custom_metadata_map
    assert {"preprocessing", "license"} <= set(metadata)


def test_only_near_ties_may_change_places():
    scores = np.array([[0.9, 0.5, 0.5 - 1e-6, 0.2]], np.float32)
    boxes = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    wanted = {"boxes": boxes, "box_scores": scores}

    def swapped(*order):
        return {"boxes": boxes[:, order], "box_scores": scores[:, order]}

    assert same_numbers(wanted, wanted)
    assert same_numbers(swapped(0, 2, 1, 3), wanted)
    assert not same_numbers(swapped(1, 0, 2, 3), wanted)
    other = boxes.copy()
    other[0, 3] += 1
    assert same_numbers({"boxes": other, "box_scores": scores}, wanted)  # another box of the same score came last
    assert not same_numbers({"boxes": other, "box_scores": scores - [0, 0, 0, 0.01]}, wanted)
    other[0, 0] += 1
    assert not same_numbers({"boxes": other, "box_scores": scores}, wanted)
    assert not same_numbers({"boxes": boxes[:, :3], "box_scores": scores[:, :3]}, wanted)


@pytest.mark.parametrize("name", PIECES)
def test_litert(model, litert_folder, name):
    path = litert_folder / f"{name}-float32.tflite"
    used = operators(path.read_bytes())
    assert not [operator for operator in used if operator.startswith(("CUSTOM", "Flex"))]
    runner = Interpreter(str(path)).get_signature_runner(name)
    inputs, expected = wanted(model, name, 1)
    outputs = runner(**inputs)
    assert set(outputs) == set(expected)
    for key in expected:
        np.testing.assert_allclose(outputs[key], expected[key], atol=1e-4)


def test_litert_in_16_and_8_bits(model, litert_folder):
    """Stated bounds: float16 features within 0.5%, int8 features within 5% of the largest."""
    pixels, _ = model._decode(tf.constant(PHOTOS[:4]))
    expected = model.frame_features(pixels).numpy()
    for precision, bound in (("float16", 0.005), ("int8", 0.05)):
        interpreter = Interpreter(str(litert_folder / f"image_encoder-{precision}.tflite"))
        runner = interpreter.get_signature_runner("image_encoder")
        kind = runner.get_input_details()["pixels"]["dtype"]
        assert kind == (np.uint8 if precision == "int8" else np.float32)
        found = np.concatenate([runner(pixels=row[None].astype(kind))["image_features"] for row in pixels.numpy()])
        assert np.abs(found - expected).max() < bound * np.abs(expected).max()
        floats = [tensor for tensor in interpreter.get_tensor_details() if tensor["dtype"] == np.float32]
        assert precision == "float16" or len(floats) == 2  # in int8 the map and the features alone, at the end
    for path in litert_folder.glob("*.tflite"):
        assert not [name for name in operators(path.read_bytes()) if name.startswith(("CUSTOM", "Flex"))], path.name


RUN = """
import runpy, sys
sys.modules["tensorflow"] = None  # its import fails, as where it is not installed
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("kind", ["onnx", "float32", "int8", "one file"])
def test_example_scripts_without_tensorflow(model, onnx_folder, litert_folder, kind, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(rotated(draw(90, 60, 3), 6))
    if kind == "one file":
        export_litert(model, tmp_path, ["float32"], names=["caption_pixels"])
    arguments = {
        "onnx": ["caption_with_onnx.py", onnx_folder],
        "one file": ["caption_with_litert.py", tmp_path, "float32"],
    }.get(kind, ["caption_with_litert.py", litert_folder, kind])
    script = SCRIPTS / arguments[0]
    command = [sys.executable, "-c", RUN, script, *arguments[1:], tmp_path / "photo.jpg"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == 3
    if kind != "int8":
        answer = model.caption(tf.constant([(tmp_path / "photo.jpg").read_bytes()]))
        assert [text for _, _, text in lines] == [text.decode() for text in answer["captions"].numpy()[0]]
        np.testing.assert_allclose([float(total) for _, total, _ in lines], answer["log_probs"].numpy()[0], atol=0.01)
    assert len(script.read_text().splitlines()) <= 40


@pytest.mark.parametrize("kind", ["onnx", "litert", "saved-model"])
def test_model_json_says_what_is_there(model, onnx_folder, litert_folder, kind, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    if kind == "saved-model":
        folder = export_saved_model(model, tmp_path / "tiny") / "assets.extra"
    else:
        folder = onnx_folder if kind == "onnx" else litert_folder
    about = json.loads((folder / "model.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(about)
    with pytest.raises(jsonschema.ValidationError):  # the schema can refuse
        jsonschema.validate({**about, "files": []}, json.loads(SCHEMA.read_text()))
    for file in about["files"]:
        content = (folder / file["file"]).read_bytes()
        assert len(content) == file["bytes"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    assert about["preprocessing"]["image_size"] == SIZE
    if kind == "onnx":
        assert set(about["answers"]) == {"caption", "describe", "align", "embed_image", "embed_sentence"}
        for file in about["files"][: len(PIECES)]:
            session = onnxruntime.InferenceSession(folder / file["file"])
            for side, values in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
                assert {v.name: v.shape[1:] for v in values} == {n: t["shape"][1:] for n, t in file[side].items()}
    if kind == "saved-model":
        served = tf.saved_model.load(str(folder.parent)).signatures
        assert set(served) == set(about["signatures"])
        for name, signature in about["signatures"].items():
            assert set(served[name].structured_outputs) == set(signature["outputs"])
            assert set(served[name].structured_input_signature[1]) == set(signature["inputs"])
