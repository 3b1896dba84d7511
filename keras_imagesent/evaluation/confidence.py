"""Fits and measures how sure captions and search results are: of those with confidence p, a share p should be right.

A caption is right about a thing (`things.json`) if at least one person names it of the photo; a photo is right for the
name of a thing if at least one person names it.
"""

from collections.abc import Sequence

import numpy as np

from keras_imagesent.captioning.confidence import confidence, signs
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.evaluation.things import thing_words, things_in

LEAST_THINGS = 50  # named in all captions together: fewer say nothing


def named_things(
    captions: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For the captions that name a thing: their rows, how many they name, and how many of those people name too.

    Example:
        >>> named_things(["a cat on a bed", "hello"], [["a cat"], ["a dog"]])
        (array([0]), array([2]), array([1]))
    """
    found = []
    for row, (caption, people) in enumerate(zip(captions, references, strict=True)):
        things = things_in(caption)
        if things:
            theirs = set().union(*map(things_in, people))
            found.append((row, len(things), len(things & theirs)))
    rows, named, right = np.array(found, int).reshape(-1, 3).T
    return rows, named, right


def fit(captions: Sequence[str], log_probs: Sequence[float], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The constants of `confidence` that make it most likely what people name, by logistic regression.

    Args:
        captions: one for each photo, of photos that were not trained on.
        log_probs: their log probabilities.
        references: what people wrote about each photo.

    Example:
        >>> fit(captions, log_probs, photos.captions)
        {'bias': 2.9, 'mean_log_prob': 1.1, 'words': -0.03}
    """
    rows, named, right = named_things(captions, references)
    if named.sum() < LEAST_THINGS:
        raise InputError(f"the captions name {named.sum()} things in all: a calibration needs {LEAST_THINGS} or more")
    features = np.array([signs(captions[row], log_probs[row]) for row in rows])
    weights = logistic(features, named, right)
    return dict(zip(("bias", "mean_log_prob", "words"), (round(float(w), 6) for w in weights), strict=True))


def logistic(features: np.ndarray, trials: np.ndarray, successes: np.ndarray, ridge: float = 1e-3) -> np.ndarray:
    """Bias and weights of the logistic regression of shares: (N,F), (N,), (N,) -> (1+F,), by Newton's method."""
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    x = np.column_stack([np.ones(len(features)), (features - mean) / spread])
    weights = np.zeros(x.shape[1])
    keep = ridge * np.eye(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (successes - trials * p) - keep @ weights
        step = np.linalg.solve((x * (trials * p * (1 - p))[:, None]).T @ x + keep, gradient)
        weights += np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-9:
            break
    slopes = weights[1:] / spread
    return np.concatenate([[weights[0] - slopes @ mean], slopes])


def reliability(
    expected: np.ndarray, trials: np.ndarray, successes: np.ndarray, bins: int = 10
) -> tuple[list[tuple[float, float, int]], float]:
    """The reliability curve `[(mean confidence, share right, number)]` in bins of equal size, and the expected
    calibration error: the mean distance between the two, every bin by its number.

    Example:
        >>> reliability(np.array([0.5, 0.5]), np.array([1, 1]), np.array([0, 1]), bins=1)
        ([(0.5, 0.5, 2)], 0.0)
    """
    order = np.argsort(expected, kind="stable")
    place = np.cumsum(trials[order]) - trials[order] / 2
    bin_of = np.minimum((place / trials.sum() * bins).astype(int), bins - 1)
    curve, error = [], 0.0
    for number in range(bins):
        rows = order[bin_of == number]
        total = trials[rows].sum()
        if total:
            mean = float((expected[rows] * trials[rows]).sum() / total)
            share = float(successes[rows].sum() / total)
            curve.append((mean, share, int(total)))
            error += total * abs(mean - share) / trials.sum()
    return curve, float(error)


def confidence_table(
    captions: Sequence[str],
    log_probs: Sequence[float],
    references: Sequence[Sequence[str]],
    constants: dict[str, float],
    split: str,
    command: str = "",
) -> Table:
    """The reliability curve of a captioner's confidence on a split that the constants were not fitted on.

    Example:
        >>> confidence_table(captions, log_probs, photos.captions, settings["confidence"], "dev").to_markdown()
    """
    rows, named, right = named_things(captions, references)
    expected = np.array([confidence(captions[row], log_probs[row], constants) for row in rows])
    curve, error = reliability(expected, named, right)
    cells = [
        [f"{n + 1} of {len(curve)}", number, 100 * mean, 100 * share] for n, (mean, share, number) in enumerate(curve)
    ]
    note = (
        f"Captions in {len(curve)} parts, the least sure first: of the things that they name, the share that people "
        f"name of the photo too, beside the confidence. Expected calibration error {error:.3f} (1 would be worst); "
        f"{len(captions) - len(rows)} of {len(captions)} captions name no thing of things.json and do not count."
    )
    columns = ["captions", "things named", "confidence, %", "named by people, %"]
    return Table("confidence", "How sure captions are", columns, cells, note, command, split)


def fit_match(scores: np.ndarray, references: Sequence[Sequence[str]], things: Sequence[str]) -> dict[str, float]:
    """The constants of a search result's confidence: photos (N) searched for the names of things (L).

    Args:
        scores: (N,L), each photo's mean similarity of a query's words with their best regions.
        references: what people wrote about each photo.
        things: what was searched for, one a column.

    Returns `bias` and `score`; a result is a match from `sigmoid(bias + score * s)` = 0.5 on.
    """
    named = [set().union(*map(things_in, people)) for people in references]
    right = np.array([[thing in theirs for thing in things] for theirs in named])
    shown = right.any(axis=0)
    if not shown.any():
        raise InputError("no photo of this split shows a thing of things.json: take a split with more photos")
    values, right = scores[:, shown].ravel(), right[:, shown].ravel()
    bias, score = logistic(values[:, None], np.ones(len(values)), right.astype(float))
    return {"bias": round(float(bias), 6), "score": round(float(score), 6)}


def thing_queries(known: Sequence[str]) -> list[tuple[str, str]]:
    """`(thing, query)` of the things whose own name is among the known words: ("cat", "a cat").

    Example:
        >>> thing_queries(["a", "cat"])
        [('cat', 'a cat')]
    """
    known = set(known)
    return [(thing, f"a {thing}") for thing in thing_words() if thing in known]
