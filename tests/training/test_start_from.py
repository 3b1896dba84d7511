"""Training that starts from a model with other words: nothing it knew is lost, and it learns the new ones."""

import csv

import keras
import numpy as np
import pytest

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.captioning.captioner import build_captioner
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.model.run import Run
from keras_imagesent.training.start_from import add_words
from keras_imagesent.training.train_alignment import _start_from, train_alignment
from keras_imagesent.training.train_captioner import take_weights, train_captioner
from tests.tiny_prepared import FEATURES, write_tiny_prepared

OLD = Vocabulary(["a", "dog", "runs"], [9, 5, 2], 4)
NEW = Vocabulary(["a", "zebra"], [6, 3], 3)
SMALL = {"units": 16, "word_dim": 8, "batch_size": 20}
RUNS = [
    (train_alignment, {"dim": 16, "frame_dim": 0}),
    (train_captioner, {"learning_rate": 0.02, "dropout": 0.0}),
]


def test_words_keep_their_ids_and_new_ones_come_behind():
    together = OLD.extended(NEW)
    assert together.words == ["a", "dog", "runs", "zebra"]
    assert together.counts == [15, 5, 2, 3] and together.sentences == 7


def test_a_captioner_says_the_same_of_its_old_words(tmp_path):
    keras.utils.set_random_seed(0)
    old = build_captioner(FEATURES, len(OLD), units=8, word_dim=4)
    old.save(tmp_path / "model.keras")
    OLD.save(tmp_path / "vocabulary.json")
    together = OLD.extended(NEW)
    new = build_captioner(FEATURES, len(together), units=8, word_dim=4)
    take_weights(new, together, Run(tmp_path, "captioner"))
    features = np.random.default_rng(0).normal(size=(2, FEATURES)).astype("f")
    known = np.zeros((2, 20), np.int32)
    known[:, 1:4] = [[1, 2, 3], [3, 1, 2]]
    started = [known.copy(), known.copy()]
    for ids, vocabulary in zip(started, (OLD, together), strict=True):
        ids[:, 0] = vocabulary.start_id
    before = old({"image_features": features, "token_ids": started[0]}).numpy()
    after = new({"image_features": features, "token_ids": started[1]}).numpy()
    np.testing.assert_allclose(after[..., :4], before, atol=1e-6)
    assert after[..., 4].max() < before[..., 1].max()  # nobody has said zebra yet


def test_an_alignment_keeps_the_vectors_of_its_old_words():
    models = [build_alignment(FEATURES, len(v), dim=8, units=8, word_dim=4) for v in (OLD, OLD.extended(NEW))]
    _start_from(models[1], models[0])
    token_ids = np.zeros((1, 20), np.int32)
    token_ids[0, :3] = [1, 2, 3]
    before, after = (model.get_layer("sentence_encoder")({"token_ids": token_ids}).numpy() for model in models)
    np.testing.assert_array_equal(before, after)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A prepared folder, and another one that says `wolf` for `dog`."""
    root = tmp_path_factory.mktemp("start")
    prepared = write_tiny_prepared(root / "dogs")
    write_tiny_prepared(root / "wolves", said=lambda caption: caption.replace("dog", "wolf"))
    assert "dog" in prepared.vocabulary.words
    return root


def test_sentences_are_read_in_the_words_of_both(folders, tmp_path):
    wolves, dogs = Prepared.open(folders / "wolves"), Vocabulary.load(folders / "dogs" / "vocabulary.json")
    dogs.save(tmp_path / "vocabulary.json")
    (tmp_path / "model.keras").touch()
    together = add_words(wolves, Run(tmp_path))
    assert together.vocabulary.words == [*dogs.words, "wolf"]
    for before, after in zip(wolves.load("val").token_ids, together.load("val").token_ids, strict=True):
        for mine, theirs in zip(before, after, strict=True):
            assert wolves.vocabulary.decode(mine) == together.vocabulary.decode(theirs)


@pytest.mark.parametrize("train, more", RUNS)
def test_training_goes_on_with_other_words(folders, train, more):
    runs = folders / train.__name__
    train(folders / "dogs", runs / "dogs", epochs=8, **SMALL, **more)
    train(folders / "wolves", runs / "both", epochs=1, start_from=runs / "dogs", **SMALL, **more)
    train(folders / "wolves", runs / "fresh", epochs=1, **SMALL, **more)
    words = Vocabulary.load(runs / "both" / "vocabulary.json").words
    assert words[: len(words) - 1] == Vocabulary.load(runs / "dogs" / "vocabulary.json").words and words[-1] == "wolf"
    with open(runs / "both" / "log.csv") as both, open(runs / "fresh" / "log.csv") as fresh:
        first, other = (float(next(csv.DictReader(file))["loss"]) for file in (both, fresh))
    assert first < other
    if train is train_alignment:
        sentences = Run(runs / "both", "alignment").model.get_layer("sentence_encoder")
        assert sentences.get_layer("words").input_dim == len(words) + 1
