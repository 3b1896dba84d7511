"""Photos, prepared splits and sentences into a collection; each call goes on where a killed one was."""

from pathlib import Path

from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.data.atomic import only_writer
from keras_imagesent.data.photo_batches import PHOTOS_AT_ONCE, read_in_batches
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.shards import digest
from keras_imagesent.errors import InputError
from keras_imagesent.model.run import Run, find_run
from keras_imagesent.search.collection import Collection
from keras_imagesent.search.where import about_photo

PHOTOS_IN_MEMORY = 1000  # then they are stored: a collection may be larger than memory


def open_collection(folder, alignment=None, dtype="float32", qdrant=None) -> Collection:
    """The collection in a folder, or a new one with a copy of the alignment model.

    Args:
        folder: where it is, or is to be.
        alignment: run folder of the alignment for a new collection; None is the shipped one. Of a collection that is
            there it must be the same model.
        dtype, qdrant: of a new collection, as in `Collection`.

    Example:
        add_sentences(open_collection("index"), ["a dog runs"])
    """
    folder = Path(folder)
    if not (folder / "collection.json").exists():
        find_run(alignment, "alignment").model  # noqa: B018  read before the folder is made: the name may be wrong
        with only_writer(folder):
            if not (folder / "collection.json").exists():  # another process may have been faster
                return Collection.create(folder, alignment, dtype, qdrant)
    collection = Collection(folder)
    if qdrant and qdrant != collection.settings["qdrant"]:
        raise InputError(f"{folder} has its store already: make a new index for another")
    if alignment and not same_model(alignment, collection.model_folder):
        raise InputError(f"{folder} has its model already: make a new index for another")
    return collection


def same_model(run, model_folder):
    """Whether a run's model is the one that the index was made with: the same command may be given again."""
    file = Run(run).file
    return file.is_file() and file.read_bytes() == (model_folder / "model.keras").read_bytes()


def add_photos(collection, photos, load_model, complain=None) -> int:
    """Extracts and adds photos; one of the same path is replaced, and left out if its file has not changed.

    Args:
        collection: a `Collection`.
        photos: paths.
        load_model: gives the `PhotoModel` with the collection's alignment; called if there is a new photo.
        complain: called with the path and the reason of each photo that cannot be read; None raises an `InputError`.

    Returns:
        How many of the photos were there already as they are.
    """
    import tensorflow as tf
    from tqdm import tqdm

    complain = complain or _raise
    photos = [Path(photo) for photo in photos]
    names = [str(photo.resolve()) for photo in photos]
    about = {name: about_photo(name) for name in names}
    there = collection.photos.versions(names)
    same = {name for name in names if name in there and there[name] == about[name].get("version")}
    photos = [photo for photo, name in zip(photos, names, strict=True) if name not in same]
    if not photos:
        return len(same)
    model = load_model()
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
            paths.append(str(path.resolve()))
        if len(paths) >= PHOTOS_IN_MEMORY:
            store()
            groups, boxes, paths = [], [], []
    store()
    return len(same)


def _raise(photo, reason):
    raise InputError(f"{photo}: {reason}")


def add_prepared(collection, folder, split, photos_folder=None) -> list[str]:
    """Adds a prepared split, a shard at a time: its region vectors and its sentences; those left out are returned.

    Args:
        collection: a `Collection`.
        folder: what `prepare` wrote.
        split: the photos to add.
        photos_folder: where the photos are, to show them; None knows only their names.
    """
    prepared, left_out = Prepared.open(folder), []
    photos_folder = photos_folder and Path(photos_folder)
    version = f"{digest(prepared.settings)}-{split}"
    for shard in prepared.shards(split):
        photos = prepared.read([shard])
        there = collection.photos.versions(photos.filenames)
        if all(there.get(name) == version for name in photos.filenames):
            continue  # a run that was killed has stored them, sentences first
        sentences = [text for captions in photos.captions for text in captions]
        names = [name for name, captions in zip(photos.filenames, photos.captions, strict=True) for _ in captions]
        left_out += add_sentences(collection, sentences, names)
        regions = encode_photos(collection.alignment.model, photos.regions())
        present = photos.region_mask
        paths = [str((photos_folder / name).resolve()) if photos_folder else name for name in photos.filenames]
        collection.photos.add(
            photos.filenames,
            [r[m] for r, m in zip(regions, present, strict=True)],
            [b[m] for b, m in zip(photos.boxes, present, strict=True)],
            paths,
            [{**about_photo(path), "split": split, "version": version} for path in paths],
        )
    return left_out


def add_sentences(collection, sentences, filenames=None) -> list[str]:
    """Adds sentences; those without a known word could never be found: they are left out and returned.

    Args:
        collection: a `Collection`.
        sentences: the texts.
        filenames: the photo that each was written for, if there are such photos.
    """
    filenames = filenames or [""] * len(sentences)
    ids = [collection.alignment.vocabulary.encode(sentence) for sentence in sentences]
    rows = [row for row, known in enumerate(ids) if known]
    if rows:
        words = encode_sentences(collection.alignment.model, [ids[row] for row in rows])
        vectors = [words.of(place) for place in range(len(rows))]
        collection.add_sentences([sentences[row] for row in rows], vectors, [filenames[row] for row in rows])
    return [sentence for sentence, known in zip(sentences, ids, strict=True) if not known]
