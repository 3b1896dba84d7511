"""The measure that chooses beta: equal words together, unequal words apart."""

import numpy as np
import pytest

from keras_imagesent.alignment.choose_beta import constancy, phrase_length


def far(*regions):
    """Two captions of a photo with the things 7 and 8 far apart; the words between are in no other caption."""
    (a, b), (c, d) = regions
    return [[7, 1, 2, 3, 8], [8, 4, 5, 6, 7]], [[a, 10, 11, 12, b], [c, 13, 14, 15, d]], [0, 0]


def test_words_with_regions_of_their_own_are_constant():
    assert constancy(*far((0, 3), (3, 0))) == 1


def test_one_region_for_everything_is_worth_nothing():
    ids, _, rows = far((2, 2), (2, 2))
    assert constancy(ids, np.full((2, 5), 2), rows) == 0


def test_words_that_change_places_are_worse_than_nothing():
    assert constancy(*far((0, 3), (0, 3))) < 0


def test_words_of_one_phrase_may_share_a_region():
    """ "black dog ... ball" and "ball ... dog": black and dog on one region are no error, dog and ball are."""
    black, dog, ball = 7, 8, 9
    ids = [[black, dog, 1, 2, 3, ball], [ball, 4, 5, 6, dog, 0]]
    phrases = constancy(ids, [[0, 0, 10, 11, 12, 3], [3, 13, 14, 15, 0, -1]], [0, 0])
    apart = constancy(ids, [[1, 0, 10, 11, 12, 3], [3, 13, 14, 15, 0, -1]], [0, 0])
    wrong = constancy(ids, [[0, 0, 10, 11, 12, 0], [0, 13, 14, 15, 0, -1]], [0, 0])
    assert phrases == apart == 1 > wrong


def test_padding_and_other_photos_do_not_count():
    ids, path, rows = far((0, 3), (3, 1))
    alone = constancy(ids, path, rows)
    assert alone == pytest.approx(0.5)
    padded = [[*row, 0] for row in [*ids, ids[0]]], [[*row, -1] for row in [*path, [9] * 5]], [0, 0, 1]
    assert constancy(*padded) == pytest.approx(alone, abs=0.02)  # rarity counts the third sentence


def test_phrases_are_runs_of_one_region():
    path = np.array([[4, 4, 7, 7, 7], [1, 2, -1, -1, -1]])
    assert phrase_length(path, path >= 0) == pytest.approx(7 / 4)


def test_a_word_of_every_sentence_weighs_less_than_a_rare_one():
    ids, rows = [[1, 7], [1, 7], [1, 8]], [0, 0, 1]  # no two words far from each other: only equal ones count
    common_parts = constancy(ids, [[0, 3], [1, 3], [0, 0]], rows)  # "a" changes its region, the rare word keeps it
    rare_parts = constancy(ids, [[0, 3], [0, 4], [0, 0]], rows)
    assert common_parts > rare_parts > 0
