"""The score against nested loops, its gradient against differences, and what must never count."""

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.alignment.max_sim import MaxSim, defrag, max_sim, mean_max_sim


def random_batch(seed=0, photos=3, regions=4, sentences=3, length=5, dim=6):
    rng = np.random.default_rng(seed)
    region_mask = rng.random((photos, regions)) < 0.7
    region_mask[:, 0] = True
    word_mask = np.arange(length) < rng.integers(1, length + 1, (sentences, 1))
    return (
        rng.normal(size=(photos, regions, dim)).astype("float32"),
        rng.normal(size=(sentences, length, dim)).astype("float32"),
        region_mask,
        word_mask,
    )


def by_loops(regions, words, region_mask, word_mask, of_word):
    scores = np.zeros((len(regions), len(words)))
    for k, photo in enumerate(regions):
        for n, sentence in enumerate(words):
            for t, word in enumerate(sentence):
                if word_mask[n, t]:
                    scores[k, n] += of_word([float(v @ word) for v in photo[region_mask[k]]])
    return scores


@pytest.mark.parametrize(
    ("function", "of_word"), [(max_sim, max), (defrag, lambda similarities: sum(max(0, s) for s in similarities))]
)
def test_score_is_the_formula(function, of_word):
    batch = random_batch()
    np.testing.assert_allclose(function(*batch), by_loops(*batch, of_word), rtol=1e-5)


@pytest.mark.parametrize("function", [max_sim, defrag])
def test_gradient_is_the_slope(function):
    regions, words, region_mask, word_mask = random_batch(1)
    weights = np.random.default_rng(2).normal(size=(3, 3))

    def value(regions, words):
        return tf.reduce_sum(function(regions, words, region_mask, word_mask) * weights)

    inputs = [tf.constant(regions, tf.float64), tf.constant(words, tf.float64)]
    analytic, numeric = tf.test.compute_gradient(value, inputs, delta=1e-5)
    for a, b in zip(analytic, numeric, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_mean_max_sim_divides_by_the_number_of_words():
    batch = random_batch()
    np.testing.assert_allclose(mean_max_sim(*batch), max_sim(*batch) / batch[3].sum(axis=1), rtol=1e-6)


def test_padding_and_absent_regions_never_count():
    regions, words, region_mask, word_mask = random_batch()
    scores = max_sim(regions, words, region_mask, word_mask)
    regions[~region_mask], words[~word_mask] = 1e6, 1e6
    np.testing.assert_array_equal(max_sim(regions, words, region_mask, word_mask), scores)


def test_absent_regions_do_not_take_gradient_from_the_whole_frame():
    regions = tf.constant([[[1.0, 0.0], [0.5, 0.0], [9.0, 9.0]]])
    words = tf.constant([[[1.0, 0.0]]])
    with tf.GradientTape() as tape:
        tape.watch([regions, words])
        score = max_sim(regions, words, tf.constant([[True, True, False]]), tf.constant([[True]]))
    to_regions, to_words = tape.gradient(score, [regions, words])
    np.testing.assert_allclose(to_regions, [[[1, 0], [0, 0], [0, 0]]])
    np.testing.assert_allclose(to_words, [[[1, 0]]])


def test_layer_uses_the_whole_frame_alone():
    regions, words, region_mask, _ = random_batch()
    token_ids = np.array([[3, 4, 0, 0, 0], [1, 0, 0, 0, 0], [5, 5, 5, 5, 5]])
    scores = MaxSim(whole_frame=True)(regions, words, region_mask, token_ids)
    expected = by_loops(regions[:, :1], words, region_mask[:, :1], token_ids > 0, max)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
