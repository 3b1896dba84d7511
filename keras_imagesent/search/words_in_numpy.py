"""The sentence encoder (Eqs. 2-6) in NumPy, for a search that does not wait ten seconds for TensorFlow."""

from pathlib import Path

import numpy as np

from keras_imagesent.data.atomic import whole_file
from keras_imagesent.errors import InputError

FILE = "sentence_encoder.npz"
LAYERS = ("word_projection", "forwards", "backwards", "sentence_projection", "frame_words")


def save_sentence_encoder(encoder, path: str | Path) -> None:
    """Writes what `NumpySentenceEncoder` needs of a Keras `sentence_encoder`."""
    layers = {layer.name: layer for layer in encoder.layers}
    if "forwards" not in layers:
        raise InputError("a search wants an alignment whose sentences go through the BRNN, not one of the ablations")
    arrays = {"words": np.asarray(layers["words"].embeddings), "max_words": encoder.inputs[0].shape[1]}
    for name in LAYERS:
        if name in layers:
            arrays |= {f"{name}_kernel": np.asarray(layers[name].kernel), f"{name}_bias": np.asarray(layers[name].bias)}
    arrays["unit"] = "word_norm" in layers
    arrays["scale"] = layers["temperature"].scale if "temperature" in layers else 1.0
    arrays["one"] = "append_one" in layers
    with whole_file(path) as unfinished:
        np.savez(unfinished, **arrays)


class NumpySentenceEncoder:
    """Word ids of one sentence -> their vectors (T, D), as the Keras model gives them.

    Example:
        encoder = NumpySentenceEncoder("index/alignment/sentence_encoder.npz")
        words = encoder(vocabulary.encode("a red bus"))
    """

    def __init__(self, path: str | Path):
        with np.load(path, allow_pickle=False) as arrays:
            self.arrays = dict(arrays)

    def __call__(self, ids: list[int]) -> np.ndarray:
        x = self.arrays["words"][ids[: int(self.arrays["max_words"])]]  # Eq. 2
        e = self._dense("word_projection", x)  # Eq. 3
        h = self._recur("forwards", e) + self._recur("backwards", e[::-1])[::-1]  # Eqs. 4, 5
        parts = [self._dense(name, h) for name in LAYERS[3:] if f"{name}_kernel" in self.arrays]  # Eq. 6
        if self.arrays["unit"]:
            parts = [part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-6) for part in parts]
        words = np.concatenate(parts, axis=1) * self.arrays["scale"]
        if self.arrays["one"]:
            words = np.concatenate([words, np.ones((len(words), 1))], axis=1)
        return words.astype(np.float32)

    def _dense(self, name, x):
        return np.maximum(x @ self.arrays[f"{name}_kernel"] + self.arrays[f"{name}_bias"], 0)

    def _recur(self, name, x):
        kernel, bias = self.arrays[f"{name}_kernel"], self.arrays[f"{name}_bias"]
        states, state = [], np.zeros(len(bias), np.float32)
        for step in x:
            state = np.maximum(step + bias + state @ kernel, 0)
            states.append(state)
        return np.stack(states)
