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
        decoder = Decoder(captioner)
        self.batch_size = batch_size

        @tf.function(
            input_signature=[tf.TensorSpec([None, captioner.input["image_features"].shape[-1]])], autograph=False
        )
        def search(features):
            states = decoder.start(features)
            return beam_search(decoder.step, states, decoder.start_id, beam, max_length, captions, length_penalty)

        self.search = search

    def __call__(self, features):
        parts = [
            self.search(np.asarray(features[start : start + self.batch_size], np.float32))
            for start in range(0, len(features), self.batch_size)
        ]
        token_ids, log_probs = zip(*parts, strict=True)
        return np.concatenate(token_ids), np.concatenate(log_probs)


class Perplexity:
    """exp of the mean cross-entropy of a word, END included; the paper's "log2 probability" in friendlier form.

    Example:
        >>> Perplexity(captioner)(features, token_ids)
        15.2
    """

    def __init__(self, captioner, batch_size=100):
        self.losses = tf.function(
            lambda x, ids: captioner.word_losses(x, ids)[0], autograph=False, reduce_retracing=True
        )
        self.batch_size = batch_size

    def __call__(self, features, token_ids):
        total = words = 0
        for start in range(0, len(token_ids), self.batch_size):
            part = slice(start, start + self.batch_size)
            losses = self.losses(tf.constant(features[part]), tf.constant(token_ids[part])).numpy()
            total, words = total + losses.sum(), words + len(losses)
        return float(np.exp(total / words))
