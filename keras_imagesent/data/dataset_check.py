"""Looks at every photo of a data set before the long work: broken ones are set aside, leaks are refused."""

import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from PIL import Image

from keras_imagesent.data.dataset import Dataset, leak_error
from keras_imagesent.data.entries import Problem
from keras_imagesent.data.photo_check import MISSING, look_at
from keras_imagesent.errors import InputError

FEW_PHOTOS = 1000


class TooManyBroken(InputError):
    """More of a data set is broken than is allowed; `problems` are all of them."""

    def __init__(self, message, problems):
        super().__init__(message)
        self.problems = problems


def check_dataset(dataset, max_broken=0.01, progress=None, each=None):
    """Sets broken photos aside, and stops when too many are broken or a photo leaks between splits.

    Args:
        dataset: what `read_dataset` gave.
        max_broken: the largest share of broken items; more of them raise an `InputError`.
        progress: wraps the photos as they are looked at, e.g. `tqdm`.
        each: like `map`, to look at the photos elsewhere; the default is this machine's threads.

    Example:

    >>> checked = check_dataset(read_dataset("dataset.json", "images"))
    >>> checked.problems
    [Problem(item='cut.jpg', reason='truncated: the file ends too early')]
    """
    pool = ThreadPoolExecutor(os.cpu_count())  # Pillow decodes without holding Python's lock
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # `look_at` has its own limit
            looks = (each or pool.map)(look_at, [photo.path for photo in dataset.photos])
            looks = list(progress(looks, total=len(dataset.photos)) if progress else looks)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for thousands of photos
    digests, reasons = zip(*looks, strict=True)

    if all(reason == MISSING for reason in reasons):
        first = dataset.photos[0]
        raise InputError(
            f"none of the {len(reasons)} photos is there (the first would be {first.path}): "
            "give the folder that holds them"
        )
    _refuse_leaks(dataset.photos, digests)
    pairs = list(zip(dataset.photos, reasons, strict=True))
    broken = [Problem(photo.filename, reason, photo.where) for photo, reason in pairs if reason]
    problems = [*dataset.problems, *broken]
    looked_at = [replace(photo, digest=digest) for photo, digest in zip(dataset.photos, digests, strict=True)]
    whole = [photo for photo, reason in zip(looked_at, reasons, strict=True) if not reason]
    checked = Dataset(whole, problems, dataset.oddities)

    total = len(dataset.photos) + len(dataset.problems)
    if len(problems) > max_broken * total:
        examples = "; ".join(map(str, problems[:3]))
        raise TooManyBroken(
            f"{len(problems)} of {total} items are broken, {len(problems) / total:.1%}; {max_broken:.1%} are allowed: "
            f"mend them or allow more with --max-broken ({examples}{'; ...' if len(problems) > 3 else ''})",
            problems,
        )
    for split in dataset.splits:
        if split not in checked.splits:
            raise InputError(f"no photo of split {split!r} is left: all {dataset.splits[split]} are broken")
    return checked


def _refuse_leaks(photos, digests):
    """The same picture under two names in two splits is a leak as well."""
    first, leaks = {}, []
    for photo, digest in zip(photos, digests, strict=True):
        known = first.setdefault(digest, photo) if digest else photo
        if known.split != photo.split:
            leaks.append(
                f"{known.filename} in {known.split} and {photo.filename} in {photo.split} are the same picture"
            )
    if leaks:
        raise leak_error(leaks)


def warn_of_few(photos):
    """One line on stderr if a captioner can hardly learn from so few training photos."""
    if photos < FEW_PHOTOS:
        print(
            f"imagesent: {photos} training photos are few: below about {FEW_PHOTOS:,} (with several captions each) "
            "the sentences come out broken. Add photos, or captions to those there are",
            file=sys.stderr,
        )
