"""The phrases of every sentence of a split, each tied to a region of its photo."""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences, word_similarities
from keras_imagesent.alignment.phrases import decode_phrases, group_phrases


def align_sentences(model, photos, vocabulary, beta, start, end):
    """`(row, caption, words as typed, phrases)` of every sentence of the photos in rows start..end-1."""
    mask = photos.region_mask[start:end]
    regions = encode_photos(model, photos.regions(slice(start, end)))
    captions = [(row, caption) for row in range(start, start + len(mask)) for caption in photos.captions[row]]
    typed = [vocabulary.positions(caption) for _, caption in captions]
    limit = model.get_layer("sentence_encoder").inputs[0].shape[1]
    places = [[t for t, (_, number) in enumerate(words) if number > 0][:limit] for words in typed]
    vectors = encode_sentences(
        model, [[words[t][1] for t in place] for words, place in zip(typed, places, strict=True)]
    )
    photo = [row - start for row, _ in captions]
    similarity, word_mask = word_similarities(model, vectors, regions, photo)
    paths = decode_phrases(similarity, word_mask, mask[photo], beta)
    for n, (row, caption) in enumerate(captions):
        words = [word for word, _ in typed[n]]
        path, spread = np.full(len(words), -1), np.zeros((len(words), mask.shape[1]), np.float32)
        path[places[n]], spread[places[n]] = paths[n][: len(places[n])], similarity[n][: len(places[n])]
        yield row, caption, words, group_phrases(path, spread)
