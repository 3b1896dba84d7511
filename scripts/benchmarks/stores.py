"""Stores: the embedded one and a Qdrant server side by side over the same photos, up to 700,000 of them.

Recall of the exact best ten, time on the clock (p50, p95), processor time, memory and disk, each query beside the bare
matrix product it would take in the same minute. Sizes are photos x vectors a photo. The first 7,000 photos of the
prepared folder are real ones, through the shipped alignment; larger collections are made up: a real photo's regions,
moved by noise so that mean and covariance, between photos and within them, stay those of the real ones. With one vector
a photo it is the mean of its regions. Queries are real sentences of the last split.

Everything lies in FOLDER, and the same command goes on where it was: stores that are filled and sizes that are
measured are left alone. FILL=1 only fills, which needs no quiet machine.

  PREPARED=prepared FOLDER=/disk/stores SIZES=7000x20,70000x20,700000x1 scripts/benchmark stores
"""

import json
import mmap
import os
import sys
import time
from functools import cached_property
from pathlib import Path

import numpy as np

from keras_imagesent.data.shards import write_json
from keras_imagesent.search.collection import Collection

PREPARED, FOLDER = (os.environ.get(name) for name in ("PREPARED", "FOLDER"))
SIZES = [tuple(map(int, size.split("x"))) for size in os.environ.get("SIZES", "7000x20,70000x20,700000x1").split(",")]
FILL_ONLY = bool(os.environ.get("FILL"))
QUERIES, COLD_QUERIES, TOP = 50, 8, 10
REAL = 7000  # photos that are real, if the prepared folder has so many
MOVED = 0.5  # share of a made-up photo's spread that is noise, the rest is the real photo's
BLOCK = 1000  # photos drawn together, from one seed
ROWS = (
    "photos", "vectors", "store", "recall@10", "p50 ms", "p95 ms", "CPU ms", "product ms", "product CPU ms",
    "anonymous MB", "mapped MB", "disk GB", "read MB",
)  # fmt: skip


def run():
    """Fills what is not full, measures what is not measured, prints all that was."""
    if not FOLDER or not (PREPARED or Path(FOLDER, "real.npz").exists()):
        print("left out, since it takes much disk: FOLDER=/disk/stores PREPARED=prepared scripts/benchmark stores")
        return
    folder = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    real = Real(folder / "real.npz")
    for photos, regions in SIZES:
        stores = Stores(folder / f"{photos}x{regions}", real, photos, regions)
        try:
            stores.fill()
            if not FILL_ONLY and not stores.results.exists():
                write_json(stores.results, stores.measure())
        finally:
            stores.server.kill()
    print_tables(folder)


class Stores:
    """One size in both stores, in a folder of its own."""

    def __init__(self, folder, real, photos, regions):
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        from tests.search.qdrant_server import QdrantServer

        self.folder, self.real, self.size = folder, real, (photos, regions)
        self.results = folder / "results.json"
        self.server = QdrantServer(folder / "qdrant")
        ports = folder / "ports.json"  # the index keeps its server's address
        if ports.exists():
            self.server.ports = json.loads(ports.read_text())
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(ports, self.server.ports)

    @cached_property
    def embedded(self):
        return Collection(self.folder / "embedded", dim=self.real.dim)

    @cached_property
    def qdrant(self):
        self.server.start()
        return Collection(self.folder / "index", dim=self.real.dim, qdrant=self.server.address)

    def fill(self):
        """Adds what is missing and keeps the costs; Qdrant's are also those of its indexing."""
        for name in ("embedded", "qdrant"):
            file = self.folder / f"{name}-fill.json"
            costs = json.loads(file.read_text()) if file.exists() else {"photos": 0, "client": 0.0, "server": 0.0}
            if costs.get("done"):
                continue
            store = getattr(self, name).photos
            photos, _ = self.size
            step = BLOCK * (10 if name == "embedded" else 1)  # a segment each
            while costs["photos"] < photos:
                first = costs["photos"]
                last = min(first + step, photos)
                groups = self.photos(first, last)
                before = time.process_time(), self.server_seconds()
                store.add([f"{number}.jpg" for number in range(first, last)], groups)
                costs["client"] += time.process_time() - before[0]
                costs["server"] += self.server_seconds() - before[1]
                costs["photos"] = last
                write_json(file, costs)
                print(f"{self.folder.name} {name}: {last}", flush=True)
            if name == "qdrant":
                before = self.server_seconds()
                wait_for_index(store)
                costs["indexing"] = self.server_seconds() - before
            write_json(file, {**costs, "disk": disk(self.folder / name), "done": True})

    def photos(self, first, last):
        """Photos first..last-1, the same ones whatever is asked for together; `first` begins a block."""
        blocks = range(first, last, BLOCK)
        return np.concatenate([self.real.photos(start, min(start + BLOCK, last), *self.size) for start in blocks])

    def measure(self):
        """Rows of the table: each query goes to the product, the embedded store and Qdrant, one after the other."""
        before = memory("self")["anonymous MB"]
        queries, vectors = self.real.queries[:QUERIES], self.bare_vectors()
        if self.size[1] == 1:  # then one product with the sum of the words does
            queries = [words.sum(axis=0, keepdims=True) for words in queries]
        ask = {
            "product": lambda words: [part @ words.T for part in vectors],
            "embedded": self.embedded.search_photos,
            "qdrant": self.qdrant.search_photos,
        }
        for search in ask.values():  # opens files, compares checksums
            search(queries[0])
        clock, cpu, right = ({name: [] for name in ask} for _ in range(3))
        best = []  # of each query
        for words in queries:
            for name, search in ask.items():
                start = time.perf_counter(), time.process_time() + self.server_seconds()
                found = search(words)
                clock[name].append(1000 * (time.perf_counter() - start[0]))
                cpu[name].append(1000 * (time.process_time() + self.server_seconds() - start[1]))
                if name == "product":
                    best.append(self.best_of(found))
                else:
                    right[name].append(share_of(best[-1], found))
        own, server = memory("self"), memory(self.server.process.pid)
        own["anonymous MB"] -= before
        rows = [
            self.row(name, right[name], clock[name], cpu[name], clock["product"], cpu["product"], **more)
            for name, more in (("embedded", own), ("qdrant", server))
        ]
        return [*rows, self.measure_cold(queries[:COLD_QUERIES], best)]

    def measure_cold(self, queries, best):
        """The embedded store when its files are larger than memory.

        A scan of more than fits finds none of its pages in memory, since the oldest go first; so they are all thrown
        out before each query, and the bytes that then come from the disk are counted.
        """
        clock, cpu, read, right = [], [], [], []
        for words, wanted in zip(queries, best, strict=False):
            self.forget()
            start = time.perf_counter(), time.process_time(), bytes_read()
            found = self.embedded.search_photos(words)
            clock.append(1000 * (time.perf_counter() - start[0]))
            cpu.append(1000 * (time.process_time() - start[1]))
            read.append((bytes_read() - start[2]) / 2**20)
            right.append(share_of(wanted, found))
        return self.row("embedded, files not in memory", right, clock, cpu, **{"read MB": float(np.median(read))})

    def row(self, store, right, clock, cpu, product=None, product_cpu=None, **more):
        photos, vectors = self.size
        p50, p95 = np.percentile(clock, [50, 95])
        row = {"photos": photos, "vectors": vectors, "store": store, "p50 ms": p50, "p95 ms": p95}
        row |= {"recall@10": float(np.mean(right)), "CPU ms": float(np.mean(cpu)), **more}
        row["disk GB"] = json.loads((self.folder / f"{store.split(',')[0]}-fill.json").read_text())["disk"]
        if product:
            row |= {"product ms": float(np.median(product)), "product CPU ms": float(np.mean(product_cpu))}
        return row

    def bare_vectors(self):
        """The embedded store's arrays as they are, which are in the order of the photos' numbers."""
        store = self.embedded.photos
        return [store._arrays(segment)["vectors"] for segment in store.state["segments"]]

    def best_of(self, similarities):
        """Names of the best ten by Eq. 8; all photos have the same number of vectors."""
        similarity = np.concatenate(similarities)
        scores = similarity.reshape(-1, self.size[1], similarity.shape[1]).max(axis=1).sum(axis=1)
        return {f"{number}.jpg" for number in np.argpartition(-scores, TOP)[:TOP]}

    def forget(self):
        """Throws the embedded store's pages out of memory: unmapped first, mapped ones would stay."""
        for part in self.bare_vectors():
            part._mmap.madvise(mmap.MADV_DONTNEED)
        for path in (self.folder / "embedded").rglob("*.npy"):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def server_seconds(self):
        """Processor time of the Qdrant server so far."""
        if not self.server.process:
            return 0.0
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Real:
    """Real photos and sentences as vectors, and made-up photos of the same spread."""

    def __init__(self, file):
        if not file.exists():
            encode_prepared(PREPARED, file)
        with np.load(file) as arrays:
            self.regions, words, lengths = (arrays[name] for name in ("regions", "words", "lengths"))
        self.dim = self.regions.shape[-1]
        self.queries = np.split(words, np.cumsum(lengths)[:-1])

    @cached_property
    def factors(self):
        """Matrices that give noise the covariance of photos' means and of the regions around them."""
        means = self.regions.mean(axis=1)
        around = (self.regions - means[:, None])[:, :: max(1, self.regions.shape[1] // 5)].reshape(-1, self.dim)
        return [root_of_covariance(means), root_of_covariance(around)]

    def photos(self, first, last, of, regions):
        """Photos first..last-1 (n, regions, D) of a collection of so many: real ones if there are enough."""
        rows = np.arange(first, last) % len(self.regions)
        photos = self.regions[rows] if regions > 1 else self.regions[rows].mean(axis=1, keepdims=True)
        if of <= len(self.regions):
            return photos
        rng = np.random.default_rng([7, first])
        between, within = self.factors
        noise = (rng.standard_normal((len(rows), self.dim), np.float32) @ between)[:, None]
        if regions > 1:  # one long product: many short ones take several times as long
            around = rng.standard_normal((photos.size // self.dim, self.dim), np.float32) @ within
            around = around.reshape(photos.shape)
            noise = noise + (around - around.mean(axis=1, keepdims=True)) * (regions / (regions - 1)) ** 0.5
        mean = self.regions.mean(axis=(0, 1))
        return mean + (1 - MOVED) ** 0.5 * (photos - mean) + MOVED**0.5 * noise


def share_of(best, found):
    """How many of the exact best were found, from 0 to 1."""
    return len({hit.filename for hit in found} & best) / TOP


def root_of_covariance(rows):
    """A symmetric (D, D) whose square is the covariance of the rows."""
    values, vectors = np.linalg.eigh(np.cov(rows, rowvar=False))
    return ((vectors * np.maximum(values, 0) ** 0.5) @ vectors.T).astype(np.float32)


def encode_prepared(prepared, file):
    """Regions of photos that have all of them, and every tenth photo's first sentence of the last split, as vectors."""
    from keras_imagesent.alignment.encode import encode_photos, encode_sentences
    from keras_imagesent.data.prepared import Prepared
    from keras_imagesent.model.run import find_run

    prepared, alignment = Prepared.open(prepared), find_run(None, "alignment")
    regions, captions = [], []
    for split in reversed(prepared.splits):
        for shard in prepared.shards(split):
            if sum(map(len, regions)) < REAL:
                photos = prepared.read([shard])
                regions.append(encode_photos(alignment.model, photos.regions())[photos.region_mask.all(axis=1)])
                captions += [each[0] for each in photos.captions[::10] if split == prepared.splits[-1]]
    ids = [alignment.vocabulary.encode(caption) for caption in captions]
    words = encode_sentences(alignment.model, [each for each in ids if each])
    np.savez(file, regions=np.concatenate(regions)[:REAL], words=words.vectors, lengths=words.lengths)


def wait_for_index(store):
    """Until Qdrant has quantized and indexed what it holds."""
    while True:
        time.sleep(2)
        if str(store.client.get_collection(store.collection).status).lower().endswith("green"):
            return


def memory(process):
    """Megabytes of a process: its own, and pages of files, which the system can take back."""
    lines = (line.split(":") for line in Path(f"/proc/{process}/status").read_text().splitlines())
    fields = {name: int(value.split()[0]) / 1024 for name, value in lines if name in ("RssAnon", "RssFile")}
    return {"anonymous MB": fields["RssAnon"], "mapped MB": fields["RssFile"]}


def bytes_read():
    """What this process has had read from the disk."""
    lines = (line.split(":") for line in Path("/proc/self/io").read_text().splitlines())
    return next(int(value) for name, value in lines if name == "read_bytes")


def disk(folder):
    """Gigabytes that a folder takes of the disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e9


def print_tables(folder):
    print(f"\n| {' | '.join(ROWS)} |\n|{' --- |' * len(ROWS)}")
    for photos, regions in SIZES:
        file = folder / f"{photos}x{regions}" / "results.json"
        for row in json.loads(file.read_text()) if file.exists() else []:
            print(f"| {' | '.join(in_words(row.get(name, '')) for name in ROWS)} |")
    for photos, regions in SIZES:
        for name in ("embedded", "qdrant"):
            costs = json.loads((folder / f"{photos}x{regions}" / f"{name}-fill.json").read_text())
            client, server, indexing = (costs.get(part, 0) / photos for part in ("client", "server", "indexing"))
            print(
                f"filling {photos}x{regions}, {name}, core-seconds a photo: client {client:.5f}, server {server:.5f}, "
                f"indexing afterwards {indexing:.5f}"
            )


def in_words(value):
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
