"""Weights in float16 at half the size, the same captions."""

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.serving import half_weights, onnx_weights
from keras_imagesent.serving.onnx_export import export_onnx
from keras_imagesent.serving.saved_model import export_saved_model
from tests.serving.tiny import tiny_photo_model

FEATURES = np.random.default_rng(0).normal(size=(5, 16)).astype("float32")


@pytest.fixture
def rounded(monkeypatch):
    """A tiny model whose weights are float16's numbers already, as the shipped ones are: nothing may be lost."""
    monkeypatch.setattr(half_weights, "LEAST", 20)
    monkeypatch.setattr(onnx_weights, "LEAST", 20)
    model = tiny_photo_model(whole=False)
    for weight in [*model.backbone.weights, *model.captioner.model.weights]:
        if "float" in str(weight.dtype):
            weight.assign(weight.numpy().astype("float16").astype("float32"))
    return model


def answers(model):
    return {name: value.numpy().tolist() for name, value in model.caption_features(tf.constant(FEATURES)).items()}


def test_saved_model_stores_half_and_answers_the_same(rounded, tmp_path):
    export_saved_model(rounded, tmp_path / "whole")
    export_saved_model(rounded, tmp_path / "half", float16=True)
    size = {
        name: sum(file.stat().st_size for file in (tmp_path / name).rglob("variables.data*"))
        for name in ("whole", "half")
    }
    assert size["half"] < 0.65 * size["whole"]
    assert served_answers(tmp_path / "half") == answers(rounded)


def test_every_signature_of_a_whole_model_is_stored_in_half(monkeypatch, tmp_path):
    monkeypatch.setattr(half_weights, "LEAST", 20)
    model = tiny_photo_model()
    parts = [model.extractor, *(run.model for run in (model.captioner, model.region_captioner, model.alignment))]
    for weight in [weight for part in parts for weight in part.weights]:
        if weight.dtype == "float32":
            weight.assign(weight.numpy().astype("float16").astype("float32"))
    version = export_saved_model(model, tmp_path / "half", float16=True)
    served = tf.saved_model.load(str(version))
    photo = tf.io.encode_jpeg(np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8))[None]
    for name, sentences in (("describe", []), ("align", [tf.constant(["a dog runs on the grass"])])):
        expected = getattr(model, name)(photo, *sentences)
        keys = dict(zip(("image_bytes", "sentences"), (photo, *sentences), strict=False))
        found = served.signatures[name](**keys)
        assert set(found) == set(expected)
        for key, value in expected.items():
            if value.dtype.is_floating:
                np.testing.assert_allclose(found[key], value, atol=1e-4, err_msg=f"{name} {key}")
            else:
                np.testing.assert_array_equal(found[key], value, err_msg=f"{name} {key}")
    halves = [weight for weight in served.weights if weight.dtype == tf.float16]
    assert sum(np.prod(half.shape) for half in halves) > 0.8 * sum(np.prod(each.shape) for each in served.weights)


def test_model_in_memory_keeps_its_float32_weights_and_graphs(monkeypatch, tmp_path):
    monkeypatch.setattr(half_weights, "LEAST", 20)
    model, untouched = tiny_photo_model(whole=False), tiny_photo_model(whole=False)
    export_saved_model(model, tmp_path / "half", float16=True)
    for mine, theirs in zip(model.captioner.model.weights, untouched.captioner.model.weights, strict=True):
        mine.assign(theirs)
    assert answers(model) == answers(untouched)  # traced only now: not with the halves
    export_saved_model(model, tmp_path / "whole")
    assert served_answers(tmp_path / "whole") == answers(untouched)
    assert served_answers(tmp_path / "half")["log_probs"] != answers(untouched)["log_probs"]


def served_answers(folder):
    served = tf.saved_model.load(str(folder / "1")).signatures["caption_features"]
    return {name: value.numpy().tolist() for name, value in served(tf.constant(FEATURES)).items()}


def test_onnx_stores_half_and_answers_the_same(rounded, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    whole, half = (
        export_onnx(rounded, tmp_path / name, names=["image_encoder"], precision=name)[0]
        for name in ("float32", "float16")
    )
    assert half.stat().st_size < whole.stat().st_size
    pixels = np.random.default_rng(0).uniform(0, 255, size=(2, 64, 64, 3)).astype("float32")
    outputs = [onnxruntime.InferenceSession(str(path)).run(None, {"pixels": pixels}) for path in (whole, half)]
    for one, other in zip(*outputs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_onnx_stores_int8_by_channel(tmp_path):
    """Every weight is within half a step of its channel's scale, whatever the other channels hold."""
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    kernel = np.random.default_rng(0).normal(size=(40, 30)).astype("float32") * np.geomspace(
        1e-3, 10, 30, dtype="float32"
    )
    node = onnx.helper.make_node("MatMul", ["x", "kernel"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, 1, [None, size]) for name, size in (("x", 40), ("y", 30))]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(kernel, "kernel")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    before = len(model.SerializeToString())
    content = onnx_weights.quantize_initializers(model).SerializeToString()
    assert len(content) < 0.4 * before
    (found,) = onnxruntime.InferenceSession(content).run(None, {"x": np.eye(40, dtype="float32")})
    step = np.abs(kernel).max(axis=0) / 127
    assert (np.abs(found - kernel) <= 0.51 * step).all()
    assert (found != kernel).any()
