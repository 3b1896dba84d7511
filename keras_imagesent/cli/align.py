"""Tie the phrases of sentences to regions: one photo and a sentence, or a whole split.

For a photo the words are printed with the box that each belongs to; --picture draws them. For a split, --out gets one
line of JSON for each sentence with its phrases, and --pairs one for each (region, snippet) pair, which
`imagesent train-captioner --pairs` learns from.

example:
  imagesent align dog.jpg "a brown dog runs over the grass" --picture aligned.png
  imagesent align prepared/flickr8k --model runs/alignment --split train --out phrases.jsonl --pairs pairs.jsonl
"""

import json
import os
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

from keras_imagesent.data.tokeniser import tokenise
from keras_imagesent.errors import InputError

SNIPPET_WORDS = 6  # "A man wearing a black hat"; what people say of a box is shorter than what they say of a photo


def add_arguments(parser):
    add = parser.add_argument
    add("what", type=Path, metavar="PHOTO | PREPARED", help="a photo, or a folder that `imagesent prepare` wrote")
    add("sentence", nargs="?", help="the sentence of the photo")
    add("--model", type=Path, metavar="RUN", help="run folder of `imagesent train-alignment` (the shipped model)")
    add("--beta", type=float, help="from 0 (each word for itself) up (longer phrases); the model's own, else 1")
    add("--picture", type=Path, metavar="FILE", help="draw the photo with the phrases' boxes (.png, .svg)")
    add("--json", action="store_true", help="print JSON instead of text")
    add("--split", default="train", help="the split to align (train)")
    add("--out", type=Path, metavar="FILE", help="phrases of every sentence, JSON Lines")
    add("--pairs", type=Path, metavar="FILE", help="(region, snippet) pairs, JSON Lines")


def run(args):
    if args.beta is not None and args.beta < 0:
        raise InputError(f"--beta must be 0 or more, not {args.beta:g}")
    if not args.what.exists():
        raise InputError(f"{args.what} is neither a photo nor a prepared folder: there is nothing of that name")
    if args.what.is_dir():
        if not (args.out or args.pairs):
            raise InputError("say where to write: --out phrases.jsonl, --pairs pairs.jsonl, or both")
        align_split(args)
    else:
        if not args.sentence:
            raise InputError(f'give the sentence too: imagesent align {args.what} "a dog runs"')
        align_photo(args)


def align_photo(args):
    """Prints or draws one sentence on one photo."""
    import numpy as np
    import tensorflow as tf

    from keras_imagesent.alignment.phrases import group_phrases
    from keras_imagesent.serving.photo_model import load_photo_model

    options = {} if args.beta is None else {"beta": args.beta}
    model = load_photo_model(alignment=args.model, captioner=False, region_captioner=False, **options)
    found = model.align(tf.constant([args.what.read_bytes()]), tf.constant([args.sentence]))
    found = {name: value.numpy()[0] for name, value in found.items()}
    if found["status"] != b"ok":
        raise InputError(f"{args.what}: {found['status'].decode()}")
    words = [word.decode() for word in found["words"] if word]
    if not found["word_mask"].any():
        raise InputError(f"the model knows no word of {args.sentence!r}")
    regions = found["phrase_regions"][: len(words)]
    phrases = [_phrase_json(p, words, found["boxes"]) for p in group_phrases(regions, found["similarity"])]
    if args.json:
        print(json.dumps({"sentence": args.sentence, "score": float(found["score"]), "phrases": phrases}))
    else:
        width = max(len(phrase["words"]) for phrase in phrases)
        for phrase in phrases:
            box = " ".join(f"{corner:.3f}" for corner in phrase["box"])
            print(f"{phrase['words']:<{width}}  region {phrase['region']:2d}  box {box}  score {phrase['score']:.2f}")
    if args.picture:
        from keras_imagesent.report.pictures import draw_alignment

        scores = [found["similarity"][t, max(region, 0)] for t, region in enumerate(regions)]
        draw_alignment(args.what, words, np.asarray(found["boxes"]), regions, scores).save(args.picture)
        print(args.picture)


def align_split(args):
    """Writes the phrases and pairs of all sentences of a split."""
    from tqdm import tqdm

    from keras_imagesent.alignment.alignment_model import load_alignment
    from keras_imagesent.data.shards import Prepared
    from keras_imagesent.data.vocabulary import Vocabulary
    from keras_imagesent.shipped import shipped

    prepared = Prepared.open(args.what)
    run = args.model or shipped("alignment")
    model = load_alignment(run)
    vocabulary = Vocabulary.load((run if run.is_dir() else run.parent) / "vocabulary.json")
    beta = args.beta if args.beta is not None else own_beta(run)
    photos = prepared.load(args.split)
    openers = opening_words(photos.captions)
    joiners = joining_words(photos.captions, openers)
    number = pairs = 0
    with ExitStack() as files:
        out, pairs_out = (files.enter_context(_whole_file(path)) if path else None for path in (args.out, args.pairs))
        for start in tqdm(range(0, len(photos.filenames), 200), unit="batch", desc="align"):
            for row, caption, words, phrases in aligned_sentences(model, photos, vocabulary, beta, start, start + 200):
                photo = {"filename": photos.filenames[row], "photo_id": int(photos.photo_ids[row])}
                found = [_phrase_json(phrase, words, photos.boxes[row]) for phrase in phrases]
                number += 1
                pairs += len(found)
                if out:
                    out.write(json.dumps({**photo, "sentence": caption, "phrases": found}, ensure_ascii=False) + "\n")
                for phrase in found if pairs_out else ():
                    pair = {**photo, "region": phrase["region"], "box": phrase["box"]}
                    for snippet in snippets(words[phrase["first"] : phrase["last"] + 1], openers, joiners):
                        pair |= {"snippet": " ".join(snippet), "score": phrase["score"]}
                        pairs_out.write(json.dumps(pair, ensure_ascii=False) + "\n")
    where = " and ".join(str(path) for path in (args.out, args.pairs) if path)
    print(f"{number} sentences, {pairs} phrases with beta {beta:g}: {where}")


def aligned_sentences(model, photos, vocabulary, beta, start, end):
    """`(row, caption, words as typed, phrases)` of every sentence of the photos in rows start..end-1."""
    import numpy as np

    from keras_imagesent.alignment.encode import encode_photos, encode_sentences, word_similarities
    from keras_imagesent.alignment.phrases import decode_phrases, group_phrases

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


def opening_words(captions, share=0.0025):
    """Words that only open what follows ("a", "with", "is"): sentences end with them at less than this share of the
    times that they are used. A word used fewer than 1 / share times may just not have ended one yet.

    Example:
        opening_words([["a dog", "a cat with a dog"] * 500])  # {"a", "cat", "with"}
    """
    used, last = Counter(), Counter()
    for words in (tokenise(caption) for group in captions for caption in group):
        used.update(words)
        last.update(words[-1:])
    return {word for word, times in used.items() if last[word] + 1 < share * times}


def joining_words(captions, openers, share=0.01):
    """Those opening words that join what they open to what was said before ("with", "is", not "a"): sentences begin
    with them at less than this share of the times that they are used.

    Example:
        joining_words([["a dog", "a cat with a dog"] * 500], {"a", "with"})  # {"with"}
    """
    used, first = Counter(), Counter()
    for words in (tokenise(caption) for group in captions for caption in group):
        used.update(words)
        first.update(words[:1])
    return {word for word in openers if first[word] < share * used[word]}


def snippets(words, openers, joiners, most=SNIPPET_WORDS):
    """What a phrase, words as typed, says of its region, in snippets of about as many words as people would use.

    It is cut where an opening word follows one that is none, if it would have more than `most` words. What joins a
    snippet to the one before is left out, and so is what is left open at its end. A word alone teaches nobody to
    describe a region.

    Example:
        snippets("A dog with a ball is wet".split(), {"a", "with", "is"}, {"with", "is"}, 5)  # "A dog with a ball"
    """
    parts, opening = [], False
    for word in words:
        opens = openers.issuperset(tokenise(word))
        if not parts or (opens and not opening):
            parts.append([])
        parts[-1].append(word)
        opening = opens

    def trim(snippet):
        inner = [n for n, word in enumerate(snippet) if not joiners.issuperset(tokenise(word))]
        closed = [n for n, word in enumerate(snippet) if not openers.issuperset(tokenise(word))]
        return snippet[inner[0] : closed[-1] + 1] if closed else []

    found = [[]]
    for part in parts:
        if len(trim(found[-1] + part)) > most:
            found.append([])
        found[-1] += part
    return [snippet for snippet in map(trim, found) if len(snippet) > 1]


def own_beta(run):
    """The beta that a run chose on its validation split; 1 if it chose none."""
    path = (run if run.is_dir() else run.parent) / "settings.json"
    settings = json.loads(path.read_text()) if path.is_file() else {}
    return 1.0 if settings.get("beta") is None else float(settings["beta"])


def _phrase_json(phrase, words, boxes):
    return {
        "words": phrase.text(words),
        "first": phrase.first,
        "last": phrase.last,
        "region": phrase.region,
        "box": [round(float(corner), 4) for corner in boxes[phrase.region]],
        "score": round(phrase.score, 4),
    }


@contextmanager
def _whole_file(path):
    """A text file that appears under its name when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
