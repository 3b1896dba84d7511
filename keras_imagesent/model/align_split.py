"""The phrases of a whole split on disk, and the pairs of regions and snippets that a region captioner learns from."""

import json
from contextlib import ExitStack

from tqdm import tqdm

from keras_imagesent.alignment.align_sentences import align_sentences
from keras_imagesent.alignment.phrases import phrase_json
from keras_imagesent.alignment.snippets import joining_words, opening_words, snippets
from keras_imagesent.data.atomic import whole_file
from keras_imagesent.data.caption_pairs import write_pair
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.model.run import find_run

PHOTOS_AT_ONCE = 200


def align_split(prepared, split="train", alignment=None, beta=None, out=None, pairs=None):
    """Ties the words of every sentence of a split to regions of its photo, and writes what was found.

    Args:
        prepared: folder that `prepare` wrote.
        split: the split to align.
        alignment: run folder of `train_alignment`; None is the shipped one.
        beta: strength of the ties between neighboring words (Eq. 12); None takes the run's own.
        out: JSON Lines file to write: each sentence with its phrases.
        pairs: JSON Lines file to write: (region, snippet) pairs, for `train_captioner(..., pairs=...)`.

    Returns:
        The number of sentences, the number of phrases, and beta.

    Example:
        >>> sentences, phrases, beta = ki.align_split("prepared", "val", "alignment", pairs="pairs.jsonl")
        >>> phrases >= sentences > 0
        True
    """
    if not (out or pairs):
        raise InputError("say where to write: out, pairs, or both")
    prepared, run = Prepared.open(prepared), find_run(alignment, "alignment")
    run.check_vectors(prepared)
    model, beta = run.model, run.beta if beta is None else beta
    photos = prepared.load(split)
    openers = opening_words(photos.captions)
    joiners = joining_words(photos.captions, openers)
    sentences = number = 0
    with ExitStack() as files:
        out, pairs = (_open(files, path) if path else None for path in (out, pairs))
        for start in tqdm(range(0, len(photos.filenames), PHOTOS_AT_ONCE), unit="batch", desc="align"):
            end = start + PHOTOS_AT_ONCE
            for row, caption, words, phrases in align_sentences(model, photos, run.vocabulary, beta, start, end):
                photo = {"filename": photos.filenames[row], "photo_id": int(photos.photo_ids[row])}
                found = [phrase_json(phrase, words, photos.boxes[row]) for phrase in phrases]
                sentences, number = sentences + 1, number + len(found)
                if out:
                    out.write(json.dumps({**photo, "sentence": caption, "phrases": found}, ensure_ascii=False) + "\n")
                for phrase in found if pairs else ():
                    for snippet in snippets(words[phrase["first"] : phrase["last"] + 1], openers, joiners):
                        write_pair(pairs, photo, phrase, " ".join(snippet))
    return sentences, number, beta


def _open(files, path):
    return files.enter_context(open(files.enter_context(whole_file(path)), "w", encoding="utf-8"))
