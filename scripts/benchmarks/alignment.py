"""Alignment: a training step beside its matrix products alone and beside plain PyTorch; scoring beside one product."""

import resource
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.encode import Words
from keras_imagesent.evaluation.retrieval import score_pairs
from keras_imagesent.training.optimizers import build_optimizer

BATCH, REGIONS, LENGTH, FEATURES, DIM, UNITS, WORD_DIM, VOCABULARY = 100, 20, 20, 1280, 1000, 512, 300, 2537
SCORED_PHOTOS = 500
RUNS = 15


def run():
    """Prints the ratios that the product promises: at most 1.5, at most 1.05, at least 0.7."""
    batch, before = make_batch(), peak_memory()
    step = our_step(batch)
    for _ in range(3):
        step()
    memory = peak_memory() - before
    contenders = {"training step": step, "its matrix products": bare_products()}
    try:
        contenders["plain PyTorch"] = torch_step(batch)
    except ImportError:
        print("torch is not installed: no comparison with it")
    times = interleaved(contenders)
    ours = times["training step"]
    print(f"training step: batch {BATCH}, {REGIONS} regions, {LENGTH} words, h {DIM}, hidden {UNITS}, SGD, dropout 0.5")
    for name, milliseconds in times.items():
        print(f"  {name:<22}{milliseconds:8.0f} ms   step / this = {ours / milliseconds:.2f}")
    print(f"  the step adds {memory:.0f} MB of peak memory (weights and momentum too) to the {before:.0f} MB before it")
    scoring()


def peak_memory():
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make_batch():
    """Random pairs of the paper's sizes, every word real: the dearest batch there is."""
    rng = np.random.default_rng(0)
    return {
        "region_features": rng.random((BATCH, REGIONS, FEATURES), np.float32),
        "region_mask": np.ones((BATCH, REGIONS), bool),
        "box_scores": np.ones((BATCH, REGIONS), np.float32),
        "token_ids": rng.integers(1, VOCABULARY + 1, (BATCH, LENGTH)).astype(np.int32),
        "photo_ids": np.arange(BATCH),
    }


def our_step(batch):
    """One step of `model.fit`, as `imagesent train-alignment` runs it."""
    keras.utils.set_random_seed(0)
    model = build_alignment(FEATURES, VOCABULARY, dim=DIM, units=UNITS, word_dim=WORD_DIM, dropout=0.5)
    model.compile(optimizer=build_optimizer("sgd", 1e-4), jit_compile=False)
    batches = iter(tf.data.Dataset.from_tensors({k: tf.constant(v) for k, v in batch.items()}).repeat())
    model.make_train_function()
    return lambda: float(model.train_function(batches)["loss"])


def bare_products():
    """The step's matrix products, forwards and backwards, of the same shapes, and nothing else."""
    rows = BATCH * LENGTH
    # (m, k, n): a product (m,k)x(k,n) forwards; backwards (m,n)x(n,k) for the input and (k,m)x(m,n) for the weights
    products = [(rows, WORD_DIM, UNITS), (rows, UNITS, DIM), (BATCH * REGIONS, DIM, rows)]
    products += [(BATCH, UNITS, UNITS)] * (2 * (LENGTH - 1))
    first = (BATCH * REGIONS, FEATURES, DIM)  # CNN vectors need no gradient
    normal = tf.random.normal
    operands = {shape: (normal(shape[:2]), normal(shape[1:]), normal(shape[::2])) for shape in {first, *products}}

    @tf.function(autograph=False)
    def multiply(operands):
        results = []
        for shape in [first, *products]:
            x, w, upstream = operands[shape]
            with tf.control_dependencies(results[-3:]):  # one after the other, or equal ones would be merged
                results.append(tf.matmul(x, w))
                results.append(tf.matmul(x, upstream, transpose_a=True))
                if shape != first:
                    results.append(tf.matmul(upstream, w, transpose_b=True))
        return [result[0, 0] for result in results]

    return lambda: multiply(operands)[-1].numpy()


def torch_step(batch):
    """The same model and step written plainly in PyTorch."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(tf.config.threading.get_intra_op_parallelism_threads() or torch.get_num_threads())

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(VOCABULARY + 1, WORD_DIM)
            self.project_words, self.project_sentence = nn.Linear(WORD_DIM, UNITS), nn.Linear(UNITS, DIM)
            self.forwards, self.backwards = nn.Linear(UNITS, UNITS), nn.Linear(UNITS, UNITS)
            self.project_regions, self.dropout = nn.Linear(FEATURES, DIM), nn.Dropout(0.5)

        def stream(self, inputs, layer):
            state, states = torch.zeros_like(inputs[0]), []
            for x in inputs:
                state = torch.relu(x + layer(state))
                states.append(state)
            return states

        def forward(self, features, token_ids):
            regions = self.project_regions(self.dropout(features))
            e = self.dropout(torch.relu(self.project_words(self.dropout(self.words(token_ids)))))
            steps = list(e.unbind(1))
            ahead, back = self.stream(steps, self.forwards), self.stream(steps[::-1], self.backwards)[::-1]
            both = torch.stack(ahead, 1) + torch.stack(back, 1)
            words = torch.relu(self.project_sentence(self.dropout(both)))
            similarity = regions.flatten(0, 1) @ words.flatten(0, 1).T
            best = similarity.view(BATCH, REGIONS, -1).amax(dim=1)
            return best.view(BATCH, BATCH, LENGTH).sum(-1)

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
    features, token_ids = torch.tensor(batch["region_features"]), torch.tensor(batch["token_ids"]).long()
    others = 1 - torch.eye(BATCH)

    def step():
        scores = model(features, token_ids)
        right = scores.diag()
        hinges = torch.relu(scores - right[:, None] + 1) + torch.relu(scores - right[None] + 1)
        loss = (hinges * others).sum() / BATCH
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 5.0)
        optimizer.step()
        return loss.item()

    return step


def scoring():
    """All pairs of 500 photos and their 2,500 sentences beside one large product of the same operands."""
    rng = np.random.default_rng(0)
    photos, sentences, length = SCORED_PHOTOS, 5 * SCORED_PHOTOS, 11
    regions = rng.standard_normal((photos, REGIONS, DIM), np.float32)
    words = Words(rng.standard_normal((sentences * length, DIM), np.float32), np.full(sentences, length))
    mask, flat = np.ones((photos, REGIONS), bool), regions.reshape(-1, DIM)
    result = np.empty((len(flat), len(words.vectors)), np.float32)
    contenders = {
        "scoring all pairs": lambda: score_pairs(regions, words, mask),
        "one large product": lambda: np.matmul(flat, words.vectors.T, out=result),
    }
    times = interleaved(contenders, runs=3)
    print(f"scoring {photos} photos x {sentences} sentences of {length} words")
    for name, milliseconds in times.items():
        print(f"  {name:<22}{milliseconds:8.0f} ms")
    print(f"  share of the product's rate {times['one large product'] / times['scoring all pairs']:.2f}")


def interleaved(contenders, runs=RUNS):
    """Median milliseconds of each, run in turns so that all see the same machine."""
    times = {name: [] for name in contenders}
    for turn in range(runs + 2):
        for name, function in contenders.items():
            start = time.perf_counter()
            function()
            if turn > 1:  # the first two warm up
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    run()
