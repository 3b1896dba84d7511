"""What a captioner has to beat: the nearest photo's caption, the best training snippet; and people's agreement."""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.evaluation.retrieval import score_pairs


def nearest_captions(frames, train_frames, train_captions):
    """For each photo the first caption of the training photo whose whole-frame vector is nearest (L2).

    Example:
        >>> nearest_captions(dev.region_features[:, 0], train.region_features[:, 0], train.captions)
    """
    frames, others = np.asarray(frames, np.float32), np.asarray(train_frames, np.float32)
    lengths = (others**2).sum(axis=1)
    nearest = [
        np.argmin(lengths - 2 * frames[start : start + 500] @ others.T, axis=1) for start in range(0, len(frames), 500)
    ]
    return [train_captions[row][0] for row in np.concatenate(nearest)]


def human_agreement(references):
    """One reference of each photo against the rest: `(rows, candidates, references)` of photos with two or more.

    Example:
        >>> human_agreement([["a dog", "one dog"], ["a cat"]])
        ([0], ['a dog'], [['one dog']])
    """
    rows = [row for row, group in enumerate(references) if len(group) > 1]
    return rows, [references[row][0] for row in rows], [references[row][1:] for row in rows]


def best_snippets(alignment, vocabulary, region_features, frames, snippets, chunk=2000):
    """The ranking baseline for regions: for each region the snippet that the alignment scores best.

    `region_features (M,F)` are the regions' vectors and `frames (M,F)` those of their whole photos. `snippets` are
    substrings of training sentences, such as those of `imagesent align --pairs`; the score is the alignment's own
    (Eq. 8) with this region as the only one to choose.

    Example:
        >>> best_snippets(model, vocabulary, region_features, frames, {"a dog", "green grass"})
    """
    snippets = sorted(snippets)
    ids = [vocabulary.encode(text) for text in snippets]
    snippets = [text for text, words in zip(snippets, ids, strict=True) if words]
    words = encode_sentences(alignment, [words for words in ids if words])
    score = alignment.get_layer("scores").score
    best = []
    for start in range(0, len(region_features), chunk):
        both = np.stack([frames[start : start + chunk], region_features[start : start + chunk]], axis=1)
        known = {"region_features": both, "box_scores": np.ones(both.shape[:2], np.float32)}
        regions = encode_photos(alignment, known)[:, 1:]
        scores = score_pairs(regions, words, np.ones(regions.shape[:2], bool), score)
        best += [snippets[row] for row in scores.argmax(axis=1)]
    return best
