"""Requests that no honest client sends, over both doors; the same for the same random numbers."""

import gzip
import json
import struct

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from tests.broken import break_content

PREDICT = "/v1/models/toy:predict"
GOOD = {"signature_name": "serving_default", "instances": [{"x": 1.0, "text": "a"}, {"x": 2.5, "text": "ü"}]}
COLUMNS = {"inputs": {"x": [1.0, 2.0], "text": ["a", {"b64": "Yg=="}]}}
VALUES = [
    *(None, True, False, 0, -1, 1e308, 2**63, 10**400, "", "a", "\ud800", "\0", "é" * 3000, "9" * 5000),
    *([], {}, [[]], [None], {"b64": "?"}, {"b64": "YQ"}, {"b64": 3}, {"b64": "YQ==", "x": 1}, {"": []}),
    *([1, [2]], [[1], [2, 3]], {"x": {}}, {"instances": []}, [0.1] * 3000, "x" * 100_000),
]
TEXTS = [
    b"NaN",
    b"Infinity",
    b"1e999",
    b"9" * 5000,
    b"-",
    b"[" * 400,
    b"[" * 100_000,
    b'"\\ud800"',
    b"\xff",
    b"{",
    b"0x1",
]
PATHS = [
    *("/", "//", "/v1", "/v1/models", "/v1/models/", "/v1/models/toy", "/v1/models/toy/", "/v1/models/toy:predict/"),
    *("/v1/models/toy/versions/1:predict", "/v1/models/toy/versions/0:predict", "/v1/models/toy/versions/x:predict"),
    *(f"/v1/models/toy/versions/{'9' * n}:predict" for n in (18, 19, 20, 4400)),
    *("/v1/models/toy/labels/stable:predict", "/v1/models/toy/labels/:predict", "/v1/models/toy/metadata"),
    *("/v1/models/%00:predict", "/v1/models/%ff%fe:predict", "/v1/models/../toy:predict", "/../../etc/passwd"),
    *("/v1/models/toy:classify", "/v1/models/toy:regress", "/v1/models/toy:explain", "/v1/models/toy:PREDICT"),
    *(
        "/v1/models/" + "a" * 3000 + ":predict",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/live.js",
        "/metrics",
        "/readyz",
        "/healthz",
    ),
]
HEADERS = [
    {"Content-Encoding": "gzip"},
    {"Content-Encoding": "br"},
    {"Content-Type": "text/plain"},
    {"Content-Type": ""},
    {"Host": "evil.example"},
    {"Host": "[::1"},
    {"Authorization": "Bearer é"},
    {"Origin": "http://evil.example"},
    {"Expect": "100-continue"},
    {"Upgrade": "websocket", "Connection": "Upgrade"},
    {f"X-{number}": "a" * 200 for number in range(60)},
]
RAW = [  # sent as they are; after some of them the server has to wait for more, so that few are chosen
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /v1/models/toy HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"A" * 100_000 + b"\r\n\r\n",
]
METHODS = ["Predict"] * 6 + ["GetModelMetadata", "Classify", "Regress", "MultiInference"]
SERVICES = {
    "PredictionService": METHODS,
    "ModelService": ["GetModelStatus", "HandleReloadConfigRequest"],
}


def choose(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def hostile_rest(rng):
    """(method, path, headers, body)."""
    headers = {"Content-Type": "application/json"}
    method, path, body = "POST", PREDICT, json.dumps(choose(rng, [GOOD, COLUMNS])).encode()
    way = int(rng.integers(10))
    if way < 4:
        body = json.dumps(_with_a_strange_value(json.loads(body), rng)).encode()
    elif way < 7:
        body = break_content(body, rng)
    elif way == 7:
        body = body.replace(choose(rng, [b"1.0", b'"a"', b"{", b"2.5"]), choose(rng, TEXTS), 1)
    elif way == 8:
        method, path = choose(rng, ["GET", "POST", "POST", "PUT", "HEAD", "OPTIONS", "DELETE"]), choose(rng, PATHS)
        body = body if method == "POST" else None
    else:
        headers |= choose(rng, HEADERS)
        if headers.get("Content-Encoding") == "gzip":
            body = break_content(gzip.compress(choose(rng, [body, b" " * 40_000_000])), rng)
    return method, path, headers, body


def _with_a_strange_value(value, rng):
    """Some value in it, or it itself, replaced."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        place = choose(rng, list(value) if isinstance(value, dict) else range(len(value)))
        changed = value.copy()
        changed[place] = _with_a_strange_value(value[place], rng)
        return changed
    return choose(rng, VALUES)


def hostile_grpc(rng):
    """(method's full name, message's bytes)."""
    service = choose(rng, ["PredictionService"] * 5 + ["ModelService"])
    request = predict_pb2.PredictRequest()
    request.model_spec.name = choose(rng, ["toy", "toy", "toy", "", "none"])
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1, 2])))
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([b"a", b"b"]))
    way = int(rng.integers(8))
    if way < 4:
        _make_strange(request.inputs[choose(rng, ["x", "text", "z"])], rng)
    elif way == 4:
        spec = request.model_spec
        spec.signature_name = choose(rng, ["", "one", "z", "é" * 500])
        if rng.random() < 0.5:
            spec.version.value = int(choose(rng, [0, 1, -1, 2**63 - 1]))
        else:
            spec.version_label = "stable"
        request.output_filter.extend(choose(rng, [[], ["y"], ["y", "y"], ["z"], [""]]))
    data = request.SerializeToString()
    if way == 5:
        data = break_content(data, rng)
    elif way == 6:
        data = rng.bytes(int(rng.integers(0, 300)))
    elif way == 7:
        metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        metadata.model_spec.name = "toy"
        data = break_content(metadata.SerializeToString(), rng) if rng.random() < 0.7 else data
    return f"/tensorflow.serving.{service}/{choose(rng, SERVICES[service])}", data


def _make_strange(tensor, rng):
    way = int(rng.integers(6))
    if way == 0:
        tensor.dtype = int(choose(rng, [*range(24), 101, 120, 999]))
    elif way == 1:
        del tensor.tensor_shape.dim[:]
        for _ in range(int(choose(rng, [0, 1, 2, 3, 255, 2000]))):
            tensor.tensor_shape.dim.add(size=int(choose(rng, [-2, -1, 0, 1, 2, 10**8, 2**62])))
    elif way == 2:
        tensor.tensor_content = rng.bytes(int(rng.integers(0, 40)))
    elif way == 3:
        tensor.tensor_shape.unknown_rank = True
    elif way == 4:
        tensor.Clear()
        tensor.dtype = int(rng.integers(0, 24))
        tensor.int_val.extend([1, 2, 3])
        tensor.string_val.append(b"\xff")
    else:
        tensor.float_val.extend([float("nan"), float("inf")] * int(rng.integers(1, 2000)))


def broken_photo(rng, photos):
    """A photo that was damaged: bytes as they come, or a header that lies."""
    photo = choose(rng, photos)
    if rng.random() < 0.2 and len(photo) > 30:
        place = int(rng.integers(2, 30))
        return photo[:place] + struct.pack(">I", int(choose(rng, [0, 1, 2**31 - 1, 2**32 - 1]))) + photo[place + 4 :]
    return break_content(photo, rng)
