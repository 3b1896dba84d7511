"""The files of a prepared folder: region vectors, boxes and sentences of every photo in TFRecord shards.

prepared.json                    the settings; a folder holds the work of one set of settings only
vocabulary.json
problems.json                    what was set aside, with the reason
shards.json                      how many photos each shard holds, written last
train-00000-of-00011.tfrecord    one record a photo, in the data set's order
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

from keras_imagesent.data.atomic import whole_file, write_json
from keras_imagesent.errors import InputError

FORMAT = 1
SETTINGS_FILE = "prepared.json"
VOCABULARY_FILE = "vocabulary.json"
PROBLEMS_FILE = "problems.json"
COUNTS_FILE = "shards.json"


def refuse_foreign(path, settings):
    """Stops at a shard that other settings than these have made."""
    for record in batches_of_records(path, 1):
        if parse_records(record)["made_by"][0].numpy().decode() != digest(settings):
            raise InputError(f"{path}: made with other settings than {SETTINGS_FILE} beside it. Delete it.")
        return


def batches_of_records(path, number=128):
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


def list_problems(out, problems, oddities):
    """Writes `problems.json`: what was set aside, then what is used but looks odd."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    rows = [problem.to_json() for problem in problems] + [{**each.to_json(), "used": True} for each in oddities]
    write_json(out / PROBLEMS_FILE, rows)
