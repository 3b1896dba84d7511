"""A prepared folder as photos: region vectors, boxes and sentences read from its shards."""

import dataclasses
from pathlib import Path

import numpy as np

from keras_imagesent.data.shards import (
    VOCABULARY_FILE,
    batches_of_records,
    parse_records,
    read_counts,
    read_settings,
    refuse_foreign,
    shard_name,
)
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError


@dataclasses.dataclass
class Photos:
    """The photos of a split as arrays; row n of each is the same photo."""

    filenames: list  # of str
    data_sets: list  # of str, the name of each photo's data set; "" where it has none
    photo_ids: np.ndarray  # (N,) int64
    region_features: np.ndarray  # (N,R,F) float16
    boxes: np.ndarray  # (N,R,4) float32
    box_scores: np.ndarray  # (N,R) float32
    class_scores: np.ndarray  # (N,R,C) float16, what the detector takes each box for; C is 0 if it does not say
    region_mask: np.ndarray  # (N,R) bool
    captions: list  # of lists of str
    token_ids: list  # of lists of int32 arrays
    sentence_ids: list  # of int64 arrays
    widths: np.ndarray  # (N,) int32
    heights: np.ndarray  # (N,) int32

    def by_set(self, most=None):
        """`{name of a data set: its photos}`, of each at most the first `most`."""
        return {name: self.of_set(name, most) for name in dict.fromkeys(self.data_sets)}

    def of_set(self, name, most=None):
        """The photos of one data set, or the first `most` of them."""
        rows = np.flatnonzero([data_set == name for data_set in self.data_sets])[:most]
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Photos(
            **{
                name: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
                for name, column in columns.items()
            }
        )

    def regions(self, rows=slice(None), frame_only=False):
        """What `encode_photos` takes: vectors and scores of some photos' regions; with `frame_only`, of region 0."""
        names = ("region_features", "box_scores", "class_scores")
        return {name: getattr(self, name)[rows][:, : 1 if frame_only else None] for name in names}


class Prepared:
    """A folder that `imagesent prepare` has written.

    Example:
        >>> prepared = ki.Prepared.open("prepared")
        >>> sorted(prepared.splits)
        ['train', 'tune', 'val']
        >>> prepared.load("tune").region_features.shape  # photos, regions, numbers of a vector
        (4, 20, 16)
    """

    def __init__(self, folder, settings, vocabulary, photo_counts=None, own_words=True):
        self.folder, self.settings, self.vocabulary = Path(folder), settings, vocabulary
        self._sentence_counts = {}
        self._read_last = None, None  # paths of shards, and their photos
        self._photo_counts = photo_counts or {}  # shard's name -> how many photos it must hold; of folders that tell
        self._own_words = own_words  # whether the ids in the records are of this vocabulary

    @classmethod
    def open(cls, folder):
        """Opens a prepared folder, or says what is missing in it."""
        folder = Path(folder)
        settings = read_settings(folder)
        prepared = cls(folder, settings, Vocabulary.load(folder / VOCABULARY_FILE), read_counts(folder))
        if settings.get("vocabulary") not in (None, prepared.vocabulary.digest):
            raise InputError(f"{folder / VOCABULARY_FILE}: not the vocabulary of this folder. Prepare it again.")
        missing = [path.name for split in prepared.splits for path in prepared.shards(split) if not path.is_file()]
        if missing:
            raise InputError(
                f"{folder}: not complete, {len(missing)} shards are missing ({missing[0]}, ...). "
                "Run the same `imagesent prepare` again: it goes on where it was."
            )
        return prepared

    def in_words(self, vocabulary):
        """The same photos with their sentences in the words of another vocabulary, such as a trained model's."""
        return Prepared(self.folder, self.settings, vocabulary, self._photo_counts, own_words=False)

    @property
    def splits(self):
        return list(self.settings["splits"])

    @property
    def number_of_regions(self):
        return self.settings["number_of_regions"]

    @property
    def feature_dim(self):
        return self.settings["feature_dim"]

    @property
    def vectors(self):
        """How the vectors were made: backbone, detector, region_vectors; None where the folder does not tell."""
        names = {"backbone": "backbone", "detector": "detector", "region_vectors": "regions"}
        return {name: self.settings.get(key) for name, key in names.items()}

    @property
    def classes(self):
        """How many classes the detector knows; 0 if it does not say what it found."""
        return self.settings.get("classes", 0)

    def shards(self, split):
        """The paths of a split's shards, in order."""
        if split not in self.settings["splits"]:
            raise InputError(f"{self.folder}: there is no split {split!r}. There are: {', '.join(self.splits)}.")
        number = self.settings["splits"][split]["shards"]
        return [self.folder / shard_name(split, index, number) for index in range(number)]

    def load(self, split, frames_only=False):
        """All photos of a split, in the data set's order, as arrays; with `frames_only`, the vectors of region 0 alone.

        A photo takes about 55 KB, 6 KB with its frame's vector alone: so a large training split fits into memory.
        """
        return self.read(self.shards(split), frames_only)

    def sample(self, split, photos=10_000):
        """Photos of shards evenly spread over a split: all of a small split, about `photos` of a large one."""
        paths = self.shards(split)
        total = self.settings["splits"][split]["photos"]
        number = min(len(paths), max(1, round(len(paths) * photos / max(total, 1))))
        return self.read([paths[index * len(paths) // number] for index in range(number)])

    def read(self, paths, frames_only=False):
        """The photos of some shards, one after the other."""
        import tensorflow as tf

        regions = self.number_of_regions
        columns = {
            "region_features": ("<f2", (self.feature_dim,)),
            "boxes": ("<f4", (4,)),
            "box_scores": ("<f4", ()),
            "class_scores": ("<f2", (self.classes,)),
        }
        parts = []
        for path in paths:
            refuse_foreign(path, self.settings)
            for records in self._records(path):
                try:
                    part = {key: value.numpy() for key, value in parse_records(records).items()}
                    for name, (dtype, shape) in columns.items():
                        array = np.frombuffer(b"".join(part[name]), dtype).reshape(len(part[name]), regions, *shape)
                        part[name] = array[:, :1].copy() if frames_only and name == "region_features" else array
                except (tf.errors.OpError, ValueError):  # whole by its checksums, and yet no photo of ours
                    raise InputError(f"{path}: not a shard of `imagesent prepare`. Delete it.") from None
                parts.append(part)

        def column(name):
            dtype, shape = columns[name]
            return np.concatenate([part[name] for part in parts] or [np.zeros((0, regions, *shape), dtype)])

        def numbers(name, dtype):
            return np.concatenate([p[name] for p in parts] or [np.zeros(0)]).astype(dtype)

        rows = [row for p in parts for row in zip(p["captions"], p["token_ids"], p["lengths"], strict=True)]
        present = numbers("number_of_regions", np.int64)
        return Photos(
            filenames=[name.decode() for p in parts for name in p["filename"]],
            data_sets=[name.decode() for p in parts for name in p["data_set"]],
            photo_ids=numbers("photo_id", np.int64),
            region_features=column("region_features"),
            boxes=column("boxes"),
            box_scores=column("box_scores"),
            class_scores=column("class_scores"),
            region_mask=np.arange(regions) < present[:, None],
            captions=[[sentence.decode() for sentence in captions] for captions, _, _ in rows],
            token_ids=[self._token_ids(*row) for row in rows],
            sentence_ids=[ids for p in parts for ids in p["sentence_ids"]],
            widths=numbers("width", np.int32),
            heights=numbers("height", np.int32),
        )

    def read_once(self, paths):
        """`read`, and the photos stay in memory until other shards are read so: a small split is read once."""
        if self._read_last[0] != paths:
            self._read_last = paths, self.read(paths)
        return self._read_last[1]

    def _token_ids(self, captions, ids, lengths):
        """The ids of each of a photo's sentences: those in the record, or found anew for other words."""
        if self._own_words:
            return np.split(ids.astype(np.int32), np.cumsum(lengths))[:-1]
        return [np.array(self.vocabulary.encode(caption.decode()), np.int32) for caption in captions]

    def sentence_counts(self, split):
        """How many sentences each photo has: one array for each shard."""
        if split not in self._sentence_counts:
            self._sentence_counts[split] = [
                np.array([len(lengths) for lengths in self._read_field(path, "lengths")], np.int64)
                for path in self.shards(split)
            ]
        return self._sentence_counts[split]

    def photo_ids(self, split):
        """The running numbers of a split's photos, without reading their vectors into memory."""
        return [number for path in self.shards(split) for number in self.photo_ids_in(path)]

    def photo_ids_in(self, path):
        """The running numbers of a shard's photos."""
        return [int(number) for (number,) in self._read_field(path, "photo_id")]

    def _read_field(self, path, name):
        """One field of integers of every record of a shard."""
        import tensorflow as tf

        wanted = {name: tf.io.RaggedFeature(tf.int64)}
        for records in self._records(path):
            yield from tf.io.parse_example(records, wanted)[name].to_list()

    def _records(self, path):
        """The serialized records of a shard, some at a time; one that was cut, emptied or doubled is refused."""
        number, wanted = 0, self._photo_counts.get(path.name)
        for records in batches_of_records(path):
            number += len(records)
            yield records
        if wanted is not None and number != wanted:
            raise InputError(
                f"{path}: damaged, {number} photos instead of {wanted}. Delete it and run `imagesent prepare` again."
            )


def missing_shards(folder):
    """The names of the shards that are not there yet, and how many there are to be."""
    splits = read_settings(folder)["splits"].items()
    names = [shard_name(split, n, content["shards"]) for split, content in splits for n in range(content["shards"])]
    return [name for name in names if not (Path(folder) / name).is_file()], len(names)
