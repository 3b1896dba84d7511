"""Captions ranked anew by how well an alignment finds them in the photo."""

import numpy as np
import tensorflow as tf

from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.alignment.score_pairs import score_pairs

RERANK_WEIGHTS = [0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 1.0]  # to choose among
# English words that no caption ends in: a sentence that does was broken off ("... is playing a game of").
NEVER_LAST = (
    "a", "an", "the", "this", "that", "its", "his", "her", "their", "some", "of", "with", "without", "in", "on", "at",
    "by", "for", "from", "into", "onto", "to", "and", "or", "but", "as", "while", "is", "are", "was", "were", "be",
    "being", "has", "have", "next", "between", "behind", "beside", "near", "under", "through", "against", "towards",
)  # fmt: skip
BROKEN = 1000.0  # more than any rank: what a broken caption is set back by


def is_broken(token_ids, vocabulary):
    """Whether each caption says nothing, has no END within its T words, or ends in one of `NEVER_LAST`.

    `token_ids (..., T)`, 0 from END on, of a search whose captions are its whole beam -> bool `(...)`, in a graph too.

    Example:
        >>> is_broken(np.array([[5, 2, 0]]), vocabulary)  # "game of"
        <tf.Tensor: shape=(1,), dtype=bool, numpy=array([ True])>
    """
    ids = [number for word in NEVER_LAST for number in vocabulary.encode(word)]
    words = tf.reduce_sum(tf.cast(token_ids > 0, tf.int32), axis=-1)
    places = tf.range(token_ids.shape[-1])
    last = tf.reduce_sum(token_ids * tf.cast(places == words[..., None] - 1, tf.int32), axis=-1)
    ends_open = tf.reduce_any(last[..., None] == tf.constant(ids or [-1], tf.int32), axis=-1)
    return (words == 0) | (words == token_ids.shape[-1]) | ends_open


def caption_ranks(token_ids, log_probs, length_penalty):
    """Log probabilities as the beam search compares them: divided by a power of the length, END counted.

    `token_ids (..., T)`, 0 from END on, `log_probs (...)` -> `(...)`.
    """
    lengths = tf.reduce_sum(tf.cast(token_ids > 0, tf.float32), axis=-1)
    return log_probs / tf.minimum(lengths + 1, token_ids.shape[-1]) ** length_penalty


def combine(ranks, alignment_scores, weight):
    """What captions are ranked by: normalized log probability + weight * the alignment's score (Eq. 8)."""
    return ranks + weight * alignment_scores


def n_best(search, alignment, photos, captions):
    """The best captions of each photo: `[(caption, normalized log probability, alignment score)]`.

    The log probability of a broken caption is set back by 1,000, so that it ranks below all others.

    Args:
        search: the `CaptionSearch` of a captioner.
        alignment: the `Run` of an alignment.
        photos: from `Prepared.load`.
        captions: how many for a photo.
    """
    token_ids, log_probs = search.search(search.vectors(photos), beam=captions, captions=captions)
    ranks = caption_ranks(token_ids, log_probs, search.length_penalty).numpy().astype(np.float64)
    ranks -= BROKEN * is_broken(token_ids, search.vocabulary).numpy()
    texts = [[search.vocabulary.decode(ids) for ids in group] for group in token_ids]
    regions = encode_photos(alignment.model, photos.regions())
    words = encode_sentences(alignment.model, [alignment.vocabulary.encode(text) for group in texts for text in group])
    layer = alignment.model.get_layer("scores")
    mask = photos.region_mask
    mask = mask & (np.arange(mask.shape[1]) < 1) if layer.whole_frame else mask
    options = []
    for row, group in enumerate(texts):
        own = words.part(row * captions, (row + 1) * captions)
        scores = score_pairs(regions[row : row + 1], own, mask[row : row + 1], layer.score)[0]
        options.append(list(zip(group, ranks[row], scores, strict=True)))
    return options


def choose(options, weight):
    """The best caption of each photo, with the alignment's score counted `weight` times."""
    return [max(group, key=lambda option: combine(option[1], option[2], weight))[0] for group in options]
