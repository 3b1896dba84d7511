"""A whole report from a prepared split and trained models; what was computed once is kept in its folder."""

import json
from functools import partial
from pathlib import Path

from tqdm import tqdm

from keras_imagesent.data.atomic import write_json
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.shards import digest
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.magnitudes import region_magnitudes, word_magnitudes
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.model.run import find_run
from keras_imagesent.report.alignments import align_split
from keras_imagesent.report.captions import caption_split
from keras_imagesent.report.curves import read_log
from keras_imagesent.report.pages import write_report
from keras_imagesent.report.thumbnails import crop_region, make_thumbnails


def make_report(
    prepared,
    split,
    photos,
    out,
    alignment=None,
    captioner=None,
    region_captioner=None,
    tables=(),
    beta=None,
    title=None,
    say=lambda text: None,
) -> Path:
    """Writes the pages about one split: photos, captions, galleries, magnitudes, curves and tables.

    Args:
        prepared: folder that `prepare` wrote.
        split: the photos to show.
        photos: folder of the photos.
        out: the report's folder, new or to be written again.
        alignment, captioner, region_captioner: run folders; None is the shipped run, False leaves it out.
        tables: files that `evaluate` wrote.
        beta: strength of the ties between neighboring words; None takes the alignment's own.
        title: at the head of every page; None is the split and its number of photos.
        say: called with a line of text at the start of each long step.

    Returns:
        The path of its first page.

    Example:
        make_report("prepared", "dev", "images", "report", alignment="runs/alignment")
    """
    out, folder, tables = Path(out), Path(photos), [table for path in tables for table in read_tables(path)]
    prepared = Prepared.open(prepared)
    shown = prepared.load(split)
    made_from = [digest(prepared.settings), split]
    progress = partial(tqdm, desc="thumbnails", disable=None)
    thumbnails = make_thumbnails(shown.filenames, folder, out / "thumbs", progress)
    named = {"alignment": alignment, "captioner": captioner, "region_captioner": region_captioner}
    runs = {name: find_run(path, name) for name, path in named.items()}
    aligned = magnitudes = captions = None
    if runs["alignment"]:
        beta = runs["alignment"].beta if beta is None else beta
        key = [*made_from, runs["alignment"].digest, beta]
        found = cached(out, "alignment", key, lambda: _align(runs["alignment"], shown, beta, say))
        aligned, magnitudes = found["alignment"], _magnitudes(found, shown, folder, out / "crops")
    if runs["captioner"]:
        key = [*made_from, *(runs[name] and runs[name].digest for name in ("captioner", "region_captioner"))]
        captions = cached(out, "captions", key, lambda: _caption(runs, prepared, split, shown, say))
    title = title or f"{split}, {len(shown.filenames):,} photos"
    logs = {name.replace("_", " "): read_log(run.folder) for name, run in runs.items() if run and run.log}
    write_report(out, title, shown, thumbnails, aligned, captions, tables, logs, magnitudes)
    return out / "index.html"


def _align(run, photos, beta, say):
    """The alignments, and the words and regions with the longest vectors."""
    say("alignments ...")
    sentences = [run.vocabulary.encode(text) for captions in photos.captions for text in captions]
    return {
        "alignment": align_split(run.model, run.vocabulary, photos, beta),
        "words": word_magnitudes(run.model, [ids for ids in sentences if ids], run.vocabulary),
        "regions": region_magnitudes(run.model, photos),
    }


def _magnitudes(found, photos, folder, crops):
    """The words and regions with the longest vectors as the page shows them; the regions are cut out of the photos."""
    crops.mkdir(exist_ok=True)
    regions = []
    for row, region, magnitude in found["regions"]:
        name = f"{row:05d}-{region:02d}.jpg"
        crop_region(folder / photos.filenames[row], photos.boxes[row, region]).save(crops / name, quality=85)
        regions.append({"filename": photos.filenames[row], "crop": f"crops/{name}", "magnitude": magnitude})
    largest, smallest = ([{"word": word, "magnitude": m} for word, m in words] for words in found["words"])
    return {"largest": largest, "smallest": smallest, "regions": regions}


def _caption(runs, prepared, split, photos, say):
    """The captions of photos and regions, beside the nearest training photo's where there are training photos."""
    say("captions ...")
    regions = CaptionSearch(runs["region_captioner"]) if runs["region_captioner"] else None
    other = "train" in prepared.splits and split != "train"
    train = prepared.load("train", frames_only=True) if other else None
    return caption_split(photos, CaptionSearch(runs["captioner"]), regions, train)


def cached(out, name, key, compute):
    """What `compute()` gives; the last value is kept in `out/cache` and given again while the key stays the same."""
    file = out / "cache" / f"{name}.json"
    key = json.loads(json.dumps(key))
    if file.is_file():
        kept = json.loads(file.read_text("utf-8"))
        if kept["key"] == key:
            return kept["value"]
    value = compute()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"key": key, "value": value})
    return value


def read_tables(path):
    """The tables in a JSON file: one, a list, or a dict that holds them."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if isinstance(content, dict) and "rows" not in content:
        content = content.get("tables", list(content.values()))
    tables = content if isinstance(content, list) else [content]
    if not all(isinstance(table, dict) and {"title", "columns", "rows"} <= set(table) for table in tables):
        raise InputError(f"{path}: not a file of tables as `imagesent evaluate --out` writes")
    return tables
