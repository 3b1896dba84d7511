"""The ranking loss against Eq. 9 in loops."""

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.alignment.ranking_loss import RankingLoss, ranking_losses

SCORES = np.random.default_rng(0).normal(size=(5, 5))
PHOTOS = np.array([7, 8, 7, 9, 10])  # rows 0 and 2 are two sentences of one photo


def by_loops(scores, photo_ids, margin, combine):
    losses = []
    for k in range(len(scores)):
        others = [n for n in range(len(scores)) if photo_ids[n] != photo_ids[k]]
        sentences = combine(max(0, scores[k][n] - scores[k][k] + margin) for n in others)
        photos = combine(max(0, scores[n][k] - scores[k][k] + margin) for n in others)
        losses.append(sentences + photos)
    return losses


@pytest.mark.parametrize(("negatives", "combine"), [("sum", sum), ("hardest", max)])
def test_losses_are_equation_9(negatives, combine):
    losses = ranking_losses(tf.constant(SCORES), PHOTOS, 1.0, negatives)
    np.testing.assert_allclose(losses, by_loops(SCORES, PHOTOS, 1.0, combine))
    layer = RankingLoss(negatives=negatives, dtype="float64")
    np.testing.assert_allclose(RankingLoss.from_config(layer.get_config())(SCORES, PHOTOS), losses)


def test_softmax_is_the_cross_entropy_of_both_choices():
    losses = ranking_losses(tf.constant(SCORES), PHOTOS, negatives="softmax")
    for k in range(5):
        kept = [n for n in range(5) if n == k or PHOTOS[n] != PHOTOS[k]]
        row, column = (np.exp(SCORES[k, kept]).sum(), np.exp(SCORES[kept, k]).sum())
        assert float(losses[k]) == pytest.approx(-np.log(np.exp(SCORES[k, k]) ** 2 / row / column))


def test_another_caption_of_the_same_photo_is_no_negative():
    scores = np.full((2, 2), 3.0)
    np.testing.assert_array_equal(ranking_losses(tf.constant(scores), [4, 4]), [0, 0])
    np.testing.assert_array_equal(ranking_losses(tf.constant(scores), [4, 5]), [2, 2])


@pytest.mark.parametrize("negatives", ["sum", "hardest", "softmax"])
def test_gradient_is_the_slope(negatives):
    value = lambda scores: tf.reduce_sum(ranking_losses(scores, PHOTOS, 1.0, negatives))  # noqa: E731
    analytic, numeric = tf.test.compute_gradient(value, [tf.constant(SCORES)], delta=1e-6)
    np.testing.assert_allclose(analytic[0], numeric[0], atol=1e-6)
