"""ROUGE-L as coco-caption computes it: the longest common subsequence with the best reference."""

BETA = 1.2  # how much more recall counts than precision


def rouge_l(candidates, references):
    """Mean ROUGE-L over the photos, between 0 and 1; arguments as `bleu`'s.

    Example:
        >>> rouge_l([["a", "dog"]], [[["a", "dog"]]])
        1.0
    """
    scores = []
    for words, group in zip(candidates, references, strict=True):
        common = [common_length(words, reference) for reference in group]
        # An empty sentence has, in coco-caption, one empty word.
        precision = max(common) / max(1, len(words))
        recall = max(n / max(1, len(reference)) for n, reference in zip(common, group, strict=True))
        if not words and not all(group):
            precision = recall = 1.0
        bottom = recall + BETA**2 * precision
        scores.append((1 + BETA**2) * precision * recall / bottom if bottom else 0.0)
    return sum(scores) / len(scores)


def common_length(first, second):
    """Length of the longest common subsequence of two lists of words."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, start=1):
            diagonal, row[place] = row[place], diagonal + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]
