"""Reads Parquet files that hold the photos themselves, of img2dataset, Hugging Face or one's own."""

from pathlib import PurePosixPath

from keras_imagesent.data.entries import Entry
from keras_imagesent.data.photo_places import ParquetPhoto, open_file
from keras_imagesent.errors import InputError
from keras_imagesent.extras import require

PHOTOS = ("image", "jpg", "jpeg", "png", "image_bytes")
CAPTIONS = ("captions", "caption", "text", "txt", "sentences")
NAMES = ("filename", "key", "__key__")


def read_parquet(path):
    """Entries of a Parquet file: a column of photos (bytes, or a struct with `bytes`), one of captions (a string or a
    list), perhaps a name and a `split` (train). Photos stay where they are.

    Example:
        entries = read_parquet("train-00000-of-00004.parquet")
    """
    pyarrow, parquet = require("pyarrow", extra="ray"), require("pyarrow.parquet", extra="ray")
    try:
        with open_file(path) as source:
            return _read(parquet.ParquetFile(source), str(path))
    except FileNotFoundError:
        raise InputError(f"no file {path}: check the path") from None
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{path}: no Parquet file ({str(error).splitlines()[0]})") from None


def _read(file, path):
    columns = file.schema_arrow.names
    photo, caption, name = (next((c for c in known if c in columns), None) for known in (PHOTOS, CAPTIONS, NAMES))
    if photo is None or caption is None:
        raise InputError(
            f"{path}: a Parquet data set has a column of photos ({', '.join(PHOTOS)}) and one of captions "
            f"({', '.join(CAPTIONS)}). Received: {', '.join(columns)}"
        )
    stem, entries = PurePosixPath(path).stem, []
    wanted = [column for column in (caption, name, "split") if column in columns]
    for group in range(file.num_row_groups):
        for row, about in enumerate(file.read_row_group(group, columns=wanted).to_pylist()):
            captions = about[caption] if isinstance(about[caption], list) else [about[caption]]
            captions = [text for text in captions if text is not None]
            place = ParquetPhoto(path, photo, group, row)
            own_name = about.get(name) or f"{group:05d}-{row:06d}"
            entries.append(Entry(f"{stem}/{own_name}", about.get("split") or "train", captions, place=place))
    return entries
