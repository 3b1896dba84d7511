"""Photos read from their files, a few at a time."""

from pathlib import Path

from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError

PHOTOS_AT_ONCE = 8


def read_in_batches(photos, complain):
    """`(paths, their bytes)`, a few photos at a time; files that cannot be opened are complained of and left out."""
    paths, contents = [], []
    for number, path in enumerate(photos, start=1):
        try:
            contents.append(to_decodable(Path(path).read_bytes()))
            paths.append(path)
        except OSError as error:
            complain(path, error.strerror or "cannot be read")
        except InputError as error:
            complain(path, error)
        if paths and (len(paths) == PHOTOS_AT_ONCE or number == len(photos)):
            yield paths, contents
            paths, contents = [], []
    if paths:
        yield paths, contents
