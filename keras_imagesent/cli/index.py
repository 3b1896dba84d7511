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
from pathlib import Path

from keras_imagesent.cli.photo_list import PHOTOS_AT_ONCE, Complaints, list_photos, read_in_batches
from keras_imagesent.errors import InputError

PHOTOS_IN_MEMORY = 1000  # then they are stored: a collection may be larger than memory


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
    collection, part = open_index(args)
    complain = Complaints()
    if args.remove:
        remove(collection, args.remove, complain)
    if args.prepared:
        add_prepared(collection, part, args.prepared, args.split, args.photos)
    if photos:
        add_photos(collection, photos, complain, args)
    if args.sentences:
        lines = [line.strip() for line in args.sentences.read_text("utf-8").splitlines()]
        add_sentences(collection, part, [line for line in lines if line])
    print(f"{args.index}: {len(collection.photos)} photos, {len(collection.sentences)} sentences")
    return complain.exit_status


def remove(collection, names, complain):
    """Removes photos by the name that they were indexed under; those that are not there are complained of."""
    there, found = set(collection.photos.names()), set()
    for name in names:
        known = there & {name, str(Path(name).resolve())}
        if not known:
            complain(name, f"not in {collection.folder}: nothing to remove")
        found |= known
    print(f"removed {collection.remove(found) if found else 0} of {len(names)} photos")


def open_index(args):
    """The collection and the alignment model that made it; a new one takes a copy of the model named."""
    from keras_imagesent.data.atomic import only_writer
    from keras_imagesent.model.run import Run, find_run
    from keras_imagesent.search.collection import Collection

    model_folder = args.index / "alignment"
    if not (args.index / "collection.json").exists():
        part = find_run(args.alignment, "alignment")
        part.model  # noqa: B018  read before the folder is made: the name may be wrong
        with only_writer(args.index):
            if not (args.index / "collection.json").exists():  # another `imagesent index` may have been faster
                return Collection.create(args.index, args.alignment, args.dtype, args.qdrant), part
    collection = Collection(args.index)
    if args.qdrant and args.qdrant != collection.settings["qdrant"]:
        raise InputError(f"{args.index} has its store already: make a new index for another")
    if args.alignment and not same_model(args.alignment, model_folder):
        raise InputError(f"{args.index} has its model already: make a new index for another")
    return collection, Run(model_folder, "alignment")


def same_model(run, model_folder):
    """Whether a run's model is the one that the index was made with: the same command may be given again."""
    file = run / "model.keras" if run.is_dir() else run
    return file.is_file() and file.read_bytes() == (model_folder / "model.keras").read_bytes()


def add_photos(collection, photos, complain, args):
    """Extracts and adds photos; those that cannot be read are complained of, those there as they are left out."""
    import tensorflow as tf
    from tqdm import tqdm

    from keras_imagesent.model.photo_model import load_photo_model
    from keras_imagesent.search.where import about_photo

    names = [str(photo.resolve()) for photo in photos]
    about = {name: about_photo(name) for name in names}
    there = collection.photos.versions(names)
    same = {name for name in names if name in there and there[name] == about[name].get("version")}
    if same:
        print(f"{len(same)} of {len(photos)} photos are in the index as they are")
    photos = [photo for photo, name in zip(photos, names, strict=True) if name not in same]
    if not photos:
        return
    model = load_photo_model(
        args.backbone, args.detector, args.index / "alignment", captioner=False, region_captioner=False
    )
    groups, boxes, paths = [], [], []

    def store():
        collection.photos.add(paths, groups, boxes, paths, [about[path] for path in paths])

    batches = -(-len(photos) // PHOTOS_AT_ONCE)
    for batch, contents in tqdm(read_in_batches(photos, complain), total=batches, desc="photos", disable=None):
        found = model.embed_image(tf.constant(contents))
        rows = zip(batch, *(found[n].numpy() for n in ("regions", "boxes", "region_mask", "status")), strict=True)
        for path, regions, box, mask, status in rows:
            if status != b"ok":
                complain(path, status.decode())
                continue
            groups.append(regions[mask])
            boxes.append(box[mask])
            paths.append(str(Path(path).resolve()))
        if len(paths) >= PHOTOS_IN_MEMORY:
            store()
            groups, boxes, paths = [], [], []
    store()


def add_prepared(collection, part, folder, split, photos_folder):
    """Adds a prepared split, a shard at a time: its region vectors and its sentences."""
    from keras_imagesent.alignment.encode import encode_photos
    from keras_imagesent.data.shards import Prepared, digest
    from keras_imagesent.search.where import about_photo

    prepared = Prepared.open(folder)
    version = f"{digest(prepared.settings)}-{split}"
    for shard in prepared.shards(split):
        photos = prepared.read([shard])
        there = collection.photos.versions(photos.filenames)
        if all(there.get(name) == version for name in photos.filenames):
            continue  # a run that was killed has stored them, sentences first
        sentences = [text for captions in photos.captions for text in captions]
        names = [name for name, captions in zip(photos.filenames, photos.captions, strict=True) for _ in captions]
        add_sentences(collection, part, sentences, names)
        regions = encode_photos(part.model, photos.regions())
        present = photos.region_mask
        paths = [str((photos_folder / name).resolve()) if photos_folder else name for name in photos.filenames]
        collection.photos.add(
            photos.filenames,
            [r[m] for r, m in zip(regions, present, strict=True)],
            [b[m] for b, m in zip(photos.boxes, present, strict=True)],
            paths,
            [{**about_photo(path), "split": split, "version": version} for path in paths],
        )


def add_sentences(collection, part, sentences, filenames=None):
    """Adds sentences; one without a known word cannot be found and is named."""
    from keras_imagesent.alignment.encode import encode_sentences

    filenames = filenames or [""] * len(sentences)
    ids = [part.vocabulary.encode(sentence) for sentence in sentences]
    for sentence, known in zip(sentences, ids, strict=True):
        if not known:
            print(f"imagesent: no word of {sentence!r} is in the vocabulary: left out", file=sys.stderr)
    rows = [i for i, known in enumerate(ids) if known]
    if rows:
        words = encode_sentences(part.model, [ids[i] for i in rows])
        vectors = [words.of(row) for row in range(len(rows))]
        collection.add_sentences([sentences[i] for i in rows], vectors, [filenames[i] for i in rows])
