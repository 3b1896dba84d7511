"""Captions for many image vectors at once, and how probable given sentences are."""

import numpy as np
import tensorflow as tf

from keras_imagesent.captioning.beam_search import beam_search
from keras_imagesent.captioning.captioner import Decoder


class Searcher:
    """Beam search of one captioner, traced once and then fed in batches.

    Example:
        >>> search = Searcher(captioner, beam=3, length_penalty=0.7)
        >>> token_ids, log_probs = search(features)  # (N, captions, T), (N, captions)
    """

    def __init__(self, captioner, beam=3, captions=1, max_length=20, length_penalty=0.0, batch_size=100):
        self.batch_size = batch_size
        inputs = {name: captioner.input[name] for name in captioner.looks_at}
        wanted = {name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in inputs.items()}

        @tf.function(input_signature=[wanted], autograph=False)
        def search(image):
            decoder = Decoder(captioner, image)
            states = decoder.states
            return beam_search(decoder.step, states, decoder.start_id, beam, max_length, captions, length_penalty)

        self.search = search

    def __call__(self, image):
        """`image` has arrays (N, ...) by the names of `Captioner.looks_at`, or is the image vectors alone."""
        image = image if isinstance(image, dict) else {"image_features": image}
        parts = [
            self.search(_rows(image, slice(start, start + self.batch_size)))
            for start in range(0, len(image["image_features"]), self.batch_size)
        ]
        token_ids, log_probs = zip(*parts, strict=True)
        return np.concatenate(token_ids), np.concatenate(log_probs)


class Perplexity:
    """exp of the mean cross-entropy of a word, END included; the paper's "log2 probability" in friendlier form.

    Example:
        >>> Perplexity(captioner)(features, token_ids, rows)  # sentence n is of the image vector rows[n]
        15.2
    """

    def __init__(self, captioner, batch_size=100):
        self.losses = tf.function(
            lambda image, ids: captioner.word_losses(image, ids)[0], autograph=False, reduce_retracing=True
        )
        self.batch_size = batch_size

    def __call__(self, image, token_ids, rows):
        """`image` as for `Searcher`; `rows (N,)` says whose photo each of the sentences `token_ids (N, T)` is of."""
        total = words = 0
        for start in range(0, len(token_ids), self.batch_size):
            part = slice(start, start + self.batch_size)
            losses = self.losses(_rows(image, rows[part]), tf.constant(token_ids[part])).numpy()
            total, words = total + losses.sum(), words + len(losses)
        return float(np.exp(total / words))


def _rows(image, rows):
    """Some rows of every array, as tensors; the float16 of the shards becomes float32."""
    parts = {name: np.asarray(values[rows]) for name, values in image.items()}
    return {name: tf.constant(part if part.dtype == bool else np.float32(part)) for name, part in parts.items()}
