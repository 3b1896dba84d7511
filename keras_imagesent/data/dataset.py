"""A data set of photos and sentences: read in any of the known forms, recognised by content, and checked."""

import json
import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath

from keras_imagesent.data.entries import Problem, is_utf8, parse_json, read_text
from keras_imagesent.data.flickr_token import LINE, read_flickr_token
from keras_imagesent.data.karpathy import read_karpathy
from keras_imagesent.data.parquet import read_parquet
from keras_imagesent.data.photo_places import StoredPhoto, is_address, list_files
from keras_imagesent.data.table import EXPECTED, read_csv, read_jsonl
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.data.webdataset import read_tar
from keras_imagesent.errors import InputError

HOLD_PHOTOS = (".tar", ".parquet")


@dataclass
class Photo:
    """A photo with its sentences; `photo_id` is its number in the data set's order."""

    filename: str
    path: Path  # or another place of `photo_places` that has `read_bytes`
    split: str
    captions: list[str]
    photo_id: int
    where: str = ""  # the line of a table that names it first
    data_set: str = ""  # the name of its data set: as its file calls itself, or as it was joined
    digest: bytes | None = field(default=None, repr=False, compare=False)  # of its bytes, once somebody looked at it


@dataclass
class Dataset:
    """The photos of a data set, what was set aside with the reason, and what is used but looks odd."""

    photos: list[Photo]
    problems: list[Problem] = field(default_factory=list)
    oddities: list[Problem] = field(default_factory=list)

    @property
    def splits(self):
        """Split -> number of photos, in the data set's order."""
        return dict(Counter(photo.split for photo in self.photos))


def read_dataset(path, photos_dir=None, split_files=None, each=map):
    """Reads Karpathy JSON, COCO captions JSON, a Flickr token file, CSV or JSON Lines; the content tells which.

    WebDataset tars and Parquet files, told by their names, hold the photos themselves and may lie in an object store.

    Captions that are no UTF-8 or have no words, and photos without any caption, are set aside as problems. Whether
    the photos themselves are there and whole is `check_dataset`'s work.

    Args:
        path: the file with the sentences, or several (COCO has one for each split), or a folder of tars or of Parquet
            files.
        photos_dir: the folder with the photos, also `s3://...`; None for tars and Parquet files.
        split_files: for a token file, the lists of each split's photos (split -> path, or paths whose names say
            train, dev, val or test); the default is the lists beside it.
        each: like `map`; one that runs elsewhere reads the tars of a large collection faster.

    Example:

    >>> dataset = read_dataset("flickr8k/dataset.json", "flickr8k/images")
    >>> dataset.splits
    {'train': 6000, 'val': 1000}
    """
    sources = [
        str(source)
        for each_path in ([path] if isinstance(path, str | Path) else path)
        for source in _files_of(each_path)
    ]
    holds_photos = [source.endswith(HOLD_PHOTOS) for source in sources]
    if not all(holds_photos):
        if photos_dir is None:
            raise InputError(f"{sources[0]}: give the folder that holds the photos (--photos)")
        if not is_address(photos_dir) and not Path(photos_dir).is_dir():
            raise InputError(f"no folder {photos_dir}: give the folder that holds the photos")
    if len({source if is_address(source) else Path(source).resolve() for source in sources}) < len(sources):
        raise InputError(f"{' '.join(map(str, sources))}: a file is named twice: its captions would count twice")
    entries, problems = [], []
    for more_entries, more_problems in each(partial(_read_entries, split_files=split_files), sources):
        entries += more_entries
        problems += more_problems
    entries = _merge(entries)

    photos = []
    for photo_id, entry in enumerate(entries):
        reason = _bad_name(entry)
        captions = [] if reason else _whole_captions(entry, problems)
        if not reason and not captions:
            reason = "has no caption"
        if reason:
            problems.append(Problem(entry.filename.encode(errors="replace").decode(), reason, _line(entry, 0)))
        else:
            place = entry.place or _locate(photos_dir, entry)
            where = _line(entry, 0)
            photos.append(Photo(entry.filename, place, entry.split, captions, photo_id, where, entry.data_set))
    if not photos:
        first = f" ({problems[0].item}: {problems[0].reason})" if problems else ""
        raise InputError(f"{' '.join(map(str, sources))}: no photo with a caption in it{first}")
    return Dataset(photos, problems, find_oddities(entries))


def _line(entry, number):
    """Where a caption of an entry stands, "" if its file has no lines to name."""
    return entry.lines[number] if number < len(entry.lines) else ""


def find_oddities(entries, share=0.01, least=10):
    """Captions that stand twice under one photo, and those under more than a share of all photos ("untitled").

    Both are used all the same: two people may write the same words.

    Example:

    >>> find_oddities([Entry("a.jpg", "train", ["A dog.", "a dog"])])
    [Problem(item='a.jpg', reason="the caption 'a dog' stands there twice")]
    """
    oddities, photos_of = [], defaultdict(list)
    for entry in entries:
        first = {}
        for number, caption in enumerate(entry.captions):
            words = " ".join(tokenize(caption)) if isinstance(caption, str) else ""
            if words in first:
                place = " and ".join(filter(None, (_line(entry, first[words]), _line(entry, number))))
                oddities.append(Problem(entry.filename, f"the caption {caption[:60]!r} stands there twice", place))
            elif words:
                first[words] = number
        for words, number in first.items():
            photos_of[words].append((entry, number))
    for uses in photos_of.values():
        if len(uses) > max(least, share * len(entries)):
            (entry, number), times = uses[0], len(uses)
            reason = f"the caption {entry.captions[number][:60]!r} stands under {times} photos: does it describe them?"
            oddities.append(Problem(entry.filename, reason, _line(entry, number)))
    return oddities


def _files_of(path):
    """A data set's file itself, or the tars (else the Parquet files) of a folder, also in an object store."""
    if str(path).endswith(HOLD_PHOTOS) or not (is_address(path) or Path(path).is_dir()):
        return [path]
    files = list_files(path, ".tar") or list_files(path, ".parquet")  # img2dataset's Parquet beside tars has no photos
    if not files:
        raise InputError(f"{path} is a folder: name the file in it that holds the captions, or a folder of tars")
    return files


def _read_entries(source, split_files):
    """Recognises a file by its content and reads it: entries and problems."""
    if source.endswith(".tar"):
        return read_tar(source)
    if source.endswith(".parquet"):
        return read_parquet(source), []
    source = Path(source)
    text = read_text(source)
    first_line = text.lstrip().partition("\n")[0]
    if LINE.fullmatch(first_line.rstrip("\r")):
        return read_flickr_token(text, source, split_files)
    if split_files:
        raise InputError(f"{source} names its splits itself: split lists belong to a Flickr token file")
    if first_line[0] not in "{[":
        return read_csv(text, source)
    if _is_json_object(first_line) and (text.count("\n") > 1 or "filename" in json.loads(first_line)):
        return read_jsonl(text, source)
    content = parse_json(text, source)
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not images:
        raise InputError(f"{source} is no data set I know: its JSON has no list of images; {EXPECTED}")
    if "annotations" in content:
        from keras_imagesent.data.coco import read_coco  # pycocotools brings matplotlib: late

        return read_coco(content, source)
    return read_karpathy(content, source), []


def _is_json_object(line):
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _merge(entries):
    """One entry for each photo. A photo in two splits would be trained on and tested on: that stops everything."""
    merged, leaks = {}, {}
    for entry in entries:
        known = merged.setdefault(entry.filename, replace(entry, captions=[], lines=[]))
        if known.place != entry.place:
            raise InputError(f"two photos are called {entry.filename}: {known.place}; {entry.place}")
        known.captions += entry.captions
        known.lines += entry.lines
        if known.split != entry.split:
            leaks[entry.filename] = f"{entry.filename} is in {known.split} and in {entry.split}"
    if leaks:
        raise leak_error(list(leaks.values()))
    return list(merged.values())


def leak_error(leaks):
    """The error for photos in two splits."""
    rest = f", and {len(leaks) - 1} more photos" if len(leaks) > 1 else ""
    return InputError(f"a photo stands in two splits: {leaks[0]}{rest}; leave it in one of them")


def _bad_name(entry):
    """Why an entry's file name or split cannot be used, or None."""
    if not is_utf8(entry.filename + entry.folder) or "\0" in entry.filename + entry.folder:
        return "its file name is not UTF-8 text"
    name = PurePosixPath(entry.folder, entry.filename)
    if not entry.filename or name.is_absolute() or ".." in name.parts:
        return "its file name leads out of the photos' folder"
    if not re.fullmatch(r"\w[\w-]*", entry.split):  # it becomes part of the shards' names
        return f"its split {entry.split!a} is not a plain name of letters, digits, _ and -"
    return None


def _whole_captions(entry, problems):
    """The captions of an entry that can be used; the others go to the problems."""
    whole = []
    for number, caption in enumerate(entry.captions):
        item = f"{entry.filename} caption {number}"
        if not isinstance(caption, str) or not is_utf8(caption):
            problems.append(Problem(item, "not UTF-8 text", _line(entry, number)))
        elif not tokenize(caption):
            problems.append(Problem(item, "has no words", _line(entry, number)))
        else:
            whole.append(" ".join(caption.split()))
    return whole


def _locate(photos_dir, entry):
    """Where a photo lies: in the folder its file names (COCO's val2014/) or straight in the photos' folder."""
    if is_address(photos_dir):
        return StoredPhoto("/".join([str(photos_dir).rstrip("/"), *filter(None, [entry.folder]), entry.filename]))
    photos_dir = Path(photos_dir)
    inside = photos_dir / entry.folder / entry.filename
    return inside if entry.folder and os.path.exists(inside) else photos_dir / entry.filename


def join_datasets(datasets: dict[str, Dataset]) -> Dataset:
    """Several data sets as one: each photo knows the name of its set, and photos are numbered anew.

    Example:

    >>> join_datasets({"flickr8k": read_dataset("f.json", "f"), "coco": read_dataset("c.csv", "c")}).splits
    {'train': 36352, 'val': 1894}
    """
    photos, problems, oddities, seen = [], [], [], {}
    for name, dataset in datasets.items():
        for photo in dataset.photos:
            if photo.filename in seen:
                raise InputError(
                    f"{photo.filename} is a photo of {seen[photo.filename]} and of {name}: photos are known by their "
                    "file names, so rename one of them"
                )
            seen[photo.filename] = name
            photos.append(replace(photo, photo_id=len(photos), data_set=name))
        problems += [replace(problem, item=f"{name}: {problem.item}") for problem in dataset.problems]
        oddities += [replace(oddity, item=f"{name}: {oddity.item}") for oddity in dataset.oddities]
    return Dataset(photos, problems, oddities)
