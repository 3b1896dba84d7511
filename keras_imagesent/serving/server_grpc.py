"""TF Serving's gRPC services, PredictionService and ModelService, and gRPC's own health service."""

import concurrent.futures
import contextlib
import logging
import secrets
import threading
import time

import grpc
import tensorflow as tf
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

from keras_imagesent.errors import InputError
from keras_imagesent.serving.server_batching import FULL
from keras_imagesent.serving.server_config import models_of
from keras_imagesent.serving.server_errors import CODES, ServingError
from keras_imagesent.serving.server_models import DEFAULT_SIGNATURE
from keras_imagesent.serving.server_photos import check_photos, tell_refusals, unreadable
from keras_imagesent.serving.server_rest import LONGEST_MESSAGE, TOO_MANY, fill_status, key_is_right, refuse_method
from keras_imagesent.serving.server_tensors import parse_request, tensors_from_proto

log = logging.getLogger("keras_imagesent.serving")
READERS = 16  # messages read at a time; what has arrived is read at once, so that few are enough
STALLED_SECONDS = 1.0


class GrpcApi:
    """The services over one store and one batcher; `port` says where they listen.

    Messages arrive as bytes and are checked before they are parsed. A call takes a reader only while its message is
    coming in; one that stalls is ended when others wait for its place, and in any case after `read_timeout` seconds.
    """

    def __init__(
        self,
        store,
        batcher,
        metrics,
        room,
        address,
        timeout=30.0,
        read_timeout=10.0,
        max_body_bytes=32 * 2**20,
        api_key=None,
        tls=None,
        config_folder=None,
        workers=64,
    ):
        self.store = store
        self.batcher = batcher
        self.metrics = metrics
        self.room = room
        self.timeout = timeout
        self.max_body_bytes = max_body_bytes
        self.draining = False
        self._api_key = api_key
        self._config_folder = config_folder
        self._readers = Readers(READERS, read_timeout)
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="grpc"),
            maximum_concurrent_rpcs=2 * workers,
            options=[("grpc.max_receive_message_length", max_body_bytes), ("grpc.so_reuseport", 0)],
        )
        services = {
            "tensorflow.serving.PredictionService": {
                "Predict": (predict_pb2.PredictRequest, self._predict),
                "GetModelMetadata": (get_model_metadata_pb2.GetModelMetadataRequest, self._metadata),
                "Classify": (classification_pb2.ClassificationRequest, self._classify),
                "Regress": (regression_pb2.RegressionRequest, self._regress),
                "MultiInference": (inference_pb2.MultiInferenceRequest, self._multi_inference),
            },
            "tensorflow.serving.ModelService": {
                "GetModelStatus": (get_model_status_pb2.GetModelStatusRequest, self._status),
                "HandleReloadConfigRequest": (model_management_pb2.ReloadConfigRequest, self._reload),
            },
            "grpc.health.v1.Health": {"Check": (health_pb2.HealthCheckRequest, self._health)},
        }
        for service, methods in services.items():
            # As streams, so that the work begins before the message is there and its time can be measured; a client
            # sends the same bytes either way.
            handlers = {name: grpc.stream_unary_rpc_method_handler(self._door(*what)) for name, what in methods.items()}
            handler = grpc.method_handlers_generic_handler(service, handlers)
            self._server.add_generic_rpc_handlers((handler,))
        if tls:
            certificate, key = tls
            self.port = self._server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
        else:
            self.port = self._server.add_insecure_port(address)
        self._server.start()

    def stop(self, grace):
        """Takes no new calls; the event is set when those under way are answered, or after `grace` seconds."""
        return self._server.stop(grace)

    def close(self):
        self._readers.close()

    def _door(self, message_type, answer):
        """A handler of raw bytes around `answer(message, asked, context)`."""

        def handle(messages, context):
            asked = Asked()
            context.set_trailing_metadata((("x-request-id", asked.id),))
            problem = None
            try:
                if message_type is not health_pb2.HealthCheckRequest:
                    sent = dict(context.invocation_metadata()).get("authorization", "")
                    if not key_is_right(self._api_key, sent):
                        raise ServingError("UNAUTHENTICATED", "Send the server's key as metadata: authorization Bearer")
                data = self._readers.read(messages, context)
                with self._hold(len(data)):
                    message = parse_request(message_type, data)
                    del data
                    return answer(message, asked, context)
            except ServingError as error:
                problem = error
            except Exception as error:
                log.error("call %s: %s: %.300r", asked.id, type(error).__name__, str(error))
                problem = ServingError("INTERNAL", f"internal error, request {asked.id}")
            finally:
                asked.code = problem.code if problem else "OK"
                seconds = time.monotonic() - asked.began
                self.metrics.answered("grpc", asked.model, asked.signature, asked.code, seconds)
            if problem.code == "CANCELLED":
                return b""  # nobody hears it
            message = problem.message[:LONGEST_MESSAGE]
            log.warning("call %s: %s: %.300r", asked.id, problem.code, message)
            if problem.code == "UNAVAILABLE":
                context.set_trailing_metadata((("x-request-id", asked.id), ("grpc-retry-pushback-ms", "1000")))
            context.abort(grpc.StatusCode[problem.code], message)

        return handle

    @contextlib.contextmanager
    def _hold(self, number):
        if not self.room.take(number):
            self.metrics.refused("memory")
            raise ServingError("UNAVAILABLE", TOO_MANY)
        try:
            yield
        finally:
            self.room.give(number)

    def _predict(self, request, asked, context):
        spec = request.model_spec
        if not spec.name:
            raise ServingError("INVALID_ARGUMENT", "Missing ModelSpec")
        if self.batcher.is_full:
            self.metrics.refused("queue")
            raise ServingError("UNAVAILABLE", FULL)
        model = self.store.get(spec.name, *_version(spec))
        signature = spec.signature_name or DEFAULT_SIGNATURE
        if signature not in model.signature_defs:
            raise ServingError("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
        asked.model, asked.signature = model.name, signature
        inputs = tensors_from_proto(request.inputs, model.signature_defs[signature], self.max_body_bytes)
        model.check(signature, inputs, list(request.output_filter))
        inputs, weights, refused = check_photos(inputs)
        timeout = min(self.timeout, context.time_remaining() or self.timeout) - (time.monotonic() - asked.began)
        future = self.batcher.submit(
            lambda batch, stop: model.call(signature, batch, stop),
            (model.name, model.number, signature),
            inputs,
            timeout,
            weights,
        )
        if not context.add_callback(future.abandon):  # a client that has left needs no answer
            future.abandon()
        try:
            outputs = tell_refusals(future.result(max(timeout, 0.0)), refused)
        except TimeoutError:
            future.abandon()
            raise ServingError("DEADLINE_EXCEEDED", f"Timed out after {self.timeout:g} seconds") from None
        except concurrent.futures.CancelledError:
            raise ServingError("CANCELLED", "the client has left") from None
        self.metrics.unreadable(unreadable(outputs))
        response = predict_pb2.PredictResponse()
        _fill_spec(response.model_spec, model, signature)
        for name in request.output_filter or outputs:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name]))
        return response.SerializeToString()

    def _metadata(self, request, asked, context):
        if not request.metadata_field:
            message = "GetModelMetadataRequest must specify at least one metadata_field"
            raise ServingError("INVALID_ARGUMENT", message)
        for field in request.metadata_field:
            if field != "signature_def":
                raise ServingError("INVALID_ARGUMENT", f"Metadata field {field} is not supported")
        if not request.model_spec.name:
            raise ServingError("INVALID_ARGUMENT", "Missing ModelSpec")
        model = self.store.get(request.model_spec.name, *_version(request.model_spec))
        asked.model = model.name
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        _fill_spec(response.model_spec, model)
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.all_signature_defs)
        response.metadata["signature_def"].Pack(signatures)
        return response.SerializeToString()

    def _status(self, request, asked, context):
        response = get_model_status_pb2.GetModelStatusResponse()
        fill_status(response, self.store, request.model_spec.name, *_version(request.model_spec))
        return response.SerializeToString()

    def _classify(self, request, asked, context):
        raise self._refuse(request.model_spec, "classify")

    def _regress(self, request, asked, context):
        raise self._refuse(request.model_spec, "regress")

    def _refuse(self, spec, method):
        if not spec.name:
            raise ServingError("INVALID_ARGUMENT", "Missing ModelSpec")
        model = self.store.get(spec.name, *_version(spec))
        return refuse_method(model, spec.signature_name or DEFAULT_SIGNATURE, method)

    def _multi_inference(self, request, asked, context):
        """TF Serving's refusals, in its order: our models have predict signatures only."""
        if not request.tasks:
            raise ServingError("INVALID_ARGUMENT", "Inference request with no tasks")
        names, signatures = set(), set()
        for task in request.tasks:
            spec = task.model_spec
            if not spec.name:
                raise ServingError("INVALID_ARGUMENT", "Found ModelSpec with an empty model name.")
            names.add(spec.name)
            if len(names) > 1:
                message = "All ModelSpecs in a MultiInferenceRequest must access the same model name."
                raise ServingError("INVALID_ARGUMENT", message)
            model = self.store.get(spec.name, *_version(spec))
            signature = spec.signature_name or DEFAULT_SIGNATURE
            if signature in signatures:
                raise ServingError("INVALID_ARGUMENT", f"Duplicate evaluation of signature: {signature}")
            signatures.add(signature)
            if signature not in model.signature_defs:
                message = f"Requested signature not found in model graph: {signature}"
                raise ServingError("INVALID_ARGUMENT", message)
            method = task.method_name.rpartition("/")[2]
            if task.method_name not in ("tensorflow/serving/classify", "tensorflow/serving/regress"):
                message = f"Unsupported signature method_name: {task.method_name}"
                raise ServingError("UNIMPLEMENTED", message)
            raise refuse_method(model, signature, method)

    def _reload(self, request, asked, context):
        if self._config_folder is None:
            message = "Loading other models by gRPC is off: start the server with --allow-reload"
            raise ServingError("PERMISSION_DENIED", message)
        if request.config.WhichOneof("config") != "model_config_list":
            raise ServingError(
                "INVALID_ARGUMENT",
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently "
                "supported",
            )
        response = model_management_pb2.ReloadConfigResponse()
        try:
            self.store.reload(models_of(request.config, self._config_folder, "the request"))
        except InputError as error:
            raise ServingError("INVALID_ARGUMENT", str(error)) from None
        response.status.error_code = CODES["OK"][0]
        return response.SerializeToString()

    def _health(self, request, asked, context):
        """grpc.health.v1, without Watch: anyone could hold all calls with it."""
        if request.service not in ("", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"):
            raise ServingError("NOT_FOUND", "unknown service")
        status = health_pb2.HealthCheckResponse
        is_ready = self.store.is_warm and not self.draining
        answer = status(status=status.SERVING if is_ready else status.NOT_SERVING)
        return answer.SerializeToString()


class Asked:
    """What one call was about, for the log and the metrics."""

    def __init__(self):
        self.id = secrets.token_hex(8)
        self.began = time.monotonic()
        self.model = self.signature = ""
        self.code = "OK"


class Readers:
    """A few messages are read at a time; those that stall are ended."""

    def __init__(self, number, timeout):
        self._places = threading.Semaphore(number)
        self._timeout = timeout
        self._waiting = 0
        self._reading = {}  # context -> since when
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="grpc-readers", daemon=True).start()

    def read(self, messages, context):
        """The call's message, as bytes."""
        with self._lock:
            self._waiting += 1
        try:
            if not self._places.acquire(timeout=self._timeout):
                raise ServingError("UNAVAILABLE", TOO_MANY)
        finally:
            with self._lock:
                self._waiting -= 1
        with self._lock:
            self._reading[context] = time.monotonic()
        try:
            return next(messages)
        except StopIteration:
            raise ServingError("INVALID_ARGUMENT", "the call brought no message") from None
        except grpc.RpcError:
            raise ServingError("CANCELLED", "the client has left, or its message took too long") from None
        finally:
            with self._lock:
                del self._reading[context]
            self._places.release()

    def close(self):
        self._closed.set()

    def _watch(self):
        while not self._closed.wait(0.25):
            with self._lock:
                limit = STALLED_SECONDS if self._waiting else self._timeout
                late = [context for context, since in self._reading.items() if time.monotonic() - since > limit]
            for context in late:
                context.cancel()


def _version(spec):
    """The version number, or None, and the label."""
    return spec.version.value if spec.HasField("version") else None, spec.version_label


def _fill_spec(spec, model, signature=""):
    spec.name = model.name
    spec.version.value = model.number
    spec.signature_name = signature
