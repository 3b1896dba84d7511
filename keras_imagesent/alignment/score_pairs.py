"""Eq. 8 for all photos with all sentences of a split, in NumPy and in little memory."""

import numpy as np

PHOTOS_AT_ONCE, WORDS_AT_ONCE = 64, 4096  # similarities held at a time: 64 x 20 x 4096 float32 are 21 MB


def score_pairs(regions, words, region_mask, score="max_sim"):
    """Eq. 8 (or another `score` of `MaxSim`) for all photos and all sentences: `(K,R,D), Words, (K,R) -> scores (K,L)`.

    Chunked: beside its inputs and the result it holds some 45 MB.

    Example:
        regions = encode_photos(model, photos.regions())
        words = encode_sentences(model, sentences)
        scores = score_pairs(regions, words, photos.region_mask)
    """
    number, count, dim = regions.shape
    scores = np.zeros((number, len(words)), np.float32)
    sentences_at_once = max(1, int(WORDS_AT_ONCE / max(1, words.lengths.mean()))) if len(words) else 1
    chunks = [words.part(i, min(i + sentences_at_once, len(words))) for i in range(0, len(words), sentences_at_once)]
    for start in range(0, number, PHOTOS_AT_ONCE):
        mask = region_mask[start : start + PHOTOS_AT_ONCE]
        rows = regions[start : start + PHOTOS_AT_ONCE]
        absent = 0 if score == "defrag" else rows[:, :1]  # a repeated whole frame changes no maximum, zeros no sum
        flat = np.where(mask[..., None], rows, absent).astype(np.float32, copy=False).reshape(-1, dim)
        column = 0
        for chunk in chunks:
            similarity = (flat @ chunk.vectors.T).reshape(len(mask), count, -1)  # (k, R, P)
            best = np.maximum(similarity, 0).sum(axis=1) if score == "defrag" else similarity.max(axis=1)
            scores[start : start + PHOTOS_AT_ONCE, column : column + len(chunk)] = _sum_by_sentence(best, chunk)
            column += len(chunk)
    if score == "mean_max_sim":
        scores /= np.maximum(words.lengths, 1)
    return scores


def _sum_by_sentence(best, words):
    result = np.zeros((len(best), len(words)), np.float32)
    some = words.lengths > 0  # a sentence without a known word scores 0 with every photo
    if some.any():
        result[:, some] = np.add.reduceat(best, words.starts[some], axis=1)
    return result
