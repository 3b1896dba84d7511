"""Training photos set aside, on which every choice is made."""

import random
from collections import defaultdict
from dataclasses import replace

from keras_imagesent.data.dataset import Dataset
from keras_imagesent.errors import InputError

ENOUGH_CAPTIONS = 5  # photos with more are not preferred to those with so many


def set_aside(dataset, number, seed=0, split="tune"):
    """Moves `number` training photos of each data set to a split of their own, on which everything is chosen.

    Photos with five captions come first, then those with four, and so on: one caption measures little. The same seed
    moves the same photos. A photo that another data set has too, under the same captions (at another size, say), stays,
    or training would know it; a data set without any other training photos stays as it is.

    Example:

    >>> set_aside(dataset, 500).splits
    {'tune': 500, 'train': 5500, 'val': 1000}
    """
    if split in dataset.splits:
        raise InputError(f"the data set has a split {split!r} of its own: set aside 0 photos")
    sets_with = defaultdict(set)
    for photo in dataset.photos:
        sets_with[tuple(photo.captions)].add(photo.data_set)
    training, free = defaultdict(int), defaultdict(lambda: defaultdict(list))
    for photo in dataset.photos:
        if photo.split == "train":
            training[photo.data_set] += 1
            if len(sets_with[tuple(photo.captions)]) == 1:
                free[photo.data_set][min(len(photo.captions), ENOUGH_CAPTIONS)].append(photo.photo_id)
    moved = set()
    for name in free or [""]:
        groups = free[name]
        there = sum(map(len, groups.values()))
        if number > there or number >= training[name]:
            of_set = f" of {name}" if name else ""
            raise InputError(
                f"cannot set aside {number} of {there} training photos{of_set}: some must be left to train on"
            )
        chosen, draw = [], random.Random(seed)
        for captions in sorted(groups, reverse=True):
            group = groups[captions]
            chosen += draw.sample(group, min(number - len(chosen), len(group)))
        moved.update(chosen)
    photos = [replace(photo, split=split) if photo.photo_id in moved else photo for photo in dataset.photos]
    return Dataset(photos, dataset.problems, dataset.oddities)
