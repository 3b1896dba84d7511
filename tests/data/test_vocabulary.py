import json

import numpy as np
import pytest

from keras_imagesent.data.vocabulary import END, Vocabulary
from keras_imagesent.errors import InputError
from tests.conftest import SHARED, needs_shared

CAPTIONS = ["A dog runs.", "a dog and a cat", "The cat, the cat!"]  # a 3, cat 3, dog 2, the 2, and 1, runs 1


def test_words_stand_by_falling_count_then_alphabet():
    vocabulary = Vocabulary.from_captions(CAPTIONS, threshold=2)
    assert vocabulary.words == ["a", "cat", "dog", "the"]
    assert vocabulary.counts == [3, 3, 2, 2]
    assert (len(vocabulary), vocabulary.start_id, vocabulary.output_size, vocabulary.input_size) == (4, 5, 5, 6)


def test_encode_drops_strange_words_and_positions_keeps_them():
    vocabulary = Vocabulary.from_captions(CAPTIONS, threshold=2)
    assert vocabulary.encode("The PURPLE dog.") == [4, 3]
    assert vocabulary.positions("The PURPLE dog.") == [("The", 4), ("PURPLE", -1), ("dog.", 3)]


def test_decode_stops_at_the_end_and_is_silent_about_the_start():
    vocabulary = Vocabulary.from_captions(CAPTIONS, threshold=2)
    assert vocabulary.decode([vocabulary.start_id, 4, 3, END, 1, 1]) == "the dog"
    assert vocabulary.decode(np.array([4, 3])) == "the dog"
    assert vocabulary.decode(vocabulary.encode("a cat")) == "a cat"


def test_log_frequencies_count_the_end_once_a_sentence():
    frequencies = np.exp(Vocabulary.from_captions(CAPTIONS, threshold=2).log_frequencies())
    assert frequencies.dtype == np.float32
    np.testing.assert_allclose(frequencies, np.array([3, 3, 3, 2, 2]) / 13, rtol=1e-6)


def test_save_and_load_give_the_same_vocabulary(tmp_path):
    vocabulary = Vocabulary.from_captions([*CAPTIONS, "schön schön"], threshold=2)
    vocabulary.save(tmp_path / "vocabulary.json")
    loaded = Vocabulary.load(tmp_path / "vocabulary.json")
    assert (loaded.words, loaded.counts, loaded.sentences) == (
        vocabulary.words,
        vocabulary.counts,
        vocabulary.sentences,
    )
    assert loaded.digest == vocabulary.digest
    assert [file.name for file in tmp_path.iterdir()] == ["vocabulary.json"]


def test_the_digest_tells_vocabularies_apart():
    digests = {
        Vocabulary(["a", "b"], [2, 1]).digest,
        Vocabulary(["b", "a"], [2, 1]).digest,
        Vocabulary(["a", "b"], [2, 2]).digest,
        Vocabulary(["a", "b"], [2, 1], sentences=7).digest,
    }
    assert len(digests) == 4


def test_no_frequent_word_at_all():
    with pytest.raises(InputError, match=r"^no word occurs 5 times in the 3 training captions: "):
        Vocabulary.from_captions(CAPTIONS)
    with pytest.raises(InputError, match="no training captions: the data set needs photos in a split called train"):
        Vocabulary.from_captions([])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON text"),
        ("[]", "needs words, counts and sentences"),
        ('{"words": ["a"]}', "needs words, counts and sentences"),
        ('{"words": [], "counts": [], "sentences": 1}', "list of texts"),
        ('{"words": ["a", 3], "counts": [1, 1], "sentences": 1}', "list of texts"),
        ('{"words": ["a", "a"], "counts": [1, 1], "sentences": 1}', "twice"),
        ('{"words": ["a", "b"], "counts": [1], "sentences": 1}', "one whole count"),
        ('{"words": ["a"], "counts": [0], "sentences": 1}', "one whole count"),
        ('{"words": ["a"], "counts": 7, "sentences": 1}', "one whole count"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, text, complaint):
    (tmp_path / "vocabulary.json").write_text(text)
    with pytest.raises(InputError, match=complaint):
        Vocabulary.load(tmp_path / "vocabulary.json")


def test_a_vocabulary_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no vocabulary at .*nowhere.json"):
        Vocabulary.load(tmp_path / "nowhere.json")


@needs_shared
def test_flickr8k_has_the_papers_words():
    images = json.loads((SHARED / "flickr8k/dataset.json").read_text())["images"]
    captions = [s["raw"] for image in images if image["split"] == "train" for s in image["sentences"]]
    vocabulary = Vocabulary.from_captions(captions)
    assert len(captions) == vocabulary.sentences == 30_000
    assert (len(vocabulary), vocabulary.output_size) == (2_537, 2_538)
    assert min(vocabulary.counts) == 5
