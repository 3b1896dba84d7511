"""Search: the embedded store beside the one matrix product it needs, and beside a Qdrant server, up to 700,000 photos.

Processor time is shown too: another program that wants the same cores disturbs it less than the time on the clock. The
vectors of the larger collections are made up: drawn with the mean and the spread, between photos and within them, of
real ones (photos of ../shared/flickr8k where they are, else generated scenes, through the shipped model). Each
collection is filled for SECONDS at most, and what was reached is said.

  SIZES=7000x20,70000x20,700000x1 SECONDS=120 scripts/benchmark search
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from keras_imagesent.search.collection import Collection

PHOTOS, REGIONS, DIM = 7000, 20, 1000
REPEATS = 15
SIZES = [tuple(map(int, size.split("x"))) for size in os.environ.get("SIZES", "7000x20,70000x20,700000x1").split(",")]
SECONDS = float(os.environ.get("SECONDS", 120))
REAL_PHOTOS, QUERIES, AT_ONCE = int(os.environ.get("REAL_PHOTOS", 192)), 30, 500
FLICKR8K = Path(__file__).resolve().parents[3] / "shared" / "flickr8k"


def run():
    """The bare product first, then each size in the embedded store and in Qdrant."""
    if "bare" not in os.environ.get("SKIP", ""):
        beside_the_product()
    spread = Spread()
    for photos, regions in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            compare_stores(Path(folder), spread, photos, regions)


def compare_stores(folder, spread, photos, regions):
    """Recall of the exact best ten, latency and memory of both stores over the same vectors."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.search.qdrant_server import QdrantServer

    gigabytes = photos * regions * spread.dim * 4e-9
    print(f"\n{photos} photos x {regions} vectors x {spread.dim} dimensions, {gigabytes:.1f} GB")
    embedded = Collection(folder / "embedded", dim=spread.dim)
    filled, rate = fill(embedded.photos, spread, photos, regions, together=20)
    queries = spread.queries(QUERIES)
    exact = [[hit.filename for hit in embedded.search_photos(words)] for words in queries]
    report("embedded, in memory", filled, rate, embedded, queries, exact, memory())
    report(
        "embedded, not in memory", filled, rate, embedded, queries[:5], exact, memory(), before=lambda: forget(folder)
    )
    try:
        server = QdrantServer(folder / "qdrant")
    except BaseException as error:  # pytest's skip is no Exception
        print(f"  no Qdrant: {error}")
        return
    try:
        server.start()
        store = Collection(folder / "index", dim=spread.dim, qdrant=server.address)
        stored, rate = fill(store.photos, spread, photos, regions)
        if stored < filled:  # the exact best of what was reached
            part = Collection(folder / "part", dim=spread.dim)
            fill(part.photos, spread, stored, regions, together=20)
            exact = [[hit.filename for hit in part.search_photos(words)] for words in queries]
        wait_for_index(store.photos)
        report("Qdrant", stored, rate, store, queries, exact, server.memory[0])
    finally:
        server.kill()


def fill(store, spread, photos, regions, together=1):
    """Adds photos, so many draws together, for SECONDS at most; how many, and how many a second."""
    start, filled, spent = time.perf_counter(), 0, 0.0
    while filled < photos and time.perf_counter() - start < SECONDS:
        groups = []
        for first in range(filled, min(photos, filled + together * AT_ONCE), AT_ONCE):
            groups += list(spread.photos(min(AT_ONCE, photos - first), regions, seed=first))
        names = [f"{filled + i}.jpg" for i in range(len(groups))]
        begun = time.perf_counter()
        store.add(names, groups)
        spent += time.perf_counter() - begun
        filled += len(groups)
    return filled, filled / spent


def report(name, photos, rate, collection, queries, exact, megabytes, before=lambda: None):
    seconds, right = [], 0
    collection.search_photos(queries[0])
    for words, best in zip(queries, exact, strict=False):
        before()
        start = time.perf_counter()
        hits = collection.search_photos(words)
        seconds.append(1000 * (time.perf_counter() - start))
        right += len({hit.filename for hit in hits} & set(best))
    p50, p95 = np.percentile(seconds, [50, 95])
    print(
        f"  {name:<24}{photos:8} photos ({rate:.0f}/s)  recall@10 {right / 10 / len(seconds):.3f}  "
        f"p50 {p50:.0f} ms  p95 {p95:.0f} ms  {megabytes:.0f} MB",
        flush=True,
    )


def wait_for_index(store):
    """Until Qdrant has quantized and indexed what it holds, for SECONDS at most."""
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        time.sleep(1)
        info = store.client.get_collection(store.collection)
        if str(info.status) in ("green", "CollectionStatus.GREEN"):
            return
    print(f"  Qdrant is still indexing: {info.indexed_vectors_count} vectors done")


def forget(folder):
    """Drops the files' pages from memory, so that the next query reads the disk: as if memory were too small."""
    for path in folder.rglob("*.npy"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Spread:
    """Draws photos as spread out as real ones, and gives real sentences to look for."""

    def __init__(self):
        regions, mask, self.words, self.lengths = real_vectors()
        self.dim = regions.shape[-1]
        groups = [r[m] for r, m in zip(regions, mask, strict=True)]
        means = np.stack([group.mean(axis=0) for group in groups])
        self.mean, self.between = means.mean(axis=0), means - means.mean(axis=0)
        self.within = np.concatenate([group - group.mean(axis=0) for group in groups])
        self.norm = float(np.linalg.norm(np.concatenate(groups), axis=1).mean())

    def photos(self, number, regions, seed):
        """(number, regions, D): with one region a photo, the mean of what 20 would be."""
        rng = np.random.default_rng([7, seed])
        some = self.within[rng.permutation(len(self.within))[:300]]

        def draw(rows, n):
            return (rng.standard_normal((n, len(rows)), np.float32) @ rows.astype(np.float32)) / len(rows) ** 0.5

        photos = (self.mean + draw(self.between, number)).astype(np.float32)[:, None]
        if regions == 1:
            return photos
        photos = photos + draw(some, number * regions).reshape(number, regions, -1)
        return photos * (self.norm / np.linalg.norm(photos, axis=-1, keepdims=True))

    def queries(self, number):
        """Word vectors of real sentences."""
        ends = np.cumsum(self.lengths)
        return [self.words[end - length : end] for end, length in zip(ends, self.lengths, strict=True)][:number]


def real_vectors():
    """Region vectors (n, 20, D), which are there (n, 20), word vectors (m, D) and how many each sentence has."""
    cache = os.environ.get("REAL_VECTORS")
    if cache and Path(cache).exists():
        with np.load(cache) as arrays:
            return tuple(arrays[name] for name in ("regions", "mask", "words", "lengths"))
    import tensorflow as tf

    from keras_imagesent.alignment.encode import encode_sentences
    from keras_imagesent.data.dataset import read_dataset
    from keras_imagesent.data.scenes import make_scenes
    from keras_imagesent.model.photo_model import load_photo_model

    with tempfile.TemporaryDirectory() as folder:
        source = FLICKR8K
        if not source.is_dir():
            make_scenes(Path(folder) / "scenes", REAL_PHOTOS)
            source = Path(folder) / "scenes"
        photos = read_dataset(source / "dataset.json", source / "images").photos[:REAL_PHOTOS]
        model = load_photo_model(captioner=False, region_captioner=False)
        parts = []
        for first in range(0, len(photos), 16):
            found = model.embed_image(tf.constant([photo.path.read_bytes() for photo in photos[first : first + 16]]))
            parts.append((found["regions"].numpy(), found["region_mask"].numpy()))
    ids = [model.alignment.vocabulary.encode(photo.captions[0]) for photo in photos]
    words = encode_sentences(model.alignment.model, [each for each in ids if each])
    regions, mask = (np.concatenate(part) for part in zip(*parts, strict=True))
    if cache:
        np.savez(cache, regions=regions, mask=mask, words=words.vectors, lengths=words.lengths)
    return regions, mask, words.vectors, words.lengths


def beside_the_product():
    """Prints milliseconds for each kind of query, and their ratio to the bare product in the same run."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        collection = Collection(folder, dim=DIM)
        for first in range(0, PHOTOS, 1000):
            groups = rng.standard_normal((1000, REGIONS, DIM), dtype=np.float32)
            names = [f"{first + i}.jpg" for i in range(1000)]
            boxes = np.zeros((1000, REGIONS, 4), np.float32)
            collection.photos.add(names, groups, boxes)
            collection.add_sentences(names, groups[:, :10], names)
        everything = np.concatenate([np.load(f) for f in collection.photos.folder.glob("*/vectors.npy")])
        print(f"{PHOTOS} photos, {len(everything)} regions, {DIM} dimensions, float32, memory-mapped")
        print(f"{'query':<28}{'ms':>8}{'product, ms':>13}{'ratio':>8}{'CPU ms':>10}{'product':>9}{'ratio':>8}")
        for words in (1, 2, 5, 10):
            query = rng.standard_normal((words, DIM), dtype=np.float32)
            _row(f"photos, {words} words", lambda q=query: collection.search_photos(q), everything, query)
        snippet = query[:3]
        _row("regions, 3 words", lambda: collection.search_regions(snippet), everything, snippet.sum(0)[None])
        del everything
        everything = np.concatenate([np.load(f) for f in collection.sentences.folder.glob("*/vectors.npy")])
        photo = rng.standard_normal((REGIONS, DIM), dtype=np.float32)
        _row(f"sentences ({PHOTOS}), 1 photo", lambda: collection.search_sentences(photo), everything, photo)
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, the bare copy included")


def _row(name, query, everything, vectors):
    """Interleaves the query with the product on vectors in memory, so that both see the same machine."""
    times = np.array([[*_milliseconds(query), *_milliseconds(lambda: everything @ vectors.T)] for _ in range(REPEATS)])
    ours, our_cpu, product, product_cpu = np.median(times, axis=0)
    print(
        f"{name:<28}{ours:8.0f}{product:13.0f}{ours / product:8.2f}"
        f"{our_cpu:10.0f}{product_cpu:9.0f}{our_cpu / product_cpu:8.2f}"
    )


def _milliseconds(function):
    """On the clock, and of all our threads' processor time."""
    start, cpu_start = time.perf_counter(), time.process_time()
    function()
    return 1000 * (time.perf_counter() - start), 1000 * (time.process_time() - cpu_start)


if __name__ == "__main__":
    run()
