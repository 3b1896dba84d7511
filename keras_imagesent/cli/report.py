"""Write the pages people look at: a folder of static pages about one split, no server and no network needed.

Training curves and tables; every photo with its sentences on its regions, before and after the MRF; captions beside the
human ones and the nearest neighbour's, best and worst by CIDEr; captions of regions; galleries of retrieval both ways;
the words and regions that matter most. What was computed is kept in the folder and not computed again.

example:
  imagesent report prepared --split dev --photos images --out report
  imagesent report prepared --split val --photos images --alignment runs/alignment --captioner runs/captioner \\
      --region-captioner runs/regions --tables results.json --out report
"""

import json
from functools import partial
from pathlib import Path

from keras_imagesent.errors import InputError

NONE = "none"


def add_arguments(parser):
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote")
    add("--split", required=True, help="the split to show")
    add("--photos", type=Path, required=True, metavar="FOLDER", help="where its photos are")
    add("--out", type=Path, required=True, metavar="FOLDER", help="the report's folder, new or to be written again")
    add("--alignment", metavar="RUN", help="run of train-alignment (the shipped one; 'none': leave it out)")
    add("--captioner", metavar="RUN", help="run of train-captioner (the shipped one; 'none')")
    add("--region-captioner", metavar="RUN", help="run on regions (the shipped one; 'none')")
    add("--tables", type=Path, nargs="+", default=[], metavar="FILE", help="JSON that `imagesent evaluate` wrote")
    add("--beta", type=float, help="of the phrases; the alignment run's own, else 1")
    add("--title", help="at the head of every page")


def run(args):
    if not args.photos.is_dir():
        raise InputError(f"{args.photos}: no such folder (--photos)")
    if args.out.exists() and not args.out.is_dir():
        raise InputError(f"{args.out}: a file. Name a folder with --out.")
    tables = [table for path in args.tables for table in read_tables(path)]
    from tqdm import tqdm

    from keras_imagesent.data.shards import Prepared, digest
    from keras_imagesent.report.pages import write_report
    from keras_imagesent.report.thumbnails import make_thumbnails

    prepared = Prepared.open(args.prepared)
    photos = prepared.load(args.split)
    made_from = [digest(prepared.settings), args.split]
    thumbnails = make_thumbnails(
        photos.filenames, args.photos, args.out / "thumbs", partial(tqdm, desc="thumbnails", disable=None)
    )
    runs = {name: open_run(getattr(args, name), name) for name in ("alignment", "captioner", "region_captioner")}
    alignment = magnitudes = captions = None
    if runs["alignment"]:
        alignment, magnitudes = show_alignment(args, runs["alignment"], photos, made_from)
    if runs["captioner"]:
        captions = show_captions(args, runs, prepared, photos, made_from)
    title = args.title or f"{args.split}, {len(photos.filenames):,} photos"
    logs = {name.replace("_", " "): read_curves(run) for name, run in runs.items() if run and read_curves(run)}
    write_report(args.out, title, photos, thumbnails, alignment, captions, tables, logs, magnitudes)
    print(f"{args.out / 'index.html'}: open it in a browser")


def show_alignment(args, run, photos, made_from):
    """Alignments, galleries and magnitudes, from the cache if it has them."""
    from keras_imagesent.report.thumbnails import crop_region

    beta = args.beta if args.beta is not None else run.beta

    def compute():
        from keras_imagesent.evaluation.magnitudes import region_magnitudes, word_magnitudes
        from keras_imagesent.report.alignments import align_split

        print("alignments ...", flush=True)
        sentences = [run.vocabulary.encode(text) for captions in photos.captions for text in captions]
        words = word_magnitudes(run.model, [ids for ids in sentences if ids], run.vocabulary)
        return {
            "alignment": align_split(run.model, run.vocabulary, photos, beta),
            "words": words,
            "regions": region_magnitudes(run.model, photos),
        }

    found = cached(args.out, "alignment", [*made_from, run.digest, beta], compute)
    crops = args.out / "crops"
    crops.mkdir(exist_ok=True)
    regions = []
    for row, region, magnitude in found["regions"]:
        name = f"{row:05d}-{region:02d}.jpg"
        crop_region(args.photos / photos.filenames[row], photos.boxes[row, region]).save(crops / name, quality=85)
        regions.append({"filename": photos.filenames[row], "crop": f"crops/{name}", "magnitude": magnitude})
    largest, smallest = ([{"word": word, "magnitude": m} for word, m in words] for words in found["words"])
    return found["alignment"], {"largest": largest, "smallest": smallest, "regions": regions}


def show_captions(args, runs, prepared, photos, made_from):
    """Captions of photos and regions, from the cache if it has them."""

    def compute():
        from keras_imagesent.model.caption_search import CaptionSearch
        from keras_imagesent.report.captions import caption_split

        print("captions ...", flush=True)
        regions = CaptionSearch(runs["region_captioner"]) if runs["region_captioner"] else None
        other = "train" in prepared.splits and args.split != "train"
        train = prepared.load("train", frames_only=True) if other else None
        return caption_split(photos, CaptionSearch(runs["captioner"]), regions, train)

    key = [*made_from, *(runs[name] and runs[name].digest for name in ("captioner", "region_captioner"))]
    return cached(args.out, "captions", key, compute)


def open_run(named, name):
    """The run named, the shipped one, or None for 'none'."""
    from keras_imagesent.model.run import find_run

    if named and named != NONE and not Path(named).exists():
        raise InputError(f"{named}: no such run (--{name.replace('_', '-')})")
    return find_run(False if named == NONE else named, name)


def cached(out, name, key, compute):
    """What `compute` gave the last time for the same key, kept in `out/cache`."""
    from keras_imagesent.data.atomic import write_json

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


def read_curves(run):
    from keras_imagesent.report.curves import read_log

    return read_log(run.folder) if run.log else None  # shipped models bring no log


def read_tables(path):
    """The tables in a JSON file: one, a list, or a dict that holds them."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file (--tables)") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if isinstance(content, dict) and "rows" not in content:
        content = content.get("tables", list(content.values()))
    tables = content if isinstance(content, list) else [content]
    if not all(isinstance(table, dict) and {"title", "columns", "rows"} <= set(table) for table in tables):
        raise InputError(f"{path}: not what `imagesent evaluate --out` writes")
    return tables
