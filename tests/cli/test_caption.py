"""`imagesent caption` and `describe` as a person would type them, with random weights."""

import csv
import io
import json
import math
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import tensorflow as tf
from PIL import Image

from keras_imagesent.cli.main import main
from keras_imagesent.regions.photo import decode_pixels
from tests.serving.tiny import tiny_photo_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caption")
    model = tiny_photo_model()
    model.backbone.save(folder / "backbone.keras")
    model.extractor.get_layer("tiny_detector").save(folder / "detector.keras")
    for name in ("alignment", "captioner", "region_captioner"):
        part = getattr(model, name)
        (folder / name).mkdir()
        part.model.save(folder / name / "model.keras")
        part.vocabulary.save(folder / name / "vocabulary.json")
        (folder / name / "settings.json").write_text('{"beam": 2, "length_penalty": 0.5}')
    (folder / "photos" / "deep").mkdir(parents=True)
    for n, colour in enumerate(("red", "green", "blue")):
        Image.new("RGB", (60, 40), colour).save(folder / "photos" / ("deep" if n else ".") / f"{colour}.jpg")
    (folder / "photos" / "broken.jpg").write_bytes(b"no photo")
    return folder


def models(folder, *names):
    files = {"backbone": "backbone.keras", "detector": "detector.keras"}
    return [text for name in names for text in (f"--{name.replace('_', '-')}", str(folder / files.get(name, name)))]


def test_a_folder_is_captioned_and_a_broken_photo_is_one_line(folder, capsys):
    status = main(["caption", str(folder / "photos"), *models(folder, "backbone", "captioner")])
    out, err = capsys.readouterr()
    assert status == 1
    assert [line.split("\t")[0].rsplit("/")[-1] for line in out.splitlines()] == ["blue.jpg", "green.jpg", "red.jpg"]
    assert all(line.count("\t") == 1 for line in out.splitlines())  # random weights may say nothing at all
    assert len([line for line in err.splitlines() if "broken.jpg" in line]) == 1


def test_patterns_standard_input_and_json_give_the_same_captions(folder, capsys, monkeypatch):
    common = [*models(folder, "backbone", "captioner"), "--json", "--captions", "2"]
    assert main(["caption", str(folder / "photos/deep/*.jpg"), *common]) == 0
    by_pattern = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(answer["captions"]) for answer in by_pattern] == [2, 2]
    for answer in by_pattern:  # best first: by the log probability over the length to the power 0.5, END counted
        lengths = [len(caption.split()) + 1 for caption in answer["captions"]]
        first, second = (p / n**0.5 for p, n in zip(answer["log_probs"], lengths, strict=True))
        assert first > second
    names = "\n".join(answer["photo"] for answer in by_pattern)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{names}\n\nnowhere.jpg\n"))
    assert main(["caption", "-", *common]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == by_pattern
    assert "nowhere.jpg: No such file" in err


def test_describe_gives_regions_and_ties_the_captions_words_to_them(folder, capsys):
    photo = str(folder / "photos/red.jpg")
    all_models = models(folder, "backbone", "detector", "alignment", "captioner", "region_captioner")
    picture = folder / "described.png"
    assert main(["describe", photo, *all_models, "--json", "--regions", "3", "--picture", str(picture)]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[0])
    assert answer["regions"][0]["box"] == [0, 0, 1, 1] and len(answer["regions"]) <= 3
    words = [word for phrase in answer["phrases"] for word in phrase["words"].split()]
    assert words == answer["caption"].split()
    assert Image.open(picture).size[0] > 60
    assert main(["describe", photo, *all_models]) == 0
    assert "region  0  box 0.000 0.000 1.000 1.000" in capsys.readouterr().out
    some, every = [], []
    for answer, more in ((some, []), (every, ["--all"])):
        assert main(["describe", photo, *all_models, "--json", *more]) == 0
        answer += json.loads(capsys.readouterr().out)["regions"]
    assert len(every) == 20 and some == [region for region in every if region["box_score"] >= 0.2]


def test_a_caption_is_drawn_under_its_photo(folder, capsys):
    target = folder / "pictures"
    command = [
        "caption",
        str(folder / "photos/deep"),
        *models(folder, "backbone", "captioner"),
        "--picture",
        str(target),
    ]
    assert main(command) == 0
    assert sorted(path.name for path in target.iterdir()) == ["blue.png", "green.png"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["{}/captioner"], "holds no photo"),
        (["{}/*.gif"], "no file matches"),
        (["{}/photos/red.jpg", "--captions", "0"], "numbers from 1 up"),
        (["{}/photos/red.jpg", "--captioner", "{}/nowhere"], "nowhere"),
        (["{}/photos/red.jpg", "--min-confidence", "2"], "--min-confidence is a number from 0 to 1, not 2"),
        (["{}/photos/red.jpg", "--alt-text", "alt.txt"], "--alt-text alt.txt: name a .csv or a .html file"),
        (["{}/photos/red.jpg", "--rerank", "-1"], "--rerank is a weight from 0 up (0.2 is good), not -1"),
        (["{}/photos/deep", "--picture", "{}/one.png"], "several photos give several pictures: --picture names a"),
    ],
)
def test_mistakes_end_in_a_line(folder, capsys, wrong, message):
    assert (
        main(["caption", *(text.format(folder) for text in wrong), "--backbone", str(folder / "backbone.keras")]) == 2
    )
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("verb", "flag", "given", "message"),
    [
        ("caption", "captioner", "alignment", "alignment/model.keras is of the kind alignment, not captioner: name a"),
        ("caption", "backbone", "detector.keras", "detector.keras is of the kind detector, not backbone: name the"),
        ("describe", "detector", "backbone.keras", "backbone.keras is of the kind backbone, not detector: name the"),
        ("describe", "region_captioner", "alignment", "is of the kind alignment, not captioner: name a run of"),
        ("describe", "alignment", "captioner", "is of the kind captioner, not alignment: name a run of `imagesent tr"),
        ("describe", "backbone", "captioner", "captioner is a folder, and no run: name a .keras file that is a backb"),
    ],
)
def test_a_model_of_another_kind_is_named(folder, capsys, verb, flag, given, message):
    typed = models(folder, "backbone", "detector", "alignment", "captioner", "region_captioner")
    typed[typed.index(f"--{flag.replace('_', '-')}") + 1] = str(folder / given)
    if verb == "caption":
        typed = [text for pair in zip(typed[::2], typed[1::2], strict=True) for text in pair if "region" not in pair[0]]
    assert main([verb, str(folder / "photos/red.jpg"), *typed]) == 2
    out, err = capsys.readouterr()
    assert message in err and out == "" and "Traceback" not in err


def test_a_captioner_of_other_vectors_is_refused(folder, capsys):
    """The shipped captioner learned from another backbone."""
    assert main(["caption", str(folder / "photos/red.jpg"), *models(folder, "backbone")]) == 2
    assert "takes vectors of 1280 numbers, the backbone gives 16: name the backbone" in capsys.readouterr().err


def test_align_says_which_words_it_leaves_out(folder, capsys, monkeypatch):
    monkeypatch.setattr("keras_imagesent.shipped.shipped", lambda name: folder / name)
    monkeypatch.setattr("keras_imagesent.model.photo_model.shipped", lambda name: folder / name)
    sentence = "a zzz dog " + "runs on the red grass with two " * 3
    command = ["align", str(folder / "photos/red.jpg"), sentence, "--alignment", str(folder / "alignment")]
    assert main(command) == 0
    err = capsys.readouterr().err
    assert "the model does not know zzz: no region for it" in err
    assert "only 12 words are looked at; left out: red grass with two runs on the red grass with two" in err
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["unknown"] == ["zzz"] and len(answer["cut"]) == 2 + 21 - 12


def test_captions_beside_the_photos_and_not_sure(folder, tmp_path, capsys):
    run = shutil.copytree(folder / "captioner", tmp_path / "captioner")
    photos = shutil.copytree(folder / "photos" / "deep", tmp_path / "photos")
    shutil.copy(Path(__file__).parents[1] / "data" / "phone.heic", photos)
    before = {path: path.read_bytes() for path in photos.iterdir()}
    command = ["caption", str(photos), *models(folder, "backbone"), "--captioner", str(run), "--json"]
    assert main([*command, "--min-confidence", "0.5"]) == 2
    assert "run `imagesent calibrate` first" in capsys.readouterr().err
    (run / "settings.json").write_text('{"beam": 2, "confidence": {"bias": 1, "mean_log_prob": 0.5, "words": 0}}')
    (photos / "green.jpg.xmp").write_text("<darktable>")
    assert main([*command, "--sidecar", "--alt-text", str(tmp_path / "alt.csv")]) == 1
    out, err = capsys.readouterr()
    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert len(answers) == 3 and "green.jpg.xmp is there already and not ours" in err
    for answer in answers:
        expected = 1 / (1 + math.exp(-1 - 0.5 * answer["log_probs"][0] / (len(answer["captions"][0].split()) + 1)))
        assert answer["confidences"][0] == pytest.approx(expected if answer["captions"][0] else 0, abs=1e-3)
    assert (photos / "green.jpg.xmp").read_text() == "<darktable>"
    description = ElementTree.parse(photos / "blue.jpg.xmp").find(".//{http://purl.org/dc/elements/1.1/}description")
    said = {Path(answer["photo"]).name: answer["captions"][0] for answer in answers}
    assert "".join(description.itertext()) == said["blue.jpg"]
    with open(tmp_path / "alt.csv", newline="") as file:
        assert {Path(row["filename"]).name: row["alt"] for row in csv.DictReader(file)} == said
    assert all(path.read_bytes() == content for path, content in before.items())  # the photos are never touched
    command.remove("--json")
    assert main([*command, "--min-confidence", "1", "--alt-text", str(tmp_path / "alt.html")]) == 0
    out = capsys.readouterr().out
    assert out.count("not sure (0.") == 3 and "<img" not in (tmp_path / "alt.html").read_text()


@pytest.mark.parametrize("typed", [[], ["--box", "0,0,1,1", "--box", "0.1,0.2,0.5,0.9"]])
def test_describe_decodes_a_photo_once(folder, capsys, monkeypatch, typed):
    decoded = []

    def counted(image_bytes, size):
        tf.py_function(lambda photos: decoded.append(len(photos)), [image_bytes], [])
        return decode_pixels(image_bytes, size)

    monkeypatch.setattr("keras_imagesent.model.photo_model.decode_pixels", counted)
    given = ("backbone", "region_captioner") if typed else ("backbone", "detector", "alignment", "captioner")
    given = models(folder, *dict.fromkeys([*given, "region_captioner"]))
    assert main(["describe", str(folder / "photos/red.jpg"), *given, *typed]) == 0
    assert capsys.readouterr().out and decoded == [1]


def test_my_box_gets_the_caption_of_that_region(folder, capsys):
    """A box as large as the frame is region 0; the detector is not asked."""
    photo = str(folder / "photos/red.jpg")
    both = models(folder, "backbone", "region_captioner")
    assert main(["describe", photo, *both, "--box", "0,0,1,1", "--box", "0.1,0.2,0.5,0.9", "--json"]) == 0
    mine = json.loads(capsys.readouterr().out)["regions"]
    all_models = models(folder, "backbone", "detector", "alignment", "captioner", "region_captioner")
    assert main(["describe", photo, *all_models, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["regions"][0]
    assert mine[0]["caption"] == whole["caption"] and mine[0]["log_prob"] == pytest.approx(whole["log_prob"], abs=1e-3)
    assert mine[1]["box"] == [0.1, 0.2, 0.5, 0.9] and mine[1]["log_prob"] != mine[0]["log_prob"]
    for wrong in ("0.5,0,0.1,1", "0,0,1", "a,b,c,d", "0,0,2,1"):
        assert main(["describe", photo, *both, "--box", wrong]) == 2
        assert f"--box {wrong}: give x0,y0,x1,y1 from 0 to 1" in capsys.readouterr().err
