import json

import numpy as np
import pytest

from keras_imagesent.data.caption_pairs import CaptionPairs
from keras_imagesent.errors import InputError
from tests.tiny_prepared import FEATURES, write_tiny_prepared


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return write_tiny_prepared(tmp_path_factory.mktemp("pairs") / "prepared", {"train": 12})


@pytest.fixture
def photos(prepared):
    return prepared.load("train")


def test_every_photo_with_each_of_its_sentences(photos):
    pairs = CaptionPairs.of_photos(photos)
    assert len(pairs) == 24 and pairs.feature_dim == FEATURES
    np.testing.assert_allclose(pairs.features([5])[0], photos.region_features[2, 0], atol=1e-3)
    assert pairs.texts[5] == photos.captions[2][1]
    np.testing.assert_array_equal(pairs.token_ids[5][pairs.token_ids[5] > 0], photos.token_ids[2][1])
    first, item = pairs.items()
    assert len(first) == 12 and list(item[:4]) == [0, 0, 1, 1]


def test_an_epoch_has_every_pair_once_and_goes_on_in_the_middle(photos):
    pairs = CaptionPairs.of_photos(photos)
    batches = list(pairs.batches(batch_size=5, seed=1, epoch=2))
    assert len(batches) == pairs.steps(5) == 5
    seen = np.concatenate([batch["token_ids"] for batch in batches])
    assert sorted(map(tuple, seen)) == sorted(map(tuple, pairs.token_ids))
    rest = list(pairs.batches(batch_size=5, seed=1, epoch=2, start_step=3))
    np.testing.assert_array_equal(rest[0]["image_features"], batches[3]["image_features"])
    other = next(iter(pairs.batches(batch_size=5, seed=1, epoch=3)))
    assert not np.array_equal(other["token_ids"], batches[0]["token_ids"])


def test_region_pairs_with_the_frame_and_whole_photos(prepared, photos, tmp_path):
    path = tmp_path / "pairs.jsonl"
    lines = [
        ("train_3.jpg", 2, "a dog zzz"),
        ("train_3.jpg", 2, "the cat"),
        ("other.jpg", 1, "a dog"),
        ("train_1.jpg", 1, "zzz"),
    ]
    path.write_text(
        "".join(json.dumps(dict(zip(("filename", "region", "snippet"), line, strict=True))) + "\n" for line in lines)
    )
    pairs = CaptionPairs.of_regions(path, photos, prepared.vocabulary, frame=True)
    assert pairs.texts == ["a dog zzz", "the cat"] and len(pairs.items()[0]) == 1
    expected = np.concatenate([photos.region_features[3, 2], photos.region_features[3, 0]])
    np.testing.assert_allclose(pairs.features([0])[0], expected, atol=1e-3)
    both = CaptionPairs.of_regions(path, photos, prepared.vocabulary, frame=True, whole_photos=True)
    assert len(both) == 2 + 24
    path.write_text('{"filename": "train_3.jpg", "region": 9, "snippet": "a dog"}\n')
    with pytest.raises(InputError, match=r"train_3.jpg has no region 9"):
        CaptionPairs.of_regions(path, photos, prepared.vocabulary)


def test_held_out_pairs_share_no_photo(photos):
    learned, held = CaptionPairs.of_photos(photos).hold_out(0.25)
    assert len(np.unique(held.rows)) == 3 and len(learned) + len(held) == 24
    assert not set(learned.rows) & set(held.rows)
