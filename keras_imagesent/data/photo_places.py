"""Photos that are not files of their own: a part of a tar, a row of a Parquet file, an object in a store.

Each place has `read_bytes`, as a `pathlib.Path` has, so that whoever reads a photo need not know where it lies.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require


@dataclass(frozen=True)
class StoredPhoto:
    """The bytes of a file, local or in an object store (`s3://bucket/00000.tar`), from `offset` on, all or `size`."""

    file: str
    offset: int = 0
    size: int = -1

    def read_bytes(self):
        with open_file(self.file) as file:
            file.seek(self.offset)
            return file.read(self.size if self.size >= 0 else None)

    def __str__(self):
        return self.file if self.size < 0 else f"{self.file} at byte {self.offset}"


@dataclass(frozen=True)
class ParquetPhoto:
    """A row of a Parquet file's column of photos; neighbours share one reading of their row group."""

    file: str
    column: str
    row_group: int
    row: int

    def read_bytes(self):
        value = _read_row_group(self.file, self.column, self.row_group)[self.row].as_py()
        value = value["bytes"] if isinstance(value, dict) else value  # Hugging Face: {"bytes": ..., "path": ...}
        return value or b""

    def __str__(self):
        return f"{self.file}, row {self.row} of row group {self.row_group}"


@lru_cache(maxsize=2)  # batches go through a file in order, so at most two row groups are in use
def _read_row_group(file, column, row_group):
    parquet = require("pyarrow.parquet", extra="ray")
    with open_file(file) as source:
        return parquet.ParquetFile(source).read_row_group(row_group, columns=[column]).column(column).combine_chunks()


def is_address(path):
    """Whether a path leads into an object store: `s3://`, `gs://`, `hdfs://`, also `file://`."""
    return "://" in str(path)


@contextmanager
def open_file(path):
    """A local file or an object of a store, open for reading at any place."""
    if is_address(path):
        fs = require("pyarrow.fs", extra="ray")
        try:
            store, inside = fs.FileSystem.from_uri(str(path))
        except (ValueError, OSError) as error:
            raise InputError(f"{path}: no object store that can be read ({str(error).splitlines()[0]})") from None
        with store.open_input_file(inside) as file:
            yield file
    else:
        with open(path, "rb") as file:
            yield file


def list_files(folder, endings):
    """The files of a local folder or of a store whose names end so, in order."""
    if not is_address(folder):
        return sorted(str(path) for path in Path(folder).iterdir() if path.name.endswith(endings))
    fs = require("pyarrow.fs", extra="ray")
    try:
        store, inside = fs.FileSystem.from_uri(str(folder))
        found = [info.path for info in store.get_file_info(fs.FileSelector(inside))]
    except (ValueError, OSError) as error:
        raise InputError(f"{folder}: cannot be listed ({str(error).splitlines()[0]})") from None
    scheme = str(folder).partition("://")[0]
    return sorted(f"{scheme}://{path}" for path in found if path.endswith(endings))
