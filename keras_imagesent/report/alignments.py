"""What the alignment model makes of a split: words and boxes before and after the MRF, ranks, galleries."""

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences, word_similarities
from keras_imagesent.alignment.phrases import decode_phrases
from keras_imagesent.evaluation.retrieval import annotation_ranks, score_pairs, search_ranks

ANSWERS = 5


def align_split(model, vocabulary, photos, beta):
    """Aligns every sentence with its own photo and ranks all sentences against all photos.

    Args:
        model: the alignment model.
        vocabulary: the model's.
        photos: `Prepared.load(split)`.
        beta: strength of the MRF's ties (Eq. 12).

    Returns:
        `photos`: for each photo its `rank`, mean `score`, `best` sentences and aligned `sentences`;
        `sentences`: for each sentence its `text`, `photo`, `rank` and `best` photos.

    Example:

    >>> align_split(model, vocabulary, prepared.load("dev"), beta=1.0)["photos"][0]["rank"]
    3
    """
    layer = model.get_layer("scores")
    regions = encode_photos(model, photos.regions(frame_only=layer.whole_frame))
    mask = photos.region_mask[:, : regions.shape[1]]
    texts = [text for captions in photos.captions for text in captions]
    photo_of_sentence = np.repeat(np.arange(len(photos.filenames)), [len(c) for c in photos.captions])
    words = encode_sentences(model, [vocabulary.encode(text) for text in texts])
    scores = score_pairs(regions, words, mask, layer.score)  # (K, L)
    photo_ranks = annotation_ranks(scores, photo_of_sentence)
    sentence_ranks = search_ranks(scores, photo_of_sentence)
    own = scores[photo_of_sentence, np.arange(len(texts))]
    aligned = _phrases(model, texts, vocabulary, words, regions, mask, photo_of_sentence, beta)
    starts = np.cumsum([0, *(len(c) for c in photos.captions)])
    return {
        "photos": [
            {
                "rank": int(photo_ranks[k]),
                "score": _round(own[starts[k] : starts[k + 1]].mean()),
                "best": _best(scores[k]),
                "sentences": [{**aligned[s], "score": _round(own[s])} for s in range(starts[k], starts[k + 1])],
            }
            for k in range(len(photos.filenames))
        ],
        "sentences": [
            {
                "text": text,
                "photo": int(photo_of_sentence[s]),
                "rank": int(sentence_ranks[s]),
                "best": _best(scores[:, s]),
            }
            for s, text in enumerate(texts)
        ],
    }


def _phrases(model, texts, vocabulary, words, regions, mask, photo_of_sentence, beta, batch=500):
    """Each sentence's words, their regions before (beta = 0) and after the MRF, and the similarities with those."""
    results = []
    for first in range(0, len(texts), batch):
        rows = range(first, min(first + batch, len(texts)))
        photos = photo_of_sentence[list(rows)]
        similarity, word_mask = word_similarities(model, words.part(rows.start, rows.stop), regions, photos)
        region_mask = mask[photos]
        before = decode_phrases(similarity, word_mask, region_mask, 0.0)
        after = decode_phrases(similarity, word_mask, region_mask, beta)
        for row, sentence in enumerate(rows):
            length = words.lengths[sentence]
            results.append(
                _spread(
                    texts[sentence], vocabulary, similarity[row, :length], before[row][:length], after[row][:length]
                )
            )
    return results


def _spread(text, vocabulary, similarity, before, after):
    """Regions and scores of the known words, set out over all words as typed; -1 and 0 for the others."""
    typed = vocabulary.positions(text)
    places = [place for place, (_, word_id) in enumerate(typed) if word_id > 0][: len(similarity)]
    found = {"text": text, "words": [word for word, _ in typed]}
    for name, regions in (("before", before), ("after", after)):
        chosen, scores = [-1] * len(typed), [0.0] * len(typed)
        for t, place in enumerate(places):
            chosen[place] = int(regions[t])
            scores[place] = _round(similarity[t, regions[t]])
        found |= {name: chosen, f"{name}Scores": scores}
    return found


def _best(scores):
    """The highest scores with their positions: `[[position, score], ...]`."""
    top = np.argpartition(-scores, min(ANSWERS, len(scores)) - 1)[:ANSWERS]
    top = top[np.argsort(-scores[top], kind="stable")]
    return [[int(position), _round(scores[position])] for position in top]


def _round(value):
    return round(float(value), 3)
