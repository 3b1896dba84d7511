"""What a run folder says of itself: `settings.json` and `best/scores.json`, checked before anybody believes them."""

import json
import math
from pathlib import Path

from keras_imagesent.errors import InputError

MOST_BEAM = 1000  # a wider beam finds nothing more and takes all memory


def read_settings(run: str | Path) -> dict:
    """The settings of a run, named by its folder or a file in it; empty if there are none.

    Example:

    >>> read_settings("runs/captioner")["beam"]
    3
    """
    path = _folder(run) / "settings.json"
    settings = _read_object(path) if path.is_file() else {}
    if "regions" in settings:  # of older runs: "all" or "whole-frame"
        settings["whole_frame"] = settings.pop("regions") == "whole-frame"
    beam, penalty, beta = settings.get("beam", 3), settings.get("length_penalty", 0.7), settings.get("beta")
    if not (_is_number(beam) and beam == int(beam) and 1 <= beam <= MOST_BEAM):
        raise InputError(f"{path}: a beam of {beam!r:.40}; it must be a whole number from 1 to {MOST_BEAM}")
    if not _is_number(penalty):
        raise InputError(f"{path}: a length_penalty of {penalty!r:.40}; it must be a number")
    if beta is not None and not (_is_number(beta) and beta >= 0):
        raise InputError(f"{path}: a beta of {beta!r:.40}; it must be a number, 0 or more")
    return settings


def read_best(run: str | Path) -> list[dict]:
    """A run's best epochs, best first, each with its `scores` and, where the epochs were kept, its `file`.

    Empty if there are none. Shipped models tell their scores without bringing the epochs.
    """
    path = _folder(run) / "best" / "scores.json"
    if not path.is_file():
        return []
    best = _read_object(path).get("best")
    try:
        for entry in best:
            file = entry.get("file", "")
            if Path(file).name != file or not all(map(_is_number, entry["scores"].values())):
                raise ValueError
        if not best:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path} is damaged: it does not list the best epochs. Train into a new folder") from None
    return best


def _folder(run):
    run = Path(run)
    return run if run.is_dir() else run.parent


def _read_object(path):
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: no JSON text ({' '.join(str(error).split())[:80]})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged: it holds no settings but {type(content).__name__}")
    return content


def _is_number(value):
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int of hundreds of digits
        return False
