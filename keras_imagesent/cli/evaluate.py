"""Measure trained models on a split: retrieval, grounding, captions, beams, re-ranking, regions; print the tables.

Each model adds its tables; with none named, the shipped ones are measured. A run may be given a name, NAME=RUN, and
several may be compared. A data set's own file instead of a prepared folder is prepared first, into a folder beside the
tables. --out takes a folder (tables.json and tables.md are written there) or the JSON file itself (the Markdown is put
beside it).

example:
  imagesent evaluate dataset_flickr8k.json --photos Flickr8k_Dataset --split test --out tables
  imagesent evaluate prepared/flickr8k --split dev --alignment runs/alignment --captioner runs/captioner
  imagesent evaluate prepared/flickr8k --split dev --captioner best=runs/best paper=runs/paper --average --out tables
  imagesent evaluate prepared/flickr8k --split dev --captioner runs/captioner --region-captioner runs/regions \\
      --phrase-boxes phrase_boxes_dev.csv --photos images --pairs pairs.jsonl --alignment runs/alignment
"""

import dataclasses
import json
import shlex
import sys
from pathlib import Path

from keras_imagesent.errors import InputError
from keras_imagesent.shipped import shipped


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
    add("--folds", type=int, default=1, help="5 is COCO's 1K protocol of retrieval (1)")
    add("--paper", choices=["Flickr8K", "Flickr30K", "COCO"], default="Flickr8K", help="the paper's rows to set beside")
    add("--out", type=Path, metavar="PATH", help="where to write the tables: a folder or a .json file")


def run(args):
    if not (args.alignment or args.captioner or args.region_captioner):
        args.alignment, args.captioner = [f"shipped={shipped('alignment')}"], [f"shipped={shipped('captioner')}"]
        if args.photos and (args.phrase_boxes or args.region_snippets):
            args.region_captioner = shipped("region_captioner")
    alignments, captioners = named(args.alignment), named(args.captioner)
    if args.region_captioner and not (args.phrase_boxes or args.region_snippets):
        raise InputError("a region captioner is measured on boxes drawn by people: --phrase-boxes FILE")
    if args.region_captioner and not args.photos:
        raise InputError("the vectors under the human boxes come from the photos: --photos FOLDER")
    if any(beam < 1 for beam in args.beams):
        raise InputError("--beams are numbers from 1 up")

    from keras_imagesent.data.shards import Prepared

    if args.prepared.is_file():
        args.prepared = prepare_data_set(args)
    prepared = Prepared.open(args.prepared)
    photos = prepared.load(args.split)
    choose_on = args.choose_on or ("tune" if "tune" in prepared.splits else None)
    chooser = prepared.load(choose_on) if choose_on and choose_on != args.split else None
    tables, seed = [], seed_of([*alignments.values(), *captioners.values()])

    def show(*new):
        for table in new:
            table.seed = seed
            tables.append(table)
            print(table.to_markdown(), flush=True)

    command = "imagesent " + " ".join(map(shlex.quote, sys.argv[1:]))
    if alignments:
        alignment_tables(show, args, alignments, prepared, photos, command)
    if captioners:
        caption_tables(show, args, captioners, alignments, prepared, photos, chooser, command)
    if args.region_captioner:
        region_tables(show, args, captioners, alignments, prepared, photos, command)
    if args.out:
        write_tables(tables, args.out)


def seed_of(runs):
    """The seed that all runs were trained with; None if they differ or do not tell."""
    from keras_imagesent.data.run_files import read_settings

    seeds = {settings.get("seed") for run in runs if (settings := read_settings(run))}
    return seeds.pop() if len(seeds) == 1 else None


def prepare_data_set(args):
    """Prepares a data set's own file as `imagesent prepare` does; the prepared folder."""
    if not args.photos:
        raise InputError(f"{args.prepared} is a data set's file: say where its photos are with --photos")
    import argparse

    from keras_imagesent.cli import prepare

    folder = (args.out.parent if args.out.suffix == ".json" else args.out) if args.out else Path()
    folder /= f"{args.prepared.stem}.prepared"
    parser = argparse.ArgumentParser()
    prepare.add_arguments(parser)
    prepare.run(parser.parse_args([str(args.prepared), "--photos", str(args.photos), "--out", str(folder)]))
    return folder


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


def alignment_tables(show, args, runs, prepared, photos, command):
    from keras_imagesent.alignment.alignment_model import load_alignment
    from keras_imagesent.evaluation.alignment_tables import (
        grounding_table,
        magnitude_tables,
        read_items,
        retrieval_table,
    )
    from keras_imagesent.model.run import own_beta

    first, *others = runs.values()
    vocabulary = _vocabulary(first)
    for run in others:
        if _vocabulary(run).words != vocabulary.words:
            raise InputError(f"{run} speaks other words than {first}: measure them in two runs")
    takes = load_alignment(first).input["region_features"].shape[-1]
    if takes != prepared.feature_dim:
        raise InputError(
            f"{args.prepared} holds vectors of {prepared.feature_dim} numbers, {first} takes {takes}: "
            "prepare the photos with the backbone that it was trained on"
        )
    if vocabulary.words != prepared.vocabulary.words:  # trained on other photos: their sentences in its own words
        token_ids = [[vocabulary.encode(text) for text in captions] for captions in photos.captions]
        photos = dataclasses.replace(photos, token_ids=token_ids)
    paper = {"COCO": "COCO 1K" if args.folds > 1 else "COCO 5K"}.get(args.paper, args.paper)
    show(retrieval_table(runs, photos, args.split, paper, args.average, args.folds, command))
    if args.phrase_boxes:
        items = read_items(args.phrase_boxes)
        betas = {name: own_beta(run) for name, run in runs.items()}
        show(grounding_table(runs, photos, vocabulary, items, args.split, betas, command))
    show(*magnitude_tables(first, photos, vocabulary, args.split, command))


def _vocabulary(run):
    from keras_imagesent.data.vocabulary import Vocabulary

    return Vocabulary.load((run if run.is_dir() else run.parent) / "vocabulary.json")


def caption_tables(show, args, runs, alignments, prepared, photos, chooser, command):
    from keras_imagesent.evaluation.caption_tables import beam_table, caption_table, rerank_table, truth_table

    train = prepared.load("train")
    show(caption_table(runs, photos, train, args.split, args.paper, args.average, command))
    for name, run in runs.items():
        show(beam_table(run, photos, train, args.split, args.beams, name, command))
    alignment = next(iter(alignments.values()), None)
    if args.scenes:
        show(truth_table(runs, photos, args.scenes, args.split, alignment, chooser, command=command))
    if alignment and chooser:
        name, run = next(iter(runs.items()))
        show(rerank_table(run, alignment, photos, chooser, args.split, name, command=command))


def region_tables(show, args, captioners, alignments, prepared, photos, command):
    from tqdm import tqdm

    from keras_imagesent.data.caption_pairs import read_pairs
    from keras_imagesent.evaluation.alignment_tables import read_items
    from keras_imagesent.evaluation.caption_tables import region_table
    from keras_imagesent.evaluation.region_snippets import box_vectors, read_region_snippets, regions_of_phrases
    from keras_imagesent.model.run import load_keras

    if args.region_snippets:
        regions = read_region_snippets(args.region_snippets)
    else:
        regions = regions_of_phrases(read_items(args.phrase_boxes))
    here = set(photos.filenames)
    regions = [region for region in regions if region.filename in here]
    if not regions:
        raise InputError("none of the human boxes belongs to a photo of this split: compare the file names")
    backbone = load_keras(args.backbone or shipped("backbone.keras"), "backbone")
    if backbone.output_shape[-1] != prepared.feature_dim:
        raise InputError(
            f"{args.prepared} holds vectors of {prepared.feature_dim} numbers, the backbone gives "
            f"{backbone.output_shape[-1]}: name the one that made them with --backbone"
        )
    vectors, frames = box_vectors(regions, args.photos, backbone, progress=tqdm)
    snippets = {snippet for _, _, snippet in read_pairs(args.pairs)} if args.pairs else None
    frame_run, alignment = (next(iter(runs.values()), None) for runs in (captioners, alignments))
    show(
        region_table(
            args.region_captioner, frame_run, regions, vectors, frames, args.split, alignment, snippets, command
        )
    )


def write_tables(tables, out):
    """All tables as one JSON list and one Markdown file."""
    from keras_imagesent.data.atomic import write_json, write_whole

    file = out if out.suffix == ".json" else out / "tables.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, [json.loads(table.to_json()) for table in tables])
    markdown = file.with_suffix(".md")
    write_whole(markdown, "\n".join(table.to_markdown() for table in tables))
    print(f"{file}\n{markdown}")
