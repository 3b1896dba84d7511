"""The words of the training sentences, with their counts and ids."""

import hashlib
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.data.tokenizer import join_words, tokenize, typed_words
from keras_imagesent.errors import InputError

END = 0  # ends a sentence; padding holds it as well


class Vocabulary:
    """Words 1..V by falling count (ties alphabetical), END = 0, START = V + 1.

    The captioner predicts V + 1 things (`output_size`: END and the words) and is fed V + 2 (`input_size`: START too).

    Args:
        words: the words, most frequent first.
        counts: how often each occurs in the training sentences.
        sentences: how many training sentences there were; each ended once.

    Example:

    >>> vocabulary = Vocabulary.from_captions(["a dog runs", "a dog"], threshold=2)
    >>> vocabulary.words, vocabulary.encode("A red dog!"), vocabulary.decode([2, 1, 0, 1])
    (['a', 'dog'], [1, 2], 'dog a')
    """

    def __init__(self, words, counts, sentences=1):
        self.words, self.counts, self.sentences = list(words), list(counts), sentences
        self._ids = {word: number for number, word in enumerate(self.words, start=1)}

    @classmethod
    def from_captions(cls, captions, threshold=5):
        """The vocabulary of the training captions: words seen at least `threshold` times (the paper: 5)."""
        counts, sentences = Counter(), 0
        for caption in captions:
            counts.update(tokenize(caption))
            sentences += 1
        if not sentences:
            raise InputError("there are no training captions: the data set needs photos in a split called train")
        kept = sorted((-count, word) for word, count in counts.items() if count >= threshold)
        if not kept:
            raise InputError(
                f"no word occurs {threshold} times in the {sentences} training captions: "
                "give more captions or a lower threshold"
            )
        return cls([word for _, word in kept], [-count for count, _ in kept], sentences)

    def extended(self, other: "Vocabulary") -> "Vocabulary":
        """These words with their ids, and behind them the words that only `other` has; the counts are added up.

        Example:

        >>> Vocabulary(["a", "dog"], [9, 3]).extended(Vocabulary(["a", "cat"], [5, 4])).words
        ['a', 'dog', 'cat']
        """
        counts = dict(zip(self.words, self.counts, strict=True))
        for word, count in zip(other.words, other.counts, strict=True):
            counts[word] = counts.get(word, 0) + count
        return Vocabulary(list(counts), list(counts.values()), self.sentences + other.sentences)

    def __len__(self):
        return len(self.words)

    @property
    def start_id(self):
        return len(self.words) + 1

    @property
    def output_size(self):
        return len(self.words) + 1

    @property
    def input_size(self):
        return len(self.words) + 2

    def encode(self, sentence):
        """The ids of a sentence's words; words outside the vocabulary are dropped, as the paper's own code did."""
        return [self._ids[word] for word in tokenize(sentence) if word in self._ids]

    def positions(self, sentence):
        """Every word as typed with its id, -1 outside the vocabulary: `[("A", 1), ("purple", -1)]`."""
        return [(typed, self._ids.get(word, -1)) for typed, word in typed_words(sentence)]

    def decode(self, ids):
        """The sentence of some ids, up to END; START says nothing."""
        words = []
        for number in ids:
            if number == END:
                break
            if number != self.start_id:
                words.append(self.words[number - 1])
        return join_words(words)

    def log_frequencies(self):
        """Log of each output's share in the training sentences, END counted once a sentence: float32 (V+1,)."""
        counts = np.array([self.sentences, *self.counts], dtype=np.float64)
        return (np.log(counts) - math.log(counts.sum())).astype(np.float32)

    @property
    def digest(self):
        """Names this vocabulary: the same words, counts and sentences give the same 16 letters."""
        return hashlib.sha256(self._json().encode()).hexdigest()[:16]

    def _json(self):
        content = {"sentences": self.sentences, "words": self.words, "counts": self.counts}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    def save(self, path):
        """Writes the vocabulary as JSON, whole or not at all."""
        write_whole(path, self._json())

    @classmethod
    def load(cls, path):
        """Reads what `save` wrote."""
        wrong = f"{path} is not a vocabulary that imagesent wrote: "
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            words, counts, sentences = content["words"], content["counts"], content["sentences"]
        except FileNotFoundError:
            raise InputError(f"no vocabulary at {path}: name a folder that imagesent prepared or trained") from None
        except (ValueError, RecursionError):
            raise InputError(wrong + "it is no JSON text") from None
        except (KeyError, TypeError):
            raise InputError(wrong + "it needs words, counts and sentences") from None
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise InputError(wrong + "its words must be a list of texts")
        if len(set(words)) != len(words):
            raise InputError(wrong + "a word stands in it twice")
        whole = [sentences, *counts] if isinstance(counts, list) else []
        if len(whole) != len(words) + 1 or not all(isinstance(count, int) and count > 0 for count in whole):
            raise InputError(wrong + "it needs one whole count above 0 for every word, and for sentences")
        return cls(words, counts, sentences)
