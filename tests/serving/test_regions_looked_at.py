"""A captioner that looks at regions and classes: the same words from Keras, SavedModel, ONNX Runtime and LiteRT."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_imagesent.captioning.captioner import build_captioner
from keras_imagesent.errors import InputError
from keras_imagesent.model.photo_model import PhotoModel
from keras_imagesent.model.run import Run
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.serving.litert_export import export_litert, operators
from keras_imagesent.serving.onnx_export import export_onnx
from keras_imagesent.serving.saved_model import export_saved_model
from tests.serving.photos import draw, encode
from tests.serving.tiny import CLASSES, FEATURES, VOCABULARY, teach, tiny_backbone, tiny_detector, tiny_photo_model

PHOTOS = [encode(draw(90, 60, seed)) for seed in range(12)]


@pytest.fixture(scope="module")
def model():
    model = tiny_photo_model(classes=True, attention=8)
    teach(model, PHOTOS, epochs=30)
    return model


@pytest.fixture(scope="module")
def pixels(model):
    return model._decode(tf.constant(PHOTOS))[0].numpy()


@pytest.fixture(scope="module")
def wanted(model):
    return {name: value.numpy() for name, value in model.caption(tf.constant(PHOTOS)).items()}


def test_the_words_depend_on_the_regions(model, pixels, wanted):
    found = model.look(tf.constant(pixels))
    blind = {**found, "region_features": 0 * found["region_features"], "class_scores": 0 * found["class_scores"]}
    assert not np.allclose(model.captions_of(blind)[1], wanted["log_probs"], atol=1e-3)
    assert len(set(wanted["captions"][:, 0].tolist())) > 3


def test_saved_model(model, wanted, tmp_path):
    served = tf.saved_model.load(str(export_saved_model(model, tmp_path / "tiny"))).signatures
    answer = served["serving_default"](image_bytes=tf.constant(PHOTOS))
    np.testing.assert_array_equal(answer["captions"], wanted["captions"])
    np.testing.assert_allclose(answer["log_probs"], wanted["log_probs"], atol=1e-4)
    inputs = served["caption_features"].structured_input_signature[1]
    assert set(inputs) == {"image_features", "class_scores", "region_features", "region_mask"}
    pixels, _ = model._decode(tf.constant(PHOTOS))
    found = {**model.look(pixels), "image_features": model.frame_features(pixels)}
    answer = served["caption_features"](**{name: found[name] for name in inputs})
    np.testing.assert_array_equal(answer["captions"], wanted["captions"])
    broken = {name: tf.identity(found[name]) for name in inputs} | {"class_scores": found["class_scores"] * np.nan}
    answer = served["caption_features"](**broken)
    assert set(answer["captions"].numpy().ravel()) == {b""} and np.isfinite(answer["log_probs"]).all()


def test_onnx(model, wanted, tmp_path):
    export_onnx(model, tmp_path)
    exported = ExportedModel(tmp_path)
    assert exported.about["answers"]["caption"] == ["image_encoder", "detector", "region_encoder", "captioner"]
    answer = exported.predict("caption", PHOTOS)
    assert answer["captions"] == [[text.decode() for text in row] for row in wanted["captions"]]
    np.testing.assert_allclose(answer["log_probs"], wanted["log_probs"], atol=1e-3)
    described, said = model.describe(tf.constant(PHOTOS)), exported.predict("describe", PHOTOS)
    same = described["captions"].numpy() == np.char.encode(said["captions"])
    assert same.mean() > 0.98  # regions of nearly the same score may change places
    (tmp_path / "detector.onnx").unlink()
    about = exported.about
    about["files"] = [file for file in about["files"] if file["file"] != "detector.onnx"]
    import json

    (tmp_path / "model.json").write_text(json.dumps(about))
    blind = ExportedModel(tmp_path)
    assert not blind.answers("caption")
    with pytest.raises(InputError, match="cannot caption: it has no detector"):
        blind.predict("caption", PHOTOS[:1])


def test_litert(model, pixels, wanted, tmp_path):
    export_litert(model, tmp_path, ["float32"], names=["image_encoder", "detector", "region_encoder", "captioner"])
    export_litert(model, tmp_path / "whole", ["float32"], names=["caption_pixels"])
    files = [*tmp_path.glob("*.tflite"), *tmp_path.glob("whole/*.tflite")]
    assert len(files) == 5
    for path in files:
        assert not [name for name in operators(path.read_bytes()) if name.startswith(("CUSTOM", "Flex"))]

    def run(folder, piece, values):
        runner = Interpreter(str(folder / f"{piece}-float32.tflite")).get_signature_runner(piece)
        return values | runner(**{name: values[name] for name in runner.get_input_details()})

    words = np.array(["", *VOCABULARY.words])
    for row in range(3):
        values = {"pixels": pixels[row : row + 1]}
        whole = run(tmp_path / "whole", "caption_pixels", values)
        for piece in ("image_encoder", "detector", "region_encoder", "captioner"):
            values = run(tmp_path, piece, values)
        expected = [text.decode() for text in wanted["captions"][row]]
        for answer in (values, whole):
            assert [" ".join(words[ids]).strip() for ids in answer["token_ids"][0]] == expected
            np.testing.assert_allclose(answer["log_probs"][0], wanted["log_probs"][row], atol=1e-3)


def test_a_captioner_of_regions_is_told_what_the_detector_takes_them_for(model, pixels):
    found = model.look(tf.constant(pixels[:2]))
    named = model.region_captions_of(found)[1]
    unnamed = model.region_captions_of({**found, "class_scores": 0 * found["class_scores"]})[1]
    assert not np.allclose(named, unnamed, atol=1e-4)
    np.testing.assert_allclose(model.region_captions_of({"region_features": found["region_features"]})[1], unnamed)
    box = model.describe_box(tf.constant(PHOTOS[:2]), tf.constant([[0.1, 0.1, 0.6, 0.9]] * 2))
    assert (box["log_probs"].numpy() < 0).all()


def test_what_does_not_fit_is_refused():
    keras.utils.set_random_seed(0)
    other = Run.of(build_captioner(FEATURES, len(VOCABULARY), units=8, word_dim=4, classes=CLASSES + 1), VOCABULARY)
    with pytest.raises(InputError, match="a detector of 7 classes, this one has 6"):
        PhotoModel(tiny_backbone(), tiny_detector(), captioner=other)
    with pytest.raises(InputError, match="looks at the photo's regions: it needs a detector"):
        PhotoModel(tiny_backbone(), captioner=other)
