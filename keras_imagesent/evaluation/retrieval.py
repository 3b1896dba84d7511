"""Retrieval both ways: a photo's sentences among all (annotation), a sentence's photo among all (search)."""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.alignment.score_pairs import score_pairs

RECALLS = (1, 5, 10)
SENTENCES_AT_ONCE = 1000  # encoded at a time: their words are some 44 MB


def annotation_ranks(scores, photo_of_sentence):
    """Rank (1 is best) of each photo's best own sentence among all sentences; ties and NaN count against the model.

    `scores (K,L)`, `photo_of_sentence (L,)` -> `(K,)`.
    """
    ranks = np.zeros(len(scores), int)
    for k, row in enumerate(scores):
        own = photo_of_sentence == k
        ranks[k] = 1 + np.count_nonzero(~(row[~own] < row[own].max()))
    return ranks


def search_ranks(scores, photo_of_sentence):
    """Rank (1 is best) of each sentence's photo among all photos; ties and NaN count against the model. `(L,)`."""
    right = scores[photo_of_sentence, np.arange(scores.shape[1])]
    ranks = np.zeros(scores.shape[1], int)
    for start in range(0, len(scores), 500):  # in parts: comparing all at once would hold another K x L array
        ranks += np.count_nonzero(~(scores[start : start + 500] < right), axis=0)
    return ranks


def summarise_ranks(ranks):
    """Recall at 1, 5, 10 in percent, median and mean rank."""
    ranks = np.asarray(ranks)
    recalls = {f"r{k}": 100 * float(np.mean(ranks <= k)) for k in RECALLS}
    return {**recalls, "median": float(np.median(ranks)), "mean": float(np.mean(ranks))}


def measure_scores(scores, photo_of_sentence):
    """Both directions of one score matrix: `{"annotation_r1": ..., "search_median": ..., "recall_sum": ...}`.

    `recall_sum`, the sum of the six recalls, is what training maximises.

    Example:
        measure_scores(scores, photo_of_sentence)["annotation_r1"]  # percent
    """
    photo_of_sentence = np.asarray(photo_of_sentence)
    both = {
        "annotation": summarise_ranks(annotation_ranks(scores, photo_of_sentence)),
        "search": summarise_ranks(search_ranks(scores, photo_of_sentence)),
    }
    result = {f"{way}_{name}": value for way, values in both.items() for name, value in values.items()}
    result["recall_sum"] = sum(values[f"r{k}"] for values in both.values() for k in RECALLS)
    return result


def own_sentences(photos, part=slice(None)):
    """The sentences of a split's photos (or a part of them) as lists of ids, and the photo of each."""
    groups = photos.token_ids[part]
    sentences = [ids for captions in groups for ids in captions]
    return sentences, np.repeat(np.arange(len(groups)), [len(captions) for captions in groups])


def score_split(model, photos, sentences, part=slice(None)):
    """An alignment model's own scores of a split's photos (or a part of them) with sentences (lists of ids): `(K,L)`.

    Words are encoded and forgotten a thousand sentences at a time: 5,000 photos x 25,000 sentences take 0.5 GB for the
    scores, 0.4 GB for the regions (h = 1000), and fit in 2 GB with all the rest.

    Example:
        scores = score_split(model, prepared.load("dev"), [vocabulary.encode("a dog runs")])
    """
    layer = model.get_layer("scores")
    regions = encode_photos(model, photos.regions(part, layer.whole_frame))
    region_mask = photos.region_mask[part, : regions.shape[1]]
    scores = np.empty((len(regions), len(sentences)), np.float32)
    for start in range(0, len(sentences), SENTENCES_AT_ONCE):
        words = encode_sentences(model, sentences[start : start + SENTENCES_AT_ONCE])
        scores[:, start : start + SENTENCES_AT_ONCE] = score_pairs(regions, words, region_mask, layer.score)
    return scores


def measure_retrieval(model, photos, folds=1):
    """Retrieval of an alignment model on the photos of a split (`Prepared.load`).

    `folds=5` is COCO's 1K protocol: the photos are cut into five parts, each measured alone, then averaged; `folds=1`
    its 5K protocol.

    Example:
        measure_retrieval(model, prepared.load("dev"))["search_r10"]
    """
    results = []
    for rows in np.array_split(np.arange(len(photos.photo_ids)), folds):
        part = slice(rows[0], rows[-1] + 1)
        sentences, photo_of_sentence = own_sentences(photos, part)
        scores = score_split(model, photos, sentences, part)
        results.append(measure_scores(scores, photo_of_sentence))
    return {name: float(np.mean([result[name] for result in results])) for name in results[0]}
