"""Whole splits through the encoders: photos to region vectors, sentences to word vectors."""

import weakref
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from keras_imagesent.alignment.region_encoder import region_inputs
from keras_imagesent.alignment.vector_parts import PRIOR
from keras_imagesent.data.batches import pad_sentences


@dataclass
class Words:
    """The word vectors of many sentences without their padding: sentence l owns `lengths[l]` consecutive rows."""

    vectors: np.ndarray  # (P, D)
    lengths: np.ndarray  # (L,)

    def __len__(self):
        return len(self.lengths)

    @property
    def starts(self):
        """First row of each sentence."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(int)

    def of(self, sentence):
        """`(T, D)` of one sentence."""
        start = self.starts[sentence]
        return self.vectors[start : start + self.lengths[sentence]]

    def part(self, first, last):
        """Sentences first..last-1."""
        ends = np.cumsum(self.lengths)
        begin = ends[first - 1] if first else 0
        return Words(self.vectors[begin : ends[last - 1]], self.lengths[first:last])


def encode_photos(model, regions, batch_size=100, unit_length=True):
    """Region vectors `(N,R,D)` in the common space from `regions`, a dict of arrays: `region_features (N,R,F)`,
    `box_scores (N,R)` and, if the detector gave them, `class_scores (N,R,C)`.

    `unit_length=False` gives those of a cosine model as they are before they get unit length.

    Example:
        regions = encode_photos(model, prepared.load("dev").regions())
    """
    encoder = model.get_layer("region_encoder")
    encode = _compiled(encoder, None if unit_length else "region_projection")
    layer = encoder if unit_length else encoder.get_layer("region_projection")
    inputs = region_inputs(encoder, regions)
    vectors = np.empty((*inputs["region_features"].shape[:2], layer.output.shape[-1]), np.float32)
    for start in range(0, len(vectors), batch_size):
        part = slice(start, start + batch_size)
        vectors[part] = encode({name: tf.cast(x[part], tf.float32) for name, x in inputs.items()})
    return vectors


def encode_sentences(model, sentences, batch_size=500, unit_length=True):
    """Word vectors of sentences given as lists of ids.

    `unit_length=False` gives those of a cosine model as they are before they get unit length.

    Example:
        words = encode_sentences(model, [vocabulary.encode("a dog runs")])
        words.of(0).shape  # (3, 1000)
    """
    encoder = model.get_layer("sentence_encoder")
    encode = _compiled(encoder, None if unit_length else "sentence_projection")
    vectors, lengths = [], []
    for start in range(0, len(sentences), batch_size):
        token_ids = pad_sentences(sentences[start : start + batch_size], encoder.inputs[0].shape[1])
        vectors.append(encode({"token_ids": token_ids}).numpy()[token_ids > 0])
        lengths.append((token_ids > 0).sum(axis=1))
    return Words(np.concatenate(vectors), np.concatenate(lengths))


def phrase_words(model, vectors):
    """Word vectors `(...,D)` as they look for their regions: the detector's prior counts in full.

    In the score (Eq. 8) it has the weight that the model was trained with, since more would drown what tells photos
    apart. Which region a word belongs to is another question: the similarities are unnormalized log probabilities
    (section 3.1 of the paper), so Bayes' rule adds the log of the detector's score as it is.
    """
    layers = {layer.name: layer for layer in model.get_layer("region_encoder").layers}
    if "detector_prior" not in layers:
        return vectors
    scale = np.ones(vectors.shape[-1], np.float32)
    scale[PRIOR] = 1 / layers["detector_prior"].weight
    return vectors * scale


def word_similarities(model, words, regions, photos):
    """Every sentence's words against the regions of its photo: `(L,T,R)`, and which words are real `(L,T)`.

    Args:
        model: the alignment model, which decides how the detector's prior counts (`phrase_words`).
        words: `Words` of L sentences.
        regions: `(N,R,D)` of `encode_photos`.
        photos: `(L,)`, the photo of each sentence.
    """
    there = np.arange(max(1, int(words.lengths.max(initial=0)))) < words.lengths[:, None]
    vectors = np.zeros((*there.shape, words.vectors.shape[1]), np.float32)
    vectors[there] = phrase_words(model, words.vectors)
    return vectors @ regions[np.asarray(photos)].transpose(0, 2, 1), there


_GRAPHS = weakref.WeakKeyDictionary()  # encoder -> {name of a layer or None: its graph}, forgotten with the encoder


def _compiled(encoder, layer=None):
    """The encoder (up to a layer) as one graph, traced once for each model and not again for a smaller last batch."""
    graphs = _GRAPHS.setdefault(encoder, {})
    if layer not in graphs:
        part = keras.Model(encoder.input, encoder.get_layer(layer).output if layer else encoder.output)
        graphs[layer] = tf.function(
            lambda inputs: part(inputs, training=False), reduce_retracing=True, autograph=False
        )  # holds the layers, not the encoder, which may be forgotten
    return graphs[layer]
