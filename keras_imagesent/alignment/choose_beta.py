"""How strongly neighbouring words are tied (Eq. 12), chosen on sentences without any boxes."""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences, word_similarities
from keras_imagesent.alignment.phrases import decode_phrases

BETAS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
PHOTOS = 1000  # at most, to bound time and memory


def choose_beta(model, photos, betas=BETAS):
    """Chooses beta so that a word gets the same region in all captions of a photo.

    Several people described each photo. A word that two of them use should get the same region in both captions, and
    different words should get different regions, or all words would simply share the largest one. The measure: over
    all pairs of captions of a photo, the share of equal words that get the same region, minus the share of unequal
    words that do. Rare words weigh more (by the log of how few sentences have them): "a" belongs to no region.

    Args:
        model: the alignment model.
        photos: `Photos` of a validation split.
        betas: those to choose among; of equals the first wins.

    Returns:
        The chosen beta, and `{beta: measure in percent}`.

    Example:
        beta, measured = choose_beta(model, prepared.load("tune"))
    """
    sentences = [(row, ids) for row, group in enumerate(photos.token_ids[:PHOTOS]) for ids in group if len(ids)]
    rows = np.array([row for row, _ in sentences])
    words = encode_sentences(model, [ids for _, ids in sentences])
    regions = encode_photos(model, photos.regions(slice(PHOTOS)))
    similarity, there = word_similarities(model, words, regions, rows)
    region_mask = photos.region_mask[rows]
    if model.get_layer("scores").whole_frame:
        region_mask = region_mask & (np.arange(region_mask.shape[1]) == 0)
    ids = np.zeros(there.shape, int)
    for sentence, (_, known) in enumerate(sentences):
        ids[sentence, : words.lengths[sentence]] = known[: words.lengths[sentence]]
    measured = {}
    for beta in betas:
        path = decode_phrases(similarity, there, region_mask, beta)
        measured[beta] = 100 * constancy(ids, path, rows)
    return max(measured, key=measured.get), measured


def constancy(ids, path, rows):
    """The measure of `choose_beta` for the words `ids (L,T)`, 0 at padding, on the regions `path (L,T)`.

    Example:
        constancy([[7, 8], [8, 7]], [[0, 3], [3, 0]], [0, 0])  # 1: each word has its own region, twice
    """
    ids, path, rows = np.asarray(ids), np.asarray(path), np.asarray(rows)
    sentences_with = np.bincount(np.concatenate([np.unique(row[row > 0]) for row in ids]))
    rarity = np.log(1 + len(ids) / np.maximum(sentences_with, 1))
    hits, weights = np.zeros(2), np.zeros(2)  # of unequal and of equal words
    for photo in np.unique(rows):
        sentence, place = np.nonzero((rows == photo)[:, None] & (ids > 0))
        word, region = ids[sentence, place], path[sentence, place]
        pairs = sentence[:, None] < sentence
        weight = np.sqrt(np.outer(rarity[word], rarity[word])) * pairs
        equal = word[:, None] == word
        together = region[:, None] == region
        for kind, chosen in enumerate((~equal, equal)):
            hits[kind] += (weight * together * chosen).sum()
            weights[kind] += (weight * chosen).sum()
    unequal, equal = hits / np.maximum(weights, 1e-9)
    return float(equal - unequal)
