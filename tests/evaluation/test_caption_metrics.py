"""BLEU, ROUGE-L and CIDEr against what pycocoevalcap gave (make_golden_captions.py)."""

import json
from pathlib import Path

import pytest

from keras_imagesent.evaluation import coco_extra
from keras_imagesent.evaluation.bleu import bleu
from keras_imagesent.evaluation.cider import Cider, cider
from keras_imagesent.evaluation.rouge import common_length, rouge_l

GOLDEN = json.loads(Path(__file__).with_name("golden_captions.json").read_text())
CANDIDATES = [photo["candidate"].split() for photo in GOLDEN["photos"]]
REFERENCES = [[text.split() for text in photo["references"]] for photo in GOLDEN["photos"]]


def test_bleu_equals_coco_captions():
    assert bleu(CANDIDATES, REFERENCES) == pytest.approx(GOLDEN["bleu"], abs=1e-6)


def test_bleu_punishes_short_captions():
    assert bleu([["a"]], [[["a", "dog", "runs"]]], order=1)[0] == pytest.approx(2.718281828 ** (1 - 3), abs=1e-6)


def test_rouge_l_equals_coco_captions():
    assert rouge_l(CANDIDATES, REFERENCES) == pytest.approx(GOLDEN["rouge_l"], abs=1e-6)


def test_longest_common_subsequence():
    assert common_length(list("axbyc"), list("babc")) == 3


def test_cider_equals_coco_captions_in_the_mean_and_photo_by_photo():
    assert cider(CANDIDATES, REFERENCES) == pytest.approx(GOLDEN["cider"], abs=1e-6)
    assert Cider(REFERENCES).scores(CANDIDATES) == pytest.approx(GOLDEN["cider_scores"], abs=1e-6)
    assert Cider(REFERENCES).scores(CANDIDATES[7:9], [7, 8]) == pytest.approx(GOLDEN["cider_scores"][7:9], abs=1e-6)


def test_cider_wants_one_candidate_a_photo():
    with pytest.raises(ValueError, match="Received: 1 for 60"):
        cider(CANDIDATES[:1], [*REFERENCES[:1]] * 60)


@pytest.mark.skipif(coco_extra.missing() is not None, reason=str(coco_extra.missing()))
def test_meteor_and_the_ptb_tokenizer_run_through_java():
    words = coco_extra.ptb_tokenize(["A man's dog, two cats.", "Hi"])
    assert words == [["a", "man", "'s", "dog", "two", "cats"], ["hi"]]
    same = [["a", "dog", "runs"], ["two", "cats"]]
    assert coco_extra.meteor(same, [[words] for words in same]) > 0.9
    assert coco_extra.meteor(same[::-1], [[words] for words in same]) < 0.1


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(coco_extra.shutil, "which", lambda name: None)
    assert coco_extra.missing() == "no Java on this machine"
    monkeypatch.setattr(coco_extra, "find_spec", lambda name: None)
    assert "keras_imagesent[metrics]" in coco_extra.missing()
