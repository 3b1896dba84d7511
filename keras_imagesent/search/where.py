"""Which photos a search looks at: of a folder, of a split, of some days."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath

from PIL import Image

from keras_imagesent.data.photo_check import FORMATS
from keras_imagesent.errors import InputError

TAKEN, CHANGED = 0x9003, 0x0132  # EXIF: when the photo was taken; when the file was written
EXIF_DATA = 0x8769


@dataclass(frozen=True)
class Where:
    """What a photo must be like; None does not matter.

    Args:
        folder: the folder it lies in, or one above that.
        split: of the data set it came from.
        after: its day or a later one, "2024-05-31".
        before: an earlier day than this.

    Example:
        collection.search_photos(words, where=Where(folder="/photos/2024", after="2024-05-01"))
    """

    folder: str | None = None
    split: str | None = None
    after: str | None = None
    before: str | None = None

    def __post_init__(self):
        for day in (self.after, self.before):
            if day is not None:
                try:
                    datetime.fromisoformat(day)
                except ValueError:
                    raise InputError(f"{day!r} is no day such as 2024-05-31") from None

    def matches(self, path, about):
        """Whether a photo at `path` with `about` (`split`, `date`) is meant."""
        date = about.get("date")
        return (
            (self.folder is None or self.folder in folders_of(path))
            and (self.split is None or self.split == about.get("split"))
            and (self.after is None or (date is not None and date >= self.after))
            and (self.before is None or (date is not None and date < self.before))
        )


def folders_of(path):
    """The folders that a photo lies in, the nearest first: "/a/b/c.jpg" -> ["/a/b", "/a", "/"]."""
    return [str(folder) for folder in PurePath(path).parents] if path else []


def about_photo(path):
    """The `date` a photo was taken (EXIF), else its file's, and the file's `version`; {} where there is no file."""
    path = Path(path)
    try:
        file = path.stat()
    except OSError:
        return {}
    return {
        "date": _date_taken(path) or datetime.fromtimestamp(file.st_mtime).isoformat(timespec="seconds"),
        "version": f"{file.st_size}-{file.st_mtime_ns}",
    }


def _date_taken(path):
    try:
        with Image.open(path, formats=[*FORMATS, "WEBP", "TIFF", "AVIF", "HEIF"]) as photo:
            exif = photo.getexif()
        text = exif.get_ifd(EXIF_DATA).get(TAKEN) or exif.get(CHANGED)
        return datetime.strptime(text, "%Y:%m:%d %H:%M:%S").isoformat()
    except Exception:  # of damaged photos Pillow raises anything; text may be None or nonsense
        return None
