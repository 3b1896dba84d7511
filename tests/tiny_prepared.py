"""A prepared folder made of nothing: photos of two things each, whose vectors say what they are."""

import csv

import numpy as np

from keras_imagesent.data import shards
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.vocabulary import Vocabulary

THINGS = ["dog", "cat", "ball", "tree", "car", "boat", "horse", "bird", "kite", "lamp"]
FEATURES = 16
PLACES = np.array([[0, 0, 1, 1], [0.05, 0.2, 0.45, 0.8], [0.55, 0.2, 0.95, 0.8], [0.3, 0, 0.4, 0.1]], "<f4")


def write_tiny_prepared(folder, photos={"train": 60, "val": 20}, seed=0, named=False, parts=1, said=str, sets=()):  # noqa: B006
    """Regions: the whole frame (something of both things), the two things, and a patch of noise. Two sentences a photo.

    With `named`, a detector has said which thing each region is, and the vectors say nothing. The training photos are
    in so many `parts`, shards of equal size. `said` changes a caption. The photos are of the data sets `sets` in turn.

    Returns the opened folder; `phrase_boxes.csv` in it has the true box of every phrase.
    """
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(len(THINGS), FEATURES))
    folder.mkdir(parents=True)
    pictures, phrases = {}, []
    for split, number in photos.items():
        pictures[split] = []
        for n in range(number):
            left, right = rng.choice(len(THINGS), 2, replace=False)
            both = (vectors[left] + vectors[right]) / 2  # weaker than either alone, as in a photo
            features = np.stack([both, vectors[left], vectors[right], np.zeros(FEATURES)])
            features += rng.normal(scale=0.1, size=features.shape)
            features *= not named
            classes = np.zeros((4, len(THINGS) if named else 0))
            if named:
                classes[[1, 2], [left, right]] = 0.8
            one, other = THINGS[left], THINGS[right]
            captions = [said(f"a {one} and a {other} zzz"), said(f"the {other} beside one {one}")]
            filename = f"{split}_{n}.jpg"
            phrases += [[filename, f"a {one}", *PLACES[1]], [filename, f"one {one}", *PLACES[1]]]
            phrases += [[filename, f"the {other}", *PLACES[2]], [filename, f"a {other}", *PLACES[2]]]
            pictures[split].append((filename, features, classes, captions))
    vocabulary = Vocabulary.from_captions([c for *_, captions in pictures["train"] for c in captions], threshold=1)
    vocabulary = Vocabulary(*zip(*[p for p in zip(vocabulary.words, vocabulary.counts) if p[0] != "zzz"]), 9)  # noqa: B905
    vocabulary.save(folder / shards.VOCABULARY_FILE)
    number_of = {split: parts if split == "train" else 1 for split in photos}
    sizes = {split: {"photos": number, "shards": number_of[split]} for split, number in photos.items()}
    settings = {"format": 1, "splits": sizes, "number_of_regions": 4, "feature_dim": FEATURES}
    settings["classes"] = len(THINGS) if named else 0
    shards.write_json(folder / shards.SETTINGS_FILE, settings)
    photo_id = 0
    for split, rows in pictures.items():
        records = []
        for filename, features, classes, captions in rows:
            ids = [vocabulary.encode(caption) for caption in captions]
            fields = {
                "photo_id": photo_id,
                "filename": filename,
                "split": split,
                "data_set": sets[photo_id % len(sets)] if sets else "",
                "width": 40,
                "height": 30,
                "number_of_regions": 4,
                "region_features": features.astype("<f2"),
                "boxes": PLACES,
                "box_scores": np.array([1, 0.6, 0.5, 0.9], "<f4"),
                "class_scores": classes.astype("<f2"),
                "captions": captions,
                "token_ids": [number for sentence in ids for number in sentence],
                "lengths": [len(sentence) for sentence in ids],
                "sentence_ids": [2 * photo_id, 2 * photo_id + 1],
                "made_by": shards.digest(settings),
            }
            records.append(shards.encode_record(fields))
            photo_id += 1
        size = -(-len(records) // number_of[split])
        for index in range(number_of[split]):
            writer = shards.ShardWriter(folder / shards.shard_name(split, index, number_of[split]))
            writer.write(0, records[index * size : (index + 1) * size])
            writer.finish(1)
    with open(folder / "phrase_boxes.csv", "w", newline="") as file:
        csv.writer(file).writerows([["filename", "phrase", "x0", "y0", "x1", "y1"], *phrases])
    return Prepared.open(folder)
