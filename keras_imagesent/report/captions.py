"""What the captioners say about a split: photos beside their nearest neighbours', regions one by one."""

import numpy as np
import tensorflow as tf

from keras_imagesent.captioning.beam_search import beam_search
from keras_imagesent.captioning.captioner import Decoder
from keras_imagesent.data.tokeniser import tokenise
from keras_imagesent.evaluation.cider import Cider

MAX_LENGTH = 20


def caption_split(
    photos,
    captioner,
    vocabulary,
    beam=3,
    length_penalty=0.7,
    train=None,
    regions=None,
    progress=lambda items, **_: items,
):
    """Captions every photo, scores it by CIDEr, and sets the nearest training photo's caption beside it.

    Args:
        photos: `Prepared.load(split)`.
        captioner: the model for whole photos, and its `vocabulary`.
        beam, length_penalty: of the search; regions are captioned word by word, there are twenty times as many.
        train: `Prepared.load("train")` for the nearest neighbours, or None.
        regions: `(model, vocabulary)` of the region captioner, or None.

    Returns:
        `photos`: for each photo `caption` (text, logProb, cider), `neighbour` (text, filename, cider), `regions`.

    Example:

    >>> caption_split(prepared.load("dev"), model, vocabulary)["photos"][0]["caption"]["text"]
    'a dog runs through the grass'
    """
    frames = np.asarray(photos.region_features[:, 0], np.float32)  # region 0 is the whole frame
    said = caption_vectors(captioner, vocabulary, frames, frames, beam, length_penalty, progress=progress)
    cider = Cider([[tokenise(text) for text in captions] for captions in photos.captions])
    scores = cider.scores([tokenise(text) for text, _ in said])
    results = [
        {"caption": {"text": text, "logProb": log_prob, "cider": round(score, 3)}, "neighbour": None, "regions": None}
        for (text, log_prob), score in zip(said, scores, strict=True)
    ]
    if train is not None:
        nearest = nearest_photos(frames, np.asarray(train.region_features[:, 0], np.float32))
        texts = [train.captions[row][0] for row in nearest]
        scores = cider.scores([tokenise(text) for text in texts])
        for result, row, text, score in zip(results, nearest, texts, scores, strict=True):
            result["neighbour"] = {"text": text, "filename": train.filenames[row], "cider": round(score, 3)}
    if regions:
        present = photos.region_mask
        vectors = np.asarray(photos.region_features[present], np.float32)
        owners, numbers = np.nonzero(present)
        said = caption_vectors(*regions, vectors, frames[owners], progress=progress)
        for result in results:
            result["regions"] = []
        for (text, log_prob), owner, number in zip(said, owners, numbers, strict=True):
            results[owner]["regions"].append({"region": int(number), "text": text, "logProb": log_prob})
    return {"photos": results}


def caption_vectors(
    model, vocabulary, features, frames, beam=1, length_penalty=0.0, batch=200, progress=lambda items, **_: items
):
    """Captions of vectors (N, F): `(text, log probability)` each; `frames` are put beside them for models of both."""
    if model.input["image_features"].shape[-1] == 2 * features.shape[1]:
        features = np.concatenate([features, frames], axis=1)
    decoder = Decoder(model)

    @tf.function(reduce_retracing=True)
    def search(part):
        return beam_search(
            decoder.step,
            decoder.start(part),
            decoder.start_id,
            beam,
            MAX_LENGTH,
            1,
            length_penalty,
        )

    said = []
    for first in progress(range(0, len(features), batch), desc="captions"):
        token_ids, log_probs = search(tf.constant(features[first : first + batch]))
        texts = [vocabulary.decode(ids) for ids in token_ids.numpy()[:, 0]]
        said += zip(texts, np.round(log_probs.numpy()[:, 0], 3).tolist(), strict=True)
    return said


def nearest_photos(frames, others):
    """For each vector the row of the nearest of `others` by L2 (the paper's nearest-neighbour baseline)."""
    lengths = (others**2).sum(axis=1)
    return np.concatenate(
        [(lengths - 2 * frames[i : i + 500] @ others.T).argmin(axis=1) for i in range(0, len(frames), 500)]
    )
