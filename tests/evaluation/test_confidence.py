"""Confidence: the fit finds the truth that made the data, the error tells a wrong one, and the table says both."""

import math

import numpy as np
import pytest

from keras_imagesent.captioning.confidence import confidence, sigmoid, signs
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.confidence import (
    confidence_table,
    fit,
    fit_match,
    logistic,
    named_things,
    reliability,
    thing_queries,
)

TRUTH = {"bias": 3.0, "mean_log_prob": 2.0, "words": -0.1}


def made_up(number, seed):
    """Captions of one thing each; people name it as often as the truth says."""
    rng = np.random.default_rng(seed)
    captions = ["a cat" + " very" * int(n) for n in rng.integers(0, 8, number)]
    log_probs = [-rng.uniform(0.2, 2.5) * (len(text.split()) + 1) for text in captions]
    chances = [confidence(text, log_prob, TRUTH) for text, log_prob in zip(captions, log_probs, strict=True)]
    references = [["a cat" if rng.random() < chance else "a dog", "hello"] for chance in chances]
    return captions, log_probs, references


def test_the_formula_by_hand():
    assert signs("A dog!", -3.0) == (-1.0, 2.0)
    wanted = 1 / (1 + math.exp(-(3 - 2 * 1.0 - 0.1 * 2)))
    assert confidence("A dog!", -3.0, TRUTH) == pytest.approx(wanted)
    assert confidence("", 0.0, TRUTH) == 0.0 and sigmoid(-1e9) == 0.0 and sigmoid(1e9) == 1.0


def test_the_fit_finds_the_truth_and_is_calibrated_on_other_photos():
    constants = fit(*made_up(20000, seed=0))
    assert constants["bias"] == pytest.approx(3, abs=0.2) and constants["mean_log_prob"] == pytest.approx(2, abs=0.15)
    captions, log_probs, references = made_up(4000, seed=1)
    table = confidence_table(captions, log_probs, references, constants, "dev")
    assert len(table.rows) == 10 and sum(row[1] for row in table.rows) == 4000
    error = float(table.note.split("error ")[1].split(" ")[0])
    assert error < 0.03
    wrong = confidence_table(captions, log_probs, references, {**constants, "bias": 0.0}, "dev")
    assert float(wrong.note.split("error ")[1].split(" ")[0]) > 0.3


def test_only_captions_with_a_thing_count_and_one_person_is_enough():
    rows, named, right = named_things(
        ["a cat on a bed", "hello", "a dog"], [["a kitten", "x"], ["a dog"], ["a cat", "dogs"]]
    )
    assert (rows.tolist(), named.tolist(), right.tolist()) == ([0, 2], [2, 1], [1, 1])


def test_the_error_is_the_mean_distance_of_the_bins():
    expected, trials = np.array([0.2, 0.2, 0.8, 0.8]), np.array([1, 1, 1, 1])
    curve, error = reliability(expected, trials, np.array([0, 1, 1, 1]), bins=2)
    assert curve == [(pytest.approx(0.2), 0.5, 2), (pytest.approx(0.8), 1.0, 2)]
    assert error == pytest.approx((0.3 + 0.2) / 2)


def test_logistic_regression_has_no_gradient_left():
    rng = np.random.default_rng(0)
    x, trials = rng.normal(size=(200, 2)), rng.integers(1, 4, 200)
    successes = rng.binomial(trials, 0.6)
    weights = logistic(x, trials, successes, ridge=0.0)
    design = np.column_stack([np.ones(200), x])
    p = 1 / (1 + np.exp(-design @ weights))
    np.testing.assert_allclose(design.T @ (successes - trials * p), 0, atol=1e-6)


def test_too_few_things_are_refused():
    with pytest.raises(InputError, match="a calibration needs 50"):
        fit(["a cat"] * 3, [-1.0] * 3, [["a cat"]] * 3)


def test_a_match_begins_where_photos_show_what_is_searched():
    rng = np.random.default_rng(0)
    references = [["a cat"] if n % 2 else ["a dog"] for n in range(400)]
    scores = np.array([[n % 2, 1 - n % 2] for n in range(400)]) + rng.normal(scale=0.2, size=(400, 2))
    constants = fit_match(scores, references, ["cat", "dog"])
    assert -constants["bias"] / constants["score"] == pytest.approx(0.5, abs=0.1)
    assert thing_queries(["a", "cat", "the"]) == [("cat", "a cat")]
