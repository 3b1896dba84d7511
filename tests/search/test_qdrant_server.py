"""Search in a real Qdrant server: exact scores, filters, kills on either side, and nothing twice."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.search import qdrant_store
from keras_imagesent.search.collection import Collection
from keras_imagesent.search.qdrant_store import QdrantStore
from keras_imagesent.search.where import Where
from tests.search.qdrant_server import QdrantServer

pytest.importorskip("qdrant_client", reason="needs qdrant-client: pip install 'keras_imagesent[search]'")
DIM, PHOTOS, REGIONS = 16, 1200, 5


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = QdrantServer(tmp_path_factory.mktemp("qdrant"))
    server.start()
    yield server
    server.kill()


def vectors(number=PHOTOS, seed=0):
    """Photos whose regions have something in common, as those of real photos have."""
    rng = np.random.default_rng(seed)
    of_photo = rng.normal(size=(number, 1, DIM))
    return (of_photo + 0.7 * rng.normal(size=(number, REGIONS, DIM))).astype(np.float32)


def fill(collection, groups):
    """Photos of two folders, two splits and twelve months."""
    names = [f"{number}.jpg" for number in range(len(groups))]
    about = [
        {"split": ("train", "dev")[n % 2], "date": f"2024-{n % 12 + 1:02d}-15T10:00:00"} for n in range(len(groups))
    ]
    details = [f"/photos/{'sea' if n % 3 else 'hills/high'}/{name}" for n, name in enumerate(names)]
    collection.photos.add(names, groups, details=details, about=about)
    return names, details, about


def exact(words, groups):
    return np.einsum("td,nrd->ntr", words, groups).max(axis=-1).sum(axis=-1)


def test_the_prefetch_finds_the_exact_best_and_filters_come_before_it(server, tmp_path):
    collection, groups = Collection(tmp_path / "a", dim=DIM, qdrant=server.address), vectors()
    names, details, about = fill(collection, groups)
    assert len(collection.photos) == PHOTOS > 2 * qdrant_store.CANDIDATES
    found = 0
    for seed in range(10):
        words = np.random.default_rng([1, seed]).normal(size=(4, DIM)).astype(np.float32)
        scores = exact(words, groups)
        want = np.argsort(-scores)[:10]
        hits = collection.search_photos(words, top=10)
        found += len({hit.filename for hit in hits} & {names[n] for n in want})
        for hit in hits:
            assert hit.score == pytest.approx(scores[names.index(hit.filename)], rel=1e-5)
    assert found >= 99
    for where in (
        Where(folder="/photos/hills"),
        Where(split="dev", after="2024-06-01"),
        Where(folder="/photos/sea", before="2024-03-01", split="train"),
        Where(folder="/nowhere"),
    ):
        meant = [n for n in range(PHOTOS) if where.matches(details[n], about[n])]
        best = sorted(meant, key=lambda n: -scores[n])[:10]
        assert [hit.filename for hit in collection.search_photos(words, top=10, where=where)] == [
            names[n] for n in best
        ]


def test_the_graph_finds_photos_that_have_much_in_common(server, tmp_path):
    """What all photos share, more or less of it each, would join everybody to the same few (91 of 200 found)."""
    rng, number = np.random.default_rng(3), 3000
    common = np.eye(DIM, dtype=np.float32)[0] * 10 * rng.uniform(0.8, 1.2, (number, 1, 1)).astype(np.float32)
    groups = common + rng.standard_normal((number, 1, DIM), np.float32)
    names = [f"{n}.jpg" for n in range(number)]
    collection = Collection(tmp_path / "graph", dim=DIM, qdrant=server.address)
    client, name, models = collection.photos.client, collection.photos.collection, collection.photos.models
    client.update_collection(  # a graph of few photos too
        name,
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10, default_segment_number=1),
        hnsw_config=models.HnswConfigDiff(full_scan_threshold=10),
    )
    for first, last in ((0, 1), (1, 50), (50, 150), (150, number)):  # the third finds 50 that are to be moved
        QdrantStore(client, name, DIM).add(names[first:last], groups[first:last])
    wait_until(lambda: client.get_collection(name).indexed_vectors_count >= number)
    points, _ = client.scroll(name, limit=300, with_vectors=["pooled", "each"])
    centers = np.array([np.subtract(point.vector["each"][0], point.vector["pooled"]) for point in points])
    np.testing.assert_allclose(centers, np.broadcast_to(centers[0], centers.shape), atol=1e-5)
    assert 9 < centers[0, 0] < 11
    found = 0
    for _ in range(20):
        words = rng.standard_normal((1, DIM)).astype(np.float32)
        words[0, 0] = 0
        best = {names[n] for n in np.argsort(-exact(words, groups))[:10]}
        found += len({hit.filename for hit in collection.search_photos(words, top=10)} & best)
    assert found >= 195


def wait_until(true, seconds=300):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.5)


def test_only_what_is_rescored_is_fetched_with_its_vectors(server, tmp_path, monkeypatch):
    collection = Collection(tmp_path / "b", dim=DIM, qdrant=server.address)
    fill(collection, vectors(50))
    answers, ask = [], collection.photos.client.query_points
    monkeypatch.setattr(
        collection.photos.client, "query_points", lambda *a, **k: answers.append(ask(*a, **k)) or answers[-1]
    )
    collection.search_photos(np.ones((2, DIM)), top=3)
    assert [sorted(point.vector) for point in answers[0].points] == [["each"]] * 3
    info = collection.photos.client.get_collection(collection.photos.collection).config.params.vectors
    assert info["each"].on_disk and info["pooled"].on_disk
    assert info["pooled"].quantization_config.scalar.always_ram


INDEX = """
import sys, time
from keras_imagesent.search.collection import Collection
from keras_imagesent.search.qdrant_store import QdrantStore
from tests.search.test_qdrant_server import DIM, vectors
folder, address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
photos = Collection(folder, dim=DIM, qdrant=address).photos
groups = vectors(400)
names = [f"{n}.jpg" for n in range(400)]
there = photos.versions(names)
new = [n for n in range(400) if there.get(names[n]) != "1"]
for first in range(0, len(new), 20):
    rows = new[first : first + 20]
    photos.add([names[n] for n in rows], groups[rows], about=[{"version": "1"}] * len(rows))
    print(len(new) - first - len(rows), flush=True)
    time.sleep(seconds)
"""


def test_killed_on_either_side_it_goes_on_and_nothing_is_stored_twice(server, tmp_path):
    command = [sys.executable, "-c", INDEX, str(tmp_path / "c"), server.address]
    process = subprocess.Popen([*command, "0.3"], stdout=subprocess.PIPE, text=True)
    assert [process.stdout.readline() for _ in range(4)][-1] == "320\n"
    process.kill()
    process.wait()
    collection = Collection(tmp_path / "c")
    assert 80 <= len(collection.photos) < 400
    process = subprocess.Popen([*command, "0.1"], stdout=subprocess.PIPE, text=True)
    first = int(process.stdout.readline())
    assert first <= 300  # what was there is not sent again
    server.process.send_signal(signal.SIGKILL)  # now the server, under way
    server.process.wait()
    server.start()
    rest = process.communicate()[0].split()
    assert process.returncode == 0 and rest[-1] == "0"
    assert len(collection.photos) == 400
    again = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    assert again.stdout == "" and len(collection.photos) == 400
    words = np.random.default_rng(5).normal(size=(3, DIM)).astype(np.float32)
    best = np.argsort(-exact(words, vectors(400)))[:10]
    assert [hit.filename for hit in collection.search_photos(words)] == [f"{n}.jpg" for n in best]


def test_a_server_that_stays_away_is_said_in_a_line(server, tmp_path, monkeypatch):
    collection = Collection(tmp_path / "d", dim=DIM, qdrant=server.address)
    monkeypatch.setattr(qdrant_store, "WAITS", (0.01, 0.01))
    server.kill()
    try:
        with pytest.raises(InputError, match="Qdrant does not answer .* run the same command again"):
            collection.photos.add(["a.jpg"], vectors(1))
    finally:
        server.start()
    collection.photos.add(["a.jpg"], vectors(1))
    assert len(collection.photos) == 1
