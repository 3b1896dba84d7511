"""How sure a caption is, from 0 to 1: a formula over what every runtime gives, its constants in `model.json`."""

import math
from collections.abc import Mapping

from keras_imagesent.data.tokenizer import tokenize


def signs(caption: str, log_prob: float) -> tuple[float, float]:
    """What the formula looks at: the mean log probability of a word (END counts as one), and the number of words.

    Example:
        >>> signs("a dog", -3.0)
        (-1.0, 2.0)
    """
    words = len(tokenize(caption))
    return log_prob / (words + 1), float(words)


def confidence(caption: str, log_prob: float, constants: Mapping[str, float]) -> float:
    """The share of a caption's things that people name as well, as the calibration expects it.

    Args:
        caption: the sentence.
        log_prob: its log probability, as a captioner gives it.
        constants: `bias`, `mean_log_prob` and `words` (`evaluation.confidence.fit`); in a run's `settings.json` and in
            an exported `model.json` under "confidence".

    Example:
        >>> confidence("a dog", -3.0, {"bias": 2.0, "mean_log_prob": 1.0, "words": 0.0})
        0.7310585786300049
    """
    if not tokenize(caption):
        return 0.0
    mean, words = signs(caption, log_prob)
    return sigmoid(constants["bias"] + constants["mean_log_prob"] * mean + constants["words"] * words)


def sigmoid(value: float) -> float:
    """1 / (1 + exp(-value)), for any number."""
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
