"""The prepared folder: region vectors, boxes and sentences of every photo in TFRecord shards, and what made them.

prepared.json                    the settings; a folder holds the work of one set of settings only
vocabulary.json
problems.json                    what was set aside, with the reason
shards.json                      how many photos each shard holds, written last
train-00000-of-00011.tfrecord    one record a photo, in the data set's order
"""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from keras_imagesent.data.atomic import whole_file, write_json
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError

FORMAT = 1
SETTINGS_FILE = "prepared.json"
VOCABULARY_FILE = "vocabulary.json"
PROBLEMS_FILE = "problems.json"
COUNTS_FILE = "shards.json"


@dataclasses.dataclass
class Photos:
    """The photos of a split as arrays; row n of each is the same photo."""

    filenames: list  # of str
    data_sets: list  # of str, the name of each photo's data set; "" where there is only one
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

    def of_set(self, name):
        """The photos of one data set."""
        rows = np.flatnonzero([data_set == name for data_set in self.data_sets])
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Photos(
            **{
                name: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
                for name, column in columns.items()
            }
        )

    def regions(self, rows=slice(None), frame_only=False):
        """What is known of the regions of some photos, for `encode_photos`; with `frame_only` of region 0 alone."""
        names = ("region_features", "box_scores", "class_scores")
        return {name: getattr(self, name)[rows][:, : 1 if frame_only else None] for name in names}


class Prepared:
    """A folder that `imagesent prepare` has written.

    Example:
        >>> prepared = ki.Prepared.open("prepared")
        >>> prepared.splits
        ['train', 'tune', 'val']
        >>> prepared.load("tune").region_features.shape  # photos, regions, numbers of a vector
        (4, 20, 16)
    """

    def __init__(self, folder, settings, vocabulary, photo_counts=None, own_words=True):
        self.folder, self.settings, self.vocabulary = Path(folder), settings, vocabulary
        self._sentence_counts = {}
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
        """All photos of a split, in the data set's order, as arrays; with `frames_only`, of region 0 alone (R = 1).

        A photo takes about 50 KB, its frame 3 KB: a large training split fits into memory by its frames only.
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

        regions, kept = self.number_of_regions, 1 if frames_only else self.number_of_regions
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
                        part[name] = array[:, :kept].copy() if frames_only else array
                except (tf.errors.OpError, ValueError):  # whole by its checksums, and yet no photo of ours
                    raise InputError(f"{path}: not a shard of `imagesent prepare`. Delete it.") from None
                parts.append(part)

        def column(name):
            dtype, shape = columns[name]
            return np.concatenate([part[name] for part in parts] or [np.zeros((0, kept, *shape), dtype)])

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
            region_mask=np.arange(kept) < present[:, None],
            captions=[[sentence.decode() for sentence in captions] for captions, _, _ in rows],
            token_ids=[self._token_ids(*row) for row in rows],
            sentence_ids=[ids for p in parts for ids in p["sentence_ids"]],
            widths=numbers("width", np.int32),
            heights=numbers("height", np.int32),
        )

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
        for records in _batches_of_records(path):
            number += len(records)
            yield records
        if wanted is not None and number != wanted:
            raise InputError(
                f"{path}: damaged, {number} photos instead of {wanted}. Delete it and run `imagesent prepare` again."
            )


def refuse_foreign(path, settings):
    """Stops at a shard that other settings than these have made."""
    for record in _batches_of_records(path, 1):
        if parse_records(record)["made_by"][0].numpy().decode() != digest(settings):
            raise InputError(f"{path}: made with other settings than {SETTINGS_FILE} beside it. Delete it.")
        return


def _batches_of_records(path, number=128):
    """The serialized records of a shard, some at a time."""
    import tensorflow as tf

    try:
        yield from tf.data.TFRecordDataset(str(path)).batch(number)
    except tf.errors.OpError as error:
        raise InputError(f"{path}: damaged ({error.message}). Delete it and run `imagesent prepare` again.") from None


def parse_records(records):
    """Serialized records (n,) -> their fields; vectors stay bytes, sentences are ragged."""
    import tensorflow as tf

    strings = ["filename", "split", "region_features", "boxes", "box_scores", "made_by"]
    integers = ["photo_id", "width", "height", "number_of_regions"]
    return tf.io.parse_example(
        records,
        {name: tf.io.FixedLenFeature((), tf.string) for name in strings}
        | {name: tf.io.FixedLenFeature((), tf.int64) for name in integers}
        | {name: tf.io.RaggedFeature(tf.int64) for name in ("token_ids", "lengths", "sentence_ids")}
        | {"captions": tf.io.RaggedFeature(tf.string)}
        | {
            name: tf.io.FixedLenFeature((), tf.string, "") for name in ("class_scores", "data_set")
        },  # new: may be absent
    )


def encode_record(fields):
    """One photo as a serialized tf.train.Example, the same bytes for the same photo.

    Strings, arrays (kept as their bytes) and integers or lists of them, by the names of `parse_records`.
    """
    import tensorflow as tf

    def feature(value):
        if isinstance(value, np.ndarray):
            value = value.tobytes()
        values = value if isinstance(value, list) else [value]
        if values and isinstance(values[0], (str, bytes)):
            texts = [text.encode() if isinstance(text, str) else text for text in values]
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    example = tf.train.Example(
        features=tf.train.Features(feature={name: feature(value) for name, value in fields.items()})
    )
    return example.SerializeToString(deterministic=True)


class ShardWriter:
    """Writes one shard in parts, each whole or absent, so that a killed run loses at most one part.

    Parts are TFRecord files, and TFRecord files put behind each other are one: the finished shard is their sum.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.parts = self.path.with_name(f".{self.path.name}.parts")

    def has(self, part):
        return (self.parts / f"{part:05d}").is_file()

    def write(self, part, records):
        import tensorflow as tf

        self.parts.mkdir(parents=True, exist_ok=True)
        path = self.parts / f"{part:05d}"
        try:
            with whole_file(path) as unfinished, tf.io.TFRecordWriter(str(unfinished)) as writer:
                for record in records:
                    writer.write(record)
        except tf.errors.OpError as error:
            raise InputError(f"{path}: cannot be written ({error.message}). Is the disk full?") from None

    def finish(self, number_of_parts):
        """Joins the parts to the shard; nothing is left of them."""
        with whole_file(self.path) as unfinished, open(unfinished, "wb") as shard:
            for part in range(number_of_parts):
                shard.write((self.parts / f"{part:05d}").read_bytes())
        self.clear()

    def clear(self):
        """Removes the parts, which a run that was killed may have left beside the finished shard."""
        shutil.rmtree(self.parts, ignore_errors=True)


def shard_name(split, index, number):
    return f"{split}-{index:05d}-of-{number:05d}.tfrecord"


def digest(settings):
    """A short name of a set of settings, carried by every record that they made."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def read_counts(folder):
    """Shard's name -> its number of photos; empty for folders of older versions, which do not tell."""
    path = Path(folder) / COUNTS_FILE
    try:
        counts = json.loads(path.read_text("utf-8"))
        if not all(type(number) is int for number in counts.values()):
            raise ValueError
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, RecursionError):
        raise InputError(f"{path}: damaged. Run the same `imagesent prepare` again: it writes it anew.") from None
    return counts


def read_settings(folder):
    """The settings in a prepared folder's `prepared.json`."""
    path = Path(folder) / SETTINGS_FILE
    try:
        settings = json.loads(path.read_text("utf-8"))
        if settings["format"] != FORMAT:
            raise InputError(f"{path}: format {settings['format']}, this version reads {FORMAT}. Prepare it again.")
        for split in settings["splits"].values():
            range(split["photos"]), range(split["shards"])
        for name in ("number_of_regions", "feature_dim"):
            range(settings[name])
    except FileNotFoundError:
        raise InputError(
            f"{folder}: not a prepared folder (no {SETTINGS_FILE}). `imagesent prepare` makes one."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NotADirectoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: damaged ({error}). Run `imagesent prepare` into a new folder.") from None
    return settings


def missing_shards(folder):
    """The names of the shards that are not there yet, and how many there are to be."""
    splits = read_settings(folder)["splits"].items()
    names = [shard_name(split, n, content["shards"]) for split, content in splits for n in range(content["shards"])]
    return [name for name in names if not (Path(folder) / name).is_file()], len(names)


def list_problems(out, problems, oddities):
    """Writes `problems.json`: what was set aside, then what is used but looks odd."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    rows = [problem.to_json() for problem in problems] + [{**each.to_json(), "used": True} for each in oddities]
    write_json(out / PROBLEMS_FILE, rows)
