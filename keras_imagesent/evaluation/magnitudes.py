"""Magnitudes: words and regions that the model finds telling have long vectors (supplement, table 5).

The vectors of a cosine model are measured before they get unit length.
"""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences


def word_magnitudes(model, sentences, vocabulary, number=40, least=5):
    """The words with the largest and the smallest mean `|s_t|` over `sentences` (lists of ids).

    Words that occur fewer than `least` times are left out. Returns two lists of `(word, mean length)`, the first from
    the largest down, the second from the smallest up.

    Example:
        largest, smallest = word_magnitudes(model, sentences, vocabulary)
    """
    sums, counts = np.zeros(len(vocabulary) + 1), np.zeros(len(vocabulary) + 1, int)
    limit = model.get_layer("sentence_encoder").inputs[0].shape[1]
    for start in range(0, len(sentences), 1000):
        part = sentences[start : start + 1000]
        words = encode_sentences(model, part, unit_length=False)
        ids = np.concatenate([np.asarray(sentence[:limit], int) for sentence in part])
        np.add.at(sums, ids, np.linalg.norm(words.vectors, axis=1))
        np.add.at(counts, ids, 1)
    often = np.flatnonzero(counts >= least)
    means = sums[often] / counts[often]
    ranked = [(vocabulary.words[often[i] - 1], float(means[i])) for i in np.argsort(-means, kind="stable")]
    return ranked[:number], ranked[::-1][:number]


def region_magnitudes(model, photos, number=40, per_photo=1):
    """The regions with the largest `|v_i|`, at most `per_photo` of a photo, the whole frame left out.

    Returns a list of `(row of the photo, region, length)`.

    Example:
        for row, region, length in region_magnitudes(model, photos):
            print(photos.filenames[row], photos.boxes[row, region], length)
    """
    lengths = np.concatenate(
        [
            np.linalg.norm(encode_photos(model, photos.regions(part), unit_length=False), axis=2)
            for part in (slice(start, start + 500) for start in range(0, len(photos.photo_ids), 500))
        ]
    )
    lengths = np.where(photos.region_mask, lengths, -1.0)
    lengths[:, 0] = -1.0
    found, taken = [], np.zeros(len(lengths), int)
    for place in np.argsort(-lengths, axis=None, kind="stable"):
        row, region = divmod(int(place), lengths.shape[1])
        if len(found) == number or lengths[row, region] < 0:
            break
        if taken[row] < per_photo:
            taken[row] += 1
            found.append((row, region, float(lengths[row, region])))
    return found
