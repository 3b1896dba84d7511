"""Whole splits through the encoders: photos to region vectors, sentences to word vectors."""

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf


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


def pad_sentences(sentences, max_words):
    """Lists of ids -> `(L, max_words)` int32, 0 at padding; longer sentences are cut."""
    token_ids = np.zeros((len(sentences), max_words), np.int32)
    for row, ids in zip(token_ids, sentences, strict=True):
        row[: min(len(ids), max_words)] = ids[:max_words]
    return token_ids


def encode_photos(model, region_features, box_scores, batch_size=100, unit_length=True):
    """Region vectors `(N,R,D)` of `region_features (N,R,F)` and the detector's `box_scores (N,R)`.

    `unit_length=False` gives those of a cosine model as they are before they get unit length.

    Example:
        photos = prepared.load("dev")
        regions = encode_photos(model, photos.region_features, photos.box_scores)
    """
    encoder = model.get_layer("region_encoder")
    encode = _compiled(encoder, None if unit_length else "region_projection")
    layer = encoder if unit_length else encoder.get_layer("region_projection")
    regions = np.empty((*region_features.shape[:2], layer.output.shape[-1]), np.float32)
    for start in range(0, len(region_features), batch_size):
        part = slice(start, start + batch_size)
        features, scores = (tf.cast(x[part], tf.float32) for x in (region_features, box_scores))
        regions[part] = encode({"region_features": features, "box_scores": scores})
    return regions


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


def word_similarities(words, regions, photos):
    """Every sentence's words against the regions of its photo: `(L,T,R)`, and which words are real `(L,T)`.

    Args:
        words: `Words` of L sentences.
        regions: `(N,R,D)` of `encode_photos`.
        photos: `(L,)`, the photo of each sentence.
    """
    there = np.arange(max(1, int(words.lengths.max(initial=0)))) < words.lengths[:, None]
    vectors = np.zeros((*there.shape, words.vectors.shape[1]), np.float32)
    vectors[there] = words.vectors
    return vectors @ regions[np.asarray(photos)].transpose(0, 2, 1), there


def _compiled(encoder, layer=None):
    """The encoder (up to a layer) as one graph, traced once for each model and not again for a smaller last batch."""
    name = f"compiled_up_to_{layer}"
    if not hasattr(encoder, name):
        part = keras.Model(encoder.input, encoder.get_layer(layer).output) if layer else encoder
        function = tf.function(lambda inputs: part(inputs, training=False), reduce_retracing=True, autograph=False)
        object.__setattr__(encoder, name, function)  # not tracked: it is no part of the model
    return getattr(encoder, name)
