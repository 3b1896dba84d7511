"""Measure trained models on a split: retrieval, grounding, captions, beams, re-ranking, regions; print the tables.

Each data set of the prepared folder is measured by itself, beside the paper's row of that set if there is one. Each
model adds its tables; with none named, the shipped ones are measured. A run may be given a name, NAME=RUN, and several
may be compared. A data set's own file instead of a prepared folder is prepared first, into a folder beside the tables.
--out takes a folder (tables.json and tables.md are written there) or the JSON file itself (the Markdown is put beside
it).

example:
  imagesent evaluate dataset_flickr8k.json --photos Flickr8k_Dataset --split test --out tables
  imagesent evaluate prepared/flickr8k --split dev --alignment runs/alignment --captioner runs/captioner
  imagesent evaluate prepared/flickr8k --split dev --captioner best=runs/best paper=runs/paper --average --out tables
  imagesent evaluate prepared/flickr8k --split dev --captioner runs/captioner --region-captioner runs/regions \\
      --phrase-boxes phrase_boxes_dev.csv --photos images --pairs pairs.jsonl --alignment runs/alignment
"""

import shlex
import sys
from pathlib import Path

from keras_imagesent.errors import InputError


def add_arguments(parser):
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote, or a data set's file (with --photos)")
    add("--split", default="test", help="the photos to measure on (test)")
    add("--choose-on", metavar="SPLIT", help="split that the re-ranking weight is chosen on (tune, if there)")
    add(
        "--alignment", nargs="+", default=[], metavar="[NAME=]RUN", help="runs of train-alignment; the first ranks anew"
    )
    add("--captioner", nargs="+", default=[], metavar="[NAME=]RUN", help="runs of train-captioner on whole photos")
    add("--region-captioner", metavar="RUN", help="run of train-captioner on region pairs")
    add("--phrase-boxes", "--boxes", type=Path, metavar="FILE", help="human boxes: CSV, or Flickr30k Entities' folder")
    add("--region-snippets", type=Path, metavar="CSV", help="boxes with snippets of several annotators instead")
    add("--photos", type=Path, metavar="FOLDER", help="the photos of a data set's file, or to look under human boxes")
    add("--backbone", type=Path, metavar="FILE", help="the .keras that made the vectors (the shipped one)")
    add("--pairs", type=Path, metavar="FILE", help="training snippets of `imagesent align --pairs`: a region baseline")
    add("--scenes", type=Path, metavar="FOLDER", help="folder of `imagesent scenes`: how many captions are true")
    add("--beams", type=int, nargs="+", default=[1, 3, 7], help="beams to compare (1 3 7)")
    add("--average", action="store_true", help="also the mean of each run's best epochs, as the paper reports")
    add("--folds", type=int, default=1, help="retrieval as the mean of so many parts of the photos (1)")
    add("--subset", type=int, metavar="N", help="only the first N photos of each set: 1000 of COCO is the paper's 1K")
    add("--paper", type=str.lower, choices=["flickr8k", "flickr30k", "coco"], default="", help="what a nameless set is")
    add("--beside", nargs="+", default=[], metavar="[NAME=]TABLES", help="another evaluation's things, in own columns")
    add("--out", type=Path, metavar="PATH", help="where to write the tables: a folder or a .json file")


def run(args):
    options = {"alignments": named(args.alignment), "captioners": named(args.captioner), "beside": named(args.beside)}

    from keras_imagesent.evaluation.evaluate import evaluate, write_tables

    if args.prepared.is_file():
        args.prepared = prepare_data_set(args)
    names = (
        "region_captioner", "choose_on", "phrase_boxes", "region_snippets", "photos", "backbone", "pairs", "scenes",
        "beams", "average", "folds", "subset", "paper",
    )  # fmt: skip
    tables = evaluate(
        args.prepared,
        args.split,
        **options,
        **{name: getattr(args, name) for name in names},
        command="imagesent " + " ".join(map(shlex.quote, sys.argv[1:])),
        show=lambda table: print(table.to_markdown(), flush=True),
    )
    if args.out:
        print(*write_tables(tables, args.out), sep="\n")


def prepare_data_set(args):
    """Prepares a data set's own file as `imagesent prepare` does; the prepared folder."""
    from keras_imagesent.regions.prepare_dataset import prepare_dataset

    if not args.photos:
        raise InputError(f"{args.prepared} is a data set's file: say where its photos are with --photos")
    folder = (args.out.parent if args.out.suffix == ".json" else args.out) if args.out else Path()
    return prepare_dataset(args.prepared, args.photos, folder / f"{args.prepared.stem}.prepared")


def named(runs):
    """`["best=runs/a", "runs/b"]` -> `{"best": Path("runs/a"), "b": Path("runs/b")}`."""
    found = {}
    for text in runs:
        name, equals, path = text.rpartition("=")
        path = Path(path)
        if not path.exists():
            raise InputError(f"no run at {path}")
        name = name if equals else path.stem
        if name in found:
            raise InputError(f"two runs are called {name}: give them names, such as first={path}")
        found[name] = path
    return found
