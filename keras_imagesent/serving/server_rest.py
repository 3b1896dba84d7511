"""TF Serving's REST API as a Starlette application."""

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import unquote

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from keras_imagesent.serving.server_errors import ServingError
from keras_imagesent.serving.server_json import json_from_tensors, parse_json, tensors_from_json
from keras_imagesent.serving.server_models import DEFAULT_SIGNATURE

PREDICT = re.compile(r"(?i)/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?:(classify|regress|predict)")
STATUS = re.compile(r"(?i)/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(?:/(metadata))?")
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type",
}


class RestApi:
    """The handlers, the models and the limits.

    `max_body_bytes` bounds one request, `max_bytes_under_way` all that are being read or answered at a time: beyond it
    the answer is 503, whatever the clients do.
    """

    def __init__(self, store, batcher, timeout, max_body_bytes, max_bytes_under_way, cors, page=None):
        self.store = store
        self.batcher = batcher
        self.timeout = timeout
        self.max_body_bytes = max_body_bytes
        self.max_bytes_under_way = max_bytes_under_way
        self.headers = CORS if cors else {}
        self._bytes_under_way = 0
        routes = [Route("/v1/{rest:path}", self.handle, methods=["GET", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"])]
        if page and Path(page).is_dir():
            routes.append(Mount("/", StaticFiles(directory=page, html=True)))
        self.app = Starlette(routes=routes)

    async def handle(self, request):
        try:
            if request.method == "OPTIONS" and self.headers:
                return Response(headers=self.headers)
            return await self._answer(request)
        except ServingError as error:
            return JSONResponse({"error": error.message}, error.http_status, headers=self.headers)

    async def _answer(self, request):
        path = request.url.path
        if request.method == "POST" and (match := PREDICT.fullmatch(path)):
            name, version, label, method = match.groups()
            _refuse_label(label)
            if method.lower() != "predict":
                wanted = {"classify": "classification", "regress": "regression"}[method.lower()]
                message = f"Expected {wanted} signature method_name; these models have predict signatures only"
                raise ServingError("INVALID_ARGUMENT", message)
            return await self._predict(request, unquote(name), version and int(version))
        if request.method == "GET" and (match := STATUS.fullmatch(path)):
            name, version, label, metadata = match.groups()
            _refuse_label(label)
            if not name:
                raise ServingError("INVALID_ARGUMENT", "Missing model name in request.")
            answer = metadata_json if metadata else status_json
            text = answer(self.store, unquote(name), version and int(version))
            return Response(text, media_type="application/json", headers=self.headers)
        raise ServingError("INVALID_ARGUMENT", f"Malformed request: {request.method} {path}")

    async def _predict(self, request, name, version):
        body = bytearray()
        try:
            await self._read(request, body)
            text = await self._predict_json(body, name, version)
        finally:
            self._bytes_under_way -= len(body)
        return Response(text, media_type="application/json", headers=self.headers)

    async def _read(self, request, body):
        async for chunk in request.stream():
            if len(body) + len(chunk) > self.max_body_bytes:
                message = f"The request's body is larger than {self.max_body_bytes} bytes"
                raise ServingError("INVALID_ARGUMENT", message, http_status=413)
            if self._bytes_under_way + len(chunk) > self.max_bytes_under_way:
                raise ServingError("UNAVAILABLE", "Too many requests are under way: try again in a moment")
            body += chunk
            self._bytes_under_way += len(chunk)

    async def _predict_json(self, body, name, version):
        request = await run_in_threadpool(parse_json, bytes(body))
        model = self.store.get(name, version)
        signature = request.get("signature_name") or DEFAULT_SIGNATURE
        if signature not in model.signature_defs:
            message = f'Serving signature name: "{signature}" not found in signature def'
            raise ServingError("INVALID_ARGUMENT", message)
        inputs, row_form = await run_in_threadpool(tensors_from_json, request, model.input_dtypes(signature))
        model.check(signature, inputs)
        future = self.batcher.submit(
            lambda batch: model.call(signature, batch), (model.name, model.number, signature), inputs, self.timeout
        )
        try:
            outputs = await asyncio.wait_for(asyncio.wrap_future(future), self.timeout)
        except TimeoutError:
            raise ServingError("DEADLINE_EXCEEDED", f"Timed out after {self.timeout:g} seconds") from None
        return await run_in_threadpool(json_from_tensors, outputs, row_form)


def status_json(store, name, version=None):
    """GetModelStatusResponse as JSON."""
    response = get_model_status_pb2.GetModelStatusResponse()
    fill_status(response, store, name, version)
    return json_format.MessageToJson(response, always_print_fields_with_no_presence=True)


def metadata_json(store, name, version=None):
    """GetModelMetadataResponse as JSON, without the `@type` of its Any (as TF Serving prints it)."""
    model = store.get(name, version)
    signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.signature_defs)
    as_dict = json_format.MessageToDict(
        signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    spec = {"name": model.name, "signature_name": "", "version": str(model.number)}
    return json.dumps({"model_spec": spec, "metadata": {"signature_def": as_dict}}, indent=1)


def fill_status(response, store, name, version=None):
    """Fills a GetModelStatusResponse."""
    states = get_model_status_pb2.ModelVersionStatus.State
    for number, state, code, message in store.states(name, version):
        entry = response.model_version_status.add(version=number, state=states.Value(state))
        entry.status.error_code = code
        entry.status.error_message = message


def _refuse_label(label):
    if label:
        raise ServingError("INVALID_ARGUMENT", f"Unrecognized servable version label: {unquote(label)}")
