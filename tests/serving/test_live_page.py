"""The live page in a real browser against a real server, by clicking and typing as a person would."""

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import keras_imagesent.serving
from keras_imagesent.alignment.phrases import decode_phrases
from tests.report.chromium import open_browser, open_page
from tests.serving.test_phrases_js import in_python, make_cases
from tests.serving.tiny import tiny_photo_model

PAGE = Path(keras_imagesent.serving.__file__).parent / "live" / "index.html"
SENTENCE = "a big dog zzz runs on the red grass with two white children in black water"


@pytest.fixture(scope="module")
def model():
    return tiny_photo_model()


@pytest.fixture(scope="module")
def address(model, tmp_path_factory):
    pytest.importorskip("uvicorn", reason="the server needs keras_imagesent[serve]")
    from keras_imagesent.serving.saved_model import export_saved_model
    from keras_imagesent.serving.server import Server

    folder = tmp_path_factory.mktemp("models") / "imagesent"
    export_saved_model(model, folder)
    with Server({"imagesent": folder}, rest_port=0, grpc_port=None, cors=True) as server:
        yield f"http://127.0.0.1:{server.rest_port}/"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser, address):
    page = open_page(browser, address)
    yield page
    assert page.script_errors == []
    page.close()


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.jpg"
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3)).astype(np.uint8)
    Image.fromarray(pixels).resize((360, 240)).save(path)
    return path


def choose(page, path):
    page.set_input_files("#file", path)
    page.wait_for_selector("#regions li")


def ask(page, sentence=SENTENCE):
    page.click("#sentence")
    page.keyboard.type(sentence)
    page.keyboard.press("Enter")
    page.wait_for_selector("#words .word.on")
    page.wait_for_selector("#busy", state="hidden")


def shown_regions(page):
    """The region of each word on the page; -1 for those outside the vocabulary."""
    return page.eval_on_selector_all("#words .word", "nodes => nodes.map(n => n.dataset.key ? +n.dataset.key : -1)")


def test_a_photo_gets_captions_and_regions(page, model, photo):
    choose(page, photo)
    image = tf.constant([photo.read_bytes()])
    captions = [text.decode() for text in model.caption(image)["captions"].numpy()[0] if text]
    assert page.locator("#captions .text").all_inner_texts() == captions
    found = model.describe(image)
    number = int(found["number_of_regions"][0])
    texts = [text.decode() for text in found["captions"].numpy()[0][:number]]
    assert [t.strip() for t in page.locator("#regions .text").all_inner_texts()] == texts
    assert page.locator(".box").count() == number - 1  # all but the whole frame
    page.hover("#regions li >> nth=1")
    assert page.locator(".box.lit").count() == 1
    assert page.locator(".box.lit .tag").inner_text() == "1"
    page.check("input[value=none]")
    assert page.locator(".box").count() == 0


def test_words_light_up_their_boxes(page, model, photo):
    choose(page, photo)
    ask(page)
    found = model.align(tf.constant([photo.read_bytes()]), tf.constant([SENTENCE]))
    words = SENTENCE.split()
    assert page.locator("#words .word").all_inner_texts() == words
    regions = found["phrase_regions"].numpy()[0][: len(words)].tolist()
    assert shown_regions(page) == regions and regions[3] == -1
    assert page.locator("#score").inner_text() == f"{float(found['score'][0]):.2f}"
    page.hover("#words .word >> nth=0")
    assert page.locator(".box.lit").get_attribute("data-key") == str(regions[0])
    place = page.locator(".box.lit").bounding_box()
    stage = page.locator("#stage").bounding_box()
    box = found["boxes"].numpy()[0][regions[0]]
    assert (place["x"] - stage["x"]) / stage["width"] == pytest.approx(box[0], abs=0.01)
    assert place["height"] / stage["height"] == pytest.approx(box[3] - box[1], abs=0.03)


def test_moving_beta_grows_phrases_as_python_does(page, model, photo):
    choose(page, photo)
    ask(page)
    found = model.align(tf.constant([photo.read_bytes()]), tf.constant([SENTENCE]))
    similarity, mask = found["similarity"].numpy(), found["word_mask"].numpy()
    assert page.locator("#beta-value").inner_text() == "as exported"
    numbers = []
    for value in (0, 20, 45, 100):
        page.locator("#beta").fill(str(value))
        beta = page.evaluate("state.beta")
        wanted = decode_phrases(similarity, mask, found["region_mask"].numpy(), beta)[0]
        assert shown_regions(page) == wanted[: len(SENTENCE.split())].tolist()
        numbers.append(int(page.locator("#phrases-number").inner_text().split()[0]))
    assert numbers == sorted(numbers, reverse=True) and numbers[-1] == 1
    page.click("#exported")
    assert shown_regions(page) == found["phrase_regions"].numpy()[0][: len(SENTENCE.split())].tolist()
    page.locator("#threshold").fill("100")
    assert page.locator("#words .word.on").count() == 1  # the word that scores highest


def test_the_mrf_in_chromium(page):
    cases = list(make_cases(200, seed=1))
    answers = page.evaluate("cases => cases.map((c) => decodePhrases(c.similarity, c.words, c.regions, c.beta))", cases)
    assert answers == [in_python(case) for case in cases]


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_dropped_and_pasted_photos(page, photo, way):
    data = base64.b64encode(photo.read_bytes()).decode()
    page.evaluate(
        """async ([data, way]) => {
            const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], "photo.jpg", { type: "image/jpeg" }));
            const event = way === "drop"
                ? new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true })
                : new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true });
            document.getElementById("stage").dispatchEvent(event);
        }""",
        [data, way],
    )
    page.wait_for_selector("#regions li")
    assert page.locator("#captions li").count() > 0


def test_the_camera(page):
    page.click("#camera")
    page.wait_for_selector("#shoot")
    for _ in range(600):  # the page's policy allows no wait_for_function, which is an eval
        if page.evaluate("document.getElementById('video').videoWidth > 0"):
            break
        page.wait_for_timeout(50)
    page.click("#shoot")
    page.wait_for_selector("#regions li")
    assert page.locator("#video").is_hidden() and page.locator("#photo").is_visible()


def test_errors_are_said_in_words(page, photo, tmp_path):
    def error():
        page.wait_for_selector("#error:not(.hidden)")
        return page.locator("#error").inner_text()

    page.click("#match")
    assert page.locator("#error").is_hidden()  # nothing typed, nothing to complain about
    page.fill("#sentence", "a dog")
    page.click("#match")
    assert "First choose a photo" in error()
    (tmp_path / "notes.txt").write_text("words")
    page.set_input_files("#file", tmp_path / "notes.txt")
    assert "notes.txt is not a picture" in error()
    (tmp_path / "broken.jpg").write_text("words")
    page.set_input_files("#file", tmp_path / "broken.jpg")
    assert "cannot be shown as a picture" in error()
    page.fill("#sentence", "")
    choose(page, photo)
    assert page.locator("#error").is_hidden()
    page.fill("#sentence", "zzz qqq")
    page.click("#match")
    assert "vocabulary" in error()
    page.click("summary")
    page.fill("#model", "nothing")
    page.set_input_files("#file", photo)
    assert "no model called “nothing”" in error()
    page.fill("#server", "http://127.0.0.1:9")
    page.set_input_files("#file", photo)
    assert "No answer from http://127.0.0.1:9" in error()


def test_an_unreadable_photo_leaves_nothing_of_the_one_before(page, photo, tmp_path):
    choose(page, photo)
    (tmp_path / "broken.jpg").write_text("words")
    page.set_input_files("#file", tmp_path / "broken.jpg")
    page.wait_for_selector("#error:not(.hidden)")
    assert page.locator("#captions li, #regions li, .box").count() == 0
    assert page.locator("#invitation").is_visible() and page.locator("#stage").bounding_box()["height"] > 300


def test_a_format_that_only_the_browser_reads(page, tmp_path):
    Image.new("RGB", (50, 40), "red").save(tmp_path / "photo.webp")
    choose(page, tmp_path / "photo.webp")
    assert page.locator("#error").is_hidden() and page.evaluate("atob(state.photo).slice(0, 2)") == "\xff\xd8"


def test_a_box_of_ones_own_gets_its_caption(page, model, photo):
    choose(page, photo)
    before = page.locator("#regions li").count()
    page.click("#draw")
    stage = page.locator("#photo").bounding_box()
    places = [(stage["x"] + x * stage["width"], stage["y"] + y * stage["height"]) for x, y in ((0.2, 0.3), (0.7, 0.9))]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=3)
    page.mouse.up()
    page.locator("#regions li").nth(before).wait_for()
    box = page.evaluate("state.regions.at(-1).box")
    assert box == pytest.approx([0.2, 0.3, 0.7, 0.9], abs=0.01)
    found = model.describe_box(tf.constant([photo.read_bytes()]), tf.constant([box]))
    assert page.locator("#regions .text").last.inner_text().strip() == found["captions"].numpy()[0].decode()
    assert page.locator(".box .tag", has_text="yours").count() == 1


def test_it_works_from_a_file_on_a_phone_in_the_dark(browser, address, photo):
    page = open_page(
        browser, f"{PAGE.as_uri()}?server={address}", viewport={"width": 390, "height": 844}, color_scheme="dark"
    )
    choose(page, photo)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ask(page)
    page.locator("#beta").fill("50")
    page.locator("#words").evaluate("node => node.scrollIntoView()")
    places = [page.locator(name).bounding_box() for name in ("#stage", "#words", "#beta")]  # all are seen at once
    assert places[0]["y"] >= 0 and places[0]["y"] + places[0]["height"] <= places[1]["y"]
    assert places[2]["y"] + places[2]["height"] <= 844
    dark = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"))
    page.click("#theme")
    light = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"))
    assert np.median(dark) < 60 and np.median(light) > 200  # what is seen, not what the style sheet says
    assert page.script_errors == []
    page.close()


def test_every_control_has_a_name(page):
    """What a screen reader says of each control."""
    names = page.evaluate(
        """() => [...document.querySelectorAll("button, input")].map((node) => node.getAttribute("aria-label")
            || node.textContent.trim() || [...(node.labels || [])].map((l) => l.textContent).join(" ").trim())"""
    )
    assert len(names) >= 12
    assert all(names), json.dumps(names)
