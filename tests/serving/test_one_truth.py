"""One test to rule them all: the same captions from NumPy, Keras, SavedModel, REST, gRPC, ONNX Runtime and LiteRT."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_imagesent.model.photo_model import load_photo_model
from keras_imagesent.serving.client import Client
from keras_imagesent.serving.litert_export import export_litert
from keras_imagesent.serving.onnx_export import export_onnx
from keras_imagesent.serving.saved_model import export_saved_model
from keras_imagesent.serving.server import Server
from tests.serving.photos import photos
from tests.serving.reference import captions_of
from tests.serving.tiny import teach, tiny_photo_model

PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")  # inside the scikit-image wheel
NEAR_TIE = 1e-5  # captions whose log probabilities lie closer may change places


def assert_same(found, found_log_probs, wanted, wanted_log_probs):
    """The same captions in the same order, but for near ties; returns how many changed places."""
    np.testing.assert_allclose(found_log_probs, wanted_log_probs, atol=2e-4, rtol=1e-5)
    swapped = 0
    for mine, theirs, log_probs in zip(found, wanted, wanted_log_probs, strict=True):
        if list(mine) == list(theirs):
            continue
        gaps = np.diff(np.sort(log_probs))
        assert gaps.min() < NEAR_TIE, f"{list(mine)} is not {list(theirs)}"
        swapped += 1
    return swapped


def taught(cell, images):
    """A tiny model with this cell, taught a made-up sentence for each photo."""
    model = tiny_photo_model(cell, whole=False, length_penalty=0.7)
    teach(model, images)
    return model


@pytest.fixture(scope="module")
def images():
    return list(photos().values())


@pytest.mark.parametrize("which", ["relu", "lstm", "gru", "shipped"])
def test_the_same_captions_everywhere(which, images, tmp_path):
    if which == "shipped":  # what people get, on real photos too
        data = Path(pytest.importorskip("skimage").__file__).parent / "data"
        images = [*images, *((data / name).read_bytes() for name in PHOTOGRAPHS)]
        model = load_photo_model(detector=False, alignment=False, region_captioner=False)
    else:
        model = taught(which, images)
    cell, vocabulary = model.captioner.settings["cell"], model.captioner.vocabulary
    assert len(images) >= 50

    def sentences(token_ids):
        return [[vocabulary.decode(ids) for ids in row] for row in np.asarray(token_ids)]

    # --- Keras ---
    answer = model.caption(tf.constant(images))
    assert set(answer["status"].numpy()) == {b"ok"}
    keras_captions = [[text.decode() for text in row] for row in answer["captions"].numpy()]
    log_probs = answer["log_probs"].numpy()
    assert len({row[0] for row in keras_captions}) > (8 if which == "shipped" else 20)  # it tells photos apart
    pixels, _ = model._decode(tf.constant(images))
    features = tf.function(model.frame_features)(pixels).numpy()  # eagerly every map of every photo would be kept
    swapped = {}

    # --- NumPy, from features; for captioners that look at regions see tests/captioning/test_attention.py ---
    if not model.captioner.settings.get("attention"):
        oracle = captions_of(model.captioner.model, cell, features, 3, 3, model.max_length, 0.7)
        texts = [[vocabulary.decode(ids) for ids, _ in row] for row in oracle]
        totals = [[total for _, total in row] for row in oracle]
        swapped["NumPy"] = assert_same(texts, totals, keras_captions, log_probs)

    # --- SavedModel, and the server over it ---
    version = export_saved_model(model, tmp_path / "tiny")
    reloaded = tf.saved_model.load(str(version)).signatures["serving_default"](image_bytes=tf.constant(images))
    texts = [[text.decode() for text in row] for row in reloaded["captions"].numpy()]
    swapped["SavedModel"] = assert_same(texts, reloaded["log_probs"].numpy(), keras_captions, log_probs)
    with Server({"tiny": tmp_path / "tiny"}, rest_port=0, grpc_port=0, max_batch_size=64) as server:
        for way, address in (
            ("REST", f"http://127.0.0.1:{server.rest_port}"),
            ("gRPC", f"grpc://127.0.0.1:{server.grpc_port}"),
        ):
            served = Client(address, "tiny").caption(images)
            swapped[way] = assert_same(served["captions"], served["log_probs"], keras_captions, log_probs)

    # --- ONNX Runtime and LiteRT, from the same pixels, and once from the same features ---
    inputs = {"caption_pixels": {"pixels": pixels.numpy()}}
    if which == "lstm":
        inputs["captioner"] = {"image_features": features}
    export_onnx(model, tmp_path / "onnx", names=inputs)
    for name, given in inputs.items():
        session = onnxruntime.InferenceSession(tmp_path / "onnx" / f"{name}.onnx")
        ids, totals = session.run(["token_ids", "log_probs"], given)
        swapped[f"ONNX {name}"] = assert_same(sentences(ids), totals, keras_captions, log_probs)
        words = json.loads(session.get_modelmeta().custom_metadata_map["words"])
        assert words[1:] == vocabulary.words
    precisions = ["float32", "float16"] if which in ("lstm", "shipped") else ["float32"]
    export_litert(model, tmp_path / "litert", precisions, names=["caption_pixels"])
    for precision in precisions:
        interpreter = Interpreter(str(tmp_path / "litert" / f"caption_pixels-{precision}.tflite"))
        runner = interpreter.get_signature_runner("caption_pixels")
        found = [runner(pixels=row[None]) for row in pixels.numpy()]
        texts = [sentences(row["token_ids"])[0] for row in found]
        totals = np.concatenate([row["log_probs"] for row in found])
        if precision == "float32":
            swapped["LiteRT"] = assert_same(texts, totals, keras_captions, log_probs)
        else:  # the stated bound: nine of ten best captions are the same
            kept = np.mean([mine[0] == theirs[0] for mine, theirs in zip(texts, keras_captions, strict=True)])
            assert kept >= 0.9
    assert sum(swapped.values()) <= 0.02 * len(images) * len(swapped), swapped
