"""Who may ask, what the server shows of itself, and which versions it serves."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
import yaml
from google.protobuf import text_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc

from keras_imagesent.cli.serve import read_api_key
from keras_imagesent.errors import InputError
from keras_imagesent.serving.client import Client
from keras_imagesent.serving.server import Server
from keras_imagesent.serving.server_config import ModelConfig, read_batching_config, read_models_config
from keras_imagesent.serving.server_errors import ServingError
from keras_imagesent.serving.server_models import ModelStore
from tests.serving.toy import GOOD, ask, save_toy

SAVED_MODELS = Path(__file__).parents[2] / "saved_models"
PREDICT = "/v1/models/toy:predict"
BODY = {"instances": [GOOD]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "toy"
    for version in (1, 2, 3):
        save_toy(folder / str(version), factor=float(version))
    return folder


@pytest.fixture(scope="module")
def server(folder):
    config = ModelConfig(folder, versions=(1, 2), labels={"stable": 1})
    with Server({"toy": config}, rest_port=0, grpc_port=0, api_key="secret", allowed_hosts=["photos.example"]) as found:
        yield found


KEY = {"Authorization": "Bearer secret"}


def test_only_a_json_request_with_the_key_and_a_known_host_is_answered(server):
    assert ask(server, PREDICT, BODY, **KEY)[0] == 200
    assert ask(server, PREDICT, BODY)[0] == 401
    assert ask(server, PREDICT, BODY, Authorization="Bearer Secret")[0] == 401
    assert ask(server, "/metrics")[0] == 401
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert ask(server, PREDICT, BODY, **KEY, **{"Content-Type": kind})[0] == 415
    for host, code in {"photos.example:80": 200, "127.0.0.1": 200, "[::1]:8501": 200, "evil.example": 421}.items():
        assert ask(server, PREDICT, BODY, **KEY, Host=host)[0] == code, host
        assert ask(server, "/healthz", Host=host)[0] == 200
    assert ask(server, "/nothing/here")[0] == 404
    with urllib.request.urlopen(f"http://127.0.0.1:{server.rest_port}/") as page:
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "Access-Control-Allow-Origin" not in page.headers


def test_pages_of_other_sites_are_let_in_only_when_asked_for(server, folder):
    def allowed(running, method):
        url = f"http://127.0.0.1:{running.rest_port}{PREDICT}"
        request = urllib.request.Request(url, b"{}", {**KEY, "Content-Type": "application/json"}, method=method)
        try:
            headers = urllib.request.urlopen(request).headers
        except urllib.error.HTTPError as error:
            headers = error.headers  # without the header a page could not even read the error
        return headers["Access-Control-Allow-Origin"]

    assert allowed(server, "OPTIONS") is allowed(server, "POST") is None
    with Server({"toy": ModelConfig(folder)}, rest_port=0, grpc_port=None, cors=True) as open_to_all:
        assert allowed(open_to_all, "OPTIONS") == allowed(open_to_all, "POST") == "*"


def test_configs_are_taken_over_grpc_and_from_the_file_when_asked_for(folder, tmp_path):
    config = tmp_path / "models.config"

    def write(version):
        policy = f"model_version_policy {{ specific {{ versions: {version} }} }}"
        text = f'model_config_list {{ config {{ name: "toy" base_path: "{folder}" {policy} }} }}'
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(config)
        return text

    write(1)
    read = read_models_config(config)
    ports = {"rest_port": 0, "grpc_port": 0}
    with Server(read, **ports, poll_seconds=0.1, read_config=lambda: read_models_config(config)) as polling:
        assert ask(polling, PREDICT, BODY)[1]["predictions"][0]["y"] == 1.0
        config.write_text("nonsense {")
        wait_until(lambda: polling.store.failed_looks > 0)
        write(3)
        wait_until(lambda: ask(polling, PREDICT, BODY)[1]["predictions"][0]["y"] == 3.0)
    with Server(read, **ports, reload_folder=tmp_path) as asked:
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(write(2), request.config)
        with grpc.insecure_channel(f"127.0.0.1:{asked.grpc_port}") as channel:
            models = model_service_pb2_grpc.ModelServiceStub(channel)
            assert models.HandleReloadConfigRequest(request, timeout=20).status.error_code == 0
            assert ask(asked, PREDICT, BODY)[1]["predictions"][0]["y"] == 2.0
            request.Clear()
            text_format.Parse(write(9), request.config)
            with pytest.raises(grpc.RpcError) as refused:
                models.HandleReloadConfigRequest(request, timeout=20)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert ask(asked, PREDICT, BODY)[1]["predictions"][0]["y"] == 2.0  # goes on with what it had


def test_the_client_has_a_key_for_both_doors(server):
    for address in (f"http://127.0.0.1:{server.rest_port}", f"grpc://127.0.0.1:{server.grpc_port}"):
        inputs = {"x": [1.0], "text": [b"a"]}
        client = Client(address, "toy", api_key="secret")
        assert client.predict("serving_default", inputs)["y"].tolist() == [2.0]
        with pytest.raises(ServingError) as refused:
            Client(address, "toy").predict("serving_default", inputs)
        assert refused.value.code == "UNAUTHENTICATED"
    with pytest.raises(ServingError) as refused:
        client = Client(f"http://127.0.0.1:{server.rest_port}", "toy", api_key="secret")
        client.predict("serving_default", {"x": [1.0], "text": [b"a" * 40_000_000]})
    assert refused.value.http_status == 413


def test_specific_versions_and_labels_are_served_as_the_config_says(server):
    def y(path):
        return ask(server, path, BODY, **KEY)[1]["predictions"][0]["y"]

    assert y(PREDICT) == y("/v1/models/toy/versions/2:predict") == 2.0
    assert y("/v1/models/toy/versions/1:predict") == y("/v1/models/toy/labels/stable:predict") == 1.0
    assert ask(server, "/v1/models/toy/versions/3:predict", BODY, **KEY)[0] == 404
    assert ask(server, "/v1/models/toy/labels/none:predict", BODY, **KEY)[0] == 400
    status = ask(server, "/v1/models/toy", **KEY)[1]["model_version_status"]
    assert [(entry["version"], entry["state"]) for entry in status] == [("2", "AVAILABLE"), ("1", "AVAILABLE")]


def test_health_and_metrics(server):
    assert ask(server, "/healthz") == (200, {"status": "ok"})
    code, ready = ask(server, "/readyz")
    assert (code, ready["models"]) == (200, {"toy": 2})
    assert ready["watcher"]["failed_looks"] == 0
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        found = health.Check(health_pb2.HealthCheckRequest(), timeout=20).status
        assert found == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as refused:
            health.Check(health_pb2.HealthCheckRequest(service="none"), timeout=20)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    ask(server, PREDICT, BODY, **KEY)
    ask(server, PREDICT, {"signature_name": "x" * 50}, **KEY)
    request = urllib.request.Request(f"http://127.0.0.1:{server.rest_port}/metrics", headers=KEY)
    text = urllib.request.urlopen(request).read().decode()
    wanted = 'imagesent_requests_total{code="OK",door="rest",model="toy",signature="serving_default"}'
    assert any(line.startswith(wanted) for line in text.splitlines())
    assert 'imagesent_model_version{model="toy",state="AVAILABLE",version="1"} 1.0' in text
    assert "x" * 50 not in text  # no label from what a client sends
    names = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    for expression in re.findall(r'"expr": "(.*?)",', (SAVED_MODELS / "grafana.json").read_text()):
        for name in re.findall(r"(?:imagesent|process)_\w+", expression):
            assert {name, re.sub(r"_(bucket|sum|count|total)$", "", name)} & names, name


def test_a_failed_request_is_one_line_with_the_answers_id(server, caplog):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.rest_port}{PREDICT}", b"{", {**KEY, "Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    (record,) = caplog.records
    assert refused.value.headers["X-Request-Id"] in record.getMessage()
    assert "JSON Parse error" in record.getMessage()


def test_configs_that_cannot_be_served_are_refused_at_the_start(tmp_path):
    config = tmp_path / "models.config"

    def read(extra):
        config.write_text(f'model_config_list {{ config {{ name: "a" base_path: "/models/b" {extra} }} }}')
        return read_models_config(config)["a"]

    assert read("model_version_policy { specific { versions: 1 versions: 4 } }").choose([1, 2, 3]) == [1]
    assert read("model_version_policy { latest { num_versions: 2 } }").choose([1, 2, 10]) == [2, 10]
    assert read("model_version_policy { all {} }").choose([1, 2, 10]) == [1, 2, 10]
    assert read('version_labels { key: "stable" value: 3 }').labels == {"stable": 3}
    for extra in ('model_platform: "tflite"', "logging_config {}", "model_version_policy { specific {} }"):
        with pytest.raises(InputError):
            read(extra)
    batching = tmp_path / "batching.config"
    batching.write_text("max_batch_size { value: 8 } # rows\nmax_enqueued_batches { value: 3 }")
    assert read_batching_config(batching) == {"max_batch_size": 8, "max_queued_rows": 24}
    for text in ("allowed_batch_sizes: 4", "pad_variable_length_inputs { value: 1 }", "max_batch_size { value: 0 }"):
        batching.write_text(text)
        with pytest.raises(InputError):
            read_batching_config(batching)


def test_a_label_needs_its_version_and_the_watcher_survives(folder, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="assign label to version 9"):
        ModelStore({"toy": ModelConfig(folder, versions=(1,), labels={"new": 9})})
    with pytest.raises(InputError, match="none of the versions 7"):
        ModelStore({"toy": ModelConfig(folder, versions=(7,))})
    from keras_imagesent.serving import server_models

    store = ModelStore({"toy": ModelConfig(folder, versions=(1,))}, poll_seconds=0.05)
    look = server_models._versions
    monkeypatch.setattr(server_models, "_versions", lambda folder: (_ for _ in ()).throw(PermissionError("no")))
    wait_until(lambda: store.failed_looks >= 2)
    monkeypatch.setattr(server_models, "_versions", look)
    store.reload({"toy": ModelConfig(folder, versions=(3,))})
    assert store.get("toy").number == 3
    wait_until(lambda: store.states("toy")[1][:2] == (1, "END"))
    store.close()


def wait_until(true):
    import time

    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_key_comes_from_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "key").write_text(" secret \n")
    assert read_api_key(tmp_path / "key") == "secret"
    monkeypatch.setenv("IMAGESENT_API_KEY", "other")
    assert read_api_key(None) == "other"
    (tmp_path / "key").write_text("")
    with pytest.raises(InputError, match="is empty"):
        read_api_key(tmp_path / "key")


def test_the_manifest_uses_flags_and_paths_that_exist():
    deployment, service = yaml.safe_load_all((SAVED_MODELS / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    import argparse

    from keras_imagesent.cli import serve

    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    args = parser.parse_args(container["command"][2:])
    assert str(args.folder) == "/models/imagesent"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"rest": args.port, "grpc": args.grpc_port}
    assert {port["port"] for port in service["spec"]["ports"]} == set(ports.values())
    assert {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        "/healthz",
        "/readyz",
    }
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > args.timeout + 6
    assert container["env"][0]["name"] == serve.API_KEY and "memory" in container["resources"]["limits"]
    assert json.loads((SAVED_MODELS / "grafana.json").read_text())["panels"]
