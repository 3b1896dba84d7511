"""Captions ranked anew by how well an alignment finds them in the photo."""

import numpy as np
import tensorflow as tf

from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.alignment.score_pairs import score_pairs

RERANK_WEIGHTS = [0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 1.0]  # to choose among


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

    Args:
        search: the `CaptionSearch` of a captioner.
        alignment: the `Run` of an alignment.
        photos: from `Prepared.load`.
        captions: how many for a photo.
    """
    token_ids, log_probs = search.search(search.vectors(photos), beam=captions, captions=captions)
    ranks = caption_ranks(token_ids, log_probs, search.length_penalty).numpy()
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
