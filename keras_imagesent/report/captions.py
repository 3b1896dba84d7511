"""What the captioners say about a split: photos beside their nearest neighbours', regions one by one."""

import numpy as np

from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.evaluation.baselines import nearest_captions
from keras_imagesent.evaluation.caption_tables import frames_of
from keras_imagesent.evaluation.cider import Cider


def caption_split(photos, captioner, regions=None, train=None):
    """Captions every photo, scores it by CIDEr, and sets the nearest training photo's caption beside it.

    Args:
        photos: `Prepared.load(split)`.
        captioner: `CaptionSearch` for whole photos.
        regions: `CaptionSearch` for regions, or None; beam 1, there are twenty times as many.
        train: `Prepared.load("train")` for the nearest neighbours, or None.

    Returns:
        `photos`: for each photo `caption` (text, logProb, cider), `neighbour` (text, filename, cider), `regions`.

    Example:

    >>> caption_split(prepared.load("dev"), CaptionSearch(Run("runs/captioner")))["photos"][0]["caption"]["text"]
    'a dog runs through the grass'
    """
    frames = frames_of(photos)
    said = _say(captioner, captioner.vectors(photos))
    cider = Cider([[tokenize(text) for text in captions] for captions in photos.captions])
    scores = cider.scores([tokenize(text) for text, _ in said])
    results = [
        {"caption": {"text": text, "logProb": log_prob, "cider": round(score, 3)}, "neighbour": None, "regions": None}
        for (text, log_prob), score in zip(said, scores, strict=True)
    ]
    if train is not None:
        nearest = nearest_captions(frames, frames_of(train), [[row] for row in range(len(train.filenames))])
        texts = [train.captions[row][0] for row in nearest]
        scores = cider.scores([tokenize(text) for text in texts])
        for result, row, text, score in zip(results, nearest, texts, scores, strict=True):
            result["neighbour"] = {"text": text, "filename": train.filenames[row], "cider": round(score, 3)}
    if regions:
        owners, numbers = np.nonzero(photos.region_mask)
        vectors = photos.region_features[owners, numbers].astype(np.float32)
        classes = photos.class_scores[owners, numbers].astype(np.float32)
        for result in results:
            result["regions"] = []
        said = _say(regions, regions.regions(vectors, frames[owners], classes), beam=1)
        for (text, log_prob), owner, number in zip(said, owners, numbers, strict=True):
            results[owner]["regions"].append({"region": int(number), "text": text, "logProb": log_prob})
    return {"photos": results}


def _say(captioner, image, beam=None):
    """The best caption of each photo or region with its log probability."""
    token_ids, log_probs = captioner.search(image, beam)
    texts = [captioner.vocabulary.decode(ids[0]) for ids in np.asarray(token_ids)]
    return list(zip(texts, np.asarray(log_probs)[:, 0].round(3).tolist(), strict=True))
