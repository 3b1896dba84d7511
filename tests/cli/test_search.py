"""`imagesent index` and `imagesent search` as a person types them, mistakes included."""

import json
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.cli.main import main
from keras_imagesent.search.collection import Collection
from tests.tiny_pipeline import write_pipeline


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    return folder, write_pipeline(folder)


@pytest.fixture(scope="module")
def index(work):
    """The validation scenes, their sentences, and two photos that were added as files."""
    folder, _ = work
    command = ["index", "--prepared", folder / "prepared", "--split", "val", "--photos", folder / "scenes/images"]
    assert main([*map(str, command), "--alignment", str(folder / "alignment"), "--index", str(folder / "index")]) == 0
    return folder / "index"


def networks(folder):
    return ["--backbone", str(folder / "backbone.keras"), "--detector", str(folder / "detector.keras")]


def hits(capsys):
    return json.loads(capsys.readouterr().out)["hits"]


def test_photos_for_a_snippet_score_as_the_model_does(work, index, capsys):
    folder, model = work
    assert main(["search", "red ball zzz", "--index", str(index), "--json", "--top", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["words"] == ["red", "ball"] and len(found["hits"]) == 3
    photo = (folder / "scenes/images" / found["hits"][0]["filename"]).read_bytes()
    answer = model.align(tf.constant([photo]), tf.constant(["red ball"]))
    assert found["hits"][0]["score"] == pytest.approx(float(answer["score"][0]), rel=1e-2, abs=1e-3)  # float16 shards
    scores = [hit["score"] for hit in found["hits"]]
    assert scores == sorted(scores, reverse=True)


def test_regions_as_text_and_as_a_page_of_crops(work, index, tmp_path, capsys):
    page = tmp_path / "found.html"
    assert main(["search", "the big dog", "--regions", "--index", str(index), "--top", "4", "--page", str(page)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all("region" in line and "box" in line for line in lines)
    text = page.read_text()
    assert text.count('src="data:image/jpeg;base64,') == 4 and "<h1>the big dog</h1>" in text
    assert main(["search", "the big dog", "--index", str(index), "--top", "2", "--page", str(page)]) == 0
    assert page.read_text().count("<figure") == 2


def test_sentences_for_a_photo(work, index, tmp_path, capsys):
    folder, model = work
    photo = next((folder / "scenes/images").iterdir())
    command = ["search", "--photo", str(photo), "--index", str(index), "--json", "--top", "5", *networks(folder)]
    assert main([*command, "--page", str(tmp_path / "found.html")]) == 0
    found = hits(capsys)
    page = (tmp_path / "found.html").read_text()
    assert page.count("<img") == 1 and [escape(hit["sentence"]) in page for hit in found] == [True] * 5
    answer = model.align(tf.constant([photo.read_bytes()] * 5), tf.constant([hit["sentence"] for hit in found]))
    np.testing.assert_allclose([hit["score"] for hit in found], answer["score"].numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("store", [[], ["--qdrant", "qdrant"]])
def test_photos_come_and_go(work, tmp_path, capsys, monkeypatch, store):
    folder, _ = work
    monkeypatch.chdir(tmp_path)  # Qdrant's local mode keeps its files here
    monkeypatch.setattr("keras_imagesent.search.fill_collection.PHOTOS_IN_MEMORY", 1)
    photos = sorted((folder / "scenes/images").iterdir())[:2]
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    index = ["--index", str(tmp_path / "index")]
    new = [*index, "--alignment", str(folder / "alignment"), *networks(folder), *store]
    assert main(["index", *map(str, photos), str(tmp_path / "broken.jpg"), *new]) == 1
    printed = capsys.readouterr()
    assert "2 photos, 0 sentences" in printed.out and "broken.jpg" in printed.err
    (tmp_path / "sentences.txt").write_text("a red ball\n\nzzz\nthe dog\n")
    assert main(["index", "--sentences", str(tmp_path / "sentences.txt"), "--remove", str(photos[0]), *index]) == 0
    printed = capsys.readouterr()
    assert "removed 1 of 1 photos" in printed.out and "1 photos, 2 sentences" in printed.out and "'zzz'" in printed.err
    assert main(["search", "dog", *index, "--json"]) == 0
    assert [hit["filename"] for hit in hits(capsys)] == [str(photos[1])]
    assert main(["search", "zzz dog", *index]) == 0
    assert "the model does not know zzz: looking for the rest" in capsys.readouterr().err
    assert main(["index", "--remove", "nosuch.jpg", *index]) == 1
    printed = capsys.readouterr()
    assert "removed 0 of 1 photos" in printed.out and "nosuch.jpg: not in" in printed.err
    assert main(["search", "zzz", *index]) == 2
    assert "vocabulary" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command, complaint",
    [
        ("search dog --index nowhere", "nowhere is not an index"),
        ("search", "say what to search for"),
        ("search dog --photo x.jpg", "one of the two"),
        ("search --photo nowhere.jpg", "no such photo"),
        ("search dog --top 0", "at least 1"),
        ("index", "nothing to do"),
        ("index nowhere.jpg", "no such photo"),
        ("index nowhere/*.jpg", "no file matches"),
        ("index --prepared prepared", "--split"),
        ("index --remove x.jpg --index nowhere", "nothing to remove"),
        ("index --sentences nowhere.txt", "no such file"),
    ],
)
def test_mistakes_are_named(command, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("imagesent: ") and complaint in error and len(error.splitlines()) <= 2
    assert not list(tmp_path.iterdir())


def test_a_search_says_when_nothing_matches():
    """The score of the best hit, for a word, through what `imagesent calibrate` noted: 0.5 is where matches begin."""
    match = {"bias": -2.0, "score": 4.0}
    calibrated, other = (SimpleNamespace(settings=settings) for settings in ({"match": match}, {}))
    mean, total, unmeasured = (
        SimpleNamespace(_mean=is_mean, alignment=run)
        for is_mean, run in ((True, calibrated), (False, calibrated), (True, other))
    )
    how_sure, hit = Collection.how_sure, SimpleNamespace
    assert how_sure(mean, [hit(score=0.5)], ["red", "bus"]) == pytest.approx(0.5)
    assert how_sure(total, [hit(score=1.0)], ["red", "bus"]) == pytest.approx(0.5)
    assert how_sure(mean, [hit(score=0.1)], ["bus"]) < 0.5
    assert how_sure(mean, [], ["bus"]) is None and how_sure(unmeasured, [hit(score=1)], ["bus"]) is None
