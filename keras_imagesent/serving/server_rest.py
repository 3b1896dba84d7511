"""TF Serving's REST API as an ASGI application, with health, metrics and the live page beside it."""

import asyncio
import concurrent.futures
import hmac
import ipaddress
import json
import logging
import re
import secrets
import socket
import time
import zlib
from pathlib import Path
from urllib.parse import unquote

from google.protobuf import json_format
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from keras_imagesent.serving.server_batching import FULL
from keras_imagesent.serving.server_errors import ServingError
from keras_imagesent.serving.server_json import check_examples, json_from_tensors, parse_json, tensors_from_json
from keras_imagesent.serving.server_models import DEFAULT_SIGNATURE
from keras_imagesent.serving.server_photos import check_photos, tell_refusals, unreadable

PREDICT = re.compile(r"(?i)/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?:(classify|regress|predict)")
STATUS = re.compile(r"(?i)/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(?:/(metadata))?")
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type, Authorization",
}
SAFE = {"X-Content-Type-Options": "nosniff"}
PAGE = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self' http://127.0.0.1:* http://localhost:*; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
TOO_MANY = "Too many requests are under way: try again in a moment"
LONGEST_MESSAGE = 1000
STALLED_BYTES, STALLED_SECONDS = 64 * 1024, 1.0  # an upload that brings less makes room for others
log = logging.getLogger("keras_imagesent.serving")


class RestApi:
    """The handlers, the models and the limits.

    Args:
        max_body_bytes: of one request, also after it is unpacked.
        room: the bytes of all requests under way; beyond them the answer is 503. An upload that stalls is ended when
            others need its room, and in any case after `read_timeout` seconds.
        timeout: seconds from a request's first byte to its answer.
        allowed_hosts: names for the Host header beside addresses, localhost and this machine's; "*" for any.
        api_key: what `Authorization: Bearer` must bring; None for no key.
    """

    def __init__(
        self,
        store,
        batcher,
        metrics,
        room,
        timeout=30.0,
        read_timeout=10.0,
        max_body_bytes=32 * 2**20,
        cors=False,
        allowed_hosts=(),
        api_key=None,
        page=None,
    ):
        self.store = store
        self.batcher = batcher
        self.metrics = metrics
        self.room = room
        self.timeout = timeout
        self.read_timeout = read_timeout
        self.max_body_bytes = max_body_bytes
        self.draining = False
        self._cors = CORS if cors else {}
        self._hosts = {host.lower() for host in allowed_hosts} | {"localhost", socket.gethostname().lower()}
        self._api_key = api_key
        self._uploads = set()
        self._pool = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="json")
        self._page = StaticFiles(directory=page, html=True) if page and Path(page).is_dir() else None

    async def __call__(self, scope, receive, send):
        request = Request(scope, receive)
        asked = Asked(request)
        try:
            response = await self._route(request, asked)
        except ClientDisconnect:
            asked.code = "CANCELLED"
            self._record(asked)
            return
        except HTTPException as error:
            response = self._refusal(asked, ServingError("NOT_FOUND", error.detail, error.status_code))
        except ServingError as error:
            response = self._refusal(asked, error)
        except Exception as error:
            log.error("request %s: %s: %.300r", asked.id, type(error).__name__, str(error))
            response = self._refusal(asked, ServingError("INTERNAL", f"internal error, request {asked.id}"))
        self._record(asked)
        headers = {**SAFE, "X-Request-Id": asked.id}
        if self.draining:
            headers["Connection"] = "close"
        response.headers.update(headers)
        await response(scope, receive, send)

    def close(self):
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _route(self, request, asked):
        path = asked.path
        if path == "/healthz":
            return JSONResponse({"status": "ok"})
        if path == "/readyz":
            return self._ready()
        self._check_host(request)
        if path.lower().startswith("/v1/"):
            if request.method == "OPTIONS" and self._cors:
                return Response(headers=self._cors)
            self._check_key(request)
            response = await self._answer(request, asked)
            response.headers.update(self._cors)
            return response
        if path == "/metrics":
            self._check_key(request)
            return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")
        if self._page is None:
            raise HTTPException(404, f"There is nothing at {path}")
        response = await self._page.get_response(self._page.get_path(request.scope), request.scope)
        response.headers.update(PAGE)
        return response

    async def _answer(self, request, asked):
        path = asked.path
        if request.method == "POST" and (match := PREDICT.fullmatch(path)):
            name, version, label, method = match.groups()
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                message = "The Content-Type must be application/json (curl -H 'Content-Type: application/json')"
                raise ServingError("INVALID_ARGUMENT", message, http_status=415)
            which = unquote(name), _to_int64(version), label and unquote(label)
            return await self._predict(request, asked, which, method.lower())
        if request.method == "GET" and (match := STATUS.fullmatch(path)):
            name, version, label, metadata = match.groups()
            if not name:
                raise ServingError("INVALID_ARGUMENT", "Missing model name in request.")
            answer = metadata_json if metadata else status_json
            text = answer(self.store, unquote(name), _to_int64(version), label and unquote(label))
            return Response(text, media_type="application/json")
        raise ServingError("INVALID_ARGUMENT", f"Malformed request: {request.method} {path}")

    async def _predict(self, request, asked, which, method):
        if method == "predict" and self.batcher.is_full:  # refused before the body is read: a refusal costs nothing
            self.metrics.refused("queue")
            raise ServingError("UNAVAILABLE", FULL)
        upload = Upload(self.room)
        try:
            await self._read(request, upload)
            if method != "predict":
                text = await self._in_pool(self._refuse_method, upload, which, method)
            else:
                text = await self._predict_json(request, asked, upload, which)
        finally:
            upload.close()
        return Response(text, media_type="application/json")

    async def _read(self, request, upload):
        """The body, bounded in bytes and in time."""
        unpack = _unpacker(request.headers.get("content-encoding", ""))
        self._uploads.add(upload)
        try:
            async with asyncio.timeout(self.read_timeout) as upload.limit:
                async for chunk in request.stream():
                    room = self.max_body_bytes - len(upload.body)
                    part = unpack(chunk, room)
                    if len(part) > room:
                        message = f"The request's body is larger than {self.max_body_bytes} bytes"
                        raise ServingError("INVALID_ARGUMENT", message, http_status=413)
                    self._make_room(upload, len(part))
                    upload.add(part)
        except TimeoutError:
            raise ServingError("DEADLINE_EXCEEDED", "The request's body took too long", http_status=408) from None
        finally:
            self._uploads.discard(upload)

    def _make_room(self, upload, number):
        """Takes room for so many bytes, from uploads that stall if there is no other."""
        while not self.room.take(number):
            stalled = [other for other in self._uploads if other is not upload and other.is_stalled]
            if not stalled:
                self.metrics.refused("memory")
                raise ServingError("UNAVAILABLE", TOO_MANY)
            max(stalled, key=lambda other: len(other.body)).end()

    async def _predict_json(self, request, asked, upload, which):
        model, signature, inputs, row_form, weights, refused = await self._in_pool(self._prepare, upload, which, asked)
        answer = self.batcher.submit(
            lambda batch, stop: model.call(signature, batch, stop),
            (model.name, model.number, signature),
            inputs,
            asked.left(self.timeout),
            weights,
        )
        outputs = tell_refusals(await self._wait(request, answer, asked), refused)
        self.metrics.unreadable(unreadable(outputs))
        return await self._in_pool(json_from_tensors, outputs, row_form)

    def _prepare(self, upload, which, asked):
        """From the body to arrays that the model may see; in a thread, since it takes time."""
        request = parse_json(upload.body)
        upload.body = b""  # its room stays taken until the answer: the photos are still there
        model = self.store.get(*which)
        signature = request.get("signature_name") or DEFAULT_SIGNATURE
        if signature not in model.signature_defs:
            message = f'Serving signature name: "{signature}" not found in signature def'
            raise ServingError("INVALID_ARGUMENT", message)
        asked.model, asked.signature = model.name, signature
        inputs, row_form = tensors_from_json(request, model.input_dtypes(signature), self.batcher.max_queued_rows)
        model.check(signature, inputs)
        inputs, weights, refused = check_photos(inputs)
        return model, signature, inputs, row_form, weights, refused

    def _refuse_method(self, upload, which, method):
        """Classify and regress, in TF Serving's words: our models have predict signatures only."""
        request = parse_json(upload.body)
        check_examples(request)
        model = self.store.get(*which)
        raise refuse_method(model, request.get("signature_name") or DEFAULT_SIGNATURE, method)

    async def _wait(self, request, answer, asked):
        """The outputs; a client that leaves or has waited too long takes its task along."""
        outputs = asyncio.wrap_future(answer)
        gone = asyncio.ensure_future(request.receive())
        try:
            left = asked.left(self.timeout)
            done, _ = await asyncio.wait({outputs, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if outputs in done:
                return outputs.result()
            answer.abandon()
            if gone in done:
                raise ClientDisconnect
            raise ServingError("DEADLINE_EXCEEDED", f"Timed out after {self.timeout:g} seconds")
        finally:
            gone.cancel()
            outputs.cancel()

    async def _in_pool(self, work, *arguments):
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def _ready(self):
        watcher = {"seconds_since_last_look": round(time.monotonic() - self.store.last_look, 1)}
        watcher["failed_looks"] = self.store.failed_looks
        if self.draining or not self.store.is_warm:
            reason = "shutting down" if self.draining else "warming up"
            return JSONResponse({"error": reason, "watcher": watcher}, 503, headers={"Retry-After": "1"})
        versions = {name: self.store.get(name).number for name in self.store.names}
        return JSONResponse({"status": "ready", "models": versions, "watcher": watcher})

    def _check_host(self, request):
        """A page of another site can make its name point here (DNS rebinding); an address it cannot."""
        host = request.headers.get("host", "")
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if "*" in self._hosts or name.lower() in self._hosts:
            return
        try:
            ipaddress.ip_address(name)
        except ValueError:
            message = f"Host {host[:100]!r} is not allowed here: name it with --allowed-hosts"
            raise ServingError("INVALID_ARGUMENT", message, http_status=421) from None

    def _check_key(self, request):
        if not key_is_right(self._api_key, request.headers.get("authorization", "")):
            raise ServingError("UNAUTHENTICATED", "Send the server's key as Authorization: Bearer KEY")

    def _refusal(self, asked, error):
        asked.code = error.code
        message = error.message[:LONGEST_MESSAGE]
        log.warning(
            "request %s: %s %.200s: %d %s: %.300r",
            *(asked.id, asked.method, asked.path, error.http_status, error.code, message),
        )
        retry = {"Retry-After": "1"} if error.http_status == 503 else {}
        return JSONResponse({"error": message}, error.http_status, headers={**self._cors, **retry})

    def _record(self, asked):
        if asked.path.lower().startswith("/v1/"):
            self.metrics.answered("rest", asked.model, asked.signature, asked.code, time.monotonic() - asked.began)


class Asked:
    """What one request was about, for the log and the metrics."""

    def __init__(self, request):
        self.id = secrets.token_hex(8)
        self.began = time.monotonic()
        self.method = request.method
        self.path = request.scope.get("raw_path", b"").decode("ascii", "replace") or "/"
        self.model = self.signature = ""
        self.code = "OK"

    def left(self, timeout):
        return max(0.0, self.began + timeout - time.monotonic())


class Upload:
    """A body being read, and the room that it takes until its request is answered."""

    def __init__(self, room):
        self.body = bytearray()
        self.limit = None
        self._room = room
        self._taken = 0
        self._mark = time.monotonic(), 0  # when so many bytes were there

    def add(self, part):
        self._taken += len(part)
        self.body += part
        if len(self.body) - self._mark[1] >= STALLED_BYTES:
            self._mark = time.monotonic(), len(self.body)

    @property
    def is_stalled(self):
        return time.monotonic() - self._mark[0] > STALLED_SECONDS

    def end(self):
        """Gives the room back and ends the reading."""
        self.close()
        self.body = bytearray()
        self.limit.reschedule(asyncio.get_running_loop().time())

    def close(self):
        self._room.give(self._taken)
        self._taken = 0


def status_json(store, name, version=None, label=None):
    """GetModelStatusResponse as JSON."""
    response = get_model_status_pb2.GetModelStatusResponse()
    fill_status(response, store, name, version, label)
    return json_format.MessageToJson(response, always_print_fields_with_no_presence=True)


def metadata_json(store, name, version=None, label=None):
    """GetModelMetadataResponse as JSON, without the `@type` of its Any (as TF Serving prints it)."""
    model = store.get(name, version, label)
    signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.all_signature_defs)
    as_dict = json_format.MessageToDict(
        signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    spec = {"name": model.name, "signature_name": "", "version": str(model.number)}
    return json.dumps({"model_spec": spec, "metadata": {"signature_def": as_dict}}, indent=1)


def fill_status(response, store, name, version=None, label=None):
    """Fills a GetModelStatusResponse."""
    states = get_model_status_pb2.ModelVersionStatus.State
    for number, state, code, message in store.states(name, version, label):
        entry = response.model_version_status.add(version=number, state=states.Value(state))
        entry.status.error_code = code
        entry.status.error_message = message


def refuse_method(model, signature, method):
    """TF Serving's refusal of Classify or Regress on a predict signature."""
    if signature not in model.signature_defs:
        return ServingError("INVALID_ARGUMENT", f"No signature was found with the name: {signature}")
    kind = {"classify": "classification", "regress": "regression"}[method]
    was = model.signature_defs[signature].method_name
    message = f"Expected {kind} signature method_name to be tensorflow/serving/{method}. Was: {was}"
    return ServingError("INVALID_ARGUMENT", message)


def key_is_right(api_key, authorization):
    """True if no key is wanted, or `Bearer KEY` brings it."""
    return api_key is None or hmac.compare_digest(authorization.encode(), f"Bearer {api_key}".encode())


def _to_int64(version):
    if version is None:
        return None
    if int(version[:30]) >= 2**63:
        raise ServingError("INVALID_ARGUMENT", f"Failed to convert version: {version} to numeric.")
    return int(version)


def _unpacker(encoding):
    """A function from (chunk, room) to the unpacked chunk, of which no more than `room` + 1 bytes are made."""
    if "gzip" not in encoding:
        if encoding not in ("", "identity"):
            message = f"Content-Encoding {encoding[:50]!r} is not supported: use gzip or none"
            raise ServingError("INVALID_ARGUMENT", message, http_status=415)
        return lambda chunk, room: chunk
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def unpack(chunk, room):
        try:
            return inflate.decompress(chunk, room + 1)  # more than the room is refused, so nothing is left over
        except zlib.error:
            raise ServingError("INVALID_ARGUMENT", "The body is not gzip, as its Content-Encoding says") from None

    return unpack
