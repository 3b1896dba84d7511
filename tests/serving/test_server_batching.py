"""The batcher alone: every client its own rows, late requests dropped, a bad request alone with its error."""

import threading
import time

import numpy as np
import pytest

from keras_imagesent.serving.server_batching import FULL, Batcher
from keras_imagesent.serving.server_errors import ServingError


class Door:
    """A model that waits until it is let through, so that a test decides what is queued together."""

    def __init__(self):
        self.open, self.entered, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, inputs, stop):
        self.entered.set()
        assert self.open.wait(20)
        self.batches.append(inputs["x"].tolist())
        if (inputs["x"] < 0).any():
            raise ValueError("a negative number")
        return {"y": inputs["x"] * 10}


@pytest.fixture
def door():
    return Door()


@pytest.fixture
def batcher(door):
    batcher = Batcher(threads=1, max_batch_size=8, max_queued_rows=10, wait_seconds=0)
    yield batcher
    door.open.set()
    batcher.close()


def ask(batcher, door, *numbers, **settings):
    return batcher.submit(door, "ten times", {"x": np.array(numbers, float)}, **settings)


def occupy(batcher, door):
    """Keeps the only thread busy, so that what comes next waits in the queue."""
    first = ask(batcher, door, 0)
    assert door.entered.wait(20)
    return first


def test_every_client_gets_its_own_rows(batcher, door):
    first = occupy(batcher, door)
    waiting = [ask(batcher, door, 1), ask(batcher, door, 2, 3, 4), ask(batcher, door, 5, 6), ask(batcher, door, 7)]
    door.open.set()
    assert [future.result(20)["y"].tolist() for future in waiting] == [[10], [20, 30, 40], [50, 60], [70]]
    assert first.result(20)["y"].tolist() == [0]
    assert door.batches == [[0], [1, 2, 3, 4, 5, 6, 7]]


def test_a_bad_request_fails_alone(batcher, door):
    occupy(batcher, door)
    good, bad, other = ask(batcher, door, 1), ask(batcher, door, -2), ask(batcher, door, 3)
    door.open.set()
    assert (good.result(20)["y"].tolist(), other.result(20)["y"].tolist()) == ([10], [30])
    with pytest.raises(ServingError, match="ValueError: a negative number"):
        bad.result(20)
    assert door.batches == [[0], [1, -2, 3], [1], [-2], [3]]


def test_a_request_whose_time_is_over_is_not_computed(batcher, door):
    occupy(batcher, door)
    late, patient = ask(batcher, door, 1, timeout=0.0), ask(batcher, door, 2)
    door.open.set()
    assert patient.result(20)["y"].tolist() == [20]
    with pytest.raises(ServingError, match="Timed out waiting in the batch queue") as dropped:
        late.result(20)
    assert dropped.value.code == "DEADLINE_EXCEEDED" and door.batches == [[0], [2]]


def test_what_does_not_fit_waits_or_is_refused(batcher, door):
    occupy(batcher, door)
    large, small = ask(batcher, door, *range(1, 8)), ask(batcher, door, 8, 9)
    with pytest.raises(ServingError, match=FULL):  # 7 + 2 + 2 rows are more than 10
        ask(batcher, door, 10, 11)
    door.open.set()
    assert (len(large.result(20)["y"]), small.result(20)["y"].tolist()) == (7, [80, 90])
    assert [len(batch) for batch in door.batches] == [1, 7, 2]


def test_a_busy_batcher_gathers_those_who_come_together():
    """One by one they would be computed at the price of many batches; a lone request still begins at once."""
    batcher = Batcher(threads=2, max_batch_size=3, gather_seconds=20.0)
    go_on, sizes = threading.Event(), []

    def count(inputs, stop):
        sizes.append(len(inputs["x"]))
        return {"y": inputs["x"]}

    def block(inputs, stop):
        go_on.wait(20)
        return {"y": inputs["x"]}

    began = time.monotonic()
    assert batcher.submit(count, "count", {"x": np.zeros(1)}).result(20)["y"].tolist() == [0.0]
    assert time.monotonic() - began < 15
    blocked = batcher.submit(block, "block", {"x": np.zeros(1)})
    while not batcher._running:
        time.sleep(0.01)
    answers = []
    for number in range(3):
        answers.append(batcher.submit(count, "count", {"x": np.full(1, float(number))}))
        time.sleep(0.05)
    assert [answer.result(30)["y"].tolist() for answer in answers] == [[0.0], [1.0], [2.0]]
    assert sizes == [1, 3]
    go_on.set()
    blocked.result(20)
    assert batcher.close()
