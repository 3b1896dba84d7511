"""Photos and sentences in, region vectors on disk, ready to train on.

Reads a data set (Karpathy JSON, COCO captions JSON, Flickr token file, CSV or JSONL of your own), sets broken photos
aside, finds up to 19 boxes in each photo, adds the whole frame, and writes a vector for each of the 20 regions.
Killed and started again it goes on where it was.

  imagesent prepare dataset.json --photos images --out prepared --set-aside 500
  imagesent prepare dataset.json --photos images --out prepared --shard 1/4    (the first of four machines)
  imagesent prepare captions_train2017.json captions_val2017.json --photos coco --out prepared
  imagesent prepare mine.csv --photos images --out prepared --backbone vgg16/fc2 --regions crop    (as in the paper)
  imagesent prepare flickr8k=dataset.json coco=captions.csv --photos flickr8k=f8k/images coco=coco/images --out prepared
  imagesent prepare test.csv --photos images --out prepared --words-of runs/alignment    (photos to measure a model on)
"""

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path

from keras_imagesent.errors import InputError


def add_arguments(parser):
    add = parser.add_argument
    add(
        "dataset",
        nargs="+",
        metavar="[NAME=]FILE",
        help="the data set's JSON (COCO: one a split), token file, CSV or JSONL; with names, several data sets in one",
    )
    add("--photos", nargs="+", required=True, metavar="[NAME=]FOLDER", help="where the photos are, of each data set")
    add("--out", type=Path, required=True, metavar="FOLDER", help="the prepared folder to write or to go on with")
    add("--split-files", type=Path, nargs="+", metavar="FILE", help="lists of file names, for a Flickr token file")
    add("--set-aside", type=whole_number, default=0, metavar="N", help="training photos of each set to move to tune")
    add("--words-of", type=Path, metavar="RUN", help="take a trained model's vocabulary, to measure it on these photos")
    add("--seed", type=whole_number, default=0, help="chooses the photos set aside (0)")
    add("--threshold", type=whole_number, default=5, help="words seen less often in training are dropped (5)")
    add("--max-broken", type=share, default=0.01, metavar="SHARE", help="stop if more than this is broken (0.01)")
    add("--image-size", type=image_size, default=384, metavar="S", help="photos are squashed to S x S pixels (384)")
    add("--backbone", default="efficientnet-lite2", help="a name, also of keras.applications, or a .keras file")
    add(
        "--detector",
        default="yolov4-tiny",
        help="yolov4-tiny, grid, a SavedModel folder, a .json or .csv file of boxes, a .keras file, or a Model Garden "
        "experiment such as fasterrcnn_resnetfpn_coco",
    )
    add("--trust-detector", action="store_true", help="run a SavedModel given as --detector: it is a program")
    add("--detector-config", type=Path, metavar="FILE", help="params.yaml of the Model Garden experiment")
    add("--detector-checkpoint", metavar="PATH", help="its checkpoint, or the folder of its checkpoints")
    add("--regions", choices=("pool", "crop"), default="pool", help="one look at the photo, or one at each region")
    add("--shard", type=shard, default=(1, 1), metavar="I/N", help="do the I-th of N shares of the work")


def run(args):
    sources = data_sets(args.dataset, args.photos)
    for path, flag in [(file, "the data set") for files, _ in sources.values() for file in files] + [
        (folder, "--photos") for _, folder in sources.values()
    ]:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder ({flag}). Check the path.")
    place = next(place for place in (args.out, *args.out.absolute().parents) if place.exists())
    if not place.is_dir():
        raise InputError(f"{place}: a file. Name a folder with --out.")
    if not os.access(place, os.W_OK):
        raise InputError(f"{place}: you may not write there. Name another folder with --out.")
    from tqdm import tqdm

    from keras_imagesent.data.dataset import (
        TooManyBroken,
        check_dataset,
        join_datasets,
        read_dataset,
        set_aside,
        warn_of_few,
    )
    from keras_imagesent.data.shards import PROBLEMS_FILE, list_problems

    found = {name: read_dataset(files, folder, args.split_files) for name, (files, folder) in sources.items()}
    dataset = join_datasets(found) if list(found) != [""] else found[""]
    mention_oddities(dataset.oddities, args.out / PROBLEMS_FILE)
    try:
        dataset = check_dataset(dataset, args.max_broken, progress=partial(tqdm, desc="checking", unit="photo"))
    except TooManyBroken as error:
        if args.out.exists() and {path.name for path in args.out.iterdir()} - {PROBLEMS_FILE}:
            raise  # a folder of something else, or of an earlier run
        list_problems(args.out, error.problems, dataset.oddities)
        raise InputError(f"{error}. All of them: {args.out / PROBLEMS_FILE}") from None
    dataset = set_aside(dataset, args.set_aside, args.seed) if args.set_aside else dataset
    vocabulary = None
    if args.words_of:
        from keras_imagesent.data.vocabulary import Vocabulary

        folder = args.words_of if args.words_of.is_dir() else args.words_of.parent
        vocabulary = Vocabulary.load(folder / "vocabulary.json")
    elif "train" not in dataset.splits:
        raise InputError(
            f"no training photos, only {', '.join(dataset.splits)}: the vocabulary comes from a split called train. To "
            "measure a trained model on them, name it with --words-of."
        )

    if "train" in dataset.splits:
        warn_of_few(dataset.splits["train"])

    from keras_imagesent.regions.networks import choose_networks
    from keras_imagesent.regions.prepare import prepare

    networks = choose_networks(
        args.backbone,
        args.detector,
        args.regions,
        args.image_size,
        args.detector_config,
        args.detector_checkpoint,
        args.trust_detector,
    )
    prepare(
        dataset,
        args.out,
        networks.extractor,
        {**networks.made_with, "set_aside": args.set_aside, "seed": args.seed},
        boxes_of=networks.boxes_of,
        photos_at_once=networks.photos_at_once,
        threshold=args.threshold,
        machine=args.shard,
        max_broken=args.max_broken,
        vocabulary=vocabulary,
    )
    print_summary(args.out)


def mention_oddities(oddities, file):
    """One line on stderr for what is used but looks odd: the first of them, and how many more the file lists."""
    if oddities:
        more = f" (and {len(oddities) - 1} more: {file})" if len(oddities) > 1 else ""
        print(f"imagesent: {oddities[0]}{more}", file=sys.stderr)


def data_sets(files, folders):
    """`["a=x.json", "b=y.csv"], ["a=x", "b=y"]` -> `{"a": ([x.json], x), "b": ([y.csv], y)}`; one set needs no name."""
    of_name = {}
    for text in files:
        name, file = named(text)
        of_name.setdefault(name, []).append(file)
    photos = dict(named(text) for text in folders)
    if len(photos) < len(folders) or set(photos) != set(of_name):
        names = ", ".join(name or "without a name" for name in of_name)
        raise InputError(f"--photos wants one folder for each data set ({names}), as NAME=FOLDER if there are several.")
    return {name: (of_set, photos[name]) for name, of_set in of_name.items()}


def named(text):
    """`name=path` apart; what exists as it stands is a path without a name."""
    name, equals, path = text.partition("=")
    if not equals or os.path.exists(text) or not re.fullmatch(r"\w[\w-]*", name):
        return "", Path(text)
    return name, Path(path)


def print_summary(out):
    from keras_imagesent.data.shards import read_settings, shard_name

    splits = read_settings(out)["splits"]
    print(f"{out}: " + ", ".join(f"{split} {content['photos']} photos" for split, content in splits.items()))
    names = [
        shard_name(split, n, content["shards"]) for split, content in splits.items() for n in range(content["shards"])
    ]
    missing = sum(not (out / name).is_file() for name in names)
    if missing:
        print(f"This share is done. {missing} of {len(names)} shards belong to the other shares.", file=sys.stderr)
    else:
        print(f"What was set aside: {out / 'problems.json'}", file=sys.stderr)


def whole_number(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def image_size(text):
    size = whole_number(text)
    if not 32 <= size <= 2048:
        raise argparse.ArgumentTypeError(f"{text} pixels are not from 32 to 2048")
    return size


def share(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0 and 1")
    return value


def shard(text):
    index, _, number = text.partition("/")
    if not (index.isdecimal() and number.isdecimal() and 1 <= int(index) <= int(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of the work such as 1/4")
    return int(index), int(number)
