"""Retrieval against a naive loop, with ties, empty sentences and unequal numbers of sentences."""

import tracemalloc

import numpy as np
import pytest

from keras_imagesent.alignment import score_pairs
from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.encode import Words
from keras_imagesent.evaluation import retrieval
from tests.tiny_prepared import FEATURES, write_tiny_prepared


def random_split(seed=0, photos=150, dim=4):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, photos)
    lengths = rng.integers(0, 7, counts.sum())
    words = Words(rng.normal(size=(lengths.sum(), dim)).astype("float32"), lengths)
    mask = rng.random((photos, 3)) < 0.6
    mask[:, 0] = True
    return rng.normal(size=(photos, 3, dim)).astype("float32"), words, mask, np.repeat(np.arange(photos), counts)


@pytest.mark.parametrize("score", ["max_sim", "defrag"])
def test_scores_are_the_formula_in_every_chunk(score, monkeypatch):
    monkeypatch.setattr(score_pairs, "PHOTOS_AT_ONCE", 7)
    monkeypatch.setattr(score_pairs, "WORDS_AT_ONCE", 50)
    regions, words, mask, _ = random_split()
    scores = retrieval.score_pairs(regions, words, mask, score)
    for k, n in np.random.default_rng(1).integers(0, [150, len(words)], (200, 2)):
        similarity = words.of(n) @ regions[k][mask[k]].T
        expected = similarity.max(axis=1).sum() if score == "max_sim" else np.maximum(similarity, 0).sum()
        assert scores[k, n] == pytest.approx(expected, abs=1e-5)


def test_scoring_holds_little_beside_its_result():
    rng = np.random.default_rng(0)
    words = Words(rng.normal(size=(25000, 8)).astype("float32"), np.full(2500, 10))
    regions, mask = rng.normal(size=(1000, 20, 8)).astype("float32"), np.ones((1000, 20), bool)
    tracemalloc.start()
    scores = retrieval.score_pairs(regions, words, mask)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - scores.nbytes < 60e6  # all similarities at once would be 2 GB


def naive_measures(scores, photo_of_sentence):
    annotation, search = [], []
    for k in range(scores.shape[0]):
        own = [scores[k][n] for n in range(scores.shape[1]) if photo_of_sentence[n] == k]
        others = [scores[k][n] for n in range(scores.shape[1]) if photo_of_sentence[n] != k]
        annotation.append(1 + sum(other >= max(own) for other in others))
    for n in range(scores.shape[1]):
        right = scores[photo_of_sentence[n]][n]
        search.append(1 + sum(scores[k][n] >= right for k in range(scores.shape[0]) if k != photo_of_sentence[n]))
    return annotation, search


def test_ranks_are_the_naive_loops():
    regions, words, mask, owner = random_split()
    scores = np.round(retrieval.score_pairs(regions, words, mask))  # many ties
    annotation, search = naive_measures(scores, owner)
    np.testing.assert_array_equal(retrieval.annotation_ranks(scores, owner), annotation)
    np.testing.assert_array_equal(retrieval.search_ranks(scores, owner), search)
    measures = retrieval.measure_scores(scores, owner)
    assert measures["annotation_r5"] == pytest.approx(100 * np.mean([rank <= 5 for rank in annotation]))
    assert measures["search_median"] == np.median(search)
    assert measures["search_mean"] == pytest.approx(np.mean(search))
    recalls = [measures[f"{way}_r{k}"] for way in ("annotation", "search") for k in (1, 5, 10)]
    assert measures["recall_sum"] == pytest.approx(sum(recalls))


def test_search_ranks_count_the_photos_of_every_part():
    scores = np.zeros((1203, 2), np.float32)  # more than two of the parts that search_ranks works in
    scores[[3, 499, 500, 501, 999, 1000, 1202], 0] = 2.0
    owner = np.array([7, 1202])
    scores[owner, [0, 1]] = 1.0
    assert retrieval.search_ranks(scores, owner).tolist() == [1 + 7, 1]


def test_folds_measure_every_photo_among_those_of_its_part(tmp_path):
    prepared = write_tiny_prepared(tmp_path / "prepared", {"train": 30, "val": 17})
    photos = prepared.load("val")
    model = build_alignment(FEATURES, len(prepared.vocabulary), dim=8, units=8, word_dim=8, number_of_regions=4)
    each = []
    for part in (slice(0, 6), slice(6, 12), slice(12, 17)):
        sentences, owner = retrieval.own_sentences(photos, part)
        each.append(retrieval.measure_scores(retrieval.score_split(model, photos, sentences, part), owner))
    measured = retrieval.measure_retrieval(model, photos, folds=3)
    assert measured == pytest.approx({name: np.mean([part[name] for part in each]) for name in each[0]})
    assert measured != retrieval.measure_retrieval(model, photos)


@pytest.mark.parametrize("score", [0.0, np.nan])
def test_a_collapsed_model_scores_nothing(score):
    measures = retrieval.measure_scores(np.full((20, 100), score, np.float32), np.repeat(np.arange(20), 5))
    assert measures["annotation_r10"] == measures["search_r10"] == 0
    assert measures["search_median"] == 20 and measures["annotation_median"] == 96
