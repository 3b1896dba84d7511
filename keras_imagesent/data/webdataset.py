"""Reads WebDataset tars as img2dataset writes them: `000000017.jpg`, `.txt` and `.json` of one key stand together."""

import json
import tarfile
from pathlib import PurePosixPath

from keras_imagesent.data.entries import Entry, Problem
from keras_imagesent.data.photo_places import StoredPhoto, open_file
from keras_imagesent.errors import InputError

PHOTOS = ("jpg", "jpeg", "png", "gif", "bmp", "webp")


def read_tar(path):
    """Entries and problems of a tar: the `.txt` is the caption (each line is one), else `caption` in the `.json`, which
    may also name the `split` (train). Photos stay where they are.

    Example:
        entries, problems = read_tar("laion/00000.tar")
        entries[0].place  # StoredPhoto(file='laion/00000.tar', offset=1536, size=23017)
    """
    samples = {}
    try:
        with open_file(path) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                key, dot, ending = member.name.rpartition(".")
                if not member.isfile() or not dot:
                    continue
                sample, ending = samples.setdefault(key, {}), ending.lower()
                if ending in PHOTOS:
                    sample["photo"] = PurePosixPath(member.name).name
                    sample["place"] = StoredPhoto(str(path), member.offset_data, member.size)
                elif ending in ("txt", "json"):
                    sample[ending] = tar.extractfile(member).read()
    except FileNotFoundError:
        raise InputError(f"no file {path}: check the path") from None
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{path}: no whole tar without compression ({error})") from None
    entries, problems = [], []
    for key, sample in samples.items():
        name = f"{PurePosixPath(str(path)).stem}/{sample.get('photo', key)}"
        if "place" not in sample:
            problems.append(Problem(name, "has no photo"))
            continue
        try:
            about = json.loads(sample.get("json", b"{}"))
            about = about if isinstance(about, dict) else {}
        except ValueError:
            problems.append(Problem(name, "its .json is damaged"))
            continue
        captions = sample["txt"].decode("utf-8", "surrogateescape").splitlines() if "txt" in sample else []
        captions = [text for text in captions if text.strip()] or [text for text in [about.get("caption")] if text]
        entries.append(Entry(name, about.get("split") or "train", captions, place=sample["place"]))
    return entries, problems
