"""The token file of Flickr8k and Flickr30k (`photo.jpg#0<tab>caption`), with its lists of photos for each split."""

import re
from pathlib import Path

from keras_imagesent.data.entries import Entry, Problem, read_text
from keras_imagesent.errors import InputError

LINE = re.compile(r"(?P<filename>[^\t]+)#\d+[\t ]+(?P<caption>.*)")
# Flickr8k calls its lists Flickr_8k.trainImages.txt, Flickr30k Entities train.txt.
LISTS = {"train": ("*.trainImages.txt", "train.txt"), "dev": ("*.devImages.txt",), "val": ("val.txt",)}
LISTS["test"] = ("*.testImages.txt", "test.txt")


def find_split_files(folder):
    """The split lists that lie beside a token file: split -> path."""
    found = {split: [path for name in names for path in sorted(folder.glob(name))] for split, names in LISTS.items()}
    return {split: paths[0] for split, paths in found.items() if paths}


def read_flickr_token(text, source, split_files=None):
    """A token file's text -> entries and problems.

    A photo that no list names is in no split and left out: Flickr8k has 91 of them.

    Args:
        text: what the file holds.
        source: its path.
        split_files: split -> list of photos, a name a line; without it the lists beside the file.

    Example:

    >>> entries, problems = read_flickr_token(text, Path("Flickr8k.token.txt"), {"train": "Flickr_8k.trainImages.txt"})
    """
    split_files = split_files or find_split_files(source.parent)
    if not split_files:
        raise InputError(
            f"no split lists beside {source}: name them, as in --split-file train=Flickr_8k.trainImages.txt "
            "--split-file dev=Flickr_8k.devImages.txt"
        )
    captions, problems = {}, []
    for number, line in enumerate(text.split("\n"), start=1):
        match = LINE.fullmatch(line.rstrip("\r"))
        if match:
            captions.setdefault(match["filename"], []).append(match["caption"])
        elif line.strip():
            problems.append(Problem(f"{source.name} line {number}", "not of the form photo.jpg#0<tab>caption"))

    entries = []
    for split, path in split_files.items():
        names = [name for line in read_text(path).split("\n") if (name := line.strip())]
        # Flickr30k Entities lists the photos without their ending
        names = [name if name in captions or f"{name}.jpg" not in captions else f"{name}.jpg" for name in names]
        if not any(name in captions for name in names):
            raise InputError(f"{path}: none of its photos has a caption in {Path(source).name}; is it the right list?")
        entries += [Entry(name, split, captions.get(name, [])) for name in names]
    return entries, problems
