"""CIDEr(-D) as coco-caption computes it: cosine of tf-idf vectors of n-grams, clipped, with a length penalty."""

import math
from collections import Counter

from keras_imagesent.evaluation.bleu import ngrams

ORDER, SIGMA = 4, 6.0


class Cider:
    """CIDEr against fixed references, whose vectors are made once.

    Document frequencies come from the references themselves, a photo being a document.

    Args:
        references: for each photo a list of lists of words.

    Example:
        >>> cider = Cider(references)
        >>> cider.score(candidates)            # the corpus, about 0 to 10
        >>> cider.scores(candidates, rows)     # some photos, one by one
    """

    def __init__(self, references):
        counts = [[_count(words) for words in group] for group in references]
        self.frequency = Counter(ngram for group in counts for ngram in set().union(*group))
        self.log_photos = math.log(len(references))
        self.references = [[self._vector(c) for c in group] for group in counts]

    def score(self, candidates):
        """Mean over all photos; `candidates` is one list of words a photo."""
        if len(candidates) != len(self.references):
            raise ValueError(f"one candidate a photo, please. Received: {len(candidates)} for {len(self.references)}")
        return sum(self.scores(candidates)) / len(candidates)

    def scores(self, candidates, photos=None):
        """The score of each candidate against the references of its photo (`photos`: rows; all in order if None)."""
        rows = range(len(candidates)) if photos is None else photos
        return [self._score(words, self.references[row]) for words, row in zip(candidates, rows, strict=True)]

    def _score(self, words, references):
        vectors, norms, length = self._vector(_count(words))
        total = 0.0
        for other_vectors, other_norms, other_length in references:
            penalty = math.exp(-((length - other_length) ** 2) / (2 * SIGMA**2))
            for n in range(ORDER):
                other = other_vectors[n]
                product = sum(min(w, other[g]) * other[g] for g, w in vectors[n].items() if g in other)
                if norms[n] and other_norms[n]:
                    product /= norms[n] * other_norms[n]
                total += product * penalty
        return 10 * total / ORDER / len(references)

    def _vector(self, counts):
        vectors, length = [{} for _ in range(ORDER)], 0
        for ngram, count in counts.items():
            vectors[len(ngram) - 1][ngram] = count * (self.log_photos - math.log(max(1, self.frequency[ngram])))
            length += count if len(ngram) == 2 else 0  # coco-caption measures length in bigrams
        norms = [math.sqrt(sum(weight**2 for weight in vector.values())) for vector in vectors]
        return vectors, norms, length


def cider(candidates, references):
    """Corpus CIDEr; arguments as `bleu`'s.

    Example:
        >>> cider([["a", "dog"], ["two", "cats"]], [[["a", "dog"]], [["two", "cats"]]])
        5.0
    """
    return Cider(references).score(candidates)


def _count(words):
    return Counter(ngram for n in range(1, ORDER + 1) for ngram in ngrams(words, n))
