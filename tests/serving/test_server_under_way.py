"""A server under way: shared batches, new versions, warm-up, configs, too much work, and its end."""

import concurrent.futures
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.errors import InputError
from keras_imagesent.serving.client import Client
from keras_imagesent.serving.server import Server
from keras_imagesent.serving.server_config import ModelConfig, read_batching_config, read_models_config
from keras_imagesent.serving.server_models import ModelVersion
from keras_imagesent.serving.warmup import read_warmup, write_warmup
from tests.serving.toy import GOOD, ask, save_toy

SAVED_MODELS = Path(__file__).parents[2] / "saved_models"


def test_rows_of_several_clients_share_a_batch(models):
    with Server(
        {"toy": models / "toy"}, rest_port=0, grpc_port=None, batch_wait_seconds=0.3, batch_threads=1
    ) as server:

        def client(number):
            rows = [{"x": number, "text": f"client {number}"}, {"x": number + 0.5, "text": "second row"}]
            return ask(server, "/v1/models/toy:predict", {"instances": rows[: 1 + number % 2]})

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(client, range(6)))
        assert [code for code, _ in answers] == [200] * 6
        for number, (_, answer) in enumerate(answers):
            first, *second = answer["predictions"]
            assert (first["y"], first["upper"]) == (2 * number, f"CLIENT {number}")
            assert [row["y"] for row in second] == [2 * number + 1] * (number % 2)
        assert max(answer["predictions"][0]["batch_rows"] for _, answer in answers) >= 3


def test_a_new_version_takes_over_without_a_dropped_request(models, tmp_path):
    shutil.copytree(models / "toy", tmp_path / "toy")
    with Server({"toy": tmp_path / "toy"}, rest_port=0, grpc_port=0, poll_seconds=0.1) as server:
        answers, done = [], threading.Event()

        def keep_asking():
            while not done.is_set():
                code, answer = ask(server, "/v1/models/toy:predict", {"instances": [{"x": 1.0, "text": "a"}]})
                answers.append((code, answer["predictions"][0]["y"]))

        clients = [threading.Thread(target=keep_asking) for _ in range(3)]
        for client in clients:
            client.start()
        save_toy(tmp_path / "unfinished", factor=5.0)
        os.replace(tmp_path / "unfinished", tmp_path / "toy" / "2")
        deadline = time.monotonic() + 20
        while Client(f"http://127.0.0.1:{server.rest_port}", "toy").status()[0] != (2, "AVAILABLE"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.1)
        done.set()
        for client in clients:
            client.join()
        assert {code for code, _ in answers} == {200}
        assert (answers[0][1], answers[-1][1]) == (2.0, 5.0)
        by_grpc = Client(f"grpc://127.0.0.1:{server.grpc_port}", "toy")
        while by_grpc.status() != [(2, "AVAILABLE"), (1, "END")]:  # UNLOADING until the last answer is out
            assert time.monotonic() < deadline
            time.sleep(0.05)

        (tmp_path / "toy" / "3").mkdir()
        (tmp_path / "toy" / "3" / "saved_model.pb").write_bytes(b"not a model")
        while len(server.store.states("toy")) < 3 or server.store.states("toy")[0][1] == "LOADING":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        number, state, error_code, message = server.store.states("toy")[0]
        assert (number, state) == (3, "END")
        assert error_code != 0
        assert message
        assert ask(server, "/v1/models/toy:predict", {"instances": [GOOD]})[1]["predictions"][0]["y"] == 5.0

        shutil.copytree(
            tmp_path / "toy" / "1", tmp_path / "toy" / "3", dirs_exist_ok=True
        )  # file by file, at last whole
        while server.store.states("toy")[0][1] != "AVAILABLE":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert ask(server, "/v1/models/toy:predict", {"instances": [GOOD]})[1]["predictions"][0]["y"] == 2.0


def test_warmup_round_trip(models, tmp_path, monkeypatch):
    shutil.copytree(models / "toy", tmp_path / "toy")
    requests = [
        ("serving_default", {"x": np.float32([1]), "text": [b"\xff\xd8"]}),
        ("one", {"x": np.ones((1, 2), "f")}),
    ]
    path = write_warmup(tmp_path / "toy" / "1", "toy", requests)
    assert path.relative_to(tmp_path).as_posix() == "toy/1/assets.extra/tf_serving_warmup_requests"
    first, second = read_warmup(tmp_path / "toy" / "1")
    assert (first.model_spec.name, first.model_spec.signature_name) == ("toy", "serving_default")
    assert tf.make_ndarray(first.inputs["text"]).tolist() == [b"\xff\xd8"]
    assert tf.make_ndarray(second.inputs["x"]).tolist() == [[1.0, 1.0]]
    called, call, go_on = [], ModelVersion.call, threading.Event()

    def slow_call(model, signature, *rest):
        if signature == "one":
            go_on.wait(20)
        called.append(signature)
        return call(model, signature, *rest)

    monkeypatch.setattr(ModelVersion, "call", slow_call)
    with Server({"toy": tmp_path / "toy"}, rest_port=0, grpc_port=None, poll_seconds=0.5) as server:
        assert called == ["serving_default"]  # before the first request; the others beside it
        code, answer = ask(server, "/readyz")
        assert (code, answer["error"]) == (503, "warming up")
        go_on.set()
        deadline = time.monotonic() + 20
        while ask(server, "/readyz")[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert called == ["serving_default", "one"]
        shutil.copytree(tmp_path / "toy" / "1", tmp_path / "2")
        os.replace(tmp_path / "2", tmp_path / "toy" / "2")
        while ask(server, "/readyz")[1]["models"] != {"toy": 2}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert called == ["serving_default", "one"] * 2  # a later version takes over when it is warm


def test_folders_and_configs_that_are_wrong(tmp_path):
    with pytest.raises(InputError, match="no numbered version folder"):
        Server({"toy": tmp_path}, rest_port=0)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="the newest version does not load"):
        Server({"toy": tmp_path}, rest_port=0)
    with pytest.raises(InputError, match="cannot be read"):
        read_models_config(tmp_path / "none.config")
    config = tmp_path / "models.config"
    config.write_text("model_config_list { config { nonsense } }")
    with pytest.raises(InputError, match="is not a models.config"):
        read_models_config(config)
    config.write_text('model_config_list { config { name: "a" base_path: "/models/b" model_platform: "tensorflow" } }')
    assert read_models_config(config) == {"a": ModelConfig(tmp_path / "b")}


def test_shipped_configs_say_what_tf_serving_takes():
    """No Docker here: the flags of its documentation, and the two files in the form that it parses."""
    compose = (SAVED_MODELS / "compose.yaml").read_text()
    flags = dict(re.findall(r"- --(\w+)=(\S+)", compose))
    assert flags.pop("model_config_file_poll_wait_seconds").isdecimal()
    assert flags == {
        "model_config_file": "/models/models.config",
        "enable_batching": "true",
        "batching_parameters_file": "/models/batching.config",
    }
    assert read_models_config(SAVED_MODELS / "models.config") == {"imagesent": ModelConfig(SAVED_MODELS / "imagesent")}
    batching = read_batching_config(SAVED_MODELS / "batching.config")
    assert len(batching) == 4
    ours = inspect.signature(Server).parameters
    assert batching == {name: ours[name].default for name in batching}


SLOW_SERVER = """
import os, sys, time
from keras_imagesent.serving import server_models
from keras_imagesent.serving.server import Server
call = server_models.ModelVersion.call
def slow(self, signature, inputs, stop):
    time.sleep(0.4)
    return call(self, signature, inputs, stop)
server = Server({"toy": sys.argv[1]}, rest_port=0, grpc_port=0, max_batch_size=2, max_queued_rows=2, batch_threads=1)
server_models.ModelVersion.call = slow
print(server.rest_port, server.grpc_port, flush=True)
server.run()
print("finished", flush=True)
os._exit(0)  # as `imagesent serve` does
"""


def test_overload_says_503_and_sigterm_finishes_what_is_under_way(models):
    command = [sys.executable, "-c", SLOW_SERVER, str(models / "toy")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        rest, grpc_port = map(int, process.stdout.readline().split())

        class At:
            rest_port = rest

        body = {"instances": [{"x": 1.0, "text": "a"}]}
        with concurrent.futures.ThreadPoolExecutor(13) as pool:
            warm = ask(At, "/v1/models/toy:predict", body)
            assert warm[0] == 200
            answers = list(pool.map(lambda _: ask(At, "/v1/models/toy:predict", body), range(12)))
            codes = [code for code, _ in answers]
            assert set(codes) == {200, 503}
            assert "is full" in next(answer["error"] for code, answer in answers if code == 503)
            under_way = pool.submit(ask, At, "/v1/models/toy:predict", body)
            by_grpc = pool.submit(
                Client(f"grpc://127.0.0.1:{grpc_port}", "toy").predict, "serving_default", {"x": [2.0], "text": [b"b"]}
            )
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert under_way.result()[0] == 200
            assert by_grpc.result()["y"].tolist() == [4.0]
        assert process.stdout.readline() == "finished\n"
        assert process.wait(10) == 0
    finally:
        process.kill()
