"""Find photos and regions by words, or sentences by a photo, in an index that `imagesent index` made.

Scores are exact: the sum over the words of the best region's dot product (Eq. 8), or their mean if the model was
trained so.

example:
  imagesent search "red bus"                        (photos, in the folder ./index)
  imagesent search "red bus" --regions --page found.html
  imagesent search --photo dog.jpg --top 5 --json   (sentences for a photo)
"""

import dataclasses
import json
import sys
from pathlib import Path

from keras_imagesent.cli.answers import load_answers
from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError


def add_arguments(parser):
    add = parser.add_argument
    add("snippet", nargs="?", help="a word, a phrase or a sentence")
    add("--index", type=Path, default=Path("index"), metavar="FOLDER", help="what `imagesent index` made (index)")
    add("--regions", action="store_true", help="single regions that the whole snippet describes")
    add("--photo", type=Path, metavar="FILE", help="find sentences for this photo")
    add("--folder", type=Path, metavar="FOLDER", help="only photos of this folder and those below it")
    add("--split", help="only photos of this split of a prepared folder")
    add("--after", metavar="DAY", help="only photos taken on this day or later, such as 2024-05-31")
    add("--before", metavar="DAY", help="only photos taken before this day")
    add("--top", type=int, default=10, metavar="N", help="how many (10)")
    add("--json", action="store_true", help="print JSON")
    add("--page", type=Path, metavar="FILE", help="also write a page of what was found (.html)")
    add("--backbone", type=Path, metavar="FILE", help="backbone for --photo (the shipped one)")
    add("--detector", type=Path, metavar="FILE", help="detector for --photo (the shipped one)")


def run(args):
    if bool(args.snippet) == bool(args.photo):
        raise InputError('say what to search for: words ("red bus") or --photo FILE, one of the two')
    if args.photo and not args.photo.is_file():
        raise InputError(f"{args.photo}: no such photo")
    chosen = bool(args.folder or args.split or args.after or args.before)
    if chosen and args.photo:
        raise InputError(
            "--folder, --split, --after and --before choose photos: not with --photo, which finds sentences"
        )
    if args.top < 1:
        raise InputError(f"--top {args.top}: at least 1")
    if not (args.index / "collection.json").exists():
        raise InputError(f"{args.index} is not an index: make one with `imagesent index PHOTOS --index {args.index}`")
    from keras_imagesent.search.collection import Collection
    from keras_imagesent.search.where import Where

    folder = args.folder and str(args.folder.resolve())
    where = Where(folder, args.split, args.after, args.before) if chosen else None
    collection = Collection(args.index)
    words = None
    if args.photo:
        query, hits = args.photo.name, collection.search_sentences(embed_photo(args, collection), args.top)
    else:
        query = args.snippet
        words, vectors = collection.embed(args.snippet)
        unknown = collection.unknown_words(args.snippet)
        if unknown:
            print(f"imagesent: the model does not know {', '.join(unknown)}: looking for the rest", file=sys.stderr)
        search = collection.search_regions if args.regions else collection.search_photos
        hits = search(vectors, args.top, where)
    sure = collection.how_sure(hits, words)
    if hits and sure is not None and sure < 0.5:
        print(f"imagesent: nothing matches {query!r} ({sure:.2f} sure of the best); nearest:", file=sys.stderr)
    if args.page:
        from keras_imagesent.report.search_page import write_search_page

        write_search_page(args.page, query, hits, words, args.photo)
    if args.json:
        found = [dataclasses.asdict(hit) for hit in hits]
        answer = {"query": query, "words": words, "hits": found}
        answer |= {} if args.photo else {"unknown": unknown}
        answer |= {} if sure is None else {"confidence": round(sure, 4)}
        print(json.dumps(answer, ensure_ascii=False, indent=1))
        return
    for hit in hits:
        print(f"{hit.score:9.3f}  {line(hit, words)}")
    if not hits:
        print("nothing found: the index holds nothing of the kind")


def line(hit, words):
    """A hit in one line of text."""
    if hasattr(hit, "sentence"):
        return f"{hit.sentence}  ({hit.filename})" if hit.filename else hit.sentence
    if hasattr(hit, "word_scores"):
        found = ", ".join(
            f"{word} in region {region} ({score:.2f})"
            for word, region, score in zip(words, hit.regions, hit.word_scores, strict=True)
        )
        return f"{hit.filename}  {found}"
    return f"{hit.filename}  region {hit.region}  box {' '.join(f'{c:.3f}' for c in hit.box)}"


def embed_photo(args, collection):
    """The photo's region vectors (R, D)."""
    model = load_answers(
        ["embed_image"],
        None,
        {"backbone": args.backbone, "detector": args.detector, "alignment": not collection.made_with_shipped},
        backbone=args.backbone,
        detector=args.detector,
        alignment=collection.model_folder,
        captioner=False,
        region_captioner=False,
    )
    found = model.predict("embed_image", [to_decodable(args.photo.read_bytes())])
    if found["status"][0] != "ok":
        raise InputError(f"{args.photo}: {found['status'][0]}")
    return found["regions"][0][found["region_mask"][0]]
