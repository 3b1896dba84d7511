"""GloVe and word2vec files, text and binary, whole and broken."""

import numpy as np
import pytest

from keras_imagesent.alignment.word_vectors import read_word_vectors
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError

VOCABULARY = Vocabulary(["dog", "cat", "übung"], [3, 2, 1])
VECTORS = {"Dog": [1.5, -2.0, 0.25], "the": [9.0, 9.0, 9.0], "übung": [0.5, 0.125, 4.0]}


def glove(path, header=""):
    path.write_text(header + "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in VECTORS.items()), "utf-8")


def binary(path):
    rows = [w.encode() + b" " + np.array(v, "<f4").tobytes() + b"\n" for w, v in VECTORS.items()]
    path.write_bytes(b"3 3\n" + b"".join(rows))


@pytest.mark.parametrize(
    "write", [glove, lambda path: glove(path, "3 3\n"), binary], ids=["glove", "word2vec", "binary"]
)
def test_reads_every_form(tmp_path, write):
    write(tmp_path / "vectors")
    vectors, found = read_word_vectors(tmp_path / "vectors", VOCABULARY)
    assert found == 2 and vectors.shape == (3, 3)
    np.testing.assert_array_equal(vectors[[0, 2]], [VECTORS["Dog"], VECTORS["übung"]])
    assert np.abs(vectors[1]).sum() > 0


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "vectors"
    with pytest.raises(InputError, match="no word vectors at"):
        read_word_vectors(path, VOCABULARY)
    path.write_text("dog 1 2 3\ncat 1 2\n")
    with pytest.raises(InputError, match="line 2: expected a word and 3 numbers"):
        read_word_vectors(path, VOCABULARY)
    path.write_text("hund 1 2 3\n")
    with pytest.raises(InputError, match="none of the vocabulary's 3 words"):
        read_word_vectors(path, VOCABULARY)
    binary(path)
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(InputError, match="ends after 2 of 3 words"):
        read_word_vectors(path, VOCABULARY)
