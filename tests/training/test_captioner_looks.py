"""Training a captioner that looks at regions or at the detector's classes, from prepared photos to a run."""

import json

import numpy as np
import pytest

from keras_imagesent.data.caption_pairs import CaptionPairs
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.errors import InputError
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.model.run import Run
from keras_imagesent.training.train_captioner import build, train_captioner
from tests.tiny_prepared import THINGS, write_tiny_prepared

SMALL = {"units": 24, "word_dim": 12, "batch_size": 20, "dropout": 0.0, "learning_rate": 0.02, "decay": 1.0}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Vectors of zeros: only the detector says what is there."""
    return write_tiny_prepared(tmp_path_factory.mktemp("named") / "prepared", named=True)


def write_snippets(path, photos):
    """What the detector calls each thing, as the snippet of its region."""
    with open(path, "w") as file:
        for filename, classes in zip(photos.filenames, photos.class_scores, strict=True):
            for region in (1, 2):
                snippet = f"one {THINGS[classes[region].argmax()]}"
                file.write(json.dumps({"filename": filename, "region": region, "snippet": snippet}) + "\n")
    return path


def things_named(texts, photos):
    """The share of the photos' things that their captions name."""
    wanted = [set(tokenize(captions[0])) & set(THINGS) for captions in photos.captions]
    return np.mean([len(things & set(text.split())) / 2 for things, text in zip(wanted, texts, strict=True)])


@pytest.mark.parametrize("looks_at", [{"classes": True}, {"classes": True, "attention": 16}])
def test_it_names_what_only_the_detector_knows(named, looks_at, tmp_path):
    photos = named.load("val")
    found = []
    for settings in ({}, looks_at):
        out = tmp_path / str(len(found))
        rows = train_captioner(named.folder, out, epochs=20, **SMALL, **settings)
        search = CaptionSearch(Run(out, "captioner"))
        found.append(things_named(search.captions(search.vectors(photos)), photos))
    assert found[1] > max(0.5, 2 * found[0]), found
    assert rows[-1]["perplexity_shuffled"] > 1.5 * rows[-1]["perplexity"]
    settings = Run(tmp_path / "1").settings
    assert settings["attention"] == looks_at.get("attention", 0) and settings["classes"] is True


def test_regions_are_called_what_the_detector_calls_them(named, tmp_path):
    photos = named.load("val")
    pairs = write_snippets(tmp_path / "pairs.jsonl", named.load("train"))
    held = write_snippets(tmp_path / "val.jsonl", photos)
    train_captioner(named.folder, tmp_path / "run", pairs=pairs, validation_pairs=held, classes=True, epochs=8, **SMALL)
    run = Run(tmp_path / "run", "captioner")
    snippets = CaptionPairs.of_regions(held, photos, named.vocabulary, classes=True)
    token_ids, _ = CaptionSearch(run).search(snippets.inputs(np.arange(len(snippets))))
    right = [run.vocabulary.decode(ids[0]) == text for ids, text in zip(token_ids, snippets.texts, strict=True)]
    assert np.mean(right) > 0.8
    search, nothing = CaptionSearch(run), np.zeros((2, 16), np.float32)
    said = search.captions(search.regions(nothing, classes=np.eye(10, dtype=np.float32)[:2]))
    assert said == [f"one {thing}" for thing in THINGS[:2]]
    unnamed = search.captions(search.regions(nothing))  # boxes that no detector knows
    assert unnamed[0] == unnamed[1]


def test_pairs_bring_what_is_looked_at(named, tmp_path):
    photos = named.load("train")
    whole = CaptionPairs.of_photos(photos, classes=True, attention=True)
    batch = next(iter(whole.batches(batch_size=7)))
    assert {name: tuple(x.shape) for name, x in batch.items()} == {
        "image_features": (7, 16),
        "class_scores": (7, 4, 10),
        "region_features": (7, 4, 16),
        "region_mask": (7, 4),
        "token_ids": (7, 20),
    }
    assert {x.dtype.name for x in batch.values()} == {"float32", "bool", "int32"}
    rows = whole.rows[whole.order(7, 0, 0)[0]]
    np.testing.assert_array_equal(batch["class_scores"], photos.class_scores[rows])
    assert np.shares_memory(whole.looks_at["region_features"], photos.region_features)  # not in memory twice
    snippets = CaptionPairs.of_regions(
        write_snippets(tmp_path / "pairs.jsonl", photos), photos, named.vocabulary, classes=True
    )
    classes = snippets.inputs(np.arange(2))["class_scores"]
    assert classes.shape == (2, 1, 10)
    np.testing.assert_array_equal(classes[:, 0], photos.class_scores[0, 1:3])
    frames = CaptionPairs.as_regions(photos, classes=True)
    assert not frames.inputs(np.arange(3))["class_scores"].any() and frames.classes == 10


def test_the_output_bias_of_a_region_captioner_comes_from_its_snippets(named, tmp_path):
    snippets = CaptionPairs.of_regions(
        write_snippets(tmp_path / "pairs.jsonl", named.load("train")), named.load("train"), named.vocabulary
    )
    settings = {**SMALL, "cell": "lstm", "activate_image": False, "activate_words": False}
    settings |= {"classes": False, "attention": 0}
    model = build(snippets, named.vocabulary, settings, None, seed=0)
    shares = np.exp(model.get_layer("output").bias.numpy())
    one, beside = named.vocabulary.encode("one beside")
    assert shares.sum() == pytest.approx(1, abs=1e-5)
    assert shares[one] == pytest.approx(1 / 3, abs=0.02) and shares[0] == pytest.approx(1 / 3, abs=0.02)
    assert shares[beside] < 0.01  # in no snippet, though in half of the captions


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention": 8, "pairs": "pairs.jsonl"}, "leave out pairs and frame"),
        ({"classes": True, "fine_tune": "photos"}, "leave out attention and classes"),
        ({"attention": -1}, "attention must be 0 or more"),
    ],
)
def test_what_does_not_go_together_is_said(named, wrong, message, tmp_path):
    with pytest.raises(InputError, match=message):
        train_captioner(named.folder, tmp_path / "run", **wrong)


def test_a_detector_without_names_cannot_teach_classes(tmp_path):
    nameless = write_tiny_prepared(tmp_path / "prepared", {"train": 4, "val": 2})
    with pytest.raises(InputError, match="does not say what it found: leave out classes"):
        train_captioner(nameless.folder, tmp_path / "run", classes=True)
