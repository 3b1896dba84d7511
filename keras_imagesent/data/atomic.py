"""Files and folders that appear whole or not at all, and folders with one writer at a time.

What is being written stands beside its place as `.unfinished-<name>`, locked by the process that writes it. A process
that is killed loses its lock, so whoever comes next may take the leftover over or remove it.
"""

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_imagesent.errors import InputError

UNFINISHED = ".unfinished-"


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, with the same ending; it takes its place when the block ends, and vanishes on an error.

    Example:

    >>> with whole_file("run/model.keras") as unfinished:
    ...     model.save(unfinished)
    """
    path = Path(path)
    unfinished, lock = _claim(path, _create_file)
    try:
        os.ftruncate(lock, 0)
        yield unfinished
        os.fsync(lock)  # else a loss of power may leave an empty file under the new name
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder to fill; it takes its place when the block ends, and vanishes on an error.

    The place must be free (or an empty folder) at that moment. The block may also move the folder away itself.

    Example:

    >>> with whole_folder("scenes") as unfinished:
    ...     (unfinished / "dataset.json").write_text("{}")
    """
    path = Path(path)
    unfinished, lock = _claim(path, _create_folder)
    try:
        yield unfinished
        if unfinished.exists():
            os.replace(unfinished, path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    finally:
        os.close(lock)


@contextmanager
def whole_files(folder: str | Path) -> Iterator[Path]:
    """An empty folder to fill; its files join those of `folder` when the block ends, and none of them on an error.

    A folder that is new or empty appears at once; into one that holds something the files move one after the other.

    Example:

    >>> with whole_files("exported/onnx") as unfinished:
    ...     (unfinished / "model.json").write_text("{}")
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists() or not any(folder.iterdir()):
        with whole_folder(folder) as unfinished:
            yield unfinished
        return
    remove_leftovers(folder)
    with whole_folder(folder / "files") as unfinished:
        yield unfinished
        for path in sorted(unfinished.iterdir()):
            os.replace(path, folder / path.name)
        unfinished.rmdir()


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Writes text (as UTF-8) or bytes under a temporary name, then moves them into place; returns the path."""
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def write_json(path: str | Path, content: object) -> Path:
    """Writes JSON for people to read, whole or not at all."""
    return write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def only_writer(folder: str | Path, busy: str | None = None) -> Iterator[None]:
    """Keeps other writers out of a folder, which is made if need be, and removes what a killed one left in it.

    Args:
        folder: any folder; readers are not kept out.
        busy: who else may be writing there, for the refusal; without it the second writer waits for the first.

    Example:

    >>> with only_writer("run", busy="another training"):
    ...     write_whole("run/settings.json", "{}")
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise InputError(f"{folder}: {busy} is writing there. Wait for it, or name another folder.") from None
        remove_leftovers(folder)
        yield
    finally:
        os.close(lock)


def remove_leftovers(folder: str | Path) -> None:
    """Removes what killed processes left unfinished in a folder; what a living one is writing stays."""
    for path in Path(folder).glob(f"{UNFINISHED}*"):
        lock = _lock(path)
        if lock is None:
            continue
        try:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(lock)


def _claim(path, create):
    """The unfinished twin of a path, empty and locked, and its lock; a second writer gets a twin of another name."""
    unfinished = path.with_name(UNFINISHED + path.name)
    while True:
        create(unfinished)
        lock = _lock(unfinished)
        if lock is not None:
            return unfinished, lock
        unfinished = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex[:8]}-{path.name}")


def _create_file(path):
    """Makes a file that is not there; one that is there may be somebody's and is left as it is."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666))


def _create_folder(path):
    """Makes a folder, in place of a killed process's leftover."""
    lock = _lock(path)
    if lock is not None:
        shutil.rmtree(path)
        os.close(lock)
    path.mkdir(exist_ok=True)


def _lock(path):
    """An open and locked file descriptor of a file or folder; None if it is gone or another process holds it."""
    try:
        lock = os.open(path, (os.O_RDONLY if os.path.isdir(path) else os.O_RDWR) | os.O_NOFOLLOW)
    except OSError:  # gone, or not ours
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # its writer may have moved it into place since it was opened: that file must not be written again
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None
