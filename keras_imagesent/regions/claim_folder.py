"""Who may write a prepared folder: one set of settings, and one run at a time unless the work is shared."""

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import contextmanager, suppress

import numpy as np

from keras_imagesent.data import shards
from keras_imagesent.data.atomic import write_json
from keras_imagesent.errors import InputError


@contextmanager
def only_run(out, alone):
    """Keeps a second run out of the folder; machines that share the work (`--shard`) may be there together.

    Gives a function that waits until the others have gone, for what one alone may do.
    """
    folder = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(folder, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        yield lambda: fcntl.flock(folder, fcntl.LOCK_EX)
    except BlockingIOError:
        raise InputError(
            f"{out}: another `imagesent prepare` is writing there. Wait for it, or name another folder."
        ) from None
    finally:
        os.close(folder)


def claim(out, settings, vocabulary):
    """Marks the folder with the settings, or refuses one that other settings have marked.

    Where the folder knows less of the photos than the settings, or more, the settings become the folder's.
    """
    # listed before looking for the settings, which another machine may be writing just now
    own = shards.PROBLEMS_FILE  # a run that stopped for too many broken photos leaves this alone
    strange = [path for path in out.iterdir() if not path.name.startswith(".") and path.name != own]
    if (out / shards.SETTINGS_FILE).exists():
        there = shards.read_settings(out)
        known = there.get("photos")
        if known and settings["photos"] and known != settings["photos"]:
            raise InputError(
                f"{out}: begun with other photos of the same names. Put them back, or name another folder with --out."
            )
        settings["photos"] = known
        if "photos" not in there:  # begun by an older version, which did not note it
            del settings["photos"]
        differences = [name for name in {**there, **settings} if there.get(name) != settings.get(name)]
        if differences:
            name = differences[0]
            raise InputError(
                f"{out}: made with other settings ({name} {there.get(name)!r}, now {settings.get(name)!r}). "
                "Name another folder with --out, or delete this one."
            )
    elif strange:
        raise InputError(f"{out}: not empty and not a prepared folder. Name another folder with --out.")
    else:
        write_json(out / shards.SETTINGS_FILE, settings)  # first: it makes the folder ours
    vocabulary.save(out / shards.VOCABULARY_FILE)


def give_back(out):
    """Leaves nothing of a run that failed before its first batch was written."""
    if any(out.glob("*.tfrecord")) or any(out.glob(".*.tfrecord.parts/?????")):
        return
    for parts in out.glob(".*.tfrecord.parts"):
        shutil.rmtree(parts)
    for name in (shards.SETTINGS_FILE, shards.VOCABULARY_FILE):
        (out / name).unlink()
    with suppress(OSError):  # there was something of the user's in it
        out.rmdir()


def photos_digest(photos):
    """Names what the photos hold; None if nobody has looked at them (`check_dataset` does)."""
    if not all(photo.digest for photo in photos):
        return None
    return hashlib.sha256(b"".join(photo.digest for photo in photos)).hexdigest()[:16]


def data_digest(photos):
    """Names the data set: the photos' names, splits and captions."""
    lines = [[photo.photo_id, photo.filename, photo.split, list(photo.captions)] for photo in photos]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]


def weights_digest(model):
    """Names a model's weights."""
    weights = hashlib.sha256()
    for weight in model.get_weights():
        weights.update(np.ascontiguousarray(weight).tobytes())
    return weights.hexdigest()[:16]
