"""The token file of Flickr8k and Flickr30k (`photo.jpg#0<tab>caption`), with its lists of photos for each split."""

import re
from pathlib import Path

from keras_imagesent.data.entries import Entry, Problem, read_text
from keras_imagesent.errors import InputError

LINE = re.compile(r"(?P<filename>[^\t]+)#\d+[\t ]+(?P<caption>.*)")
# Flickr8k calls its lists Flickr_8k.trainImages.txt, Flickr30k Entities train.txt.
LISTS = ("*.trainImages.txt", "train.txt", "*.devImages.txt", "val.txt", "*.testImages.txt", "test.txt")


def name_splits(paths):
    """Lists of photos by the split that their names say: `Flickr_8k.devImages.txt` is dev."""
    named = {}
    for path in map(Path, paths):
        splits = re.findall("train|dev|val|test", path.name.lower())
        if len(splits) != 1 or splits[0] in named:
            raise InputError(f"{path}: the name of a split's list must say train, dev, val or test, each once")
        named[splits[0]] = path
    return named


def read_flickr_token(text, source, split_files=None):
    """A token file's text -> entries and problems.

    A photo that no list names is in no split and left out: Flickr8k has 91 of them.

    Args:
        text: what the file holds.
        source: its path.
        split_files: lists of photos, a name a line: split -> path, or paths that say their split; without them the
            lists beside the file.

    Example:

    >>> entries, problems = read_flickr_token(text, Path("Flickr8k.token.txt"), ["Flickr_8k.trainImages.txt"])
    """
    split_files = split_files or [path for name in LISTS for path in sorted(source.parent.glob(name))]
    if not split_files:
        raise InputError(
            f"no lists of the splits' photos beside {source}: "
            "name them, as in --split-files Flickr_8k.trainImages.txt Flickr_8k.devImages.txt"
        )
    split_files = split_files if isinstance(split_files, dict) else name_splits(split_files)
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
