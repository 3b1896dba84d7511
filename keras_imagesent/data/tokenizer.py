"""Sentences to words, in plain Python: the twin of `graph_tokenizer.py` for runtimes that take token ids."""

import re
import unicodedata

BLANKS = r"\t\n\v\f\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

# What Unicode itself calls ignorable (soft hyphens, joiners, variation selectors), and the letters that came after
# Unicode 14: Python 3.11 to 3.13 and TensorFlow each know another part of those, so all of them leave them out.
UNSEEN = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    r"\u0cf3\u0ece\ua7cb\ua7dc\U00010efd-\U00010eff\U0001123f-\U00011241\U00011f00-\U00011f59\U0001342f-\U00013455"
    r"\U0001b132\U0001b155\U0001ccd6-\U0001ccf9\U0001d2c0-\U0001d2d3\U0001df25-\U0001df2a\U0001e030-\U0001e08f"
    r"\U0001e4d0-\U0001e4f9\U0002b739\U0002ebf0-\U0002ee5d\U00031350-\U000323af"
)
# Scripts that put no blanks between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese. Each character is a word.
UNSPACED = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17b3\u17b6-\u17d3"
    r"\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b738\U0002b740-\U0002ebe0\U00030000-\U0003134a"
)
SPLIT_VOWELS = {"\u0e33": "\u0e4d\u0e32", "\u0eb3": "\u0ecd\u0eb2"}  # folding makes two characters of them
_UNSPACED = re.compile(f"([{UNSPACED}])")
_BETWEEN_UNSPACED = re.compile(f"(?<=[{UNSPACED}]) (?=[{UNSPACED}])")
_BLANKS = re.compile(f"[{BLANKS}]+")
_UNSEEN = re.compile(f"[{UNSEEN}]")


def fold(text):
    """Unicode's NFKC_Casefold: full-width, ligatures and case fold together, as tensorflow-text's `case_fold_utf8`."""
    if text.isascii():
        return text.lower()
    text = _UNSEEN.sub("", text)
    while (folded := unicodedata.normalize("NFKC", text.casefold())) != text:
        text = folded
    return text


def typed_words(text):
    """The words of a sentence in pairs: as typed, and as the vocabulary knows them.

    Example:

    >>> typed_words("A red-haired MAN!")
    [('A', 'a'), ('red-haired', 'redhaired'), ('MAN!', 'man')]
    >>> typed_words("两只狗 run")
    [('两', '两'), ('只', '只'), ('狗', '狗'), ('run', 'run')]
    """
    if not text.isascii():
        for whole, parts in SPLIT_VOWELS.items():
            text = text.replace(whole, parts)
        text = _UNSPACED.sub(r" \1 ", text)
    pairs = ((piece, _letters(fold(piece))) for piece in _BLANKS.split(text))
    return [(piece, word) for piece, word in pairs if word]


def join_words(words):
    """The sentence of some words: a blank between them, but not between characters of a script without blanks.

    Example:

    >>> join_words(["两", "只", "狗", "run", "fast"])
    '两只狗 run fast'
    """
    text = " ".join(words)
    return text if text.isascii() else _BETWEEN_UNSPACED.sub("", text)


def _letters(text):
    """The letters, marks and digits of a text."""
    if text.isalnum():
        return text
    return "".join(character for character in text if unicodedata.category(character)[0] in "LMN")


def tokenize(text):
    """The words of a sentence: folded, everything but letters, marks and digits deleted, split at blanks.

    On English this is the paper's rule (section 4, data preprocessing): lowercase, delete non-alphanumeric characters.

    Example:

    >>> tokenize("Two dogs' toys , don't touch .")
    ['two', 'dogs', 'toys', 'dont', 'touch']
    """
    return [word for _, word in typed_words(text)]
