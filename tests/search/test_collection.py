"""Search: exact scores against nested loops, in the embedded store and in Qdrant's local mode."""

import json
import tracemalloc

import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.search import vector_store
from keras_imagesent.search.collection import Collection
from keras_imagesent.search.vector_store import VectorStore

DIM = 8


@pytest.fixture(params=["embedded", "qdrant"])
def collection(request, tmp_path):
    if request.param == "qdrant":
        pytest.importorskip(
            "qdrant_client", reason="qdrant-client is not installed: pip install 'keras_imagesent[search]'"
        )
    return Collection(tmp_path / "index", dim=DIM, qdrant=":memory:" if request.param == "qdrant" else None)


def photos(number, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(rng.integers(1, 21), DIM)).astype(np.float32) for _ in range(number)]


def fill(collection, groups, first=0):
    names = [f"{first + i}.jpg" for i in range(len(groups))]
    boxes = [np.tile([0.0, 0.0, 0.5, 0.001 * i], (len(g), 1)) for i, g in enumerate(groups)]
    collection.photos.add(names, groups, boxes, [f"/photos/{name}" for name in names])
    return names


def naive(words, regions):
    """Eq. 8 by nested loops."""
    return sum(max(float(np.dot(v, s)) for v in regions) for s in words)


def test_photos_come_by_their_exact_score(collection):
    groups = photos(60)
    names = fill(collection, groups)
    words = np.random.default_rng(9).normal(size=(3, DIM))
    want = sorted(((naive(words, g), n) for n, g in zip(names, groups, strict=True)), reverse=True)[:7]
    hits = collection.search_photos(words, top=7)
    assert [hit.filename for hit in hits] == [name for _, name in want]
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in want], rtol=1e-5)
    best = hits[0]
    group = groups[names.index(best.filename)]
    assert best.regions == (words.astype(np.float32) @ group.T).argmax(axis=1).tolist()
    assert best.path == f"/photos/{best.filename}" and sum(best.word_scores) == pytest.approx(best.score)


def test_regions_come_by_their_exact_score(collection):
    groups = photos(60)
    names = fill(collection, groups)
    words = np.random.default_rng(9).normal(size=(3, DIM))
    scores = [(naive(words, v[None]), n, i) for n, g in zip(names, groups, strict=True) for i, v in enumerate(g)]
    want = sorted(scores, reverse=True)[:9]
    hits = collection.search_regions(words, top=9)
    assert [(hit.filename, hit.region) for hit in hits] == [(name, region) for _, name, region in want]
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, *_ in want], rtol=1e-5)


def test_sentences_of_a_photo_come_by_their_exact_score(collection):
    sentences = photos(40, seed=1)
    texts = [f"sentence {i}" for i in range(40)]
    collection.add_sentences(texts, sentences, [f"{i % 10}.jpg" for i in range(40)])
    regions = np.random.default_rng(5).normal(size=(4, DIM))
    want = sorted(((naive(words, regions), t) for t, words in zip(texts, sentences, strict=True)), reverse=True)[:5]
    hits = collection.search_sentences(regions, top=5)
    assert [(hit.sentence, hit.filename) for hit in hits] == [
        (text, f"{texts.index(text) % 10}.jpg") for _, text in want
    ]
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in want], rtol=1e-5)


def test_a_model_of_means_is_searched_by_means(tmp_path):
    sums, means = (Collection(tmp_path / score, dim=DIM, score=score) for score in ("max_sim", "mean_max_sim"))
    sentences = photos(30, seed=1)
    for collection in (sums, means):
        fill(collection, photos(30))
        collection.add_sentences([f"sentence {i}" for i in range(30)], sentences)
    words = np.random.default_rng(4).normal(size=(3, DIM))
    for search in ("search_photos", "search_regions"):
        hits, mean_hits = (getattr(collection, search)(words, 4) for collection in (sums, means))
        assert [h.filename for h in mean_hits] == [h.filename for h in hits]
        np.testing.assert_allclose([3 * h.score for h in mean_hits], [h.score for h in hits], rtol=1e-5)
    want = sorted((naive(s, words) / len(s) for s in sentences), reverse=True)[:5]
    np.testing.assert_allclose([h.score for h in means.search_sentences(words, 5)], want, rtol=1e-5)


def test_adding_and_removing_without_a_rebuild(collection):
    groups = photos(30)
    names = fill(collection, groups[:20])
    names += fill(collection, groups[20:], first=20)
    words = np.random.default_rng(2).normal(size=(2, DIM))
    best = collection.search_photos(words, top=30)
    assert len(best) == 30 == len(collection.photos)
    collection.add_sentences(["one", "two"], photos(2), [best[0].filename, best[2].filename])
    assert collection.remove([best[0].filename, best[3].filename, "never.jpg"]) == 2
    rest = collection.search_photos(words, top=30)
    assert [h.filename for h in rest] == [h.filename for i, h in enumerate(best) if i not in (0, 3)]
    assert len(collection.sentences) == 1
    collection.photos.add([rest[5].filename], [groups[0] * 100])  # the same name again: replaced, not doubled
    assert len(collection.photos) == 28 and sorted(collection.photos.names()) == sorted(h.filename for h in rest)
    assert collection.search_photos(words, top=1)[0].filename == rest[5].filename


def test_many_small_additions_become_few_segments(tmp_path):
    store, groups = VectorStore(tmp_path / "store", dim=DIM), photos(100)
    groups[41] *= 10  # its vectors find themselves
    for number, group in enumerate(groups):
        store.add([f"{number}.jpg"], [group], [np.full((len(group), 4), number)], [f"/photos/{number}.jpg"])
    assert [segment["groups"] for segment in store.state["segments"]] == [64, 32, 4]
    assert store.names() == [f"{number}.jpg" for number in range(100)]
    assert sum(path.is_dir() for path in store.folder.iterdir()) == 3  # what was merged is deleted
    store.remove(["3.jpg", "70.jpg"])
    store.add(["new.jpg"], [groups[3]])
    (best,) = VectorStore(tmp_path / "store").candidates(groups[41], top=1)
    assert (best.name, best.detail, best.boxes[0, 0]) == ("41.jpg", "/photos/41.jpg", 41)
    np.testing.assert_array_equal(best.vectors, groups[41])


def test_a_removed_photo_does_not_return_when_segments_are_merged(tmp_path):
    store = VectorStore(tmp_path / "store", dim=DIM)
    store.add(["a", "b", "c"], [np.ones((2, DIM))] * 3)
    assert store.remove(["b"]) == 1
    store.add(["d", "e"], [np.ones((1, DIM))] * 2)  # takes in the segment of a and c
    assert [segment["groups"] for segment in store.state["segments"]] == [4]
    for opened in (store, VectorStore(tmp_path / "store")):
        assert opened.names() == ["a", "c", "d", "e"] and len(opened) == 4
        assert [group.name for group in opened.candidates(np.ones((1, DIM)), top=9)] == ["a", "c", "d", "e"]


def test_a_reader_is_not_disturbed_by_a_merge(tmp_path):
    VectorStore(tmp_path / "store", dim=DIM).add(["a"], [np.ones((2, DIM))])
    reader = VectorStore(tmp_path / "store")
    VectorStore(tmp_path / "store").add(["b"], [np.ones((2, DIM))])  # takes in the segment of a
    assert [group.name for group in reader.candidates(np.ones((1, DIM)), top=2)] == ["a"]
    assert VectorStore(tmp_path / "store").names() == ["a", "b"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_query_takes_little_memory(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(vector_store, "CHUNK_BYTES", 1 << 20)
    store = VectorStore(tmp_path / "store", dim=500, dtype=dtype)
    store.add([str(i) for i in range(1000)], np.ones((1000, 20, 500), dtype))
    tracemalloc.start()
    store.candidates(np.ones((10, 500)), top=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20 < next(store.folder.glob("*/vectors.npy")).stat().st_size / 4


def test_asking_for_more_than_there_is(collection):
    assert collection.search_photos(np.ones((1, DIM)), top=3) == []
    fill(collection, photos(2))
    assert len(collection.search_photos(np.ones((1, DIM)), top=3)) == 2


def test_the_folder_opens_again(tmp_path):
    fill(Collection(tmp_path / "index", dim=DIM), photos(5))
    again = Collection(tmp_path / "index")
    assert again.settings["dim"] == DIM and len(again.photos) == 5
    with pytest.raises(InputError, match="imagesent index"):
        Collection(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_chunks_do_not_change_the_scores(tmp_path, monkeypatch):
    groups, words = photos(50), np.random.default_rng(3).normal(size=(4, DIM))
    collection = Collection(tmp_path / "index", dim=DIM)
    fill(collection, groups)
    whole = collection.search_photos(words, top=50)
    monkeypatch.setattr(vector_store, "CHUNK_BYTES", 4 * DIM * 23)
    assert collection.search_photos(words, top=50) == whole


def test_vectors_stay_on_disk_and_float16_takes_half(tmp_path):
    full, half = (Collection(tmp_path / dtype, dim=DIM, dtype=dtype) for dtype in ("float32", "float16"))
    for collection in (full, half):
        fill(collection, photos(50))
    words = np.random.default_rng(3).normal(size=(4, DIM))
    hits = full.search_photos(words, top=5)
    np.testing.assert_allclose([h.score for h in half.search_photos(words, top=5)], [h.score for h in hits], rtol=2e-3)
    segment = full.photos.state["segments"][0]
    assert isinstance(full.photos._arrays(segment)["vectors"], np.memmap)
    sizes = [next(c.photos.folder.glob("*/vectors.npy")).stat().st_size - 128 for c in (full, half)]
    assert sizes[0] == 2 * sizes[1]


def test_a_killed_add_leaves_the_store_as_it_was(tmp_path, monkeypatch):
    store = VectorStore(tmp_path / "store", dim=DIM)
    store.add(["a"], [np.ones((2, DIM))])
    before = json.loads((tmp_path / "store/state.json").read_text())
    monkeypatch.setattr(VectorStore, "_write_state", lambda self, state: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.add(["b"], [np.ones((2, DIM))])
    assert json.loads((tmp_path / "store/state.json").read_text()) == before
    assert VectorStore(tmp_path / "store").names() == ["a"]


def test_vectors_of_another_size_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"x\.jpg.*8 dimensions"):
        VectorStore(tmp_path / "store", dim=DIM).add(["x.jpg"], [np.ones((2, DIM + 1))])
    (tmp_path / "store/state.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        VectorStore(tmp_path / "store")


def test_a_qdrant_folder_opens_again(tmp_path):
    pytest.importorskip("qdrant_client", reason="needs qdrant-client: pip install 'keras_imagesent[search]'")
    collection = Collection(tmp_path / "index", dim=DIM, qdrant=str(tmp_path / "qdrant"))
    fill(collection, photos(5))
    with pytest.raises(InputError, match="no Qdrant at"):  # held by the first client
        Collection(tmp_path / "index")
    collection.photos.client.close()
    assert len(Collection(tmp_path / "index").photos) == 5


def test_a_qdrant_that_is_not_there(tmp_path):
    pytest.importorskip("qdrant_client", reason="needs qdrant-client: pip install 'keras_imagesent[search]'")
    with pytest.raises(InputError, match="no Qdrant at http://127.0.0.1:9"):
        Collection(tmp_path / "index", dim=DIM, qdrant="http://127.0.0.1:9")
    assert not (tmp_path / "index").exists()
