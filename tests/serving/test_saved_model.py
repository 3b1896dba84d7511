"""The SavedModel as a deployer gets it: layout, signatures, assets, and a clean process without this package."""

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.tools.saved_model_utils import read_saved_model

from keras_imagesent.serving.client import Client
from keras_imagesent.serving.saved_model import export_saved_model
from keras_imagesent.serving.server import Server
from keras_imagesent.serving.server_errors import ServingError
from keras_imagesent.serving.warmup import read_warmup
from tests.serving.photos import draw, encode
from tests.serving.tiny import WORDS, tiny_photo_model

JPEG = encode(draw(90, 60, 1))
SIGNATURES = {
    "serving_default": ({"image_bytes"}, {"captions", "log_probs", "status"}),
    "describe": (
        {"image_bytes"},
        {"boxes", "box_scores", "labels", "captions", "log_probs", "number_of_regions", "status"},
    ),
    "describe_box": ({"image_bytes", "box"}, {"captions", "log_probs", "status"}),
    "align": (
        {"image_bytes", "sentences"},
        {"words", "word_mask", "boxes", "box_scores", "region_mask", "similarity", "phrase_regions", "score", "status"},
    ),
    "embed_image": ({"image_bytes"}, {"regions", "region_mask", "boxes", "box_scores", "status"}),
    "embed_sentence": ({"sentences"}, {"word_vectors", "token_ids", "word_mask"}),
    "caption_features": ({"image_features"}, {"captions", "log_probs", "status"}),
}


@pytest.fixture(scope="module")
def model():
    return tiny_photo_model()


@pytest.fixture(scope="module")
def version(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "CARD.md").write_text("what it is")
    return export_saved_model(model, folder / "imagesent", [folder / "CARD.md"], [JPEG])


def test_layout_and_assets(model, version):
    assert version.name == "1"
    assert sorted(child.name for child in version.parent.iterdir()) == ["1"]  # nothing unfinished is left
    extra = version / "assets.extra"
    settings = json.loads((extra / "model.json").read_text())
    assert settings["beam"] == 3
    assert settings["preprocessing"]["image_size"] == 64
    assert settings["training"]["captioner"] == {"cell": "lstm"}
    assert settings["metrics"]["captioner"] == {"cider": 50.0}
    assert json.loads((extra / settings["vocabularies"]["captioner"]).read_text())["words"] == WORDS
    assert (extra / "CARD.md").read_text() == "what it is"
    requests = read_warmup(version)
    assert {request.model_spec.signature_name for request in requests} == set(SIGNATURES)
    assert {request.model_spec.name for request in requests} == {"imagesent"}
    weights = sum(
        np.prod(variable.shape)
        for part in (model.captioner, model.region_captioner, model.alignment)
        for variable in part.model.variables
    )
    weights += sum(np.prod(variable.shape) for variable in model.extractor.variables)
    stored = (version / "variables" / "variables.data-00000-of-00001").stat().st_size
    assert stored < 1.2 * 4 * weights + 20_000  # every weight once
    graph = read_saved_model(str(version)).meta_graphs[0].graph_def
    names = [function.signature.name.rsplit("_", 1)[0] for function in graph.library.function]
    assert [names.count(f"__inference_{name}") for name in ("_decode_photos", "_extract_regions", "align")] == [
        1,
        1,
        1,
    ]  # graphs too


def test_signatures_are_named_and_batched(version):
    loaded = tf.saved_model.load(str(version))
    assert set(loaded.signatures) == set(SIGNATURES)
    for name, (inputs, outputs) in SIGNATURES.items():
        function = loaded.signatures[name]
        assert set(function.structured_input_signature[1]) == inputs
        assert set(function.structured_outputs) == outputs
        for specification in function.structured_outputs.values():
            assert specification.shape[0] is None


def test_the_warmup_file_is_replayed(version):
    """As TF Serving does before it opens the model: every request is answered, and its photo is read."""
    loaded = tf.saved_model.load(str(version))
    for request in read_warmup(version):
        inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        answer = loaded.signatures[request.model_spec.signature_name](**inputs)
        assert set(answer) == SIGNATURES[request.model_spec.signature_name][1]
        assert "status" not in answer or answer["status"].numpy().tolist() == [b"ok"]


CLEAN = """
import sys
sys.modules["keras_imagesent"] = None  # its import fails, as where it is not installed
import numpy as np
import tensorflow as tf
import tensorflow_text
from tensorflow.python.tools import saved_model_cli
folder, photo = sys.argv[1:]
model = tf.saved_model.load(folder)
image = tf.constant([open(photo, "rb").read()])
print(model.signatures["serving_default"](image_bytes=image)["captions"].numpy()[0, 0].decode())
aligned = model.signatures["align"](image_bytes=image, sentences=tf.constant(["a purple dog"]))
print(aligned["phrase_regions"].numpy()[0, :3].tolist())
for graph in saved_model_cli.saved_model_utils.read_saved_model(folder).meta_graphs:
    saved_model_cli.scan_meta_graph_def(graph, saved_model_cli._OP_DENYLIST)
sys.argv = ["saved_model_cli", "show", "--dir", folder, "--all"]
saved_model_cli.main()
"""


def test_a_clean_process_loads_it_without_this_package(model, version, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(JPEG)
    command = [sys.executable, "-c", CLEAN, str(version), str(tmp_path / "photo.jpg")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    caption, regions, *shown = done.stdout.splitlines()
    assert caption == model.caption(tf.constant([JPEG]))["captions"].numpy()[0, 0].decode()
    wanted = model.align(tf.constant([JPEG]), tf.constant(["a purple dog"]))["phrase_regions"].numpy()[0, :3]
    assert regions == str(wanted.tolist())
    shown = "\n".join(shown)
    for name in SIGNATURES:
        assert f"signature_def['{name}']" in shown
    assert "does not contain the default denylisted ops" in shown


def test_every_signature_over_rest_in_row_and_column_form(model, version):
    with Server({"imagesent": version.parent}, rest_port=0, grpc_port=0) as server:
        rest, grpc = Client(f"http://127.0.0.1:{server.rest_port}"), Client(f"grpc://127.0.0.1:{server.grpc_port}")
        for ask in (
            lambda client: client.caption([JPEG, b"junk"]),
            lambda client: client.describe([JPEG, b"junk"]),
            lambda client: client.align([JPEG, b"junk"], ["a purple dog", "water"]),
            lambda client: client.embed_image([JPEG]),
            lambda client: client.embed_sentence(["a dog", ""]),
            lambda client: client.predict("caption_features", {"image_features": np.ones((2, 16), np.float32)}),
        ):
            mine, theirs = ask(rest), ask(grpc)
            assert set(mine) == set(theirs)
            for name in mine:
                if mine[name].dtype == np.float32:
                    np.testing.assert_allclose(mine[name], theirs[name], atol=1e-6)
                else:
                    assert mine[name].tolist() == theirs[name].tolist(), name
        wanted = model.caption(tf.constant([JPEG]))["captions"].numpy()[0, 0].decode()
        assert rest.caption([JPEG])["captions"][0, 0] == wanted

        row = {"image_bytes": {"b64": base64.b64encode(JPEG).decode()}, "sentences": "a purple dog"}
        body = json.dumps({"signature_name": "align", "instances": [row, row]}).encode()
        first, second = rest._fetch(":predict", body)["predictions"]
        for name, value in first.items():  # a row's place in the batch may change the last digit
            if name in ("similarity", "score", "boxes", "box_scores"):
                np.testing.assert_allclose(value, second[name], atol=1e-5)
            else:
                assert value == second[name], name
        assert set(first) == SIGNATURES["align"][1]
        assert first["phrase_regions"][1] == -1


@pytest.mark.skipif(not shutil.which("tensorflow_model_server"), reason="no TF Serving binary here")
def test_tf_serving_itself(version):
    """No registry at hand has the binary (PyPI, Debian, npm); where it is installed, it must answer as our server."""
    command = ["tensorflow_model_server", "--rest_api_port=18501", "--port=18500", "--model_name=imagesent"]
    process = subprocess.Popen([*command, f"--model_base_path={version.parent}"])
    try:
        theirs = Client("http://127.0.0.1:18501")
        for _ in range(60):
            with contextlib.suppress(ServingError):
                if theirs.status()[0] == (1, "AVAILABLE"):
                    break
            time.sleep(1)
        with Server({"imagesent": version.parent}, rest_port=0, grpc_port=None) as server:
            ours = Client(f"http://127.0.0.1:{server.rest_port}")
            assert (
                theirs.caption([JPEG, b"junk"])["captions"].tolist()
                == ours.caption([JPEG, b"junk"])["captions"].tolist()
            )
            wanted = ours.align([JPEG], ["a purple dog"])["phrase_regions"].tolist()
            assert theirs.align([JPEG], ["a purple dog"])["phrase_regions"].tolist() == wanted
    finally:
        process.terminate()


def test_the_next_version(model, version, monkeypatch):
    """A failed export leaves nothing behind; the next one takes the next number."""
    import keras_imagesent.serving.saved_model as module

    monkeypatch.setattr(module, "write_warmup", lambda *_: 1 / 0)
    monkeypatch.setattr(
        module, "_write_graph", lambda model, folder, half: (folder / "saved_model.pb").write_bytes(b"")
    )
    with pytest.raises(ZeroDivisionError):
        export_saved_model(model, version.parent)
    assert sorted(child.name for child in version.parent.iterdir()) == ["1"]
    monkeypatch.setattr(module, "write_warmup", lambda *_: None)
    assert export_saved_model(model, version.parent).name == "2"
