"""Learn how sure captions and search results are, on photos that were not trained on, and note it in the runs.

A caption's confidence p means: people name a share p of its things. The constants go into the runs' settings.json, from
where every export takes them along; `imagesent evaluate` then shows the reliability curve. Without a run, the shipped
models are measured and the constants only printed.

example:
  imagesent calibrate prepared --split tune --captioner runs/captioner --alignment runs/alignment
"""

import json
from pathlib import Path

from keras_imagesent.errors import InputError


def add_arguments(parser):
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote")
    add("--split", default="tune", help="photos that the models were not trained on (tune)")
    add("--captioner", type=Path, metavar="RUN", help="run of train-captioner, for the confidence of captions")
    add("--alignment", type=Path, metavar="RUN", help="run of train-alignment, for the matches of a search")


def run(args):
    from keras_imagesent.data.prepared import Prepared
    from keras_imagesent.model.run import Run

    if args.split == "train":
        raise InputError("--split train: a model is too sure of the photos it was trained on; take tune, val or dev")
    prepared = Prepared.open(args.prepared)
    for path in filter(None, (args.captioner, args.alignment)):
        Run(path).check_vectors(prepared)
    photos = prepared.load(args.split)
    nothing_named = not (args.captioner or args.alignment)
    if args.captioner or nothing_named:
        keep(args.captioner, "confidence", fit_captions(args.captioner, photos))
    if args.alignment or nothing_named:
        keep(args.alignment, "match", fit_search(args.alignment, photos))


def fit_captions(run, photos):
    from keras_imagesent.evaluation.confidence import confidence_table, fit
    from keras_imagesent.model.caption_search import CaptionSearch
    from keras_imagesent.model.run import find_run

    captions, log_probs = CaptionSearch(find_run(run, "captioner")).captions_and_log_probs(photos)
    constants = fit(captions, log_probs, photos.captions)
    print(confidence_table(captions, log_probs, photos.captions, constants, "the one fitted on").to_markdown())
    return constants


def fit_search(run, photos):
    from keras_imagesent.alignment.encode import encode_photos, encode_sentences
    from keras_imagesent.evaluation.confidence import fit_match, thing_queries
    from keras_imagesent.evaluation.retrieval import score_pairs
    from keras_imagesent.model.run import find_run

    part = find_run(run, "alignment")
    queries = thing_queries(part.vocabulary.words)
    if not queries:
        raise InputError("the model knows the name of no thing in things.json: it cannot be calibrated")
    words = encode_sentences(part.model, [part.vocabulary.encode(query) for _, query in queries])
    regions = encode_photos(part.model, photos.regions())
    scores = score_pairs(regions, words, photos.region_mask, "mean_max_sim")
    return fit_match(scores, photos.captions, [thing for thing, _ in queries])


def keep(run, name, constants):
    """Puts constants into a run's settings.json; without a run they are only printed."""
    from keras_imagesent.data.atomic import write_json

    print(f'"{name}": {json.dumps(constants)}')
    if run:
        path = (run if run.is_dir() else run.parent) / "settings.json"
        settings = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        print(write_json(path, {**settings, name: constants}))
