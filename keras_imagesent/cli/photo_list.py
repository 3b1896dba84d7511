"""The photos a person names: files, folders, patterns, or a list on standard input."""

import glob
import sys
from collections import Counter
from pathlib import Path

from keras_imagesent.data.photo_formats import ENDINGS
from keras_imagesent.errors import InputError


def list_photos(names):
    """Paths of all photos named; `-` reads names from standard input, one a line, a folder gives all its photos.

    Missing paths are kept and reported later.

    Example:
        >>> list_photos(["dog.jpg", "holiday/", "scans/*.png"])
    """
    photos = []
    for name in names:
        if name == "-":
            photos += list_photos([line.strip() for line in sys.stdin if line.strip() and line.strip() != "-"])
        elif Path(name).is_dir():
            photos += photos_in(Path(name))
        elif not Path(name).exists() and glob.has_magic(name):
            found = sorted(map(Path, glob.glob(name, recursive=True)))
            if not found:
                raise InputError(f"no file matches {name}")
            photos += [path for path in found if path.is_file()]
        else:
            photos.append(Path(name))
    if not photos:
        raise InputError("no photo was named on standard input")
    return photos


def _waits(path):
    """Whether a path in a folder is a pipe, a socket or a device, which may never answer."""
    return path.exists() and not path.is_file()


def photos_in(folder):
    """The photos in a folder and those below it; one line on stderr says how many other files were skipped."""
    files = sorted(path for path in folder.rglob("*") if not (path.is_dir() or _waits(path)))
    photos = [path for path in files if path.suffix.lower() in ENDINGS]
    if not photos:
        raise InputError(f"{folder} holds no photo ({', '.join(ENDINGS)})")
    others = [path for path in files if path.suffix.lower() not in ENDINGS and not path.name.startswith(".")]
    skipped = Counter(path.suffix.lower() or "without an ending" for path in others)
    if skipped:
        kinds = ", ".join(f"{number} {kind}" for kind, number in skipped.most_common())
        print(f"imagesent: {folder}: {skipped.total()} files skipped that are no photos ({kinds})", file=sys.stderr)
    return photos


class Complaints:
    """One line on stderr for each photo that cannot be read; remembers that there was one."""

    def __init__(self):
        self.number = 0

    def __call__(self, photo, reason):
        self.number += 1
        print(f"imagesent: {photo}: {reason}", file=sys.stderr)

    @property
    def exit_status(self):
        return 1 if self.number else 0


def picture_path(wanted, photo, several):
    """Where a photo's picture goes: `wanted` itself or, if that is no picture's name, a file in that folder."""
    wanted = Path(wanted)
    if wanted.suffix.lower() in (".png", ".svg"):
        if several:
            raise InputError("several photos give several pictures: --picture names a folder then")
        return wanted
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted / f"{Path(photo).stem}.png"
