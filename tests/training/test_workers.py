"""Two real worker processes: the weights of one, a killed one stops the others, and the run goes on either way."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from keras_imagesent.data.batches import pair_batches, steps_per_epoch
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.training.devices import choose_strategy
from keras_imagesent.training.workers import Share
from tests.tiny_prepared import write_tiny_prepared
from tests.training.one_worker import train

PAIRS = 78  # in batches of 11: each uneven for two workers, and the last has one pair, so that one worker has none


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "prepared"
    write_tiny_prepared(folder, {"train": PAIRS // 2, "val": 8})
    return str(folder)


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def two_workers(given, last=None):
    """Runs two workers; what `last` holds is given to the second alone. Returns their codes and what they said."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    processes = []
    for index in range(2):
        config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_NUM_INTRAOP_THREADS": "1"}
        text = json.dumps({**given, **((last or {}) if index else {})})
        command = [sys.executable, "-m", "tests.training.one_worker", text]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    try:
        said = [process.communicate(timeout=600)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


def assert_same_state(one, other):
    """The same weights, optimizer and running means to 1e-5, and the same log but for the time it took."""
    with np.load(one / "state" / "state.npz") as a, np.load(other / "state" / "state.npz") as b:
        assert a.files == b.files
        logs = [json.loads(str(x["progress"]))["rows"] for x in (a, b)]
        for name in a.files:
            if name != "progress":
                np.testing.assert_allclose(b[name], a[name], atol=1e-5, rtol=1e-5, err_msg=name)
    for row, twin in zip(*logs, strict=True):
        assert {k: v for k, v in row.items() if k != "seconds"} == pytest.approx(
            {k: v for k, v in twin.items() if k != "seconds"}, rel=1e-3, abs=1e-4
        )


def test_one_or_two_workers_and_one_killed_under_way_give_the_same_weights(prepared, tmp_path):
    whole, mixed = tmp_path / "whole", tmp_path / "mixed"
    train(whole, prepared, alignment=3, captioner=2)
    train(mixed, prepared, alignment=1)  # begun by one
    given = {"folder": str(mixed), "prepared": prepared}
    codes, said = two_workers({**given, "alignment": 3}, last={"die_at_save": 5})
    assert codes == [2, -9], said
    assert "lost the others" in said[0] and "Start all workers again with the same command" in said[0]
    with np.load(mixed / "alignment" / "state" / "state.npz") as state:
        progress = json.loads(str(state["progress"]))
    assert progress["epoch"] == 1 and 3 <= progress["step"] <= 6
    codes, said = two_workers({**given, "alignment": 2, "captioner": 2})  # gone on with by two
    assert codes == [0, 0], said
    train(mixed, prepared, alignment=3)  # ended by one
    assert_same_state(whole / "alignment", mixed / "alignment")
    assert_same_state(whole / "captioner", mixed / "captioner")


def test_workers_share_each_batch_and_the_shards(tmp_path, monkeypatch):
    prepared = write_tiny_prepared(tmp_path / "prepared", {"train": 80, "val": 4}, parts=8)
    read, opened = type(prepared).read, []
    monkeypatch.setattr(type(prepared), "read", lambda self, paths: opened.append(len(paths)) or read(self, paths))

    def batches(share=None):
        fresh = Prepared.open(prepared.folder)  # keeps nothing in memory yet
        return [
            {name: value.numpy() for name, value in batch.items()}
            for batch in pair_batches(fresh, "train", 15, seed=3, share=share)
        ]

    whole, parts = batches(), [batches(Share(index, 1, 2)) for index in range(2)]
    assert len(whole) == len(parts[0]) == len(parts[1]) == steps_per_epoch(prepared, "train", 15, seed=3)
    assert opened[0] == 8 and max(opened[1:]) < 8  # small batches: the boundary between workers moves by a shard or two
    for batch, *ours in zip(whole, *parts, strict=True):
        assert abs(len(ours[0]["photo_ids"]) - len(ours[1]["photo_ids"])) <= 1
        together = {name: np.concatenate([part[name] for part in ours]) for name in batch}
        for each in (batch, together):
            order = np.argsort(each["region_features"][:, 0].sum(axis=1))
            each.update({name: value[order] for name, value in each.items()})
        for name in batch:
            np.testing.assert_array_equal(together[name], batch[name])
    assert [p["photo_ids"].tolist() for p in batches(Share(0, 2, 2))] == [
        each["photo_ids"].tolist() for pair in zip(*parts, strict=True) for each in pair
    ]


def test_a_wrong_tf_config_is_named(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{worker")
    with pytest.raises(InputError, match="TF_CONFIG in the environment is no JSON such as"):
        choose_strategy()
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1", "b:1"]}}))
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES"):
        choose_strategy("gpu:0")
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}}))
    assert choose_strategy().num_replicas_in_sync == 1
