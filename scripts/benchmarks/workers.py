"""Training on several workers: the time of a step with 1 and 2 worker processes, and what their collectives cost.

The paper's alignment with h = 1000: batches of 100 pairs, 20 regions of 1280 numbers, 20 words, made-up vectors. The
workers share this machine's cores, so two of them cannot be faster than one; the collectives are the loopback's.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS, BATCH, DIM = int(os.environ.get("STEPS", 6)), 100, 1000


def run():
    """Prints seconds a step and its parts for one and for two workers."""
    for number in (1, 2):
        command = [sys.executable, ROOT / "scripts" / "workers", str(number), sys.executable, __file__]
        answer = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        print(answer.stdout, end="", flush=True)


def work():
    """One worker: times whole steps, and the same collectives with nothing to compute."""
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_imagesent.alignment.alignment_model import build_alignment
    from keras_imagesent.training.devices import choose_strategy
    from keras_imagesent.training.fit import _training_step
    from keras_imagesent.training.optimizers import build_optimizer
    from keras_imagesent.training.workers import Workers

    strategy = choose_strategy()
    workers = Workers(strategy)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = build_alignment(1280, 2537, dim=DIM, units=512)
        model.compile(optimizer=build_optimizer("adam", 1e-4), jit_compile=False)
        model.optimizer.build(model.trainable_variables)
    (rows,) = workers.share.parts(np.arange(BATCH))
    rng = np.random.default_rng(0)
    batch = {
        "region_features": rng.standard_normal((BATCH, 20, 1280), np.float32)[rows],
        "region_mask": np.ones((BATCH, 20), bool)[rows],
        "box_scores": np.ones((BATCH, 20), np.float32)[rows],
        "token_ids": rng.integers(1, 2537, (BATCH, 20)).astype(np.int32)[rows],
        "photo_ids": rows,
    }
    data = iter(workers.distribute(tf.data.Dataset.from_tensors(batch).repeat()))
    train_step = _training_step(model, strategy)
    step, cpu = measure(lambda: train_step(next(data), 0.0))
    line = f"{workers.number} workers: {step:.2f} s a step of {BATCH} pairs, {cpu:.2f} s of processor time in each"
    if workers.number > 1:
        words, scores = tf.zeros((len(rows), 20, DIM)), tf.zeros((len(rows), BATCH))
        gradients = [tf.zeros(weight.shape) for weight in model.trainable_variables]

        def send():
            context = tf.distribute.get_replica_context()
            reduced = context.all_reduce("sum", gradients)
            # the words of all to each, and back their gradient; the scores of each to all
            gathered = [context.all_gather(x, axis=0) for x in (words, scores)]
            return [tf.reduce_sum(x) for x in (*reduced, *gathered, context.all_reduce("sum", gathered[0]))]

        collective = tf.function(lambda: strategy.run(send))
        seconds, cpu = measure(collective)
        sent = 4 * sum(int(np.prod(weight.shape)) for weight in model.trainable_variables) / 2**20
        line += (
            f"; its collectives alone {seconds:.2f} s, {cpu:.2f} s of processor time ({sent:.0f} MB of gradients, "
            f"{4 * BATCH * 20 * DIM / 2**20:.0f} MB of word vectors and as much of their gradient)"
        )
    if workers.chief:
        print(line, flush=True)


def measure(function):
    """Median seconds of a call after two that trace: on the clock, and of this process's processor time."""
    function(), function()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter(), time.process_time()
        function()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return [sorted(column)[len(times) // 2] for column in zip(*times, strict=True)]


if __name__ == "__main__":
    work()
