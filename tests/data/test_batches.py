"""An epoch has every pair once, no photo twice in a batch, in an order that seed and epoch decide."""

from collections import Counter

import numpy as np
import pytest

from keras_imagesent.data import batches as module
from keras_imagesent.data import shards
from keras_imagesent.data.batches import pair_batches, photo_batches, steps_per_epoch
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.vocabulary import Vocabulary

REGIONS, FEATURES = 3, 2


def write_prepared(folder, sentences_of_photos, per_shard=8, said_of=int):
    """A prepared folder whose vectors and words tell the photo and the sentence they belong to.

    `said_of(photo)` is what its captions speak of: the photo itself, unless two have the same captions.
    """
    folder.mkdir()
    words = [f"w{n}" for n in range(1, 100)]
    vocabulary = Vocabulary(words, [9] * 99)
    vocabulary.save(folder / shards.VOCABULARY_FILE)
    starts = range(0, len(sentences_of_photos), per_shard)
    split = {"photos": len(sentences_of_photos), "shards": len(starts)}
    settings = {"format": 1, "splits": {"train": split}, "number_of_regions": REGIONS, "feature_dim": FEATURES}
    shards.write_json(folder / shards.SETTINGS_FILE, settings)
    for index, start in enumerate(starts):
        records = []
        for photo, number in list(enumerate(sentences_of_photos))[start : start + per_shard]:
            records.append(
                shards.encode_record(
                    {
                        "photo_id": photo,
                        "filename": f"{photo}.jpg",
                        "split": "train",
                        "width": 4,
                        "height": 3,
                        "number_of_regions": 2,
                        "region_features": np.full((REGIONS, FEATURES), photo, "<f2"),
                        "boxes": np.zeros((REGIONS, 4), "<f4"),
                        "box_scores": np.full(REGIONS, photo / 100, "<f4"),
                        "captions": [f"words of {said_of(photo)}"] * number,
                        "token_ids": [n + 1 for n in range(number) for _ in range(n + 1)],
                        "lengths": [n + 1 for n in range(number)],
                        "sentence_ids": list(range(number)),
                        "made_by": shards.digest(settings),
                    }
                )
            )
        writer = shards.ShardWriter(folder / shards.shard_name("train", index, len(starts)))
        writer.write(0, records)
        writer.finish(1)
    return Prepared.open(folder)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", [5] * 30 + [7, 6] + [1] * 8)


def pairs(batch):
    """(photo, sentence) of each row; sentence n is n + 1 times the word n + 1."""
    photos = batch["region_features"][:, 0, 0].numpy().astype(int).tolist()
    return list(zip(photos, (batch["token_ids"][:, 0].numpy() - 1).tolist(), strict=True))


def all_pairs(counts):
    return {(photo, sentence) for photo, number in enumerate(counts) for sentence in range(number)}


@pytest.mark.parametrize("in_memory", [8192, 10, 16])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_pair_once_and_no_photo_twice_in_a_batch(prepared, monkeypatch, in_memory, shuffle):
    monkeypatch.setattr(module, "SHUFFLE_PHOTOS", in_memory)
    found = [pairs(batch) for batch in pair_batches(prepared, "train", 7, shuffle=shuffle)]
    assert Counter(pair for batch in found for pair in batch) == Counter(all_pairs([5] * 30 + [7, 6] + [1] * 8))
    assert all(len({photo for photo, _ in batch}) == len(batch) for batch in found)
    if shuffle:
        assert len(found) == steps_per_epoch(prepared, "train", 7)
        assert [len(batch) for batch in found[:-1]] == [7] * (len(found) - 1) or in_memory < 8192


def test_rows_belong_together(prepared):
    for batch in pair_batches(prepared, "train", 10, max_words=4):
        photos = batch["region_features"][:, 0, 0].numpy()
        assert len(set(batch["photo_ids"].numpy())) == len(photos)
        assert batch["region_features"].dtype == "float32" and batch["region_features"].shape[1:] == (3, 2)
        np.testing.assert_array_equal(batch["region_features"][:, 1, 1], photos)
        np.testing.assert_array_equal(
            batch["box_scores"], np.repeat(np.float32(photos / 100)[:, None], REGIONS, axis=1)
        )
        np.testing.assert_array_equal(batch["region_mask"], [[True, True, False]] * len(photos))
        for ids in batch["token_ids"].numpy():  # sentence n is its word n + 1 times, cut at 4, padded with 0
            assert ids.tolist() == ([ids[0]] * min(ids[0], 4) + [0] * 4)[:4]


def test_seed_and_epoch_decide_the_order(prepared):
    def order(**options):
        return [pairs(batch) for batch in pair_batches(prepared, "train", 10, **options)]

    assert order(seed=1, epoch=2) == order(seed=1, epoch=2)
    assert order(seed=1, epoch=2) != order(seed=1, epoch=3)
    assert order(seed=1, epoch=2) != order(seed=2, epoch=2)
    assert order(shuffle=False)[0] == [(photo, 0) for photo in range(10)]


@pytest.mark.parametrize("in_memory", [8192, 10])
def test_resuming_leaves_out_what_was_done(prepared, monkeypatch, in_memory):
    monkeypatch.setattr(module, "SHUFFLE_PHOTOS", in_memory)
    whole = [pairs(batch) for batch in pair_batches(prepared, "train", 10)]
    for start in (1, 5, len(whole) - 1, len(whole)):
        assert [pairs(batch) for batch in pair_batches(prepared, "train", 10, start_step=start)] == whole[start:]


def test_fewer_photos_than_a_batch(tmp_path):
    few = write_prepared(tmp_path / "few", [5, 5, 2])
    found = [pairs(batch) for batch in pair_batches(few, "train", 100)]
    assert Counter(pair for batch in found for pair in batch) == Counter(all_pairs([5, 5, 2]))
    assert all(len({photo for photo, _ in batch}) == len(batch) for batch in found)


def test_full_batches_when_photos_are_many(tmp_path):
    many = write_prepared(tmp_path / "many", [5] * 41, per_shard=50)
    sizes = [len(pairs(batch)) for batch in pair_batches(many, "train", 20)]
    assert sizes == [20] * 10 + [5]


def test_photos_with_the_same_captions_have_one_number(tmp_path):
    twins = write_prepared(tmp_path / "twins", [5] * 20, said_of=lambda photo: photo % 12)
    seen = {}
    for batch in pair_batches(twins, "train", 8):
        for number, (photo, _) in zip(batch["photo_ids"].numpy().tolist(), pairs(batch), strict=True):
            assert seen.setdefault(number, photo % 12) == photo % 12
    assert len(seen) == 12


def test_photos_with_one_sentence_and_with_five_are_mixed_all_through(tmp_path):
    mixed = write_prepared(tmp_path / "mixed", [5] * 40 + [1] * 200, per_shard=500)
    batches = [pairs(batch) for batch in pair_batches(mixed, "train", 50)]
    assert [len(batch) for batch in batches] == [50] * 8
    single = [sum(photo >= 40 for photo, _ in batch) for batch in batches]
    assert min(single) >= 15 and max(single) <= 35  # of 50, where half of all pairs are of such photos
    when = {photo: [n for n, batch in enumerate(batches) for p, _ in batch if p == photo] for photo in range(40)}
    assert all(len(set(steps)) == 5 for steps in when.values())


def test_photo_batches_keep_the_order(prepared):
    found = list(photo_batches(prepared, "train", 16))
    assert [len(batch["photo_ids"]) for batch in found] == [16, 16, 8]
    assert np.concatenate([batch["photo_ids"] for batch in found]).tolist() == list(range(40))
    assert found[0]["boxes"].shape == (16, REGIONS, 4)
    np.testing.assert_array_equal(found[1]["region_features"][:, 1, 1], np.arange(16, 32))
    np.testing.assert_array_equal(found[1]["box_scores"][:, 1], np.float32(np.arange(16, 32) / 100))


def test_training_reads_a_small_split_once(prepared, monkeypatch):
    list(pair_batches(prepared, "train", 10))
    monkeypatch.setattr(Prepared, "read", None)
    assert len(list(pair_batches(prepared, "train", 10, epoch=1))) == steps_per_epoch(prepared, "train", 10, epoch=1)
