"""How strongly neighbouring words are tied (Eq. 12), chosen on sentences without any boxes."""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences, word_similarities
from keras_imagesent.alignment.phrases import decode_phrases

BETAS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
PHOTOS = 1000  # at most, to bound time and memory
NEAR = 3  # words that stand so near each other in a caption may be of one phrase


def choose_beta(model, photos, betas=BETAS):
    """Chooses beta so that a word gets the same region in all captions of a photo.

    Several people described each photo. A word that two of them use should get the same region in both captions, and
    words of different things different regions, or all words would simply share the largest one. The measure: over
    all pairs of captions of a photo, the share of equal words that get the same region, minus the share of words of
    different things that do. Words that stand within three words of each other in any caption of the photo ("black" and
    "dog") may be of one thing and one phrase, and do not count as different. Rare words weigh more (by the log of how
    few sentences have them): "a" belongs to no region.

    Args:
        model: the alignment model.
        photos: `Photos` of a validation split.
        betas: those to choose among; of equals the first wins.

    Returns:
        The chosen beta, and `{beta: (measure in percent, mean number of words of a phrase)}`.

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
        measured[beta] = 100 * constancy(ids, path, rows), phrase_length(path, there)
    return max(measured, key=lambda beta: measured[beta][0]), measured


def phrase_length(path, there):
    """Mean number of neighboring words that share a region: `path (L,T)`, which words are real `there (L,T)`.

    Example:
        phrase_length(np.array([[4, 4, 7]]), np.ones((1, 3), bool))  # 1.5
    """
    starts = there.copy()
    starts[:, 1:] &= ~there[:, :-1] | (path[:, 1:] != path[:, :-1])
    return float(there.sum() / max(1, starts.sum()))


def constancy(ids, path, rows):
    """The measure of `choose_beta` for the words `ids (L,T)`, 0 at padding, on the regions `path (L,T)`.

    Example:
        constancy([[7, 8], [8, 7]], [[0, 3], [3, 0]], [0, 0])  # 1: each word has its own region, twice
    """
    ids, path, rows = np.asarray(ids), np.asarray(path), np.asarray(rows)
    sentences_with = np.bincount(np.concatenate([np.unique(row[row > 0]) for row in ids]))
    rarity = np.log(1 + len(ids) / np.maximum(sentences_with, 1))
    hits, weights = np.zeros(2), np.zeros(2)  # of words of different things and of equal words
    for photo in np.unique(rows):
        sentence, place = np.nonzero((rows == photo)[:, None] & (ids > 0))
        word, region = ids[sentence, place], path[sentence, place]
        pairs = sentence[:, None] < sentence
        weight = np.sqrt(np.outer(rarity[word], rarity[word])) * pairs
        equal = word[:, None] == word
        together = region[:, None] == region
        different = ~equal & ~_stand_near(word, sentence, place)
        for kind, chosen in enumerate((different, equal)):
            hits[kind] += (weight * together * chosen).sum()
            weights[kind] += (weight * chosen).sum()
    different, equal = hits / np.maximum(weights, 1e-9)
    return float(equal - different)


def _stand_near(word, sentence, place):
    """For every two of a photo's words (n,n): whether they stand near each other in any of its captions."""
    near = (sentence[:, None] == sentence) & (np.abs(place[:, None] - place) <= NEAR)
    _, number = np.unique(word, return_inverse=True)
    known = np.zeros((number.max(initial=0) + 1,) * 2, bool)
    one, other = np.nonzero(near)
    known[number[one], number[other]] = True
    return known[number[:, None], number]
