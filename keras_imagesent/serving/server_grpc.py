"""TF Serving's gRPC services: PredictionService and ModelService."""

import concurrent.futures

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_imagesent.serving.server_errors import ServingError
from keras_imagesent.serving.server_models import DEFAULT_SIGNATURE
from keras_imagesent.serving.server_rest import fill_status


def start_grpc(store, batcher, address, timeout, max_body_bytes, workers=64):
    """Starts both services; returns the server and the port it listens on."""
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="grpc"),
        maximum_concurrent_rpcs=2 * workers,
        options=[("grpc.max_receive_message_length", max_body_bytes), ("grpc.so_reuseport", 0)],
    )
    service = Services(store, batcher, timeout)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(service, server)
    port = server.add_insecure_port(address)
    server.start()
    return server, port


class Services(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """The calls that our models can answer; the others (Classify, Regress, ...) say UNIMPLEMENTED."""

    def __init__(self, store, batcher, timeout):
        self.store = store
        self.batcher = batcher
        self.timeout = timeout

    def Predict(self, request, context):
        try:
            return self._predict(request, context)
        except ServingError as error:
            _abort(context, error)

    def GetModelMetadata(self, request, context):
        try:
            if not request.metadata_field:
                message = "GetModelMetadataRequest must specify at least one metadata_field"
                raise ServingError("INVALID_ARGUMENT", message)
            for field in request.metadata_field:
                if field != "signature_def":
                    raise ServingError("INVALID_ARGUMENT", f"Metadata field {field} is not supported")
            model = self.store.get(request.model_spec.name, _version(request.model_spec))
        except ServingError as error:
            _abort(context, error)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = model.name
        response.model_spec.version.value = model.number
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.signature_defs)
        response.metadata["signature_def"].Pack(signatures)
        return response

    def GetModelStatus(self, request, context):
        response = get_model_status_pb2.GetModelStatusResponse()
        try:
            fill_status(response, self.store, request.model_spec.name, _version(request.model_spec))
        except ServingError as error:
            _abort(context, error)
        return response

    def _predict(self, request, context):
        spec = request.model_spec
        if not spec.name:
            raise ServingError("INVALID_ARGUMENT", "Missing ModelSpec")
        model = self.store.get(spec.name, _version(spec))
        signature = spec.signature_name or DEFAULT_SIGNATURE
        if signature not in model.signature_defs:
            raise ServingError("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
        inputs = {}
        for name, value in request.inputs.items():
            try:
                inputs[name] = tf.make_ndarray(value)
            except (ValueError, TypeError):
                raise ServingError("INVALID_ARGUMENT", f"tensor parsing error: {name}") from None
        model.check(signature, inputs, request.output_filter)
        timeout = min(self.timeout, context.time_remaining() or self.timeout)
        future = self.batcher.submit(
            lambda batch: model.call(signature, batch), (model.name, model.number, signature), inputs, timeout
        )
        context.add_callback(future.cancel)  # a client that has left needs no answer
        try:
            outputs = future.result(timeout)
        except (TimeoutError, concurrent.futures.CancelledError):
            raise ServingError("DEADLINE_EXCEEDED", f"Timed out after {timeout:g} seconds") from None
        response = predict_pb2.PredictResponse()
        response.model_spec.name = model.name
        response.model_spec.version.value = model.number
        response.model_spec.signature_name = signature
        for name in request.output_filter or outputs:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name]))
        return response


def _version(spec):
    if spec.version_label:
        raise ServingError("INVALID_ARGUMENT", f"Unrecognized servable version label: {spec.version_label}")
    return spec.version.value if spec.HasField("version") else None


def _abort(context, error):
    context.abort(grpc.StatusCode[error.code], error.message)
