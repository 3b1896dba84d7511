"""Index files damaged, deleted and exchanged, and several writers at once: the right answer, or one clear line."""

import subprocess
import sys

import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.search.collection import Collection
from keras_imagesent.search.vector_store import VectorStore
from tests.broken import TIMES, break_content

DIM = 8


def make_index(folder, qdrant=None):
    (folder / "alignment").mkdir(parents=True)
    (folder / "alignment/vocabulary.json").write_text('{"words": ["dog", "cat"]}')
    rng = np.random.default_rng(0)
    collection = Collection(folder, dim=DIM, qdrant=qdrant)
    for number in (5, 3, 1):  # three segments
        names = [f"{number}-{i}.jpg" for i in range(number)]
        groups = [rng.normal(size=(4, DIM)) for _ in names]
        collection.photos.add(names, groups, [rng.random((4, 4)) for _ in names], [f"/photos/{name}" for name in names])
        collection.add_sentences([f"a dog {name}" for name in names], groups, names)
    collection.remove(["5-2.jpg"])


def answers(folder):
    """All that a person can see of an index."""
    collection = Collection(folder)
    query = np.random.default_rng(1).normal(size=(2, DIM))
    found = [collection.search_photos(query, 20), collection.search_regions(query, 50)]
    words = (folder / "alignment/vocabulary.json").read_text()  # the caller loads the model from there
    return [*found, collection.search_sentences(query, 20), collection.photos.names(), words]


def test_a_broken_index_gives_the_same_answers_or_one_line(tmp_path):
    make_index(tmp_path / "index")
    right = answers(tmp_path / "index")
    files = sorted(path.relative_to(tmp_path / "index") for path in (tmp_path / "index").rglob("*") if path.is_file())
    rng, refused, number = np.random.default_rng(20), 0, 200 * TIMES
    for turn in range(number):
        file = files[turn % len(files)]
        broken = tmp_path / "index" / file
        content = broken.read_bytes()
        way = rng.integers(0, 10)
        if way == 0:
            broken.unlink()
        elif way == 1:  # a file of another place, whole in itself
            broken.write_bytes((tmp_path / "index" / files[rng.integers(0, len(files))]).read_bytes())
        else:
            broken.write_bytes(break_content(content, rng))
        try:
            assert answers(tmp_path / "index") == right, f"turn {turn}: other answers, {file} broken"
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and "index" in str(error), error
        finally:
            broken.write_bytes(content)
    assert refused > 0.8 * number  # the others broke a header or a space, or broke nothing


def test_a_writer_does_not_carry_damage_on(tmp_path):
    store = VectorStore(tmp_path / "store", dim=DIM)
    store.add(["a"], [np.ones((2, DIM))])
    path = next(store.folder.glob("*/vectors.npy"))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="vectors.npy is damaged"):
        VectorStore(tmp_path / "store").add(["b"], [np.ones((2, DIM))])  # would take in the segment of a


WRITER = """
import sys, numpy as np
from keras_imagesent.search.collection import Collection
folder, who = sys.argv[1:]
collection = Collection(folder, dim=8)
for number in range(30):
    vectors = np.full((2, 8), number + 1.0)
    collection.photos.add([f"{who}-{number}.jpg"], [vectors])
    collection.add_sentences([f"{who} {number}"], [vectors], [f"{who}-{number}.jpg"])
    if number % 10 == 9:
        collection.remove([f"{who}-{number}.jpg"])
"""


def test_writers_at_once_lose_nothing(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "index", who]) for who in ("ann", "ben")]
    assert [writer.wait() for writer in writers] == [0, 0]
    collection = Collection(tmp_path / "index")
    here = {f"{who}-{number}.jpg" for who in ("ann", "ben") for number in range(30) if number % 10 != 9}
    assert sorted(collection.photos.names()) == sorted(here) and len(collection.sentences) == len(here)
    (hit,) = collection.search_photos(np.ones((1, 8)), top=1)
    assert hit.score == 8 * 29
    for kind in ("photos", "sentences"):
        folders = {path.name for path in (tmp_path / "index" / kind).iterdir() if path.is_dir()}
        assert folders == {segment["name"] for segment in getattr(collection, kind).state["segments"]}


def test_what_a_killed_writer_left_goes_with_the_next(tmp_path, monkeypatch):
    store = VectorStore(tmp_path / "store", dim=DIM)
    store.add(["a"], [np.ones((2, DIM))])
    with monkeypatch.context() as patched:
        patched.setattr(VectorStore, "_write_state", lambda self, state: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):  # the new segment is there, the state does not know it
            store.add(["b"], [np.ones((2, DIM))])
    (store.folder / ".unfinished-0123456789ab").mkdir()
    store.add(["c"], [np.ones((2, DIM))])
    assert store.names() == ["a", "c"] == VectorStore(tmp_path / "store").names()
    assert len(list(store.folder.iterdir())) == 2  # the state and one segment
