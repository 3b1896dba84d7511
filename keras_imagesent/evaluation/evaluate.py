"""Every table of results that trained models and a prepared split give."""

import dataclasses
import json
from pathlib import Path

from tqdm import tqdm

from keras_imagesent.data.atomic import write_json, write_whole
from keras_imagesent.data.caption_pairs import read_pairs
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.alignment_tables import grounding_table, magnitude_tables, read_items, retrieval_table
from keras_imagesent.evaluation.caption_tables import beam_table, caption_table, region_table, rerank_table, truth_table
from keras_imagesent.evaluation.confidence import confidence_table
from keras_imagesent.evaluation.region_snippets import (
    box_classes,
    box_vectors,
    read_region_snippets,
    regions_of_phrases,
)
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.model.run import Run, find_run, load_keras
from keras_imagesent.shipped import shipped


def evaluate(
    prepared,
    split="test",
    alignments=None,
    captioners=None,
    region_captioner=None,
    choose_on=None,
    phrase_boxes=None,
    region_snippets=None,
    photos=None,
    backbone=None,
    pairs=None,
    scenes=None,
    beams=(1, 3, 7),
    average=False,
    folds=1,
    paper="Flickr8K",
    command="",
    show=lambda table: None,
) -> list[Table]:
    """Measures trained models on a split: retrieval, grounding, captions, beams, re-ranking, regions.

    Args:
        prepared: folder that `prepare` wrote.
        split: the photos to measure on.
        alignments: name -> run folder of `train_alignment`; the first one ranks captions anew.
        captioners: name -> run folder of `train_captioner` on whole photos. With neither, the shipped models.
        region_captioner: run folder of `train_captioner` on pairs of regions and snippets.
        choose_on: the split that the re-ranking weight is chosen on; None takes "tune", if it is there.
        phrase_boxes: boxes that people drew for phrases: a CSV, or the folder of Flickr30k Entities.
        region_snippets: a CSV of boxes with snippets of several annotators, instead.
        photos: folder of the photos, to look under those boxes.
        backbone: the `.keras` file that made the vectors; None is the shipped one.
        pairs: file of training snippets: adds the best one as a baseline of regions.
        scenes: folder of generated scenes: adds how many captions are true.
        beams: the beams to compare.
        average: whether to add the mean of each run's best epochs.
        folds: 5 is COCO's 1K protocol of retrieval.
        paper: whose rows of the paper to set beside: "Flickr8K", "Flickr30K" or "COCO".
        command: what made the tables, written under each.
        show: called with each table as soon as it is there.

    Returns:
        The tables, in the order in which they were made.

    Example:
        >>> tables = ki.evaluate("prepared", "val", captioners={"mine": "captioner"}, beams=[1])
        >>> [table.title for table in tables]
        ['Captions of whole photos', 'Beam size and novelty']
    """
    if not (alignments or captioners or region_captioner):
        alignments, captioners = {"shipped": shipped("alignment")}, {"shipped": shipped("captioner")}
        if photos and (phrase_boxes or region_snippets):
            region_captioner = shipped("region_captioner")
    if region_captioner and not (phrase_boxes or region_snippets):
        raise InputError("a region captioner is measured on boxes drawn by people: give phrase_boxes")
    if region_captioner and not photos:
        raise InputError("the vectors under the human boxes come from the photos: say where the photos are")
    if any(beam < 1 for beam in beams):
        raise InputError("beams are numbers from 1 up")
    aligners = {name: Run(path, "alignment") for name, path in (alignments or {}).items()}
    speakers = {name: Run(path, "captioner") for name, path in (captioners or {}).items()}
    prepared = Prepared.open(prepared)
    rows = prepared.load(split)
    choose_on = choose_on or ("tune" if "tune" in prepared.splits else None)
    chooser = prepared.load(choose_on) if choose_on and choose_on != split else None
    seed, tables = seed_of([*aligners.values(), *speakers.values()]), []

    def add(*new):
        for table in new:
            table.seed = seed
            tables.append(table)
            show(table)

    if aligners:
        known = in_own_words(aligners, prepared, rows)
        edition = {"COCO": "COCO 1K" if folds > 1 else "COCO 5K"}.get(paper, paper)
        add(retrieval_table(aligners, known, split, edition, average, folds, command))
        if phrase_boxes:
            add(grounding_table(aligners, known, read_items(phrase_boxes), split, command))
        add(*magnitude_tables(next(iter(aligners.values())), known, split, command))
    aligner = next(iter(aligners.values()), None)
    if speakers:
        train = prepared.load("train")
        add(caption_table(speakers, rows, train, split, paper, average, command))
        for name, run in speakers.items():
            add(beam_table(run, rows, train, split, beams, name, command))
            if constants := run.settings.get("confidence"):  # of `imagesent calibrate`
                said = CaptionSearch(run).captions_and_log_probs(rows)
                add(confidence_table(*said, rows.captions, constants, split, command))
        if scenes:
            add(truth_table(speakers, rows, scenes, split, aligner, chooser, command=command))
        if aligner and chooser:
            name, run = next(iter(speakers.items()))
            add(rerank_table(run, aligner, rows, chooser, split, name, command=command))
    if region_captioner:
        items = read_region_snippets(region_snippets) if region_snippets else None
        regions = items or regions_of_phrases(read_items(phrase_boxes))
        vectors = vectors_under(regions, rows, prepared, photos, backbone)
        snippets = {snippet for _, _, snippet in read_pairs(pairs)} if pairs else None
        speaker = next(iter(speakers.values()), None)
        region_run = find_run(region_captioner, "region_captioner")
        classes = box_classes(vectors[0], rows)
        add(region_table(region_run, speaker, *vectors, split, aligner, snippets, command, classes))
    return tables


def in_own_words(runs, prepared, photos):
    """The photos with their sentences as ids of the runs' vocabulary, which must be one for all."""
    first, *others = runs.values()
    for run in others:
        if run.vocabulary.words != first.vocabulary.words:
            raise InputError(f"{run.folder} knows other words than {first.folder}: measure them in two runs")
    takes = first.model.input["region_features"].shape[-1]
    if takes != prepared.feature_dim:
        raise InputError(
            f"{prepared.folder} holds vectors of {prepared.feature_dim} numbers, {first.folder} takes {takes}: "
            "prepare the photos with the backbone that it was trained on"
        )
    if first.vocabulary.words == prepared.vocabulary.words:
        return photos
    token_ids = [[first.vocabulary.encode(text) for text in captions] for captions in photos.captions]
    return dataclasses.replace(photos, token_ids=token_ids)


def vectors_under(regions, rows, prepared, photos, backbone):
    """The described regions of this split's photos, and the vectors under them and of their frames."""
    here = set(rows.filenames)
    regions = [region for region in regions if region.filename in here]
    if not regions:
        raise InputError("none of the human boxes belongs to a photo of this split: compare the file names")
    backbone = load_keras(backbone or shipped("backbone.keras"), "backbone")
    if backbone.output_shape[-1] != prepared.feature_dim:
        raise InputError(
            f"{prepared.folder} holds vectors of {prepared.feature_dim} numbers, the backbone gives "
            f"{backbone.output_shape[-1]}: name the backbone that made them"
        )
    return regions, *box_vectors(regions, Path(photos), backbone, progress=tqdm)


def seed_of(runs):
    """The seed that all runs were trained with; None if they differ or do not tell."""
    seeds = {run.settings.get("seed") for run in runs if run.settings}
    return seeds.pop() if len(seeds) == 1 else None


def write_tables(tables, out):
    """All tables as one JSON list and one Markdown file; `out` is a folder or the JSON file. Both paths."""
    out = Path(out)
    file = out if out.suffix == ".json" else out / "tables.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    markdown = "\n".join(table.to_markdown() for table in tables)
    return write_json(file, [json.loads(table.to_json()) for table in tables]), write_whole(
        file.with_suffix(".md"), markdown
    )
