"""Search: milliseconds of each kind of query beside the one matrix product it needs. `stores` compares the stores.

Processor time is shown too: another program that wants the same cores disturbs it less than the time on the clock.
"""

import resource
import tempfile
import time

import numpy as np

from keras_imagesent.search.collection import Collection

PHOTOS, REGIONS, DIM = 7000, 20, 1000
REPEATS = 15


def run():
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
