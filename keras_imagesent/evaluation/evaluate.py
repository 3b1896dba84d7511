"""Every table of results that trained models and a prepared split give."""

import json
from pathlib import Path

from tqdm import tqdm

from keras_imagesent.data.atomic import write_json, write_whole
from keras_imagesent.data.caption_pairs import read_pairs
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation import alignment_tables, caption_tables
from keras_imagesent.evaluation.classes_named import classes_table
from keras_imagesent.evaluation.confidence import confidence_table
from keras_imagesent.evaluation.paper_rows import remark
from keras_imagesent.evaluation.region_snippets import (
    box_classes,
    box_vectors,
    read_region_snippets,
    regions_of_phrases,
)
from keras_imagesent.evaluation.tables import Table, put_beside, read_tables
from keras_imagesent.evaluation.things import things_table
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.model.run import Run, find_run, load_keras
from keras_imagesent.regions.coco_labels import COCO_LABELS
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
    subset=None,
    paper="",
    beside=None,
    command="",
    show=lambda table: None,
) -> list[Table]:
    """Measures trained models on a split: retrieval, grounding, captions, beams, things named, re-ranking, regions.

    Each data set of the folder is measured by itself, beside the paper's row of that set and about as many photos if
    there is one: the set's name says so (flickr8k, flickr30k, coco).

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
        folds: retrieval as the mean of so many parts of the photos, each measured alone.
        subset: takes only the first so many photos of each set: 1,000 of COCO's 5,000 are the paper's 1K.
        paper: what a data set without a name is: "flickr8k", "flickr30k" or "coco".
        beside: name -> tables.json of another evaluation of the same photos, whose shares of things and classes named
            get a column here.
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
    if region_captioner and (phrase_boxes or region_snippets) and not photos:
        raise InputError("the vectors under the human boxes come from the photos: say where the photos are")
    if any(beam < 1 for beam in beams):
        raise InputError("beams are numbers from 1 up")
    aligners = {name: Run(path, "alignment") for name, path in (alignments or {}).items()}
    speakers = {name: Run(path, "captioner") for name, path in (captioners or {}).items()}
    region_run = find_run(region_captioner, "region_captioner") if region_captioner else None
    prepared = Prepared.open(prepared)
    check_vectors(aligners.values(), prepared)
    for run in [*aligners.values(), *speakers.values(), *([region_run] if region_run else [])]:
        run.check_vectors(prepared)
    rows = prepared.load(split)
    seed, made = seed_of([*aligners.values(), *speakers.values()]), {"split": split, "command": command}
    beside = {name: read_tables(file) for name, file in (beside or {}).items()}
    tables: list[Table] = []

    def add(found, name, remarks=""):
        for table in found:
            table.seed, table.data_set = seed, name
            table.note = " ".join(text for text in (table.note, remarks) if text)
            for other, theirs in beside.items():
                put_beside(table, other, theirs)
            tables.append(table)
            show(table)

    items = alignment_tables.read_items(phrase_boxes) if phrase_boxes else []
    drawn = read_region_snippets(region_snippets) if region_snippets else regions_of_phrases(items)
    if items and not {item.filename for item in items} & set(rows.filenames):
        raise InputError("none of the phrase boxes belongs to a photo of this split: compare the file names")
    choose_on = choose_on or ("tune" if "tune" in prepared.splits else None)
    chooser = prepared.load(choose_on) if choose_on and choose_on != split else None
    train = prepared.load("train", frames_only=True) if speakers and "train" in prepared.splits else None
    aligner, speaker = (next(iter(runs.values()), None) for runs in (aligners, speakers))
    weights = caption_tables.rerank_weights(speaker, aligner, chooser) if speaker and aligner and chooser else None
    snippets = {snippet for _, _, snippet in read_pairs(pairs)} if pairs else None
    for name, known in rows.by_set(subset).items():
        theirs, here = name or paper, set(known.filenames)
        remarks = remark(theirs, len(known.filenames), prepared.settings.get("detector"))
        if aligners:
            found = [alignment_tables.retrieval_table(aligners, known, split, theirs, average, folds, command)]
            if any(item.filename in here for item in items):
                found.append(alignment_tables.grounding_table(aligners, known, items, **made))
            add(found, name, remarks)
        if speakers:
            add(tables_of_captions(speakers, known, train, theirs, beams, average, **made), name, remarks)
        if speakers and scenes:
            add([caption_tables.truth_table(speakers, known, scenes, split, aligner, chooser, command=command)], name)
        if weights:
            first = next(iter(speakers))
            add([caption_tables.rerank_table(speaker, aligner, known, weights, name=first, **made)], name, remarks)
        regions = [region for region in drawn if region.filename in here]
        if region_run and regions:
            vectors = vectors_under(regions, prepared, photos, backbone)
            kinds = box_classes(regions, known)
            table = caption_tables.region_table(
                region_run, speaker, regions, *vectors, split, aligner, snippets, theirs, command, kinds
            )
            add([table], name, remarks)
        if region_run and prepared.classes == len(COCO_LABELS):
            runs = {"region model": region_run, "whole-frame model": speaker}
            add([classes_table({label: run for label, run in runs.items() if run}, known, **made)], name, remarks)
    if aligners and chooser:
        add([alignment_tables.beta_table(aligners, chooser, choose_on, command)], "")
    for name, run in aligners.items():
        if alignment_tables.has_lengths(run) and run.settings.get("sentences") != "trees":
            add(alignment_tables.magnitude_tables(run, rows, name=name, **made), "")
    if region_run and drawn and not any(table.name == "regions" for table in tables):
        raise InputError("none of the human boxes belongs to a photo of this split: compare the file names")
    return tables


def tables_of_captions(runs, photos, train, paper, beams, average, split, command):
    """The captions of whole photos: scores, the beams of each run, how sure it is, and the things that they name."""
    yield caption_tables.caption_table(runs, photos, train, split, paper, average, command)
    captions = {}
    for name, run in runs.items():
        yield caption_tables.beam_table(run, photos, train, split, beams, name, paper, command)
        captions[name], log_probs = CaptionSearch(run).captions_and_log_probs(photos)
        if constants := run.settings.get("confidence"):  # of `imagesent calibrate`
            yield confidence_table(captions[name], log_probs, photos.captions, constants, split, command)
    things = things_table(captions, photos.captions, split, command)
    if len(things.rows) > 1:
        yield things


def check_vectors(runs, prepared):
    """Refuses runs that take other vectors than the folder holds."""
    for run in runs:
        takes = run.model.input["region_features"].shape[-1]
        if takes != prepared.feature_dim:
            raise InputError(
                f"{prepared.folder} holds vectors of {prepared.feature_dim} numbers, {run.folder} takes {takes}: "
                "prepare the photos with the backbone that it was trained on"
            )


def vectors_under(regions, prepared, photos, backbone):
    """The vectors under described regions, and of their photos' frames."""
    backbone = load_keras(backbone or shipped("backbone.keras"), "backbone")
    if backbone.output_shape[-1] != prepared.feature_dim:
        raise InputError(
            f"{prepared.folder} holds vectors of {prepared.feature_dim} numbers, the backbone gives "
            f"{backbone.output_shape[-1]}: name the backbone that made them"
        )
    return box_vectors(regions, Path(photos), backbone, progress=tqdm)


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
