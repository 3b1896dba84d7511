"""A model out of a `.keras` file, which may be damaged, or made by somebody who means harm."""

import re
import zipfile
from pathlib import Path

from keras_imagesent.errors import InputError

ENTRY = re.compile(r"(metadata|config)\.json|model\.weights\.h5|model\.weights\.json|model_\d+\.weights\.h5")


def load_keras_file(path: str | Path):
    """The model of a `.keras` file, not compiled; one that is damaged or not Keras's own is refused in one line.

    Keras reads it in its safe mode, where nothing in the file can run. The archive's checksums are compared first:
    Keras reads its weights in a way that does not notice a flipped bit. Assets are refused: no model of ours has any,
    and Keras would unpack them under names that the file chooses (CVE-2026-12479).

    Example:

    >>> model = load_keras_file("runs/captioner/model.keras")
    """
    import keras

    path = Path(path)
    if path.is_dir() or not path.exists():
        raise InputError(f"{path} is no .keras file: name a file that Keras saved")
    try:
        check_archive(path)
        with zipfile.ZipFile(path) as archive:
            strange = [name for name in archive.namelist() if not ENTRY.fullmatch(name)]
        if strange:
            raise InputError(f"{path} is no Keras model that can be read: it holds {strange[0]!r:.80}")
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except InputError:
        raise
    except Exception as error:  # Keras, h5py and zipfile raise anything on a file that is wrong
        line = (str(error).splitlines() or [""])[0][:300]
        raise InputError(f"{path} is no Keras model that can be read: {line or type(error).__name__}") from None


def check_archive(path: str | Path) -> None:
    """Compares a zip archive (.keras, .npz) with its own checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except Exception as error:  # zipfile raises several kinds on damaged files
        raise InputError(f"{path} is damaged: {error}. Take a copy that is whole") from None
    if damaged:
        raise InputError(f"{path} is damaged: the checksum of {damaged} in it is wrong. Take a copy that is whole")
