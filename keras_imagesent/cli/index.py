"""Store the regions of photos, and sentences, so that `imagesent search` finds them.

Photos are added to what the index holds already; a photo of the same path replaces the old one, and is left out if its
file has not changed: the same command goes on where a killed one was. The index keeps a copy of the alignment model
that made it.

example:
  imagesent index photos/                                   (into the folder ./index)
  imagesent index --prepared prepared --split dev --photos images --index dev
  imagesent index photos/new.jpg --sentences sentences.txt
  imagesent index --remove photos/old.jpg
  imagesent index photos/ --qdrant http://localhost:6333
"""

import sys
from functools import partial
from pathlib import Path

from keras_imagesent.cli.photo_list import Complaints, list_photos
from keras_imagesent.errors import InputError


def add_arguments(parser):
    add = parser.add_argument
    add("photo", nargs="*", help="photos, folders, patterns, or - for names on standard input")
    add("--index", type=Path, default=Path("index"), metavar="FOLDER", help="the index to make or to change (index)")
    add("--prepared", type=Path, metavar="FOLDER", help="add the photos and sentences of a prepared folder")
    add("--split", help="of the prepared folder")
    add("--photos", type=Path, metavar="FOLDER", help="where the prepared folder's photos are, to show them")
    add("--sentences", type=Path, metavar="FILE", help="add sentences, one a line, that photos can find")
    add("--remove", nargs="+", default=[], metavar="NAME", help="remove photos and their sentences")
    add("--alignment", type=Path, metavar="RUN", help="alignment run for a new index (the shipped one)")
    add("--backbone", type=Path, metavar="FILE", help="backbone for photos (the shipped one)")
    add("--detector", type=Path, metavar="FILE", help="detector for photos (the shipped one)")
    add("--dtype", choices=("float32", "float16"), default="float32", help="float16: half the space, slower (float32)")
    add("--qdrant", metavar="ADDRESS", help="keep a new index's vectors in Qdrant at this address")


def run(args):
    if args.prepared and not args.split:
        raise InputError("--prepared also needs --split, such as --split dev")
    if not (args.photo or args.prepared or args.sentences or args.remove):
        raise InputError("nothing to do: give photos, --prepared, --sentences or --remove")
    photos = list(dict.fromkeys(list_photos(args.photo))) if args.photo else []
    if photos and not any(photo.is_file() for photo in photos):
        raise InputError(f"{photos[0]}: no such photo")
    if args.sentences and not args.sentences.is_file():
        raise InputError(f"{args.sentences}: no such file (--sentences)")
    if args.remove and not (args.index / "collection.json").exists():
        raise InputError(f"{args.index} is not an index: there is nothing to remove")
    from keras_imagesent.search.fill_collection import add_photos, add_prepared, add_sentences, open_collection

    collection = open_collection(args.index, args.alignment, args.dtype, args.qdrant)
    complain = Complaints()
    if args.remove:
        removed, unknown = collection.remove_named(args.remove)
        for name in unknown:
            complain(name, f"not in {args.index}: nothing to remove")
        print(f"removed {removed} of {len(args.remove)} photos")
    if args.prepared:
        say_left_out(add_prepared(collection, args.prepared, args.split, args.photos))
    if photos:
        from keras_imagesent.model.photo_model import load_photo_model

        networks = args.backbone, args.detector, collection.model_folder
        load = partial(load_photo_model, *networks, captioner=False, region_captioner=False)
        same = add_photos(collection, photos, load, complain)
        if same:
            print(f"{same} of {len(photos)} photos are in the index as they are")
    if args.sentences:
        lines = [line.strip() for line in args.sentences.read_text("utf-8").splitlines()]
        say_left_out(add_sentences(collection, [line for line in lines if line]))
    print(f"{args.index}: {len(collection.photos)} photos, {len(collection.sentences)} sentences")
    return complain.exit_status


def say_left_out(sentences):
    for sentence in sentences:
        print(f"imagesent: no word of {sentence!r} is in the vocabulary: left out", file=sys.stderr)
