"""The chain MRF against all paths, at both ends of beta, in NumPy and in the graph, and its speed."""

import itertools
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.alignment.phrases import decode_phrases, decode_phrases_in_graph, group_phrases
from keras_imagesent.errors import InputError


def energy(similarity, path, beta):
    bonds = sum(a == b for a, b in itertools.pairwise(path))
    return similarity[range(len(path)), path].sum() + beta * bonds


def in_graph(similarity, word_mask=None, region_mask=None, beta=1.0):
    number, length, regions = similarity.shape
    word_mask = np.ones((number, length), bool) if word_mask is None else word_mask
    region_mask = np.ones((number, regions), bool) if region_mask is None else region_mask
    similarity = tf.constant(similarity, tf.float32)
    return decode_phrases_in_graph(similarity, tf.constant(word_mask), tf.constant(region_mask), beta).numpy()


@pytest.mark.parametrize("decode", [decode_phrases, in_graph])
@pytest.mark.parametrize("beta", [0.0, 0.5, 5.0])
def test_finds_the_best_of_all_paths(decode, beta):
    similarity = np.random.default_rng(0).normal(size=(20, 5, 3))
    for found, one in zip(decode(similarity, beta=beta), similarity, strict=True):
        best = max(itertools.product(range(3), repeat=5), key=lambda path: energy(one, path, beta))
        assert found.tolist() == list(best)


@pytest.mark.parametrize("decode", [decode_phrases, in_graph])
def test_masks_step_over_words_and_leave_out_regions(decode):
    rng = np.random.default_rng(1)
    similarity = rng.normal(size=(50, 6, 4))
    word_mask, region_mask = rng.random((50, 6)) < 0.6, rng.random((50, 4)) < 0.6
    region_mask[:, 0] = True
    found = decode(similarity, word_mask, region_mask, 0.7)
    for row in range(50):
        words, regions = np.flatnonzero(word_mask[row]), np.flatnonzero(region_mask[row])
        part = similarity[row][np.ix_(words, regions)]
        best = max(itertools.product(range(len(regions)), repeat=len(words)), key=lambda p: energy(part, list(p), 0.7))
        assert found[row][words].tolist() == regions[list(best)].tolist()
        assert (found[row][~word_mask[row]] == -1).all()


def test_beta_zero_is_word_by_word_and_a_large_one_takes_one_region():
    similarity = np.random.default_rng(2).normal(size=(30, 8, 5))
    np.testing.assert_array_equal(decode_phrases(similarity, beta=0), similarity.argmax(axis=2))
    whole = similarity.sum(axis=1).argmax(axis=1)
    np.testing.assert_array_equal(decode_phrases(similarity, beta=1000), np.repeat(whole[:, None], 8, axis=1))


def test_negative_beta_is_refused():
    with pytest.raises(InputError, match="beta must be 0 or more"):
        decode_phrases(np.zeros((1, 2, 3)), beta=-1)


def test_thirty_thousand_sentences_take_seconds():
    similarity = np.random.default_rng(3).normal(size=(30000, 20, 20)).astype("float32")
    started = time.process_time()
    decode_phrases(similarity, beta=1.0)
    assert time.process_time() - started < 10


def test_groups_words_into_phrases():
    similarity = np.arange(24.0).reshape(6, 4)
    phrases = group_phrases([1, 1, -1, 1, -1, 3], similarity)
    assert [(p.first, p.last, p.region) for p in phrases] == [(0, 3, 1), (5, 5, 3)]
    assert phrases[0].score == (1 + 5 + 13) / 3
    assert phrases[0].text(["a", "small", "zebra", "dog", "xyz", "runs"]) == "a small zebra dog"
    assert group_phrases([-1, -1], similarity) == []
