"""The measure that chooses beta: equal words together, unequal words apart."""

import pytest

from keras_imagesent.alignment.choose_beta import constancy


def test_words_with_regions_of_their_own_are_constant():
    assert constancy([[7, 8], [8, 7]], [[0, 3], [3, 0]], [0, 0]) == 1


def test_one_region_for_everything_is_worth_nothing():
    assert constancy([[7, 8], [8, 7]], [[2, 2], [2, 2]], [0, 0]) == 0


def test_words_that_change_places_are_worse_than_nothing():
    assert constancy([[7, 8], [8, 7]], [[0, 3], [0, 3]], [0, 0]) == -1


def test_padding_and_other_photos_do_not_count():
    alone = constancy([[7, 8, 0], [8, 7, 0]], [[0, 3, -1], [3, 1, -1]], [0, 0])
    assert alone == pytest.approx(0.5)
    among_others = constancy([[7, 8, 0], [8, 7, 0], [7, 8, 0]], [[0, 3, -1], [3, 1, -1], [9, 9, -1]], [0, 0, 1])
    assert among_others == pytest.approx(alone)


def test_a_word_of_every_sentence_weighs_less_than_a_rare_one():
    ids, rows = [[1, 7], [1, 7], [1, 8]], [0, 0, 1]
    common_parts = constancy(ids, [[0, 3], [1, 3], [0, 0]], rows)  # "a" changes its region, the rare word keeps it
    rare_parts = constancy(ids, [[0, 3], [0, 4], [0, 0]], rows)
    assert common_parts > rare_parts > 0
