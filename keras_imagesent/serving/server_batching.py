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
LATE = "Timed out waiting in the batch queue"


class Answer(concurrent.futures.Future):
    """The outputs to come. A client that leaves, or has waited long enough, abandons them."""

    abandoned = False

    def abandon(self):
        """Nobody waits any longer: a task that has not begun is dropped, one that is being computed is stopped."""
        self.abandoned = True
        self.cancel()


class Stop:
    """How the batcher ends a call of the model: the call says what to do when it is asked to stop."""

    def __init__(self):
        self._lock = threading.Lock()
        self._act = None
        self.asked = False

    def when_asked(self, act):
        with self._lock:
            self._act = act
        if self.asked:
            act()

    def ask(self):
        with self._lock:
            first, self.asked = not self.asked, True
            act = self._act
        if first and act:
            act()


@dataclasses.dataclass
class Task:
    """Rows of one request, who computes them, and where the answer goes."""

    call: Callable
    key: tuple  # tasks of the same key may share a batch
    inputs: dict
    rows: int
    weight: int  # bytes that the model needs beside its usual ones: decoded photos
    deadline: float
    answer: Answer

    @property
    def is_wanted(self):
        return not self.answer.abandoned and time.monotonic() < self.deadline


class Batcher:
    """Bounded queue and worker threads; requests that fit together are computed together.

    A worker takes what is queued and begins at once, so that a lone client does not wait for others; requests that come
    while the workers are busy share the next batch. While another worker computes, a worker waits `gather_seconds` for
    more: clients that were answered together ask again together. (`wait_seconds` waits always, as TF Serving's
    `batch_timeout_micros`.) A full queue refuses at once (UNAVAILABLE, HTTP 503). A request whose time is over, or
    whose client has left, is dropped, and stopped if it is being computed. A request of more rows than a batch is
    split. If a batch fails, its requests are computed one by one, so that only the guilty one hears of it.

    Example:
        >>> batcher = Batcher(threads=1)
        >>> batcher.submit(lambda inputs, stop: {"y": inputs["x"] + 1}, "add one", {"x": np.zeros(3)}).result()
        {'y': array([1., 1., 1.])}
    """

    def __init__(
        self,
        threads=2,
        max_batch_size=32,
        max_queued_rows=128,
        wait_seconds=0.0,
        gather_seconds=0.01,
        max_batch_weight=512 * 2**20,
        on_batch=None,
    ):
        self.max_batch_size = max_batch_size
        self.max_queued_rows = max_queued_rows
        self.wait_seconds = wait_seconds
        self.gather_seconds = gather_seconds
        self.max_batch_weight = max_batch_weight
        self._on_batch = on_batch or (lambda rows, seconds: None)
        self._tasks = collections.deque()
        self._rows = 0  # rows in the queue
        self._changed = threading.Condition()
        self._closed = False
        self._running = {}  # worker -> (tasks, stop)
        self._threads = [threading.Thread(target=self._work, name=f"batch-{i}", daemon=True) for i in range(threads)]
        self._watch = threading.Thread(target=self._stop_the_unwanted, name="batch-watch", daemon=True)
        for thread in (*self._threads, self._watch):
            thread.start()

    @property
    def queued_rows(self):
        return self._rows

    @property
    def is_full(self):
        return self._rows >= self.max_queued_rows

    def submit(self, call, key, inputs, timeout=30.0, weights=None):
        """Queues one request; the answer gives the outputs of `call(inputs, stop)` for its rows.

        `weights` holds the bytes that each row needs beside the usual: no batch is given more than `max_batch_weight`.
        """
        rows = _leading_dimension(inputs)
        if rows > self.max_queued_rows:
            message = f"Task size {rows} is larger than maximum input batch size {self.max_queued_rows}"
            raise ServingError("INVALID_ARGUMENT", message)
        shapes = tuple((name, array.dtype.str, array.shape[1:]) for name, array in sorted(inputs.items()))
        deadline = time.monotonic() + timeout
        weights = weights or [0] * rows
        tasks = []
        for start, end in self._split(weights):
            part = {name: array[start:end] for name, array in inputs.items()}
            weight = sum(weights[start:end])
            tasks.append(Task(call, (key, shapes), part, end - start, weight, deadline, Answer()))
        with self._changed:
            if self._closed:
                raise ServingError("UNAVAILABLE", "The server is shutting down")
            if self._rows + rows > self.max_queued_rows:
                raise ServingError("UNAVAILABLE", FULL)
            self._tasks.extend(tasks)
            self._rows += rows
            self._changed.notify(len(tasks))
        return tasks[0].answer if len(tasks) == 1 else _join([task.answer for task in tasks])

    def close(self, timeout=30.0):
        """Answers what is queued, then ends the threads; after `timeout` seconds what is left is stopped.

        False if a worker did not come back even then: an operation of TensorFlow cannot be stopped from outside.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        give_up = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))
        with self._changed:
            left, self._tasks = self._tasks, collections.deque()
            stops = [stop for _, stop in self._running.values()]
        for task in left:
            task.answer.abandon()
        for stop in stops:
            stop.ask()
        for thread in self._threads:
            thread.join(1.0)
        return not any(thread.is_alive() for thread in self._threads)

    def _split(self, weights):
        """(start, end) of the rows that go into one batch at the most."""
        start, weight = 0, 0
        for row, one in enumerate(weights):
            if row > start and (row - start == self.max_batch_size or weight + one > self.max_batch_weight):
                yield start, row
                start, weight = row, 0
            weight += one
        yield start, len(weights)

    def _work(self):
        while self._compute_next():
            pass

    def _compute_next(self):
        """Waits for a batch and computes it; False when closed and empty. Keeps no hold on a model between batches."""
        batch = self._next_batch()
        if batch is None:
            return False
        live = []
        for task in batch:
            if not task.answer.set_running_or_notify_cancel():
                continue
            if task.is_wanted:
                live.append(task)
            else:
                task.answer.set_exception(ServingError("DEADLINE_EXCEEDED", LATE))
        if live:
            self._compute(live)
        return True

    def _next_batch(self):
        """The oldest request and those behind it that fit into its batch; None when closed and empty."""
        with self._changed:
            while not self._tasks:
                if self._closed:
                    return None
                self._changed.wait()
            first = self._tasks.popleft()
            batch, rows = [first], first.rows
            wait = max(self.wait_seconds, self.gather_seconds) if self._running else self.wait_seconds
            give_up = time.monotonic() + wait
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
        bytes_left = self.max_batch_weight - sum(task.weight for task in batch)
        for task in self._tasks:
            if task.key == key and task.rows <= room - taken and task.weight <= bytes_left:
                batch.append(task)
                taken += task.rows
                bytes_left -= task.weight
            else:
                left.append(task)
        self._tasks = left
        return taken

    def _compute(self, tasks):
        names, stop = tasks[0].inputs, Stop()
        with self._changed:
            self._running[threading.get_ident()] = tasks, stop
        began = time.monotonic()
        try:
            inputs = {name: np.concatenate([task.inputs[name] for task in tasks]) for name in names}
            outputs = tasks[0].call(inputs, stop)
            with self._changed:  # before anyone hears of it: who asks again at once finds this worker free
                self._running.pop(threading.get_ident(), None)
            self._on_batch(sum(task.rows for task in tasks), time.monotonic() - began)
            start = 0
            for task in tasks:
                rows = slice(start, start + task.rows)
                task.answer.set_result({name: _rows(name, value, rows, tasks) for name, value in outputs.items()})
                start += task.rows
        except Exception as error:
            problem = ServingError("DEADLINE_EXCEEDED", "Timed out") if stop.asked else as_serving_error(error)
            unanswered = [task for task in tasks if not task.answer.done()]
            for task in unanswered:
                if len(tasks) == 1 or stop.asked:
                    task.answer.set_exception(problem)
                else:
                    self._compute([task])
        finally:
            with self._changed:
                self._running.pop(threading.get_ident(), None)

    def _stop_the_unwanted(self):
        """Ends calls of the model that nobody waits for, so that their worker is free for others."""
        while not self._closed:
            time.sleep(0.2)
            with self._changed:
                running = list(self._running.values())
            for tasks, stop in running:
                if not any(task.is_wanted for task in tasks):
                    stop.ask()


def _join(answers):
    """One answer for a request that was split."""
    whole = Answer()
    whole.set_running_or_notify_cancel()
    whole.abandon = lambda: [answer.abandon() for answer in answers]
    lock = threading.Lock()

    def check(_):
        with lock:
            if whole.done() or not all(answer.done() for answer in answers):
                return
            problems = [ServingError("CANCELLED", "Cancelled") for answer in answers if answer.cancelled()]
            problems += [answer.exception() for answer in answers if not answer.cancelled() and answer.exception()]
            if problems:
                whole.set_exception(problems[0])
                return
            parts = [answer.result() for answer in answers]
            try:
                whole.set_result({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
            except ValueError:
                message = "Outputs of different shapes or without a row for each input row cannot be split into batches"
                whole.set_exception(ServingError("FAILED_PRECONDITION", message))

    for answer in answers:
        answer.add_done_callback(check)
    return whole


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
