"""scripts/ship_models on tiny runs, in a folder whose name has a blank."""

import json
import runpy
import shutil
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_imagesent import shipped
from keras_imagesent.data.vocabulary import Vocabulary
from tests.conftest import ROOT
from tests.serving.tiny import tiny_photo_model

PARTS = ("alignment", "captioner", "region_captioner")


def test_ship_models_writes_every_form_of_the_runs(tmp_path, monkeypatch, capsys):
    tree = tmp_path / "a clone"
    files = tree / "saved_models"
    files.mkdir(parents=True)
    (tree / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/ship_models", tree / "scripts")
    shutil.copy(ROOT / "scripts/phone_guide.py", tree / "scripts")
    (tree / "docs").mkdir()
    shutil.copy(ROOT / "docs/phones.md", tree / "docs")
    model = tiny_photo_model()
    model.backbone.save(files / "backbone.keras")
    model.extractor.get_layer("tiny_detector").save(files / "detector.keras")
    for name in PARTS:
        run, part = tree / "runs" / name, getattr(model, name)
        run.mkdir(parents=True)
        part.model.save(run / "model.keras")
        part.vocabulary.save(run / "vocabulary.json")
        (run / "settings.json").write_text(json.dumps({"seed": 0, "beam": 3, "prepared": str(tree / "prepared")}))
    monkeypatch.setattr(shipped, "_HERE", tree / "keras_imagesent")
    monkeypatch.setattr(sys, "argv", [str(script), "runs", *(str(tree / "runs" / name) for name in PARTS)])
    runpy.run_path(str(script), run_name="__main__")

    assert {path.name for path in (files / "onnx").glob("*.onnx")} >= {"image_encoder.onnx", "captioner.onnx"}
    assert (files / "litert/caption_pixels-float16.tflite").is_file()
    assert "| `caption_pixels` | `pixels` float32 (1, 64, 64, 3) |" in (tree / "docs/phones.md").read_text()
    served = tf.saved_model.load(str(files / "imagesent/1"))
    assert {"serving_default", "describe", "align"} <= set(served.signatures)
    for name in PARTS:
        settings = json.loads((files / name / "settings.json").read_text())
        assert settings == {"seed": 0, "beam": 3}  # no path of the machine that trained
        assert Vocabulary.load(files / name / "vocabulary.json").words == getattr(model, name).vocabulary.words
        for weight in keras.saving.load_model(files / name / "model.keras", compile=False).weights:
            if weight.dtype == "float32":
                np.testing.assert_array_equal(weight, np.asarray(weight).astype("f2").astype("f4"))
