"""Turns what people type into values, or says in one line what is wrong with it."""

import argparse
import os
import re
from pathlib import Path

from keras_imagesent.errors import InputError


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


def data_sets(files, folders):
    """`["a=x.json", "b=y.csv"], ["a=x", "b=y"]` -> `{"a": [x.json], "b": [y.csv]}, {"a": x, "b": y}`; one set needs no
    name."""
    of_name = {}
    for text in files:
        name, file = named(text)
        of_name.setdefault(name, []).append(file)
    photos = dict(named(text) for text in folders)
    without = {name for name, of_set in of_name.items() if name not in photos and not all(map(holds_photos, of_set))}
    if len(photos) < len(folders) or set(photos) - set(of_name) or without:
        names = ", ".join(name or "without a name" for name in of_name)
        raise InputError(f"--photos needs one folder for each data set ({names}), as NAME=FOLDER if there are several.")
    return of_name, photos


def holds_photos(file):
    """Whether a data set's file, or folder of files, holds the photos too: tars and Parquet."""
    return str(file).endswith((".tar", ".parquet")) or "://" in str(file) or Path(file).is_dir()


def named(text):
    """Splits `name=path`. A text that is an existing path has no name. An object store's address stays text."""
    name, equals, path = text.partition("=")
    if not equals or os.path.exists(text) or not re.fullmatch(r"\w[\w-]*", name):
        name, path = "", text
    return name, path if "://" in path else Path(path)
