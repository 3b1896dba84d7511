import json
from types import SimpleNamespace

import numpy as np
import pytest

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.captioning.captioner import build_captioner, log_probs_of
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation import caption_tables, coco_extra
from keras_imagesent.evaluation.baselines import human_agreement, nearest_captions
from keras_imagesent.evaluation.caption_scores import MEASURES, CaptionScorer
from keras_imagesent.evaluation.grounding import Item
from keras_imagesent.evaluation.novelty import novelty
from keras_imagesent.evaluation.region_snippets import (
    DescribedRegion,
    box_classes,
    read_region_snippets,
    regions_of_phrases,
)
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.model.rerank import choose, n_best
from keras_imagesent.model.run import Run
from tests.tiny_prepared import FEATURES, write_tiny_prepared


@pytest.fixture
def without_java(monkeypatch):
    monkeypatch.setattr(coco_extra.shutil, "which", lambda name: None)


def test_all_measures_in_percent_and_meteor_clearly_absent_without_java(without_java):
    references = [["A dog runs.", "The zebroid, runs!"], ["Two cats"], ["A man sits down"]]
    scorer = CaptionScorer(references)
    scores = scorer.score(["the zebroid runs", "two cats", "a man sits down"])
    assert list(scores) == MEASURES
    assert scores["BLEU-1"] == pytest.approx(100) and scores["ROUGE-L"] == pytest.approx(100)
    assert scores["CIDEr"] > 300  # a rare word of a raw reference counts
    assert scores["METEOR"] is None and "no Java" in scorer.note


def test_the_nearest_photo_lends_its_first_caption():
    train = np.array([[0.0, 0], [10, 0], [0, 10]])
    captions = [["zero", "nought"], ["right"], ["up"]]
    assert nearest_captions(np.array([[9.0, 1], [1, 1], [0, 7]]), train, captions) == ["right", "zero", "up"]


def test_one_person_against_the_rest_where_there_are_several():
    assert human_agreement([["a", "b", "c"], ["d"]]) == ([0], ["a"], [["b", "c"]])


def test_novelty_compares_with_the_sentences_as_learned():
    vocabulary = Vocabulary(["a", "dog", "runs"], [3, 2, 1])
    found = novelty(["a dog runs", "a dog runs", "dog a"], ["A purple dog, runs!"], vocabulary)
    assert found == {"in_training": pytest.approx(2 / 3), "distinct": 2, "words": pytest.approx(8 / 3)}


def test_reranking_weighs_the_alignment_against_the_log_probability():
    options = [[("first", -1.0, 0.0), ("second", -1.5, 2.0)], [("only", -3.0, 1.0)]]
    assert choose(options, 0.0) == ["first", "only"]
    assert choose(options, 1.0) == ["second", "only"]


def test_truth_of_scenes_as_the_captioner_ranks_and_as_the_alignment_does(monkeypatch, tmp_path):
    objects = [{"shape": "ball", "colour": "red", "size": "big"}, {"shape": "box", "colour": "blue", "size": "big"}]
    scenes = [{"filename": f"{n}.jpg", "ground": "sand", "objects": objects} for n in range(4)]
    (tmp_path / "scenes.json").write_text(json.dumps({"seed": 0, "scenes": scenes}))
    photos, chooser = SimpleNamespace(filenames=["0.jpg", "1.jpg"]), SimpleNamespace(filenames=["2.jpg", "3.jpg"])
    truly, falsely = ("a red ball on the sand", -1.0, 2.0), ("a blue ball on the sand", -0.5, 0.0)
    ranked = {"0.jpg": [falsely, truly], "1.jpg": [truly], "2.jpg": [falsely, truly], "3.jpg": [falsely]}
    run = SimpleNamespace(beam=3, vectors=lambda some: some.filenames)
    run.captions = lambda files, beam: [ranked[file][0][0] for file in files]
    monkeypatch.setattr(caption_tables, "CaptionSearch", lambda path: run)
    monkeypatch.setattr(caption_tables, "n_best", lambda model, alignment, some, n: [ranked[f] for f in some.filenames])

    own = [["best, beam 3", 50.0, 2], ["best, beam 160", 50.0, 2]]
    assert caption_tables.truth_table({"best": "run"}, photos, tmp_path, "val").rows == own
    table = caption_tables.truth_table({"best": "run"}, photos, tmp_path, "val", "alignment", chooser)
    assert table.rows == [*own, ["best, the 160 best ranked anew by the alignment with weight 0.4", 100.0, 1]]
    assert table.note.endswith("The weight was chosen on 2 other scenes.")


def test_the_n_best_come_with_their_mean_log_probability_and_the_alignments_own_score(tmp_path):
    """The alignment has the same words under other numbers."""
    prepared = write_tiny_prepared(tmp_path / "prepared", {"train": 30, "val": 2})
    photos, vocabulary = prepared.load("val"), prepared.vocabulary
    other = Vocabulary(vocabulary.words[::-1], vocabulary.counts[::-1], 9)
    captioner = build_captioner(FEATURES, len(vocabulary), units=8, word_dim=8)
    aligner = build_alignment(FEATURES, len(vocabulary), dim=8, units=8, word_dim=8, number_of_regions=4)
    for name, model, words in (("captioner", captioner, vocabulary), ("alignment", aligner, other)):
        (tmp_path / name).mkdir()
        model.save(tmp_path / name / "model.keras")
        words.save(tmp_path / name / "vocabulary.json")
    run = CaptionSearch(Run(tmp_path / "captioner", "captioner"))
    regions = encode_photos(aligner, photos.regions())
    for row, group in enumerate(n_best(run, Run(tmp_path / "alignment", "alignment"), photos, 6)):
        assert len(group) == 6
        for text, rank, score in group:
            ids = np.zeros((1, 20), np.int32)
            ids[0, : len(text.split())] = vocabulary.encode(text)
            log_prob = float(log_probs_of(captioner, photos.region_features[row : row + 1, 0].astype("f4"), ids)[0])
            said = text.split()
            broken = len(said) in (0, 20) or said[-1] in ("a", "the", "and", "beside")
            assert rank == pytest.approx(log_prob / min(len(said) + 1, 20) ** 0.7 - 1000 * broken, abs=1e-3), text
            words = encode_sentences(aligner, [other.encode(text)])
            best = (words.of(0) @ regions[row].T).max(axis=1).sum() if len(words.vectors) else 0
            assert score == pytest.approx(best, abs=1e-4), text


def test_every_human_box_is_a_region_with_its_phrases():
    box, other = [0.1, 0.1, 0.5, 0.5], [0.5, 0.5, 1, 1]
    items = [Item("a.jpg", "A dog", np.array([box, other])), Item("a.jpg", "brown dog", np.array([box]))]
    first, second = regions_of_phrases(items)
    assert first.references == ["A dog", "brown dog"] and second.references == ["A dog"]
    np.testing.assert_allclose(second.box, other)


def test_a_human_box_has_the_classes_of_the_detection_that_covers_it():
    boxes = np.array([[[0, 0, 1, 1], [0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.45], [0.6, 0.6, 0.9, 0.9]]], np.float32)
    classes = np.array([[[0, 0], [0.9, 0], [0, 0.8], [0.7, 0]]], np.float16)
    mask = np.array([[True, True, True, False]])
    photos = SimpleNamespace(filenames=["a.jpg"], boxes=boxes, class_scores=classes, region_mask=mask)
    drawn = [[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.42], [0.6, 0.6, 0.9, 0.9], [0, 0, 1, 1], [0.1, 0.1, 0.2, 0.2]]
    regions = [DescribedRegion("a.jpg", np.array(box, np.float32), ["thing"]) for box in drawn]
    found = box_classes(regions, photos)
    np.testing.assert_allclose(found, [[0.9, 0], [0, 0.8], [0, 0], [0, 0], [0, 0]], atol=1e-3)


def test_snippets_of_several_annotators_are_each_others_references(tmp_path):
    path = tmp_path / "regions.csv"
    path.write_text(
        "filename,annotator,snippet,x0,y0,x1,y1\n"
        "a.jpg,ann,chocolate cake,0.1,0.1,0.5,0.5\n"
        "a.jpg,ann,a plate,0.1,0.1,0.5,0.5\n"
        "a.jpg,bob,brown cake,0.1,0.1,0.5,0.55\n"
        "a.jpg,bob,a window,0.8,0.8,1,1\n"
    )
    regions = read_region_snippets(path)
    assert [(r.snippet, r.references) for r in regions] == [
        ("chocolate cake", ["brown cake"]),
        ("a plate", ["brown cake"]),
        ("brown cake", ["chocolate cake", "a plate"]),
    ]
    path.write_text("filename,snippet,x0,y0,x1,y1\na.jpg,cake,0,0,1,1\n")
    with pytest.raises(InputError, match="annotator"):
        read_region_snippets(path)
