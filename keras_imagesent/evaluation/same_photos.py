"""The same photos twice, at other sizes or otherwise saved: do the models say the same?"""

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.retrieval import measure_retrieval
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.model.caption_search import CaptionSearch

RECALLS = [f"{way}_r{k}" for way in ("annotation", "search") for k in (1, 5, 10)]


def same_photos_table(alignment, captioner, photos, twins, split="", command=""):
    """Retrieval among the photos and among their twins, how many first captions are equal, and how alike the frames'
    vectors are once the mean of all is taken away.

    Args:
        alignment, captioner: their `Run`s.
        photos: name -> `Photos`, such as `{"as taken": ...}`; twins: the same photos, in the same order.

    Example:
        >>> same_photos_table(alignment, captioner, {"as taken": photos}, {"256 pixels": twins}).to_markdown()
    """
    sets = {**photos, **twins}
    (first, one), (second, other) = sets.items()
    if one.filenames != other.filenames:
        raise InputError("the twins are not the same photos: their file names differ")
    rows = []
    for name, each in sets.items():
        found = measure_retrieval(alignment.model, each)
        rows.append([name, *(found[measure] for measure in RECALLS)])
    rows.append(["difference", *(a - b for a, b in zip(rows[0][1:], rows[1][1:], strict=True))])
    search = CaptionSearch(captioner)
    said = [search.captions_and_log_probs(each)[0] for each in sets.values()]
    equal = sum(a == b for a, b in zip(*said, strict=True))
    cosine = centred_cosines(*(each.region_features[:, 0].astype(np.float64) for each in sets.values()))
    note = (
        f"{len(one.filenames)} photos, {first} and {second}. The first caption is the same for {equal} of them. Cosine "
        f"of the frame's vectors, less the mean of all: {cosine.mean():.3f} on average, {cosine.min():.3f} at least."
    )
    columns = ["photos", *(f"{way} R@{k}" for way in ("annotation", "search") for k in (1, 5, 10))]
    return Table("same_photos", "The same photos at two sizes", columns, rows, note, command, split)


def centred_cosines(vectors, others):
    """Cosine of each vector with its twin, `(N,F), (N,F) -> (N,)`, both less the mean of all of them."""
    mean = np.concatenate([vectors, others]).mean(axis=0)
    one, other = vectors - mean, others - mean
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / np.maximum(lengths, 1e-12)
