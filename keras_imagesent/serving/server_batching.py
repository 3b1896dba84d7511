"""Puts the rows of several clients' requests into one call of the model."""

import collections
import concurrent.futures
import dataclasses
import threading
import time
from collections.abc import Callable

import numpy as np

from keras_imagesent.serving.server_errors import NAMES, ServingError

FULL = "The batch scheduling queue to which this task was submitted is full"


@dataclasses.dataclass
class Task:
    """One request: its rows, who computes them, and where the answer goes."""

    call: Callable
    key: tuple  # requests of the same key may share a batch
    inputs: dict
    rows: int
    deadline: float
    future: concurrent.futures.Future


class Batcher:
    """Bounded queue and worker threads; requests that fit together are computed together.

    A full queue refuses at once (UNAVAILABLE, HTTP 503). A request whose time is over before its turn is dropped. If a
    batch fails, its requests are computed one by one, so that only the guilty one hears of it.

    Example:
        >>> batcher = Batcher(threads=1)
        >>> batcher.submit(lambda inputs: {"y": inputs["x"] + 1}, "add one", {"x": np.zeros(3)}).result()
        {'y': array([1., 1., 1.])}
    """

    def __init__(self, threads=2, max_batch_size=32, max_queued_rows=128, wait_seconds=0.005):
        self.max_batch_size = max_batch_size
        self.max_queued_rows = max_queued_rows
        self.wait_seconds = wait_seconds
        self._tasks = collections.deque()
        self._rows = 0  # rows in the queue
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name=f"batch-{i}", daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, call, key, inputs, timeout=30.0):
        """Queues one request; the future gives `call`'s outputs for its rows."""
        rows = _leading_dimension(inputs)
        if rows > self.max_batch_size:
            message = f"Task size {rows} is larger than maximum input batch size {self.max_batch_size}"
            raise ServingError("INVALID_ARGUMENT", message)
        shapes = tuple((name, array.dtype.str, array.shape[1:]) for name, array in sorted(inputs.items()))
        future = concurrent.futures.Future()
        task = Task(call, (key, shapes), inputs, rows, time.monotonic() + timeout, future)
        with self._changed:
            if self._closed:
                raise ServingError("UNAVAILABLE", "The server is shutting down")
            if self._rows + rows > self.max_queued_rows:
                raise ServingError("UNAVAILABLE", FULL)
            self._tasks.append(task)
            self._rows += rows
            self._changed.notify()
        return future

    def close(self):
        """Answers what is queued, then ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self):
        while batch := self._next_batch():
            now = time.monotonic()
            live = []
            for task in batch:
                if not task.future.set_running_or_notify_cancel():
                    continue
                if task.deadline < now:
                    task.future.set_exception(ServingError("DEADLINE_EXCEEDED", "Timed out waiting in the batch queue"))
                else:
                    live.append(task)
            if live:
                _compute(live)

    def _next_batch(self):
        """The oldest request and those behind it that fit into its batch; None when closed and empty."""
        with self._changed:
            while not self._tasks:
                if self._closed:
                    return None
                self._changed.wait()
            first = self._tasks.popleft()
            batch, rows = [first], first.rows
            give_up = time.monotonic() + self.wait_seconds
            while True:
                rows += self._take(first.key, batch, self.max_batch_size - rows)
                left = give_up - time.monotonic()
                if rows >= self.max_batch_size or left <= 0 or self._closed:
                    break
                self._changed.wait(left)
            self._rows -= rows
            if self._tasks:
                self._changed.notify()  # this thread may have eaten the wake-up of a task that it left behind
            return batch

    def _take(self, key, batch, room):
        """Moves matching tasks from the queue into the batch, in order; returns how many rows."""
        taken, left = 0, collections.deque()
        for task in self._tasks:
            if task.key == key and task.rows <= room - taken:
                batch.append(task)
                taken += task.rows
            else:
                left.append(task)
        self._tasks = left
        return taken


def _compute(tasks):
    call = tasks[0].call
    names = tasks[0].inputs
    try:
        outputs = call({name: np.concatenate([task.inputs[name] for task in tasks]) for name in names})
        start = 0
        for task in tasks:
            rows = slice(start, start + task.rows)
            task.future.set_result({name: _rows(name, value, rows, tasks) for name, value in outputs.items()})
            start += task.rows
    except Exception as error:
        unanswered = [task for task in tasks if not task.future.done()]
        if len(tasks) == 1:
            tasks[0].future.set_exception(as_serving_error(error))
        else:
            for task in unanswered:
                _compute([task])


def _rows(name, value, rows, tasks):
    if len(tasks) == 1:
        return value
    if value.ndim == 0 or len(value) != sum(task.rows for task in tasks):
        message = f"Output {name} does not have one row for each input row, so that it cannot be batched"
        raise ServingError("FAILED_PRECONDITION", message)
    return value[rows]


def _leading_dimension(inputs):
    sizes = {array.shape[0] if array.ndim else None for array in inputs.values()}
    if None in sizes:
        message = "Batching session Run() input tensors must have at least one dimension."
        raise ServingError("INVALID_ARGUMENT", message)
    if len(sizes) != 1:
        message = "Batching session Run() input tensors must have equal 0th-dimension size"
        raise ServingError("INVALID_ARGUMENT", message)
    (rows,) = sizes
    if rows == 0:
        raise ServingError("INVALID_ARGUMENT", "Batching Run() input tensors must have at least one row")
    return rows


def as_serving_error(error):
    """A ServingError for whatever the model threw; TensorFlow's errors keep their code and text."""
    if isinstance(error, ServingError):
        return error
    if hasattr(error, "error_code") and hasattr(error, "message"):
        return ServingError(NAMES.get(error.error_code, "INTERNAL"), error.message)
    return ServingError("INTERNAL", f"{type(error).__name__}: {error}")
