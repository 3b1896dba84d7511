"""Phrases: neighbouring words tied to one region by a chain MRF, solved exactly (Eqs. 10-12)."""

from dataclasses import dataclass

import numpy as np

from keras_imagesent.errors import InputError

ABSENT = -1e9


def decode_phrases(similarity, word_mask=None, region_mask=None, beta=1.0):
    """The best region of every word: maximises `sum_t similarity[t, a_t] + beta * sum_t [a_t = a_t+1]` (Eqs. 10-12).

    Dynamic programming for many sentences at once. From one word to the next a path either stays (and gains beta) or
    jumps to wherever it likes, best from the best place so far: T x R operations instead of T x R x R. Of two equal
    paths the one that stays wins.

    Args:
        similarity: `(B,T,R)`, the dot product of every word with every region.
        word_mask: `(B,T)`, False at padding, and at words outside the vocabulary, which are stepped over.
        region_mask: `(B,R)`, False where there is no region.
        beta: from 0 (each word for itself) up (a large one puts the whole sentence into one region).

    Returns:
        `(B,T)` int32, -1 where there is no word.

    Example:
        decode_phrases(np.array([[[1.0, 0.9], [0.0, 2.0]]]), beta=0.0)  # [[0, 1]]
        decode_phrases(np.array([[[1.0, 0.9], [0.0, 2.0]]]), beta=0.5)  # [[1, 1]]
    """
    if beta < 0:
        raise InputError(f"beta must be 0 or more, not {beta}: it rewards neighbouring words for sharing a region")
    similarity = np.asarray(similarity)
    number, length, regions = similarity.shape
    word_mask = np.ones((number, length), bool) if word_mask is None else np.asarray(word_mask, bool)
    region_mask = np.ones((number, regions), bool) if region_mask is None else np.asarray(region_mask, bool)
    best = np.where(region_mask, 0, ABSENT).astype(np.float64)  # (B,R): the best path so far that ends in each region
    stays, jumps = [], []
    for t in range(length):
        jump = best.argmax(axis=1)
        top = best.max(axis=1, keepdims=True)
        there = word_mask[:, t, None]
        stay = (best + beta >= top) | ~there
        best = np.where(there, np.maximum(best + beta, top) + similarity[:, t], best)
        best = np.where(region_mask, best, ABSENT)
        stays.append(stay)
        jumps.append(jump)
    path = np.full((number, length), -1, np.int32)
    region = best.argmax(axis=1)
    rows = np.arange(number)
    for t in reversed(range(length)):
        path[:, t] = np.where(word_mask[:, t], region, -1)
        region = np.where(stays[t][rows, region], region, jumps[t])
    return path


def decode_phrases_in_graph(similarity, word_mask, region_mask, beta):
    """`decode_phrases` in TensorFlow, of operations that ONNX and LiteRT have built in, in one short loop.

    Instead of going back at the end, each region carries the whole path that ends in it.
    """
    import tensorflow as tf

    length, regions = similarity.shape[1:]
    best = tf.where(region_mask, 0.0, ABSENT)  # (B,R)
    paths = tf.zeros_like(similarity)  # (B,T,R): where each word lies on the best path that ends in each region
    column = tf.reshape(tf.range(length), [1, length, 1])

    def body(t, best, paths):
        jump = tf.one_hot(tf.argmax(best, axis=1, output_type=tf.int32), regions)  # (B,R)
        top = tf.reduce_max(best, axis=1, keepdims=True)
        there = tf.gather(word_mask, t, axis=1)[:, None]  # (B,1)
        stay = (best + beta >= top) | ~there
        jumped = tf.reduce_sum(paths * jump[:, None], axis=2, keepdims=True)  # (B,T,1)
        paths = tf.where(stay[:, None], paths, jumped)
        paths = tf.where(column == t, tf.range(regions, dtype=tf.float32), paths)
        best = tf.where(there, tf.maximum(best + beta, top) + tf.gather(similarity, t, axis=1), best)
        return t + 1, tf.where(region_mask, best, ABSENT), paths

    _, best, paths = tf.while_loop(lambda t, *_: t < length, body, (tf.constant(0), best, paths))
    last = tf.one_hot(tf.argmax(best, axis=1, output_type=tf.int32), regions)
    path = tf.cast(tf.reduce_sum(paths * last[:, None], axis=2), tf.int32)  # (B,T)
    return tf.where(word_mask, path, -1)


@dataclass
class PhraseSpan:
    """Neighbouring words that share a region: `words[first : last + 1]` of the sentence."""

    first: int
    last: int
    region: int
    score: float  # mean similarity of its known words with the region

    def text(self, words):
        return " ".join(words[self.first : self.last + 1])


def group_phrases(regions, similarity):
    """The phrases of one sentence from its words' regions `(T,)` and `similarity (T,R)`.

    A word without a region (-1, outside the vocabulary) belongs to the phrase around it, or to none between two.

    Example:
        group_phrases([0, 0, -1, 0, 3], similarity)  # words 0-3 with region 0, word 4 with region 3
    """
    phrases, scores = [], []
    for t, region in enumerate(regions):
        if region < 0:
            continue
        if phrases and phrases[-1].region == region:
            phrases[-1].last = t
        else:
            phrases.append(PhraseSpan(t, t, int(region), 0.0))
            scores.append([])
        scores[-1].append(float(similarity[t, region]))
    for phrase, values in zip(phrases, scores, strict=True):
        phrase.score = sum(values) / len(values)
    return phrases


def phrase_json(phrase, words, boxes):
    """A phrase as it is written to JSON: its words, where they stand, its region, box and score."""
    return {
        "words": phrase.text(words),
        "first": phrase.first,
        "last": phrase.last,
        "region": phrase.region,
        "box": [round(float(corner), 4) for corner in boxes[phrase.region]],
        "score": round(phrase.score, 4),
    }
