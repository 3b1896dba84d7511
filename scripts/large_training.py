#!/usr/bin/env python3
"""Does a training of COCO's size stay within memory? Some steps of an alignment on made-up shards of 113,000 photos.

  scripts/large_training.py [--photos 113000] [--steps 200] [--preset paper] [--folder FOLDER]

The shards have COCO's size but few different photos: some shards are written, the others are links to them. Prints the
most memory that the process held, and fails above 4 GB.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_imagesent.data import shards  # noqa: E402
from keras_imagesent.data.atomic import write_json  # noqa: E402
from keras_imagesent.data.batches import pair_batches, steps_per_epoch  # noqa: E402
from keras_imagesent.data.prepared import Prepared  # noqa: E402
from keras_imagesent.data.vocabulary import Vocabulary  # noqa: E402
from keras_imagesent.presets import alignment_settings  # noqa: E402
from keras_imagesent.training.train_alignment import Trainer  # noqa: E402

REGIONS, FEATURES, CLASSES, WORDS, PER_SHARD, DIFFERENT = 20, 1280, 80, 8000, 500, 4
LIMIT = 4.0  # GB


def write_shards(folder, photos):
    """A prepared folder of so many made-up photos with five sentences of ten words each."""
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary([f"w{n}" for n in range(WORDS)], [9] * WORDS)
    vocabulary.save(folder / shards.VOCABULARY_FILE)
    number = -(-photos // PER_SHARD)
    sizes = {"train": {"photos": number * PER_SHARD, "shards": number}, "val": {"photos": PER_SHARD, "shards": 1}}
    settings = {"format": shards.FORMAT, "splits": sizes, "number_of_regions": REGIONS, "feature_dim": FEATURES}
    settings["classes"] = CLASSES
    write_json(folder / shards.SETTINGS_FILE, settings)
    names = [("train", shards.shard_name("train", n, number)) for n in range(number)]
    names.append(("val", shards.shard_name("val", 0, 1)))
    for place, (split, name) in enumerate(names):
        if DIFFERENT <= place < number:
            os.link(folder / names[place % DIFFERENT][1], folder / name)
            continue
        records = []
        for photo in range(place * PER_SHARD, (place + 1) * PER_SHARD):
            ids = rng.integers(1, WORDS + 1, 50)
            fields = {
                "photo_id": photo, "filename": f"{photo}.jpg", "split": split, "width": 256, "height": 256,
                "number_of_regions": REGIONS, "captions": [f"photo {photo} sentence {n}" for n in range(5)],
                "region_features": rng.random((REGIONS, FEATURES), np.float32).astype("<f2"),
                "boxes": np.tile(np.float32([0, 0, 1, 1]), (REGIONS, 1)).astype("<f4"),
                "box_scores": np.ones(REGIONS, "<f4"), "class_scores": np.zeros((REGIONS, CLASSES), "<f2"),
                "token_ids": ids.tolist(), "lengths": [10] * 5, "sentence_ids": list(range(photo * 5, photo * 5 + 5)),
                "made_by": shards.digest(settings),
            }  # fmt: skip
            records.append(shards.encode_record(fields))
        writer = shards.ShardWriter(folder / name)
        writer.write(0, records)
        writer.finish(1)
    return Prepared.open(folder)


def most_memory():
    """The most memory that this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=113_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--folder", type=Path, help="where to write the shards, 130 MB (a temporary folder)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        prepared = write_shards(Path(folder), args.photos)
        settings = alignment_settings(args.preset)
        trainer = Trainer(prepared, "val", {"seed": 0, "word_vectors": None, "start_from": None})
        started = time.perf_counter()
        model = trainer.build(settings, steps_per_epoch(prepared, "train", settings["batch_size"]))
        for batch in pair_batches(prepared, "train", settings["batch_size"]).take(args.steps):
            loss = model.train_on_batch({name: batch[name] for name in model.input})
        seconds = time.perf_counter() - started
    print(
        f"{args.photos} photos, {args.steps} steps in {seconds:.0f} s, loss {loss:.1f}: at most {most_memory():.2f} GB"
    )
    return int(most_memory() > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
