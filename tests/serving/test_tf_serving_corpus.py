"""Some hundreds of requests with the answers that we know TF Serving to give (its source was not at hand); both doors.

Here they go to our server. Whoever has TF Serving's own binary runs them there:
    pytest tests/serving/test_tf_serving_corpus.py --tf-serving /usr/bin/tensorflow_model_server
"""

import contextlib
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.serving.client import Client
from keras_imagesent.serving.server import Server
from keras_imagesent.serving.server_errors import ServingError

TYPES = {
    "int8": tf.int8,
    "uint8": tf.uint8,
    "int16": tf.int16,
    "int32": tf.int32,
    "int64": tf.int64,
    "float": tf.float32,
    "double": tf.float64,
    "bool": tf.bool,
    "string": tf.string,
}
NUMBERS = [0, 1, -1, 127, 128, 255, 256, 40_000, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 1.5, -2.25, 1e30]
OTHERS = [True, False, None, "", "a", "1", "ü", {"b64": "YQ=="}, {"b64": "YQ"}, {"c": 1}]
SHAPES = [  # of a list in JSON, and whether it is a table
    ([[1, 2], [3, 4]], True),
    ([[], []], True),
    ([[1, 2], [3]], False),
    ([[1, 2], 3], False),
    ([1, [2, 3]], False),
    ([[[1]], [[2]]], False),
    ([[[1]], [2]], False),
]


def taken(kind, value):
    """What json_tensor.cc makes of a JSON value for a type, or None where it refuses it."""
    if kind == "string":
        if isinstance(value, dict):
            return "a" if "b64" in value else None
        return value if isinstance(value, str) else None
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if kind in ("float", "double"):
        lossless = 2**24 if kind == "float" else 2**53
        if isinstance(value, int) and abs(value) >= lossless:
            return None
        return float(np.float32(value)) if kind == "float" else float(value)
    limits = np.iinfo(TYPES[kind].as_numpy_dtype)
    return value if isinstance(value, int) and limits.min <= value <= limits.max else None


def save_kinds(folder):
    """A signature for each type, which gives back its input."""

    class Kinds(tf.Module):
        pass

    kinds = Kinds()
    signatures = {}
    for kind, dtype in TYPES.items():
        same = tf.function(lambda x: {"y": tf.identity(x)}, input_signature=[tf.TensorSpec([None], dtype, "x")])
        signatures[kind] = same.get_concrete_function()
    pairs = tf.function(lambda x: {"y": x + 0.0}, input_signature=[tf.TensorSpec([None, None], tf.float32, "x")])
    signatures["serving_default"] = pairs.get_concrete_function()
    tf.saved_model.save(kinds, str(folder), signatures)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, request):
    """(REST, gRPC) of our server, or of the binary named by --tf-serving."""
    folder = tmp_path_factory.mktemp("kinds") / "kinds"
    save_kinds(folder / "1")
    binary = request.config.getoption("--tf-serving")
    if not binary:
        with Server({"kinds": folder}, rest_port=0, grpc_port=0) as server:
            yield f"http://127.0.0.1:{server.rest_port}", f"grpc://127.0.0.1:{server.grpc_port}"
        return
    rest, grpc_port = _free_port(), _free_port()
    ports = [f"--rest_api_port={rest}", f"--port={grpc_port}"]
    process = subprocess.Popen([binary, *ports, "--model_name=kinds", f"--model_base_path={folder}"])
    try:
        deadline = time.monotonic() + 60
        while ask(f"http://127.0.0.1:{rest}", "/v1/models/kinds")[0] != 200:
            assert time.monotonic() < deadline, "TF Serving does not start"
            time.sleep(0.5)
        yield f"http://127.0.0.1:{rest}", f"grpc://127.0.0.1:{grpc_port}"
    finally:
        process.terminate()
        process.wait()


def _free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as found:
        return found.getsockname()[1]


def ask(address, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    except urllib.error.URLError:
        return 0, None


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_every_type_in_both_forms(addresses, kind):
    for value in NUMBERS + OTHERS:
        wanted = taken(kind, value)
        for form, answer_key in (("instances", "predictions"), ("inputs", "outputs")):
            code, answer = ask(addresses[0], "/v1/models/kinds:predict", {"signature_name": kind, form: [value]})
            if wanted is None:
                assert code == 400 and answer["error"], (value, form, answer)
            else:
                assert code == 200, (value, form, answer)
                assert answer[answer_key] == pytest.approx([wanted]), (value, form)


@pytest.mark.parametrize(("value", "fits"), SHAPES)
def test_shapes(addresses, value, fits):
    for form in ("instances", "inputs"):
        code, answer = ask(addresses[0], "/v1/models/kinds:predict", {form: value})
        assert code == (200 if fits else 400), (form, answer)


@pytest.mark.parametrize("kind", TYPES)
def test_types_over_grpc(addresses, kind):
    client = Client(addresses[1], "kinds")
    for other, dtype in TYPES.items():
        array = np.array([b"a", b"b"], object) if other == "string" else np.array([0, 1], dtype.as_numpy_dtype)
        if other == kind:
            found = client.predict(kind, {"x": array})["y"].tolist()
            assert found == (["a", "b"] if kind == "string" else array.tolist())
        else:
            with pytest.raises(ServingError) as refused:
                client.predict(kind, {"x": array})
            assert refused.value.code == "INVALID_ARGUMENT"


PREDICT = "/v1/models/kinds:predict"


@pytest.mark.parametrize(
    ("path", "body", "code", "text"),
    [
        ("/v1/models/kinds", None, 200, None),
        ("/v1/models/kinds/versions/1", None, 200, None),
        ("/v1/models/kinds/metadata", None, 200, None),
        ("/v1/models/kinds/versions/1/metadata", None, 200, None),
        ("/v1/models/kinds/versions/2", None, 404, "Could not find version 2 of model kinds"),
        ("/v1/models/none", None, 404, "Could not find any versions of model none"),
        ("/v1/models/none/metadata", None, 404, "Servable not found for request: Latest(none)"),
        ("/v1/models/kinds/versions/2/metadata", None, 404, "Servable not found for request: Specific(kinds, 2)"),
        ("/v1/models/none:predict", {"instances": [[1]]}, 404, "Servable not found for request: Latest(none)"),
        ("/v1/models/kinds/versions/2:predict", {"instances": [[1]]}, 404, "Specific(kinds, 2)"),
        ("/v1/models/kinds/labels/a:predict", {"instances": [[1]]}, 400, "Unrecognized servable version label: a"),
        ("/v1/models", None, 400, "Missing model name in request."),
        ("/v1/nothing", None, 400, "Malformed request: GET /v1/nothing"),
        ("/v1/models/kinds:nothing", {}, 400, "Malformed request: POST /v1/models/kinds:nothing"),
        (PREDICT, {}, 400, "Missing 'inputs' or 'instances' key"),
        (PREDICT, [], 400, "Is not object"),
        (PREDICT, {"instances": []}, 400, "No values in 'instances' array"),
        (PREDICT, {"instances": 1}, 400, "Excepting 'instances' to be an list/array"),
        (PREDICT, {"instances": [[1]], "inputs": [[1]]}, 400, "expecting only one of 'inputs' or 'instances' keys"),
        (PREDICT, {"instances": [{"z": [1]}]}, 400, "does not have named input: z"),
        (PREDICT, {"inputs": {"z": [[1]]}}, 400, "Missing named input: x in 'inputs' object."),
        (PREDICT, {"signature_name": "z", "instances": [[1]]}, 400, 'name: "z" not found in signature def'),
        (PREDICT, {"signature_name": 1, "instances": [[1]]}, 400, "'signature_name' key must be a string value."),
        ("/v1/models/kinds:classify", {"examples": []}, 400, "'examples' value is an empty array"),
        ("/v1/models/kinds:regress", {"examples": 3}, 400, "Expecting 'examples' value to be an list/array"),
    ],
)
def test_addresses_and_refusals(addresses, path, body, code, text):
    found, answer = ask(addresses[0], path, body)
    assert found == code, answer
    if text:
        assert text in answer["error"]
