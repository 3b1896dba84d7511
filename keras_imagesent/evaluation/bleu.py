"""BLEU-1 to 4 as coco-caption computes them: corpus counts, closest reference length."""

import math
from collections import Counter

TINY, SMALL = 1e-15, 1e-9  # coco-caption's guards: no match and no guess give 0


def bleu(candidates, references, order=4):
    """Corpus BLEU-1..order.

    Args:
        candidates: one list of words a photo.
        references: for each photo a list of lists of words; photos may differ in number of them.
        order: the longest n-gram counted.

    Returns:
        A list of `order` scores between 0 and 1.

    Example:
        >>> bleu([["a", "dog", "runs"]], [[["a", "dog", "runs", "fast"], ["the", "dog"]]], order=2)
        [0.999999999..., 0.999999999...]
    """
    matched, guessed = [0] * order, [0] * order
    candidate_length = reference_length = 0
    for words, group in zip(candidates, references, strict=True):
        candidate_length += len(words)
        reference_length += min((abs(len(reference) - len(words)), len(reference)) for reference in group)[1]
        for n in range(1, order + 1):
            guesses = Counter(ngrams(words, n))
            allowed = Counter()
            for reference in group:
                allowed |= Counter(ngrams(reference, n))
            guessed[n - 1] += sum(guesses.values())
            matched[n - 1] += sum((guesses & allowed).values())
    ratio = (candidate_length + TINY) / (reference_length + SMALL)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    scores, product = [], 1.0
    for n in range(order):
        product *= (matched[n] + TINY) / (guessed[n] + SMALL)
        scores.append(product ** (1 / (n + 1)) * brevity)
    return scores


def ngrams(words, n):
    """All runs of n words: `ngrams(["a", "b", "c"], 2)` gives `("a", "b")` and `("b", "c")`."""
    return zip(*(words[start:] for start in range(n)), strict=False)
