"""The server against TF Serving's behaviour, on a small model, by REST and by tensorflow-serving-api's stubs."""

import base64
import gzip
import json

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from keras_imagesent.errors import InputError
from keras_imagesent.serving.client import Client
from keras_imagesent.serving.server import Server
from keras_imagesent.serving.server_errors import ServingError
from tests.serving.toy import GOOD, ask


@pytest.fixture(scope="module")
def server(models):
    limits = {"max_batch_size": 8, "max_queued_rows": 16, "max_body_bytes": 20_000}
    with Server({"toy": models / "toy"}, rest_port=0, grpc_port=0, **limits) as running:
        yield running


def stub(server):
    return prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}"))


def test_status_and_metadata(server):
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert ask(server, "/v1/models/toy") == (200, {"model_version_status": [status]})
    assert ask(server, "/v1/models/toy/versions/1") == (200, {"model_version_status": [status]})
    code, metadata = ask(server, "/v1/models/toy/metadata")
    assert code == 200
    assert metadata["model_spec"] == {"name": "toy", "signature_name": "", "version": "1"}
    inputs = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert inputs["text"]["dtype"] == "DT_STRING"
    assert inputs["text"]["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


def test_predict_in_row_form(server):
    rows = [{"x": 0.1, "text": "a"}, {"x": 3, "text": {"b64": base64.b64encode("é".encode()).decode()}}]
    code, answer = ask(server, "/v1/models/toy:predict", {"instances": rows})
    assert code == 200
    first, second = answer["predictions"]
    assert first == {"y": 0.2, "upper": "A", "raw_bytes": {"b64": "YQ=="}, "batch_rows": 2}  # 0.2, not 0.20000000298
    assert second["y"] == 6.0


def test_predict_in_column_form(server):
    body = {"inputs": {"x": [1.0, 2.0], "text": ["a", "b"]}}
    code, answer = ask(server, "/v1/models/toy/versions/1:predict", body)
    assert code == 200
    assert answer["outputs"]["upper"] == ["A", "B"]
    assert answer["outputs"]["raw_bytes"] == [{"b64": "YQ=="}, {"b64": "Yg=="}]
    one = {"signature_name": "one", "inputs": [[1.0, 2.0]]}
    assert ask(server, "/v1/models/toy:predict", one) == (200, {"outputs": [[2.0, 4.0]]})
    one = {"signature_name": "one", "instances": [[1.0, 2.0], {"x": [1.0, 2.0]}["x"]]}
    assert ask(server, "/v1/models/toy:predict", one) == (200, {"predictions": [[2.0, 4.0], [2.0, 4.0]]})


PREDICT = "/v1/models/toy:predict"


def nested(levels):
    return [nested(levels - 1)] if levels else 1.0


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        ("/v1/models/none", None, 404, "Could not find any versions of model none"),
        ("/v1/models/toy/versions/9", None, 404, "Could not find version 9 of model toy"),
        ("/v1/models/none/metadata", None, 404, "Servable not found for request: Latest(none)"),
        ("/v1/models", None, 400, "Missing model name in request."),
        ("/v1/nonsense", None, 400, "Malformed request: GET /v1/nonsense"),
        ("/v1/models/toy", {}, 400, "Malformed request: POST /v1/models/toy"),
        ("/v1/models/none:predict", {}, 404, "Servable not found for request: Latest(none)"),
        ("/v1/models/none:predict", b"", 400, "JSON Parse error: The document is empty"),
        ("/v1/models/toy/versions/9:predict", {}, 404, "Servable not found for request: Specific(toy, 9)"),
        ("/v1/models/toy/labels/new:predict", {}, 400, "Unrecognized servable version label: new"),
        (PREDICT, b"", 400, "JSON Parse error: The document is empty"),
        (PREDICT, b"{nonsense", 400, "JSON Parse error: Invalid value. at offset: 1"),
        (PREDICT, b"[1]", 400, "JSON Value: [1] Is not object"),
        (PREDICT, b"[" * 15_000, 400, "JSON Parse error"),
        (PREDICT, {}, 400, "Missing 'inputs' or 'instances' key"),
        (PREDICT, {"inputs": 1, "instances": 1}, 400, "expecting only one of 'inputs' or 'instances'"),
        (PREDICT, {"instances": []}, 400, "No values in 'instances' array"),
        (PREDICT, {"instances": 3}, 400, "Excepting 'instances' to be an list/array"),
        (PREDICT, {"instances": [1]}, 400, "instances is a plain list, but expecting list of objects"),
        (PREDICT, {"instances": [{"x": 1}]}, 400, "keys must be equal to: text,x"),
        (PREDICT, {"instances": [{**GOOD, "z": 1}]}, 400, "does not have named input: z"),
        (PREDICT, {"instances": [GOOD, 3]}, 400, "Expecting object but got list at item 1"),
        (PREDICT, {"instances": [{**GOOD, "x": "a"}]}, 400, "is not of expected type: float"),
        (PREDICT, {"instances": [{**GOOD, "x": 2**24 + 1}]}, 400, "without loss of precision"),
        (PREDICT, {"instances": [{**GOOD, "x": [1]}]}, 400, "must be float32 of shape (None,)"),
        (PREDICT, {"instances": [{**GOOD, "text": {"b64": "?"}}]}, 400, "Unable to base64 decode"),
        (PREDICT, {"instances": [{**GOOD, "text": {"c": "?"}}]}, 400, "formatted correctly for base64"),
        (PREDICT, {"instances": [GOOD, {**GOOD, "x": [1]}]}, 400, "Expecting shape [] but got: [1]"),
        (PREDICT, {"inputs": {"x": [1]}}, 400, "Missing named input: text in 'inputs' object."),
        (PREDICT, {"inputs": {"x": [1], "text": ["a", "b"]}}, 400, "must have equal 0th-dimension size"),
        (PREDICT, {"inputs": {"x": [1, [2]], "text": ["a"]}}, 400, "Encountered list at unexpected level"),
        (PREDICT, {"inputs": {"x": [[1], [2, 3]], "text": ["a"]}}, 400, "unexpected size: 2 at level: 1"),
        (PREDICT, {"inputs": {"x": 1, "text": "a"}}, 400, "must be string of shape (None,), got"),
        (PREDICT, {"signature_name": "z", "instances": [1]}, 400, 'name: "z" not found in signature def'),
        (PREDICT, {"signature_name": 3}, 400, "'signature_name' key must be a string value."),
        (PREDICT, {"instances": [GOOD] * 17}, 400, "Task size 17 is larger than maximum input batch size 16"),
        (PREDICT, b" " * 20_001, 413, "larger than 20000 bytes"),
        ("/v1/models/toy:classify", {}, 400, "When method is classify, key 'examples' is expected and was not found"),
        (
            "/v1/models/toy:regress",
            {"examples": [{}]},
            400,
            "to be tensorflow/serving/regress. Was: tensorflow/serving/p",
        ),
        ("/v1/models/none:classify", {"examples": [{}]}, 404, "Servable not found for request: Latest(none)"),
        (f"/v1/models/toy/versions/{2**63}:predict", {}, 400, f"Failed to convert version: {2**63} to numeric."),
        (f"/v1/models/toy/versions/{'9' * 5000}", None, 400, "Failed to convert version: 999"),
        (PREDICT, b'{"instances": [' + b"9" * 5000 + b"]}", 400, "Number too big to be stored in double."),
        (PREDICT, b'{"inputs": {"x": [' + b"9" * 400 + b'], "text": "a"}}', 400, "too big to be stored in double"),
        (PREDICT, {"inputs": {"x": nested(65), "text": ["a"]}}, 400, "nested more than 16 deep"),
        (PREDICT, {"inputs": {"x": nested(400), "text": ["a"]}}, 400, "nested more than 16 deep"),
        (PREDICT, {"instances": nested(900)}, 400, "expecting list of objects"),
        (PREDICT, b'{"instances": [{"x": 1, "text": "\\ud800"}]}', 400, "The surrogate pair in string is invalid."),
        (PREDICT, b'{"\\udfff": 1}', 400, "The surrogate pair in string is invalid."),
    ],
)
def test_refusals_in_tf_servings_words(server, path, body, code, message):
    status, answer = ask(server, path, body)
    assert status == code
    assert message in answer["error"]


def test_more_rows_than_a_batch_are_split(server):
    rows = [{"x": float(x), "text": str(x)} for x in range(13)]
    code, answer = ask(server, PREDICT, {"instances": rows})
    assert code == 200
    assert [row["y"] for row in answer["predictions"]] == [2.0 * x for x in range(13)]
    assert [row["batch_rows"] for row in answer["predictions"]] == [8] * 8 + [5] * 5


def test_gzip_bodies_are_unpacked_within_the_limit(server):
    body = gzip.compress(json.dumps({"instances": [GOOD]}).encode())
    assert ask(server, PREDICT, body, **{"Content-Encoding": "gzip"})[1]["predictions"][0]["y"] == 2.0
    bomb = gzip.compress(b" " * 10_000_000)
    assert ask(server, PREDICT, bomb, **{"Content-Encoding": "gzip"})[0] == 413
    assert ask(server, PREDICT, b"{}", **{"Content-Encoding": "gzip"})[0] == 400
    assert ask(server, PREDICT, b"{}", **{"Content-Encoding": "br"})[0] == 415


def predict_request(**inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "toy"
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return request


def test_grpc_predict(server):
    request = predict_request(x=[1.0, 2.0], text=["a", "b"])
    response = stub(server).Predict(request, timeout=20)
    assert tf.make_ndarray(response.outputs["y"]).tolist() == [2.0, 4.0]
    assert tf.make_ndarray(response.outputs["upper"]).tolist() == [b"A", b"B"]
    assert (response.model_spec.name, response.model_spec.version.value) == ("toy", 1)
    assert response.model_spec.signature_name == "serving_default"
    request.output_filter.append("y")
    assert list(stub(server).Predict(request, timeout=20).outputs) == ["y"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda r: setattr(r.model_spec, "name", "none"), "NOT_FOUND", "Servable not found for request: Latest(none)"),
        (lambda r: setattr(r.model_spec.version, "value", 7), "NOT_FOUND", "Specific(toy, 7)"),
        (
            lambda r: setattr(r.model_spec, "signature_name", "z"),
            "FAILED_PRECONDITION",
            'Serving signature key "z" not found.',
        ),
        (lambda r: r.inputs.pop("x"), "INVALID_ARGUMENT", "Missing but required: {x}."),
        (lambda r: r.inputs["z"].CopyFrom(r.inputs["x"]), "INVALID_ARGUMENT", "Sent extra: {z}."),
        (lambda r: r.inputs["x"].CopyFrom(r.inputs["text"]), "INVALID_ARGUMENT", "must be float32"),
        (lambda r: r.inputs["x"].Clear(), "INVALID_ARGUMENT", "input x must be float32 of shape (None,), got type 0"),
        (lambda r: r.output_filter.extend(["y", "y"]), "INVALID_ARGUMENT", "duplicate output tensor alias: y"),
        (lambda r: setattr(r.inputs["x"], "dtype", 20), "INVALID_ARGUMENT", "got resource of shape (1,)"),
        (lambda r: setattr(r.inputs["x"], "dtype", 999), "INVALID_ARGUMENT", "got type 999 of shape (1,)"),
        (lambda r: setattr(r.inputs["x"].tensor_shape.dim[0], "size", -1), "INVALID_ARGUMENT", "tensor parsing error"),
        (
            lambda r: setattr(r.inputs["x"].tensor_shape.dim[0], "size", 10**8),
            "INVALID_ARGUMENT",
            "larger than 20000 b",
        ),
        (lambda r: setattr(r.model_spec, "version_label", "new"), "INVALID_ARGUMENT", "version label: new"),
        (lambda r: r.output_filter.append("z"), "INVALID_ARGUMENT", "output tensor alias not found in signature: z"),
    ],
)
def test_grpc_refusals(server, change, code, message):
    request = predict_request(x=[1.0], text=["a"])
    change(request)
    with pytest.raises(grpc.RpcError) as refused:
        stub(server).Predict(request, timeout=20)
    assert refused.value.code().name == code
    assert message in refused.value.details()


def test_grpc_metadata_status_and_what_is_not_offered(server):
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "toy"
    signatures = get_model_metadata_pb2.SignatureDefMap()
    prediction.GetModelMetadata(request, timeout=20).metadata["signature_def"].Unpack(signatures)
    assert set(signatures.signature_def) == {"serving_default", "one", "__saved_model_init_op"}
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "toy"
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    (version,) = models.GetModelStatus(status, timeout=20).model_version_status
    assert (version.version, version.state) == (1, get_model_status_pb2.ModelVersionStatus.AVAILABLE)
    spec = {"name": "toy"}
    refusals = [
        (prediction.Classify, classification_pb2.ClassificationRequest(model_spec=spec), "serving/classify. Was: tens"),
        (prediction.Regress, regression_pb2.RegressionRequest(model_spec=spec), "serving/regress. Was: tensorflow/"),
        (prediction.MultiInference, inference_pb2.MultiInferenceRequest(tasks=[{"model_spec": spec}] * 2), "method_na"),
        (prediction.MultiInference, inference_pb2.MultiInferenceRequest(), "Inference request with no tasks"),
        (models.HandleReloadConfigRequest, model_management_pb2.ReloadConfigRequest(), "start the server with --allow"),
    ]
    for method, message, text in refusals:
        with pytest.raises(grpc.RpcError) as refused:
            method(message, timeout=20)
        assert text in refused.value.details()


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_client_says_the_same_over_rest_and_grpc(server, way):
    port = server.rest_port if way == "http" else server.grpc_port
    client = Client(f"{way}://127.0.0.1:{port}", model="toy")
    answer = client.predict("serving_default", {"x": np.float32([0.1, 2.0]), "text": [b"a", b"b"]})
    np.testing.assert_array_equal(answer["y"], np.float32([0.2, 4.0]))
    assert answer["upper"].tolist() == ["A", "B"]
    assert client.status() == [(1, "AVAILABLE")]
    np.testing.assert_array_equal(client.predict("one", {"x": np.ones((1, 2), np.float32)})["y"], [[2.0, 2.0]])
    with pytest.raises(ServingError) as refused:
        Client(client.address, model="none").predict("serving_default", {"x": [1.0]})
    assert (refused.value.code, refused.value.message) == ("NOT_FOUND", "Servable not found for request: Latest(none)")


def test_client_without_a_server():
    with pytest.raises(ServingError, match="no server answers at http://127.0.0.1:9"):
        Client("http://127.0.0.1:9").status()
    with pytest.raises(InputError, match="no server address"):
        Client("ftp://example.org")
