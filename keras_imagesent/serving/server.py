"""`imagesent serve`: TF Serving's REST and gRPC on one machine, without Docker."""

import importlib.resources
import signal
import socket
import threading
import time
from pathlib import Path

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require


class Server:
    """Both doors over one store of models and one batcher.

    Args:
        models: model name -> folder with numbered versions.
        host: the address to listen on; 127.0.0.1 keeps other machines out.
        rest_port, grpc_port: 0 takes a free one; `grpc_port=None` leaves gRPC out.
        max_batch_size: most rows in a call of the model, and in a request.
        max_queued_rows: most rows waiting; beyond it a request is answered 503.
        timeout: seconds until a request is given up (504).
        cors: let pages from anywhere call the REST API, as TF Serving's `--rest_api_enable_cors_support`.

    Example:
        >>> with Server({"imagesent": "saved_models/imagesent"}, rest_port=0, grpc_port=0) as server:
        ...     print(server.rest_port, server.grpc_port)
    """

    def __init__(
        self,
        models,
        host="127.0.0.1",
        rest_port=8501,
        grpc_port=8500,
        max_batch_size=32,
        max_queued_rows=128,
        batch_threads=2,
        batch_wait_seconds=0.005,
        max_body_bytes=32 * 2**20,
        max_bytes_under_way=256 * 2**20,
        timeout=30.0,
        poll_seconds=2.0,
        cors=True,
    ):
        uvicorn = require("uvicorn", "serve")
        require("starlette", "serve")
        require("tensorflow_serving", "serve")
        from keras_imagesent.serving.server_batching import Batcher
        from keras_imagesent.serving.server_grpc import start_grpc
        from keras_imagesent.serving.server_models import ModelStore
        from keras_imagesent.serving.server_rest import RestApi

        self._grace = timeout
        self._socket = listen(host, rest_port)  # before the models: a taken port is told at once
        self.store = ModelStore(models, poll_seconds)
        self.batcher = Batcher(batch_threads, max_batch_size, max_queued_rows, batch_wait_seconds)
        page = importlib.resources.files("keras_imagesent") / "serving" / "live"
        rest = RestApi(self.store, self.batcher, timeout, max_body_bytes, max_bytes_under_way, cors, page)
        config = uvicorn.Config(
            rest.app,
            host=host,
            port=rest_port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(timeout) + 1,
            lifespan="off",
        )
        self._uvicorn = uvicorn.Server(config)
        self.host = host
        self.rest_port = self._socket.getsockname()[1]
        self._grpc, self.grpc_port = None, None
        if grpc_port is not None:
            address = f"[{host}]:{grpc_port}" if ":" in host else f"{host}:{grpc_port}"
            try:
                self._grpc, self.grpc_port = start_grpc(self.store, self.batcher, address, timeout, max_body_bytes)
            except RuntimeError:
                raise InputError(f"port {grpc_port} on {host} is taken: choose another with --grpc-port") from None
        self._thread = None

    def run(self):
        """Serves until SIGTERM or SIGINT, then finishes what is under way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._thread = threading.Thread(target=self._serve, name="rest")
        self._thread.start()
        while self._thread.is_alive():
            self._thread.join(0.5)
        self._finish()

    def stop(self):
        """Takes no new requests, answers those under way, lets go of everything."""
        self._uvicorn.should_exit = True
        self._thread.join()
        self._finish()

    def __enter__(self):
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)
        self._thread.start()
        while not self._uvicorn.started and self._thread.is_alive():
            time.sleep(0.01)
        return self

    def __exit__(self, *error):
        self.stop()

    def _serve(self):
        self._uvicorn.run(sockets=[self._socket])

    def _on_signal(self, number, frame):
        self._uvicorn.should_exit = True  # uvicorn closes its door and waits for the answers under way
        if self._grpc:
            self._grpc.stop(self._grace)  # returns at once; likewise

    def _finish(self):
        if self._grpc:
            self._grpc.stop(self._grace).wait()
        self.batcher.close()
        self.store.close()


def read_models_config(path):
    """Model name -> folder, from TF Serving's `models.config` (its `model_config_list`).

    A relative `base_path`, or one under the container's `/models`, is taken beside the file.
    """
    require("tensorflow_serving", "serve")
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    path = Path(path)
    try:
        config = text_format.Parse(path.read_text(), model_server_config_pb2.ModelServerConfig())
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give TF Serving's models.config") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a models.config of TF Serving: {error}") from None
    models = {}
    for model in config.model_config_list.config:
        base = Path(model.base_path)
        if base.is_relative_to("/models"):
            base = base.relative_to("/models")
        models[model.name] = path.parent / base
    if not models:
        raise InputError(f"{path} names no model: add one to its model_config_list")
    return models


def listen(host, port, backlog=2048):
    """The listening socket, made here so that a taken port is told in words."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        message = f"cannot listen on {host}:{port} ({error.strerror}): choose another with --port"
        raise InputError(message) from None
    return listener
