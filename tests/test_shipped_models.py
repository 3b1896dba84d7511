"""Each shipped file loads and says what it said when it was made, of photos inside the scikit-image wheel.

astronaut: NASA, public domain; chelsea: Stefan van der Walt, CC0; coffee: Rachel Michetti, CC0; rocket: SpaceX, public
domain.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.model.photo_model import load_photo_model
from keras_imagesent.regions.photo import decode_pixels
from keras_imagesent.regions.squash import IMAGE_SIZE
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.shipped import shipped

SHIPPED = shipped("backbone.keras").parent
NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")
KNOWN = json.loads((Path(__file__).parent / "shipped_captions.json").read_text())


@pytest.fixture(scope="module")
def photos():
    skimage = pytest.importorskip("skimage", reason="its wheel has the photos: pip install 'keras_imagesent[test]'")
    return [(Path(skimage.__file__).parent / "data" / name).read_bytes() for name in NAMES]


@pytest.fixture(scope="module")
def pixels(photos):
    return decode_pixels(tf.constant(photos), IMAGE_SIZE)[0].numpy()


def decode(token_ids):
    vocabulary = Vocabulary.load(SHIPPED / "captioner" / "vocabulary.json")
    return [vocabulary.decode(row[0]) for row in np.asarray(token_ids)]


def test_keras_models_caption_describe_and_align_as_known(photos):
    model = load_photo_model()
    images = tf.constant(photos)
    said = model.caption(images)
    assert [row[0].decode() for row in said["captions"].numpy()] == KNOWN["captions"]
    np.testing.assert_allclose(said["log_probs"][:, 0], KNOWN["log_probs"], atol=0.01)
    described = model.describe(images[:1])
    assert described["captions"][0, 0].numpy().decode() == KNOWN["region"]
    aligned = model.align(images[1:2], tf.constant(["a cat looks at the camera"]))
    assert aligned["score"][0].numpy() == pytest.approx(KNOWN["score"], abs=0.01)


def test_trained_parts_load_where_nothing_else_was_imported():
    load = "from keras_imagesent.model.run import find_run; print(find_run(None, '{}').model.name)"
    models = {"alignment": "alignment", "captioner": "captioner", "region_captioner": "captioner"}
    for name, model in models.items():
        done = subprocess.run([sys.executable, "-c", load.format(name)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[-1] == model


def test_saved_model_captions_as_known(photos):
    import tensorflow_text  # noqa: F401  registers the tokenizer's operations

    served = tf.saved_model.load(str(SHIPPED / "imagesent" / "1")).signatures["serving_default"]
    said = served(image_bytes=tf.constant(photos))["captions"].numpy()
    assert [row[0].decode() for row in said] == KNOWN["captions"]


def test_onnx_files_caption_as_known(photos, pixels):
    if (SHIPPED / "onnx" / "caption_pixels.onnx").exists():  # shipped before the files shared one image encoder
        session = onnxruntime.InferenceSession(str(SHIPPED / "onnx" / "caption_pixels.onnx"))
        assert decode(session.run(["token_ids"], {"pixels": pixels})[0]) == KNOWN["captions"]
        return
    runtime = ExportedModel(SHIPPED / "onnx")
    assert [row[0] for row in runtime.predict("caption", photos)["captions"]] == KNOWN["captions"]
    assert runtime.describe(photos[0])[0].caption.text == KNOWN["region"]
    aligned = runtime.predict("align", photos[1:2], ["a cat looks at the camera"])
    assert aligned["score"][0] == pytest.approx(KNOWN["score"], abs=0.01)


def test_litert_file_captions_as_known(pixels):
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="pip install 'keras_imagesent[litert]'")
    runner = litert.Interpreter(str(SHIPPED / "litert" / "caption_pixels-float16.tflite")).get_signature_runner()
    token_ids = [runner(pixels=photo[None])["token_ids"] for photo in pixels]
    assert decode(np.concatenate(token_ids)) == KNOWN["captions"]


def test_everything_shipped_stays_under_200_megabytes():
    assert sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file()) < 200e6
