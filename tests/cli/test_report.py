"""`imagesent report` from a prepared folder and runs to pages in a browser; what it shows is what the models say."""

import json

import numpy as np
import pytest

from keras_imagesent.cli.main import main
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.evaluation.cider import Cider
from keras_imagesent.report.alignments import align_split
from tests.report.chromium import open_browser, open_page
from tests.tiny_pipeline import write_pipeline


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    model = write_pipeline(folder, scenes=30)
    (folder / "tables.json").write_text(
        json.dumps([{"name": "t", "title": "A table", "columns": ["x"], "rows": [[1.5]], "note": ""}])
    )
    return folder, model


def command(folder, **other):
    flags = {
        "split": "val",
        "photos": folder / "scenes/images",
        "out": folder / "report",
        "alignment": folder / "alignment",
        "captioner": folder / "captioner",
        "region-captioner": folder / "region_captioner",
        **other,
    }
    return ["report", str(folder / "prepared"), *(str(x) for name, v in flags.items() for x in (f"--{name}", v))]


def read_script(path):
    """The data of a script that says `NAME = data;` in each of its lines."""
    lines = path.read_text().splitlines()
    return {line.split(" = ")[0].removeprefix("const "): json.loads(line.partition(" = ")[2][:-1]) for line in lines}


@pytest.fixture(scope="module")
def report(work):
    folder, _ = work
    assert main([*command(folder), "--tables", str(folder / "tables.json")]) == 0
    return folder / "report"


def test_alignments_are_the_models(work, report):
    folder, model = work
    photos = Prepared.open(folder / "prepared").load("val")
    found = read_script(report / "data/photos-0000.js")["PHOTOS[0]"]
    summary = read_script(report / "data/summary.js")["SUMMARY"]
    vocabulary, scores = model.alignment.vocabulary, model.alignment.model
    assert photos.class_scores.any()  # the detector's, which the alignment takes
    known = {name: x.astype(np.float32) for name, x in photos.regions().items()}
    regions = scores.get_layer("region_encoder")(known).numpy()
    length = scores.get_layer("sentence_encoder").inputs[0].shape[1]

    def score(k, text):  # Eq. 8
        ids = np.zeros((1, length), np.int32)
        known = vocabulary.encode(text)[:length]
        ids[0, : len(known)] = known
        words = scores.get_layer("sentence_encoder")({"token_ids": ids}).numpy()[0, : len(known)]
        return (words @ regions[k][photos.region_mask[k]].T).max(axis=1).sum()

    for k in (0, len(found) - 1):
        for sentence, text in zip(found[k]["sentences"], photos.captions[k], strict=True):
            assert tokenize(" ".join(sentence["words"])) == tokenize(text)  # the words stand as typed
            known = [i > 0 for _, i in vocabulary.positions(text)][: len(sentence["words"])]
            assert [region >= 0 for region in sentence["before"]] == known
            assert sum(sentence["beforeScores"]) == pytest.approx(score(k, text), abs=0.02)
            assert sentence["score"] == pytest.approx(score(k, text), abs=0.002)
            assert sum(sentence["afterScores"]) <= sum(sentence["beforeScores"]) + 0.01
    own = max(score(0, text) for text in photos.captions[0])
    others = [score(0, text) for captions in photos.captions[1:] for text in captions]
    assert summary[0]["rank"] == 1 + sum(other >= own for other in others)


def test_captions_are_the_models(work, report):
    folder, model = work
    prepared = Prepared.open(folder / "prepared")
    photos, train = prepared.load("val"), prepared.load("train")
    found = read_script(report / "data/photos-0000.js")["PHOTOS[0]"]
    frames = photos.region_features[:, 0].astype(np.float32)
    answer = model.caption_features(frames)
    assert [f["caption"]["text"] for f in found] == [t.decode() for t in answer["captions"].numpy()[:, 0]][: len(found)]
    cider = Cider([[tokenize(text) for text in captions] for captions in photos.captions])
    said = cider.scores([tokenize(f["caption"]["text"]) for f in found], range(len(found)))
    np.testing.assert_allclose([f["caption"]["cider"] for f in found], said, atol=1e-3)
    distances = np.linalg.norm(frames[0] - train.region_features[:, 0].astype(np.float32), axis=1)
    assert found[0]["neighbour"]["filename"] == train.filenames[distances.argmin()]
    assert [r["region"] for r in found[0]["regions"]] == np.flatnonzero(photos.region_mask[0]).tolist()


def test_the_pages_open_in_a_browser(report):
    with open_browser() as browser:
        page = open_page(browser, (report / "photos.html").as_uri())
        page.wait_for_selector("article .box")
        assert (
            page.locator("article").first.locator("img").evaluate("i => i.decode().then(() => i.naturalWidth)") == 420
        )
        page.click("nav >> text=Overview")
        assert page.locator("table caption").first.inner_text() == "A table"
        assert page.locator("svg[role=img]").count() == 3  # a run each
        page.click("nav >> text=Magnitudes")
        assert page.locator("figure img").count() > 0
        assert page.script_errors == []


def test_a_second_time_computes_nothing(work, report, monkeypatch):
    folder, _ = work
    before = {path: path.read_bytes() for path in report.rglob("*.js")}
    for name in ("keras_imagesent.report.alignments.align_split", "keras_imagesent.report.captions.caption_split"):
        monkeypatch.setattr(name, None)
    assert main(command(folder)) == 0
    assert {path: path.read_bytes() for path in report.rglob("*.js")} == before


def test_a_report_of_photos_alone(work, tmp_path):
    folder, _ = work
    parts = {"alignment": "none", "captioner": "none", "region-captioner": "none"}
    assert main(command(folder, out=tmp_path / "report", **parts)) == 0
    assert not (tmp_path / "report/galleries.html").exists()
    assert read_script(tmp_path / "report/data/summary.js")["REPORT"]["alignment"] is False


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"photos": "nowhere"}, "--photos"),
        ({"alignment": "nowhere"}, "no such run"),
        ({"split": "nothing"}, "no split"),
        ({"tables": "nowhere.json"}, "--tables"),
    ],
)
def test_mistakes_are_named(work, tmp_path, capsys, change, complaint):
    assert main(command(work[0], out=tmp_path / "report", **change)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("imagesent: ") and complaint in error


def test_words_before_and_after_the_mrf(work):
    folder, model = work
    photos = Prepared.open(folder / "prepared").load("val")
    part = model.alignment
    one = align_split(part.model, part.vocabulary, photos, beta=1000.0)["photos"][0]["sentences"][0]
    assert len({region for region in one["after"] if region >= 0}) <= 1  # a large beta: one region for all
    none = align_split(part.model, part.vocabulary, photos, beta=0.0)["photos"][0]["sentences"][0]
    assert none["before"] == none["after"]
