"""From a data set's own files to a prepared folder: read, check, set aside, extract."""

import os
import sys
from functools import partial
from pathlib import Path

from tqdm import tqdm

from keras_imagesent.data.dataset import join_datasets, read_dataset
from keras_imagesent.data.dataset_check import TooManyBroken, check_dataset, warn_of_few
from keras_imagesent.data.set_aside import set_aside
from keras_imagesent.data.shards import PROBLEMS_FILE, list_problems
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.regions.squash import IMAGE_SIZE


def prepare_dataset(
    dataset,
    photos,
    out,
    split_files=None,
    tune=0,
    words_of=None,
    seed=0,
    threshold=5,
    max_broken=0.01,
    image_size=IMAGE_SIZE,
    backbone="efficientnet-lite2",
    detector="yolov4-tiny",
    trust_detector=False,
    detector_config=None,
    detector_checkpoint=None,
    region_vectors="pool",
    machine=(1, 1),
    ray=None,
) -> Path:
    """Finds the regions of every photo and writes their vectors; called again after a kill it goes on.

    Args:
        dataset: the data set's file (or several): Karpathy or COCO captions JSON, Flickr token file, CSV or JSONL.
            A dict `{name: file}` joins several data sets. WebDataset tars and Parquet files, or a folder of them, hold
            the photos too, also in an object store (`s3://...`).
        photos: folder of the photos; a dict `{name: folder}` if `dataset` is one; None for tars and Parquet.
        out: the prepared folder to write or to go on with.
        split_files: lists of file names, for a Flickr token file.
        tune: how many training photos of each set to move to the split "tune", which chooses the best epoch; those with
            five captions first.
        words_of: a run folder whose vocabulary to take, for photos that only measure a trained model.
        seed: chooses the photos set aside.
        threshold: words seen less often in the training sentences are dropped.
        max_broken: share of broken photos above which it stops.
        image_size: photos are squashed to squares of so many pixels.
        backbone: a name, also of `keras.applications`, or a `.keras` file.
        detector: "yolov4-tiny", "grid", a SavedModel folder, a file of boxes, a `.keras` file or a Model Garden name.
        trust_detector: whether to run a SavedModel given as `detector`: it is a program.
        detector_config, detector_checkpoint: of a Model Garden experiment.
        region_vectors: "pool" for one look at the photo, "crop" for one look at each region.
        machine: (i, n) does the i-th of n shares of the work, i from 1.
        ray: extract in so many actors of a Ray cluster, 0 for one a GPU, else a CPU; None stays in this process.

    Returns:
        The prepared folder, for `train_alignment`, `train_captioner` and `evaluate`.

    Example:
        >>> folder = ki.prepare("scenes/dataset.json", "scenes/images", "prepared", tune=4, threshold=1, image_size=64,
        ...                     backbone="backbone.keras", detector="detector.keras")
        >>> sorted(ki.Prepared.open(folder).splits)
        ['train', 'tune', 'val']
    """
    several = isinstance(dataset, dict) and list(dataset) != [""]
    files = dataset if isinstance(dataset, dict) else {"": dataset}
    files = {name: [_place(path) for path in _as_list(paths)] for name, paths in files.items()}
    photos = photos if isinstance(photos, dict) else {"": photos}
    photos = {name: _place(folder) for name, folder in photos.items() if folder is not None}
    out = Path(out)
    wanted = [(path, "the data set") for paths in files.values() for path in paths]
    for path, what in [*wanted, *((folder, "the photos") for folder in photos.values())]:
        if isinstance(path, Path) and not path.exists():
            raise InputError(f"{path}: no such file or folder ({what}). Check the path.")
    check_writable(out)
    each, look = map, None
    if ray is not None:
        from keras_imagesent.regions.ray_prepare import Looks, RayWorkers, ray_map

        each, look = ray_map, Looks(out / ".checked")
    found = {name: read_dataset(paths, photos.get(name), split_files, each) for name, paths in files.items()}
    found = join_datasets(found) if several else found[""]
    mention_oddities(found.oddities, out / PROBLEMS_FILE)
    try:
        checked = check_dataset(found, max_broken, partial(tqdm, desc="checking", unit="photo"), look)
    except TooManyBroken as error:
        if out.exists() and {path.name for path in out.iterdir()} - {PROBLEMS_FILE, ".checked"}:
            raise  # a folder of something else, or of an earlier run
        list_problems(out, error.problems, found.oddities)
        raise InputError(f"{error}. All of them: {out / PROBLEMS_FILE}") from None
    checked = set_aside(checked, tune, seed) if tune else checked
    if not words_of and "train" not in checked.splits:
        raise InputError(
            f"no training photos, only {', '.join(checked.splits)}: the vocabulary comes from a split called train. To "
            "measure a trained model on them, name it with --words-of (words_of in Python)."
        )
    if "train" in checked.splits:
        warn_of_few(checked.splits["train"])

    from keras_imagesent.regions.networks import choose_networks  # TensorFlow, after all that can be wrong
    from keras_imagesent.regions.prepare import prepare

    options = backbone, detector, region_vectors, image_size, detector_config, detector_checkpoint, trust_detector
    networks = choose_networks(*options)
    prepare(
        checked,
        out,
        networks.extractor,
        {**networks.made_with, "set_aside": tune, "seed": seed},
        boxes_of=networks.boxes_of,
        photos_at_once=networks.photos_at_once,
        threshold=threshold,
        machine=machine,
        max_broken=max_broken,
        vocabulary=vocabulary_of(words_of) if words_of else None,
        elsewhere=RayWorkers(partial(choose_networks, *options), ray) if ray is not None else None,
    )
    return out


def _place(path):
    """A path, or an object store's address as it is."""
    return path if "://" in str(path) else Path(path)


def _as_list(paths):
    return [paths] if isinstance(paths, str | Path) else paths


def vocabulary_of(run):
    """The vocabulary beside a trained model."""
    folder = Path(run)
    return Vocabulary.load((folder if folder.is_dir() else folder.parent) / "vocabulary.json")


def check_writable(out):
    """An `InputError` if a folder cannot be made there."""
    place = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not place.is_dir():
        raise InputError(f"{place}: a file. Name a folder to write to.")
    if not os.access(place, os.W_OK):
        raise InputError(f"{place}: you may not write there. Name another folder.")


def mention_oddities(oddities, file):
    """One line on stderr for what is used but looks odd: the first of them, and how many more the file lists."""
    if oddities:
        more = f" (and {len(oddities) - 1} more: {file})" if len(oddities) > 1 else ""
        print(f"imagesent: {oddities[0]}{more}", file=sys.stderr)
