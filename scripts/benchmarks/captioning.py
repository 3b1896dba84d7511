"""Captioning: a training step and beam search beside their matrix products alone and beside plain PyTorch."""

import statistics
import time

import keras
import numpy as np
import tensorflow as tf

from keras_imagesent.captioning.caption_photos import Searcher
from keras_imagesent.captioning.captioner import build_captioner
from keras_imagesent.training.optimizers import build_optimizer

PHOTOS, LENGTH, FEATURES, UNITS, WORD_DIM, VOCABULARY, BEAM = 100, 20, 1280, 512, 256, 2537, 7
GATES = {"relu": 1, "lstm": 4}
RUNS = 11


def run():
    """Prints the ratios that the product promises: at most 1.5 and 2 over the products, at most 1.05 over PyTorch."""
    torch = None
    try:
        import torch

        torch.set_num_threads(tf.config.threading.get_intra_op_parallelism_threads() or torch.get_num_threads())
    except ImportError:
        print("torch is not installed: no comparison with it")
    for cell in GATES:
        batch = make_batch()
        contenders = {
            "training step": our_step(cell, batch),
            "its matrix products": products_of_step(cell, batch),
        }
        if torch:
            contenders["plain PyTorch"] = torch_step(cell, batch)
        words = int(np.minimum((batch["token_ids"] > 0).sum(axis=1) + 1, LENGTH).sum())
        show(f"{cell}, training step: {PHOTOS} sentences, {words} words with END, hidden {UNITS}", contenders)
        features = batch["image_features"]
        contenders = {"beam search": our_beam(cell, features), "its matrix products": products_of_beam(cell)}
        if torch:
            contenders["plain PyTorch"] = torch_beam(cell, features)
        show(f"{cell}, beam {BEAM} over {PHOTOS} photos, {LENGTH} steps, {VOCABULARY + 1} words", contenders)


def show(title, contenders):
    times = interleaved(contenders)
    first = next(iter(times.values()))
    print(title)
    for name, milliseconds in times.items():
        print(f"  {name:<22}{milliseconds:8.0f} ms   ours / this = {first / milliseconds:.2f}", flush=True)


def make_batch():
    """Sentences as long as Flickr8k's (10.8 words, spread 3.8, at most 20), of random words."""
    rng = np.random.default_rng(0)
    token_ids = rng.integers(1, VOCABULARY + 1, (PHOTOS, LENGTH)).astype(np.int32)
    lengths = np.clip(rng.normal(10.8, 3.8, PHOTOS).round(), 3, LENGTH)
    token_ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    return {"image_features": rng.random((PHOTOS, FEATURES), np.float32), "token_ids": token_ids}


def our_step(cell, batch):
    """One step of `model.fit`, as `imagesent train-captioner` runs it."""
    keras.utils.set_random_seed(0)
    model = build_captioner(FEATURES, VOCABULARY, cell, UNITS, WORD_DIM, dropout=0.5)
    model.compile(build_optimizer("rmsprop", 1e-4))
    batches = iter(tf.data.Dataset.from_tensors({k: tf.constant(v) for k, v in batch.items()}).repeat())
    model.make_train_function()
    return lambda: float(model.train_function(batches)["loss"])


def products_of_step(cell, batch):
    """The step's matrix products over the words there are, forwards and backwards, and nothing else."""
    going_on = [PHOTOS, *(batch["token_ids"][:, :-1] > 0).sum(axis=0)]  # sentences at each step
    words, gates = int(sum(going_on)), GATES[cell] * UNITS
    shapes = [(words, UNITS, VOCABULARY + 1), (words, WORD_DIM, UNITS), (PHOTOS, FEATURES, UNITS)]
    shapes += [(words, UNITS, gates)] if cell != "relu" else []
    shapes += [(int(rows), UNITS, gates) for rows in going_on[1:] if rows]
    return multiply(shapes, backwards=True)


def our_beam(cell, features):
    search = Searcher(talkative(build_captioner(FEATURES, VOCABULARY, cell, UNITS, WORD_DIM)), BEAM)
    return lambda: search(features)


def talkative(model):
    """Makes END improbable, so that all 20 steps are run."""
    keras.utils.set_random_seed(0)
    model.get_layer("output").bias.assign(tf.one_hot(0, VOCABULARY + 1, on_value=-30.0))
    return model


def products_of_beam(cell):
    """The products of the search: one row a photo for the first word, a row a sentence of the beam for the others."""
    shapes, gates = [(PHOTOS, FEATURES, UNITS)], GATES[cell] * UNITS
    for rows in [PHOTOS, *[PHOTOS * BEAM] * (LENGTH - 1)]:
        shapes += [(rows, WORD_DIM, UNITS), (rows, UNITS, gates), (rows, UNITS, VOCABULARY + 1)]
        shapes += [(rows, UNITS, gates)] if cell != "relu" else []
    return multiply(shapes)


def multiply(shapes, backwards=False):
    """A function that does products (m,k)x(k,n), and those of their gradients, one after the other."""
    normal = tf.random.normal
    operands = {shape: (normal(shape[:2]), normal(shape[1:]), normal(shape[::2])) for shape in set(shapes)}

    @tf.function(autograph=False)
    def products(operands):
        results = []
        for shape in shapes:
            x, w, upstream = operands[shape]
            with tf.control_dependencies(results[-3:]):  # or equal ones would be merged
                results.append(tf.matmul(x, w))
                if backwards:
                    results.append(tf.matmul(x, upstream, transpose_a=True))
                    results.append(tf.matmul(upstream, w, transpose_b=True))
        return [result[0, 0] for result in results]

    return lambda: products(operands)[-1].numpy()


def torch_captioner(cell):
    """The same captioner written plainly in PyTorch."""
    from torch import nn

    class Captioner(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(VOCABULARY + 2, WORD_DIM)
            self.image, self.inputs = nn.Linear(FEATURES, UNITS, bias=False), nn.Linear(WORD_DIM, UNITS, bias=False)
            self.cell = nn.LSTMCell(UNITS, UNITS) if cell == "lstm" else nn.Linear(UNITS, UNITS)
            self.output, self.dropout = nn.Linear(UNITS, VOCABULARY + 1), nn.Dropout(0.5)

        def start(self, features):
            zeros = features.new_zeros(len(features), UNITS)
            return self.image(self.dropout(features)), (zeros, zeros)

        def step(self, z, states):
            if cell == "lstm":
                states = self.cell(z, states)
                return states[0], states
            h = (z + self.cell(states[0])).relu()
            return h, (h, h)

    return Captioner()


def torch_step(cell, batch):
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = torch_captioner(cell)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-4, alpha=0.9)
    features = torch.tensor(batch["image_features"])
    targets = torch.tensor(batch["token_ids"]).long()
    inputs = torch.cat([torch.full((PHOTOS, 1), VOCABULARY + 1), targets[:, :-1]], dim=1)
    targets = targets.masked_fill(inputs == 0, -100)  # padding does not count

    def step():
        image, states = model.start(features)
        z = model.inputs(model.dropout(model.words(inputs)))
        hidden = []
        for t in range(LENGTH):
            h, states = model.step(z[:, t] + image if t == 0 else z[:, t], states)
            hidden.append(h)
        logits = model.output(model.dropout(torch.stack(hidden, dim=1)))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / PHOTOS
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 5.0)
        optimizer.step()
        return loss.item()

    return step


def torch_beam(cell, features):
    import torch

    torch.manual_seed(0)
    model = torch_captioner(cell).eval()
    model.output.bias.data = torch.tensor([-30.0] + [0.0] * VOCABULARY)
    features = torch.tensor(features)
    rows = torch.arange(PHOTOS)[:, None] * BEAM

    @torch.no_grad()
    def search():
        image, states = model.start(features)
        h, states = model.step(model.inputs(model.words(torch.full((PHOTOS,), VOCABULARY + 1))) + image, states)
        scores, said = model.output(h).log_softmax(-1).topk(BEAM)
        states = [state.repeat_interleave(BEAM, dim=0) for state in states]
        tokens, finished = said[:, :, None], said == 0
        end_only = torch.full((VOCABULARY + 1,), -1e9)
        end_only[0] = 0
        for _ in range(1, LENGTH):
            h, states = model.step(model.inputs(model.words(said.flatten())), tuple(states))
            gains = model.output(h).log_softmax(-1).view(PHOTOS, BEAM, -1)
            gains = torch.where(finished[:, :, None], end_only, gains)
            scores, chosen = (scores[:, :, None] + gains).flatten(1).topk(BEAM)
            parents, said = chosen // (VOCABULARY + 1), chosen % (VOCABULARY + 1)
            flat = (rows + parents).flatten()
            states = [state[flat] for state in states]
            tokens = torch.cat([tokens.flatten(0, 1)[flat].view(PHOTOS, BEAM, -1), said[:, :, None]], dim=2)
            finished = said == 0
        return tokens[:, 0].numpy()

    return search


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
