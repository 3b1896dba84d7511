"""A small client for TF Serving and for `imagesent serve`, over REST or gRPC."""

import base64
import contextlib
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np

from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError
from keras_imagesent.extras import require
from keras_imagesent.serving.server_errors import CODES, ServingError
from keras_imagesent.silence import silence_libraries

HTTP_CODES = {status: name for name, (_, status) in reversed(CODES.items())}
HTTP_CODES |= {408: "DEADLINE_EXCEEDED", 413: "INVALID_ARGUMENT", 415: "INVALID_ARGUMENT", 421: "INVALID_ARGUMENT"}


class Client:
    """Asks a server for captions, descriptions and alignments.

    Photos are paths or bytes. Answers are dicts of NumPy arrays, one row a photo, named as the signature's outputs.
    Refusals are raised as `ServingError` with gRPC's code, whichever way was taken, and REST's `http_status`.

    Args:
        address: `http://host:8501` for REST, `grpc://host:8500` for gRPC; `https://` and `grpcs://` with TLS.
        model: the model's name on the server.
        version: a version number; None is the newest.
        timeout: seconds to wait for an answer.
        api_key: the key of a server that wants one.
        ca_file: certificates to trust instead of the system's, as PEM.

    Example:
        >>> client = Client("http://127.0.0.1:8501")
        >>> client.caption(["photo.jpg"])["captions"][0]
        array(['a dog runs through the grass', ...], dtype=object)
    """

    def __init__(
        self,
        address="http://127.0.0.1:8501",
        model="imagesent",
        version=None,
        timeout=60.0,
        api_key=None,
        ca_file=None,
    ):
        self.address = address.rstrip("/")
        self.model = model
        self.version = version
        self.timeout = timeout
        self._stub = None
        self._key = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        scheme = urllib.parse.urlsplit(self.address).scheme
        self._tls = ssl.create_default_context(cafile=ca_file) if scheme == "https" else None
        if scheme in ("grpc", "grpcs"):
            self._stub = _connect(self.address, ca_file)
        elif scheme not in ("http", "https"):
            raise InputError(f"{address} is no server address: write http://HOST:8501 or grpc://HOST:8500")

    def caption(self, photos):
        """The n best captions of each photo: `captions`, `log_probs` (B,N), `status` (B,)."""
        return self.predict("serving_default", {"image_bytes": _read(photos)})

    def describe(self, photos):
        """A caption for every region: `boxes` (B,R,4), `captions`, `log_probs` (B,R), `number_of_regions` (B,)."""
        return self.predict("describe", {"image_bytes": _read(photos)})

    def describe_box(self, photos, boxes):
        """A caption for one chosen box in each photo, (B,4) in 0..1: `captions`, `log_probs` (B,)."""
        return self.predict("describe_box", {"image_bytes": _read(photos), "box": np.asarray(boxes, np.float32)})

    def align(self, photos, sentences):
        """Which region each word belongs to: `words` (B,T), `boxes`, `similarity` (B,T,R), `phrase_regions` (B,T)."""
        inputs = {"image_bytes": _read(photos), "sentences": [sentence.encode() for sentence in sentences]}
        return self.predict("align", inputs)

    def embed_image(self, photos):
        """Region vectors for a search engine: `regions` (B,R,D), `region_mask`, `boxes`."""
        return self.predict("embed_image", {"image_bytes": _read(photos)})

    def embed_sentence(self, sentences):
        """Word vectors for a search engine: `word_vectors` (B,T,D), `word_mask`."""
        return self.predict("embed_sentence", {"sentences": [sentence.encode() for sentence in sentences]})

    def predict(self, signature, inputs):
        """Any signature: `{input: array}` in, `{output: array}` out. Strings are bytes, answers' strings are text."""
        if self._stub:
            return self._predict_grpc(signature, inputs)
        body = {"signature_name": signature, "inputs": {name: _to_json(value) for name, value in inputs.items()}}
        outputs = self._fetch(":predict", json.dumps(body).encode())["outputs"]
        if not isinstance(outputs, dict):
            names = self._fetch("/metadata")["metadata"]["signature_def"]["signature_def"][signature]["outputs"]
            outputs = {next(iter(names)): outputs}
        return {name: _from_json(value) for name, value in outputs.items()}

    def status(self):
        """[(version, state)] of the model, e.g. `[(3, "AVAILABLE")]`."""
        if self._stub:
            return self._status_grpc()
        versions = self._fetch("")["model_version_status"]
        return [(int(entry["version"]), entry["state"]) for entry in versions]

    def _fetch(self, what, body=None):
        version = f"/versions/{self.version}" if self.version is not None else ""
        url = f"{self.address}/v1/models/{urllib.parse.quote(self.model)}{version}{what}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json", **self._key})
        try:
            with urllib.request.urlopen(request, timeout=self.timeout, context=self._tls) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):  # else some proxy's page: show it as it is
                text = json.loads(text)["error"]
            raise ServingError(HTTP_CODES.get(error.code, "UNKNOWN"), text, error.code) from None
        except TimeoutError:
            raise ServingError("DEADLINE_EXCEEDED", f"no answer within {self.timeout:g} seconds") from None
        except urllib.error.URLError as error:
            raise ServingError("UNAVAILABLE", f"no server answers at {self.address}: {error.reason}") from None

    def _predict_grpc(self, signature, inputs):
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        outputs = self._ask(self._stub[0].Predict, request).outputs
        return {name: _as_text(tf.make_ndarray(value)) for name, value in outputs.items()}

    def _status_grpc(self):
        from tensorflow_serving.apis import get_model_status_pb2

        request = get_model_status_pb2.GetModelStatusRequest()
        self._fill(request.model_spec)
        state = get_model_status_pb2.ModelVersionStatus.State
        versions = self._ask(self._stub[1].GetModelStatus, request).model_version_status
        return [(entry.version, state.Name(entry.state)) for entry in versions]

    def _fill(self, spec):
        spec.name = self.model
        if self.version is not None:
            spec.version.value = self.version

    def _ask(self, method, request):
        import grpc

        try:
            metadata = [(name.lower(), value) for name, value in self._key.items()]
            return method(request, timeout=self.timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise ServingError(error.code().name, error.details()) from None


def _connect(address, ca_file=None):
    silence_libraries()
    grpc = require("grpc", "serve")
    require("tensorflow_serving", "serve")
    from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

    unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "grpcs":
        trusted = grpc.ssl_channel_credentials(Path(ca_file).read_bytes() if ca_file else None)
        channel = grpc.secure_channel(parts.netloc, trusted, unlimited)
    else:
        channel = grpc.insecure_channel(parts.netloc, unlimited)
    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return prediction, model_service_pb2_grpc.ModelServiceStub(channel)


def _read(photos):
    """The photos' bytes; formats that no server reads are sent as JPEG."""
    contents = [photo if isinstance(photo, bytes) else Path(photo).read_bytes() for photo in photos]
    return [to_decodable(content, lossless=False) for content in contents]


def _to_json(value):
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_to_json(element) for element in value]
    return value


def _from_json(value):
    array = np.asarray(value)
    kinds = {"U": object, "f": np.float32, "i": np.int32}
    return array.astype(kinds.get(array.dtype.kind, array.dtype))


def _as_text(array):
    if array.dtype != object:
        return array
    flat = np.empty(array.size, object)
    flat[:] = [value.decode("utf-8", "replace") for value in array.ravel()]
    return flat.reshape(array.shape)
