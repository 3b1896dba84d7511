"""`import keras_imagesent as ki`: quick, complete, enough for Keras to load what we ship, and plain records out."""

import ast
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import keras_imagesent as ki
from keras_imagesent.keras_names import LAYERS
from keras_imagesent.shipped import shipped

ROOT = Path(ki.__file__).parent


def in_a_new_process(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def test_the_import_loads_nothing_heavy_and_lists_its_names():
    heavy = "{'tensorflow', 'keras', 'numpy', 'PIL'} & set(sys.modules)"
    found = in_a_new_process(f"import sys, keras_imagesent as ki; print({heavy}, 'load' in dir(ki), len(dir(ki)))")
    assert found.split() == ["set()", "True", str(len(ki.__all__) + 1)]


@pytest.mark.parametrize("name", ki.__all__)
def test_every_name_is_there_with_a_docstring(name):
    assert getattr(ki, name).__doc__


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        ki.lode  # noqa: B018


def test_the_package_alone_lets_keras_load_every_file_we_ship():
    runs = [shipped(name) / "model.keras" for name in ("alignment", "captioner", "region_captioner")]
    files = [str(path) for path in (*runs, shipped("backbone.keras"), shipped("detector.keras"))]
    load = f"print(*(keras.saving.load_model(file, compile=False, safe_mode=True).name for file in {files}))"
    assert in_a_new_process(f"import keras_imagesent\nimport keras\n{load}").split()[:3] == [
        "alignment", "captioner", "captioner",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "first", ["import keras", "import keras_imagesent, tensorflow", "import keras_imagesent.alignment.max_sim"]
)
def test_whatever_is_imported_first(first):
    file = str(shipped("captioner") / "model.keras")
    code = f"{first}\nimport keras_imagesent, keras\nprint(keras.saving.load_model({file!r}, compile=False).name)"
    assert in_a_new_process(code).split() == ["captioner"]


@pytest.mark.parametrize("name", ["alignment", "captioner", "region_captioner"])
def test_a_shipped_run_tells_its_settings_and_scores(name):
    run = ki.Run(shipped(name))
    assert run.settings["model"] == name.removeprefix("region_") and run.metrics and len(run.vocabulary) > 1000
    assert run.log == []
    with pytest.raises(ki.InputError, match="no best epochs"):
        run.best_epochs  # noqa: B018


def test_every_registered_layer_is_in_the_table():
    registered = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and "register_keras_serializable" in map(_called, node.decorator_list):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                registered.setdefault(module, []).append(node.name)
    assert {module: sorted(names) for module, names in registered.items()} == {
        module: sorted(names) for module, names in LAYERS.items()
    }


def _called(decorator):
    function = getattr(decorator, "func", decorator)
    return getattr(function, "attr", getattr(function, "id", ""))


@pytest.fixture(scope="module")
def model():
    from tests.serving.tiny import tiny_photo_model

    return ki.ImageSent(tiny_photo_model())


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "noise.png")
    return tmp_path / "noise.png"


def test_one_photo_in_every_form_gives_the_same_captions(model, photo):
    first = model.caption(photo)
    assert [type(caption) for caption in first] == [ki.Caption] * 3
    assert [caption.log_prob for caption in first] == sorted((c.log_prob for c in first), reverse=True) or first
    assert all(isinstance(caption.text, str) and type(caption.log_prob) is float for caption in first)
    image = Image.open(photo)
    for same in (str(photo), photo.read_bytes(), image, np.asarray(image)):
        assert model.caption(same) == first
    turned = image.getexif()
    turned[0x0112] = 3  # upside down
    content = io.BytesIO()
    image.rotate(180).save(content, "PNG", exif=turned)
    assert model.caption(Image.open(content)) == first


def test_a_list_in_gives_a_list_of_lists_in_order(model, photo, tmp_path):
    other = np.zeros((30, 30), np.uint8)
    several = [photo, other] * 6  # more than the networks take at once
    found = model.caption(several)
    assert found[0] == model.caption(photo) and found[1] == model.caption(other) and len(found) == 12
    assert found[10:] == found[:2]
    assert model.caption([]) == []


def test_regions_phrases_and_vectors_are_plain(model, photo):
    regions = model.describe(photo, min_score=0)
    assert model.describe(photo) == [region for region in regions if region.score >= 0.2]
    assert model.describe(photo, min_score=1) == regions[:1] and min(region.score for region in regions) < 0.9
    assert regions[0].box == (0.0, 0.0, 1.0, 1.0) and 1 < len(regions) <= 20
    assert all(type(x) is float for region in regions for x in (*region.box, region.score, region.caption.log_prob))
    phrases = model.align(photo, "a dog zzz runs on the red grass")
    assert phrases[0].text.startswith("a") and phrases[-1].text.endswith("grass")
    for phrase in phrases:
        np.testing.assert_allclose(phrase.box, regions[phrase.region].box)
    assert model.align([photo, photo], ["a dog", "red"])[1] == model.align(photo, "red")
    assert model.embed_image(photo).shape == (len(regions), 12)
    assert model.embed_sentence("a dog zzz").shape == (2, 12)
    assert [len(rows) for rows in model.embed_sentence(["a dog", "red"])] == [2, 1]
    assert model.tensors.caption is not None  # for those who build graphs


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("nowhere.jpg", "nowhere.jpg: No such file"),
        (b"no photo", "the photo: not a whole JPEG"),
        (np.zeros((4, 4, 3)), "must be uint8"),
        (7, "Received: int"),
    ],
)
def test_a_photo_that_cannot_be_read_says_why(model, wrong, why):
    with pytest.raises(ki.InputError, match=why):
        model.caption(wrong)


def test_what_was_left_out_is_named(photo):
    from tests.serving.tiny import tiny_photo_model

    with pytest.raises(ki.InputError, match="without its detector"):
        ki.ImageSent(tiny_photo_model(whole=False)).describe(photo)


def test_a_collection_takes_text_and_photos(model, photo, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    model.tensors.alignment.model.save(run / "model.keras")
    model.tensors.alignment.vocabulary.save(run / "vocabulary.json")
    collection = ki.Collection.create(tmp_path / "index", alignment=run)
    collection._image_model = model  # the shipped networks give vectors of another length
    collection.add_photos([photo])
    collection.add_texts(["a dog runs", "a red ball"])
    again = ki.Collection(tmp_path / "index")
    (hit,) = again.search("red ball")
    assert hit.filename == str(photo.resolve()) and len(hit.word_scores) == 2
    assert len(again.search("red ball", regions=True)) == 10
    again._image_model = model
    assert {hit.sentence for hit in again.search_by_photo(photo)} == {"a dog runs", "a red ball"}
    with pytest.raises(ki.InputError, match="no word of 'zzz'"):
        again.search("zzz")
