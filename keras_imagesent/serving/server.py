"""`imagesent serve`: TF Serving's REST and gRPC on one machine, without Docker."""

import importlib.resources
import signal
import socket
import threading
import time

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require


class Server:
    """Both doors over one store of models and one batcher.

    Args:
        models: model name -> folder with numbered versions, or a `ModelConfig`.
        host: the address to listen on; 127.0.0.1 keeps other machines out.
        rest_port, grpc_port: 0 takes a free one; `grpc_port=None` leaves gRPC out.
        max_batch_size: most rows in a call of the model.
        max_queued_rows: most rows waiting, and in a request; beyond it a request is answered 503.
        timeout: seconds from a request's first byte to its answer (504).
        read_timeout: seconds until a request must have arrived (408).
        cors: let pages from anywhere call the REST API, as TF Serving's `--rest_api_enable_cors_support`.
        allowed_hosts: names that the Host header may have beside addresses, localhost and this machine's name.
        api_key: what clients must send as `Authorization: Bearer KEY`; None for no key.
        tls: (certificate file, key file); None for plain connections.
        reload_folder: where the base paths of configs sent by gRPC begin; None refuses such configs.
        read_config: called at every look at the folders; the models to serve from now on, or None.
        drain_seconds: how long kept connections may send one more request after `stop` or SIGTERM.

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
        batch_wait_seconds=0.0,
        max_body_bytes=32 * 2**20,
        max_bytes_under_way=256 * 2**20,
        max_connections=1000,
        timeout=30.0,
        read_timeout=10.0,
        poll_seconds=2.0,
        cors=False,
        allowed_hosts=(),
        api_key=None,
        tls=None,
        reload_folder=None,
        read_config=None,
        drain_seconds=2.0,
    ):
        uvicorn = require("uvicorn", "serve")
        require("starlette", "serve")
        require("tensorflow_serving", "serve")
        require("prometheus_client", "serve")
        require("grpc_health", "serve")
        tls_texts = _read_tls(tls)
        self.host = host
        self.max_body_bytes = max_body_bytes
        self._grace, self._drain_seconds = timeout, drain_seconds
        self._socket = listen(host, rest_port)  # before the models: a taken port is told at once
        self.rest_port = self._socket.getsockname()[1]
        from keras_imagesent.serving.server_batching import Batcher
        from keras_imagesent.serving.server_grpc import GrpcApi
        from keras_imagesent.serving.server_metrics import Metrics
        from keras_imagesent.serving.server_models import ModelStore
        from keras_imagesent.serving.server_protocol import build_protocol
        from keras_imagesent.serving.server_rest import RestApi
        from keras_imagesent.serving.server_room import Room

        self.metrics, self.room = Metrics(), Room(max_bytes_under_way)
        self.store = ModelStore(models, poll_seconds, read_config)
        self.batcher = Batcher(
            batch_threads, max_batch_size, max_queued_rows, batch_wait_seconds, on_batch=self.metrics.batched
        )
        self.metrics.watch(self.store, self.batcher, lambda: self.room.bytes)
        shared = {"timeout": timeout, "read_timeout": read_timeout, "max_body_bytes": max_body_bytes}
        parts = self.store, self.batcher, self.metrics, self.room
        page = importlib.resources.files("keras_imagesent") / "serving" / "live"
        self.rest = RestApi(*parts, **shared, cors=cors, allowed_hosts=allowed_hosts, api_key=api_key, page=page)
        config = uvicorn.Config(
            self.rest,
            host=host,
            port=rest_port,
            http=build_protocol(read_timeout, max_connections, self.metrics.refused),
            ws="none",
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(timeout) + 1,
            timeout_keep_alive=60,
            lifespan="off",
            server_header=False,
            **({"ssl_certfile": tls[0], "ssl_keyfile": tls[1]} if tls else {}),
        )
        self._uvicorn = uvicorn.Server(config)
        self.grpc, self.grpc_port = None, None
        if grpc_port is not None:
            address = f"[{host}]:{grpc_port}" if ":" in host else f"{host}:{grpc_port}"
            try:
                self.grpc = GrpcApi(
                    *parts, address, **shared, api_key=api_key, tls=tls_texts, config_folder=reload_folder
                )
            except RuntimeError:
                raise InputError(f"port {grpc_port} on {host} is taken: choose another with --grpc-port") from None
            self.grpc_port = self.grpc.port
        self._stopping = threading.Event()
        self._thread = None

    def run(self):
        """Serves until SIGTERM or SIGINT, then finishes what is under way. False if a call did not come back."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._stopping.set())
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._stopping.wait(0.5):
            pass
        return self.stop()

    def stop(self):
        """Answers what is under way, takes nothing new, lets go of everything; bounded by `timeout` and a few seconds.

        At first, for `drain_seconds` at the most, kept connections are answered once more and told to close: a request
        on its way is not lost.
        """
        self.rest.draining = True
        calls_are_done = None
        if self.grpc:
            self.grpc.draining = True
            calls_are_done = self.grpc.stop(self._grace)
        give_up = time.monotonic() + self._drain_seconds
        while self._uvicorn.server_state.connections and time.monotonic() < give_up:
            time.sleep(0.02)
        self._uvicorn.should_exit = True
        self._thread.join(self._grace + 3)
        if calls_are_done:
            calls_are_done.wait(self._grace)
            self.grpc.close()
        self.rest.close()
        self.store.close()
        return self.batcher.close(timeout=1.0)

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


def _read_tls(tls):
    if not tls:
        return None
    try:
        with open(tls[0], "rb") as certificate, open(tls[1], "rb") as key:
            return certificate.read(), key.read()
    except OSError as error:
        message = f"{error.filename} cannot be read ({error.strerror}): give the certificate and key as PEM"
        raise InputError(message) from None
