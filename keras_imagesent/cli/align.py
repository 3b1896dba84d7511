"""Tie the phrases of sentences to regions: one photo and a sentence, or a whole split.

For a photo the words are printed with the box that each belongs to; --picture draws them. For a split, --out gets one
line of JSON for each sentence with its phrases, and --pairs one for each (region, snippet) pair, which
`imagesent train-captioner --pairs` learns from.

example:
  imagesent align dog.jpg "a brown dog runs over the grass" --picture aligned.png
  imagesent align prepared/flickr8k --alignment runs/alignment --split train --out phrases.jsonl --pairs pairs.jsonl
"""

import json
import sys
from pathlib import Path

from keras_imagesent.cli.answers import HELP, load_answers
from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError


def add_arguments(parser):
    add = parser.add_argument
    add("what", type=Path, metavar="PHOTO | PREPARED", help="a photo, or a folder that `imagesent prepare` wrote")
    add("sentence", nargs="?", help="the sentence of the photo")
    add("--alignment", type=Path, metavar="RUN", help="run of train-alignment (the shipped one)")
    add("--beta", type=float, help="from 0 (each word for itself) up (longer phrases); the model's own, else 1")
    add("--picture", type=Path, metavar="FILE", help="draw the photo with the phrases' boxes (.png, .svg)")
    add("--exported", metavar="FOLDER", help=HELP)
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
        align_prepared(args)
    else:
        if not args.sentence:
            raise InputError(f'give the sentence too: imagesent align {args.what} "a dog runs"')
        align_photo(args)


def align_photo(args):
    """Prints or draws one sentence on one photo."""
    import numpy as np

    from keras_imagesent.alignment.phrases import group_phrases, phrase_json

    model = load_answers(
        ["align"],
        args.exported,
        {"alignment": args.alignment},
        beta=args.beta,
        alignment=args.alignment,
        captioner=False,
        region_captioner=False,
    )
    found = model.predict("align", [to_decodable(args.what.read_bytes())], [args.sentence])
    found = {name: value[0] for name, value in found.items()}
    if found["status"] != "ok":
        raise InputError(f"{args.what}: {found['status']}")
    words = [word for word in found["words"] if word]
    unknown, cut = left_out(args.sentence, model.vocabulary, model.max_words)
    if not found["word_mask"].any():
        raise InputError(f"the model knows no word of {args.sentence!r}")
    regions = found["phrase_regions"][: len(words)]
    phrases = [phrase_json(p, words, found["boxes"]) for p in group_phrases(regions, found["similarity"])]
    if args.json:
        answer = {"sentence": args.sentence, "score": float(found["score"]), "phrases": phrases}
        print(json.dumps({**answer, "unknown": unknown, "cut": cut}))
    else:
        width = max(len(phrase["words"]) for phrase in phrases)
        for phrase in phrases:
            box = " ".join(f"{corner:.3f}" for corner in phrase["box"])
            print(f"{phrase['words']:<{width}}  region {phrase['region']:2d}  box {box}  score {phrase['score']:.2f}")
    if unknown:
        print(f"imagesent: the model does not know {', '.join(unknown)}: no region for it", file=sys.stderr)
    if cut:
        print(f"imagesent: only {model.max_words} words are looked at; left out: {' '.join(cut)}", file=sys.stderr)
    if args.picture:
        from keras_imagesent.report.pictures import draw_alignment

        scores = [found["similarity"][t, max(region, 0)] for t, region in enumerate(regions)]
        draw_alignment(args.what, words, np.asarray(found["boxes"]), regions, scores).save(args.picture)
        print(args.picture)


def left_out(sentence, vocabulary, most):
    """The words that an alignment leaves out, as typed: those it does not know, and the known ones after `most`.

    Example:
        left_out("a zzz dog runs", vocabulary, 2)  # (["zzz"], ["runs"])
    """
    unknown, known = [], []
    for word, number in vocabulary.positions(sentence):
        (known if number > 0 else unknown).append(word)
    return unknown, known[most:]


def align_prepared(args):
    """Writes the phrases and pairs of all sentences of a split."""
    from keras_imagesent.model.align_split import align_split

    sentences, phrases, beta = align_split(args.what, args.split, args.alignment, args.beta, args.out, args.pairs)
    where = " and ".join(str(path) for path in (args.out, args.pairs) if path)
    print(f"{sentences} sentences, {phrases} phrases with beta {beta:g}: {where}")
