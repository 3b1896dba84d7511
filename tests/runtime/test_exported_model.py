"""The small runtime gives what the TensorFlow model gives, for every answer, and never imports TensorFlow."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.cli import answers
from keras_imagesent.errors import InputError
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.serving import onnx_weights
from keras_imagesent.serving.onnx_export import export_onnx
from tests.runtime.conftest import PHOTOS

SENTENCES = ["a big dog zzz runs on the red grass", "Two WHITE children", "zzz", "", "a " * 50, "dog", "ball!", "a dog"]


def as_text(value):
    return np.vectorize(lambda text: text.decode())(value.numpy()) if value.dtype == tf.string else value.numpy()


@pytest.mark.parametrize("kind", ["folder", "litert_folder"])
@pytest.mark.parametrize("signature", ["caption", "describe", "align", "embed_image", "embed_sentence"])
def test_the_answers_of_tensorflow(model, kind, signature, request):
    folder = request.getfixturevalue(kind)
    given = {"align": (PHOTOS, SENTENCES), "embed_sentence": ((), SENTENCES)}.get(signature, (PHOTOS,))
    found = ExportedModel(folder).predict(signature, *given)
    wanted = getattr(model, signature)(*(tf.constant(values) for values in given if len(values)))
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        expected, answer = as_text(value), np.asarray(found[name])
        assert answer.shape == expected.shape, name
        if name == "status":
            assert answer[:-1].tolist() == expected[:-1].tolist() and answer[-1].startswith(expected[-1])
        elif expected.dtype.kind == "f":
            np.testing.assert_allclose(answer, expected, atol=1e-3, err_msg=name)
        else:
            assert answer.tolist() == expected.tolist(), name


def test_litert_files_of_the_precision_that_is_asked_for(litert_folder):
    assert all(file["file"].endswith("-float32.tflite") for file in ExportedModel(litert_folder).files)
    half = ExportedModel(litert_folder, precision="float16")
    assert all(file["file"].endswith("-float16.tflite") for file in half.files)
    assert half.caption(PHOTOS[0])[0].text == ExportedModel(litert_folder).caption(PHOTOS[0])[0].text
    assert not ExportedModel(litert_folder, precision="int8").answers("caption")


def test_int8_files_answer_nearly_the_same(model, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_weights, "LEAST", 20)  # the tiny weights count as large
    export_onnx(model, tmp_path, names=["image_encoder", "captioner", "sentence_encoder"], precision="int8")
    small, whole = ExportedModel(tmp_path), ExportedModel(folder)
    assert small.about["files"][0]["precision"] == "int8"
    found, wanted = (runtime.embed_sentence("a big dog") for runtime in (small, whole))
    assert 0 < np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()
    assert small.caption(PHOTOS[0])[0].text == whole.caption(PHOTOS[0])[0].text


def test_the_shipped_files_answer_where_they_are_complete(folder, tmp_path, monkeypatch):
    """Without --exported the shipped ONNX files are taken, unless an option or a missing file asks for TensorFlow."""
    monkeypatch.setattr(answers, "shipped", lambda name: {"onnx": folder}[name])
    monkeypatch.setattr(answers, "InTensorFlow", lambda **settings: "TensorFlow")
    every = ["caption", "describe", "align", "embed_image"]
    assert answers.load_answers(every, None, {}).folder == folder
    assert answers.load_answers(["caption"], None, {"captioner": "runs/mine"}) == "TensorFlow"
    assert answers.load_answers(["caption"], None, {}, captions=9) == "TensorFlow"
    about = json.loads((folder / "model.json").read_text())
    about["files"] = [file for file in about["files"] if file.get("piece") != "detector"]
    (tmp_path / "model.json").write_text(json.dumps(about))
    monkeypatch.setattr(answers, "shipped", lambda name: tmp_path)
    assert answers.load_answers(["describe"], None, {}) == "TensorFlow"
    assert answers.load_answers(["caption"], None, {}).folder == tmp_path


def test_records(model, folder, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(PHOTOS[0])
    runtime = ExportedModel(folder)
    said = model.caption(tf.constant(PHOTOS[:1]))
    captions = runtime.caption(tmp_path / "photo.jpg")
    assert [caption.text for caption in captions] == as_text(said["captions"])[0].tolist()
    assert captions[0].log_prob == pytest.approx(float(said["log_probs"][0, 0]), abs=1e-3)
    regions = runtime.describe(PHOTOS[0], min_score=0)
    middle = sorted(region.score for region in regions)[len(regions) // 2]
    assert runtime.describe(PHOTOS[0], middle) == [region for region in regions if region.score >= middle]
    assert runtime.describe(PHOTOS[0]) == [region for region in regions if region.score >= 0.2]
    found = model.describe(tf.constant(PHOTOS[:1]))
    assert len(regions) == int(found["number_of_regions"][0])
    assert regions[0].box == (0, 0, 1, 1) and regions[0].score == 1 and regions[0].label is None
    assert [region.caption.text for region in regions] == as_text(found["captions"])[0][: len(regions)].tolist()
    phrases = ExportedModel(folder, beta=0).align(PHOTOS[0], SENTENCES[0])  # each word for itself
    words = " ".join(phrase.text for phrase in phrases)  # an unknown word between two phrases belongs to none
    assert words.replace("zzz ", "") == SENTENCES[0].replace("zzz ", "")
    together = ExportedModel(folder, beta=1000).align(PHOTOS[0], SENTENCES[0])
    assert [phrase.text for phrase in together] == [SENTENCES[0]] and len(phrases) > 1
    assert together[0].box == pytest.approx(found["boxes"][0, together[0].region].numpy(), abs=1e-3)
    assert runtime.embed_image(PHOTOS[0]).shape == (len(regions), 12)
    assert runtime.embed_sentence("a dog zzz").shape == (2, 12)
    with pytest.raises(InputError, match="absent.jpg"):
        runtime.caption(tmp_path / "absent.jpg")
    with pytest.raises(InputError, match="not a whole JPEG"):
        runtime.describe(b"junk")


def test_labels_are_the_best_class_of_each_region(folder, tmp_path):
    named = tmp_path / "named"
    shutil.copytree(folder, named)
    about = json.loads((named / "model.json").read_text())
    assert about["labels"] == []  # nobody said what the tiny detector's classes are
    (named / "model.json").write_text(json.dumps({**about, "labels": list("uvwxyz")}))
    runtime = ExportedModel(named)
    photos = runtime.read(PHOTOS[:1])
    labels = runtime.predict("describe", photos)["labels"][0]
    assert labels[0] == ""
    assert labels[1] == "uvwxyz"[photos.values["class_scores"][0, 1].argmax()]


def test_what_is_not_there_is_said(folder, tmp_path):
    with pytest.raises(InputError, match="has no model.json"):
        ExportedModel(tmp_path)
    for name in ("model.json", "sentence_encoder.onnx"):
        shutil.copy(folder / name, tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    with pytest.raises(InputError, match="image_encoder.onnx is missing"):
        ExportedModel(tmp_path).caption(PHOTOS[0])
    about["files"] = [file for file in about["files"] if file.get("piece") != "captioner"]
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert not ExportedModel(tmp_path).answers("caption")
    with pytest.raises(InputError, match="cannot caption: it has no captioner"):
        ExportedModel(tmp_path).caption(PHOTOS[0])
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(InputError, match="no JSON"):
        ExportedModel(tmp_path)


def test_tensorflow_is_not_imported(folder, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(PHOTOS[0])
    program = """
import sys
from keras_imagesent.runtime import ExportedModel
model = ExportedModel(sys.argv[1])
model.caption(sys.argv[2]); model.describe(sys.argv[2]); model.align(sys.argv[2], "a dog")
print([name for name in ("tensorflow", "keras", "matplotlib", "scipy") if name in sys.modules])
"""
    command = [sys.executable, "-c", program, folder, tmp_path / "photo.jpg"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr[-2000:]
    assert done.stderr == ""


@pytest.mark.parametrize("verb", ["caption", "describe", "align"])
def test_the_command_line_answers_without_tensorflow(model, folder, tmp_path, verb):
    (tmp_path / "photo.jpg").write_bytes(PHOTOS[0])
    program = """
import sys
sys.modules["tensorflow"] = None  # its import fails, as where it is not installed
from keras_imagesent.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
    sentence = ["a big dog runs"] if verb == "align" else []
    command = [sys.executable, "-c", program, verb, tmp_path / "photo.jpg", *sentence, "--json", "--exported", folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    photo = tf.constant(PHOTOS[:1])
    if verb == "caption":
        assert answer["captions"][0] == model.caption(photo)["captions"][0, 0].numpy().decode()
    elif verb == "describe":
        found = model.describe(photo)
        texts = as_text(found["captions"])[0][: int(found["number_of_regions"][0])].tolist()
        assert [region["caption"] for region in answer["regions"]] == texts
    else:
        found = model.align(photo, tf.constant(sentence))
        assert answer["score"] == pytest.approx(float(found["score"][0]), abs=1e-3)
        assert answer["phrases"][0]["region"] == int(found["phrase_regions"][0, 0])


def test_options_that_are_fixed_in_exported_files(folder, tmp_path, capsys):
    from keras_imagesent.cli.main import main

    (tmp_path / "photo.jpg").write_bytes(PHOTOS[0])
    for option in (["--beam", "5"], ["--rerank", "0.2"], ["--captions", "9"]):
        assert main(["caption", str(tmp_path / "photo.jpg"), "--exported", str(folder), *option]) == 2
        assert f"{option[0]} is fixed in exported models" in capsys.readouterr().err
