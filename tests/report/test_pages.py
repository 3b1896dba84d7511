"""The report in a real browser, from a file: look, find, order, turn pages."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.errors import InputError
from keras_imagesent.report.curves import draw_curves, read_log
from keras_imagesent.report.overview import GLOSSARY
from keras_imagesent.report.pages import write_report
from keras_imagesent.report.table import table_html
from keras_imagesent.report.thumbnails import crop_region, make_thumbnails
from tests.report.chromium import open_browser, open_page

NUMBER, REGIONS = 1000, 5
WORDS = ["a", "dog", "runs", "<b>over</b>", "grass"]


def make_up(folder):
    """A report of 1,000 made-up photos that share one picture."""
    photos = SimpleNamespace(
        filenames=[f"photo{k:04d}.jpg" for k in range(NUMBER)],
        region_mask=np.tile([True] * 4 + [False], (NUMBER, 1)),
        boxes=np.tile(
            [[0, 0, 1, 1], [0.1, 0.2, 0.5, 0.9], [0.5, 0.1, 0.9, 0.6], [0, 0.5, 1, 1], [0, 0, 0, 0]], (NUMBER, 1, 1)
        ),
        captions=[[f"number {k} sees a dog", f"{'cats' if k % 10 == 0 else 'dogs'} play"] for k in range(NUMBER)],
        widths=[200] * NUMBER,
        heights=[150] * NUMBER,
    )
    sentence = {
        "words": WORDS,
        "before": [0, 1, 2, -1, 3],
        "after": [1, 1, 1, -1, 3],
        "beforeScores": [0.1, 2.0, 1.5, 0.0, 1.0],
        "afterScores": [0.05, 2.0, 1.25, 0.0, 1.0],
    }
    alignment = {
        "photos": [
            {
                "rank": k + 1,
                "score": float(k % 7),
                "best": [[2 * k, 3.0], [(2 * k + 2) % (2 * NUMBER), 2.0]],
                "sentences": [{**sentence, "text": text, "score": 4.5} for text in photos.captions[k]],
            }
            for k in range(NUMBER)
        ],
        "sentences": [
            {"text": text, "photo": k, "rank": 1 + k % 9, "best": [[(k + 1) % NUMBER, 2.5], [k, 2.0]]}
            for k in range(NUMBER)
            for text in photos.captions[k]
        ],
    }
    captions = {
        "photos": [
            {
                "caption": {"text": f"caption {k}", "logProb": -3.2, "cider": (k * 37 % NUMBER) / 100},
                "neighbour": {"text": "a cat sits", "filename": "train.jpg", "cider": 0.5},
                "regions": [{"region": r, "text": f"region {r} of {k}", "logProb": -2.0} for r in range(4)],
            }
            for k in range(NUMBER)
        ]
    }
    (folder / "source").mkdir()
    Image.new("RGB", (200, 150), "gray").save(folder / "source/one.jpg")
    (name,) = make_thumbnails(["one.jpg"], folder / "source", folder / "report/thumbs")
    table = {
        "title": "Retrieval",
        "columns": ["model", "R@1"],
        "rows": [["best", [22.3, 0.4119]], ["paper", 16.5]],
        "note": "a note",
        "command": "imagesent evaluate prepared",
        "split": "dev",
        "seed": 0,
    }
    magnitudes = {
        "largest": [{"word": "dog", "magnitude": 9.0}],
        "smallest": [{"word": "the", "magnitude": 0.5}],
        "regions": [{"filename": "photo0001.jpg", "crop": f"thumbs/{name}", "magnitude": 30.0}],
    }
    logs = {"alignment": {"epoch": [1.0, 2.0], "loss": [-1.2345e-5, 7.0e-5], "val_loss": [9.5e-5, 8.0e-5]}}
    lengths = {"name": "word_magnitudes", "title": "Lengths", "columns": ["word"], "rows": [["dog"]]}
    beams = {"name": "beams", "title": "Beam size", "columns": ["beam"], "rows": [[1]]}
    tables = [lengths, beams, {**table, "name": "retrieval"}]
    write_report(folder / "report", "dev", photos, [name] * NUMBER, alignment, captions, tables, logs, magnitudes)
    return folder / "report"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return make_up(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def photos_page(browser, report):
    page = open_page(browser, (report / "photos.html").as_uri())
    page.wait_for_selector("article")
    yield page
    assert page.script_errors == []
    page.close()


def drawn(page, turn):
    page.wait_for_selector(f"#photos[data-drawn='{turn}']")


def names(page):
    return page.locator("article .name").all_inner_texts()


def test_words_wear_the_colours_of_their_boxes_before_and_after_the_mrf(photos_page):
    card = photos_page.locator("article").first
    words = card.locator(".sentence").first.locator(".word")
    assert words.all_inner_texts() == WORDS  # and the markup in a word stays text
    assert [key or "-1" for key in words.evaluate_all("n => n.map(w => w.dataset.key)")] == ["1", "1", "1", "-1", "3"]
    assert "faded" in words.nth(0).get_attribute("class")  # 0.05 of 2.0
    assert words.nth(1).get_attribute("title") == "dog: region 1, score 2.00"
    colour = "n => getComputedStyle(n).getPropertyValue('--colour')"
    words.nth(1).hover()
    assert card.locator(".box.lit").count() == 1
    assert words.nth(1).evaluate(colour) == card.locator(".box.lit").evaluate(colour)
    assert card.locator(".box .tag").all_inner_texts() == ["grass", "dog runs"]
    stage = card.locator(".stage").bounding_box()
    for tag in card.locator(".box .tag").all():
        assert tag.bounding_box()["x"] + tag.bounding_box()["width"] <= stage["x"] + stage["width"] + 1
    photos_page.uncheck("#mrf")
    words = card.locator(".sentence").first.locator(".word")
    assert [key or "-1" for key in words.evaluate_all("n => n.map(w => w.dataset.key)")] == ["0", "1", "2", "-1", "3"]


def test_the_keyboard_walks_through_words(photos_page):
    page, card = photos_page, photos_page.locator("article").first
    line = card.locator(".sentence").nth(1)
    assert line.locator("[tabindex='0']").count() == 1  # one stop of the tab key, not one a word
    line.locator("[tabindex='0']").focus()
    assert "shown" in card.locator(".choice").nth(1).get_attribute("class")
    said = [page.evaluate("document.activeElement.ariaLabel")]
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        said.append(page.evaluate("document.activeElement.ariaLabel"))
    assert [text.partition(":")[0] for text in said] == ["a", "dog", "runs", "grass", "grass", "runs"]
    assert card.locator(".box.lit .tag").inner_text() == "dog runs"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert card.locator(".region.lit .text").inner_text() == "region 1 of 0"


def test_printed_on_white_without_controls(photos_page):
    photos_page.evaluate("document.documentElement.dataset.theme = 'dark'")
    photos_page.emulate_media(media="print", color_scheme="dark")
    assert photos_page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert photos_page.locator(".tools").is_hidden() and photos_page.locator("article .box").first.is_visible()


def test_captions_and_regions_of_a_photo(photos_page):
    card = photos_page.locator("article").first
    assert "caption 0" in card.inner_text() and "a cat sits" in card.inner_text()
    card.locator("summary").click()
    assert card.locator(".region .text").all_inner_texts() == [f"region {r} of 0" for r in range(4)]
    photos_page.wait_for_function("document.querySelectorAll('article .box .tag').length >= 3")
    card.locator(".region").nth(2).hover()
    assert card.locator(".box.lit .tag").inner_text() == "2"
    card.locator("summary").click()
    card.locator(".box .tag", has_text="dog runs").wait_for()  # the sentence's boxes are back


def test_order_find_and_pages_are_quick_over_1000_photos(photos_page):
    page = photos_page
    assert page.locator(".count").inner_text() == "1,000 of 1,000, page 1 of 84"
    page.select_option("select", "best captions (CIDEr)")
    drawn(page, 2)
    best = [k for _, k in sorted((-(k * 37 % NUMBER), k) for k in range(NUMBER))][:12]
    assert names(page) == [f"photo{k:04d}.jpg" for k in best]
    page.select_option("select", "own sentence found last")
    drawn(page, 3)
    assert names(page)[0] == "photo0999.jpg"
    page.fill("input[type=search]", "CATS play")
    drawn(page, 4)
    assert page.locator(".count").inner_text() == "100 of 1,000, page 1 of 9"
    page.click("text=Next →")
    drawn(page, 5)
    assert names(page)[0] == "photo0870.jpg"
    inside = page.evaluate(
        """async () => { const start = performance.now();
        const select = document.querySelector("select");
        select.selectedIndex = 2;
        select.dispatchEvent(new Event("change"));
        while (document.getElementById("photos").dataset.drawn !== "6") await new Promise((r) => setTimeout(r, 1));
        return performance.now() - start; }"""
    )
    assert inside < 1000  # milliseconds, on a machine that may be busy
    address = page.url
    page.goto("about:blank")
    page.goto(address)  # what was chosen stands in the address
    drawn(page, 1)
    assert page.locator("input[type=search]").input_value() == "CATS play"
    page.fill("input[type=search]", "giraffe")
    drawn(page, 2)
    assert page.locator(".count").inner_text().startswith("Nothing found")


def test_galleries_both_ways(browser, report):
    page = open_page(browser, (report / "galleries.html").as_uri())
    page.wait_for_selector("#photo-gallery article")
    first = page.locator("#photo-gallery article").first
    assert first.locator("li").first.inner_text().startswith("✓") and first.locator(".right-mark").count() == 1
    page.focus("[role=tab] >> nth=0")
    page.keyboard.press("ArrowRight")
    assert page.locator("#photo-gallery").is_hidden()
    figures = page.locator("#sentence-gallery article").first.locator("figure")
    assert [("right" in f.get_attribute("class")) for f in figures.all()] == [False, True]
    assert page.script_errors == []
    page.close()


def test_overview_and_magnitudes(browser, report):
    page = open_page(browser, (report / "index.html").as_uri())
    assert page.locator("td", has_text="±").inner_text() == "22.3 ± 0.4"
    assert page.locator("svg[role=img]").count() == 1
    assert page.locator("table", has_text="Lengths").count() == 0  # on a page of their own
    page.click("nav >> text=Magnitudes")
    assert page.locator("table", has_text="Lengths").count() == 1
    assert page.locator("img").first.evaluate("i => i.decode().then(() => i.naturalWidth)") > 0
    most, least = (bar.bounding_box()["width"] for bar in page.locator(".bar").all())
    assert least / most == pytest.approx(0.5 / 9.0, abs=0.01)  # one scale for both tables
    page.close()


def test_the_first_page_shows_pictures_then_says_in_words_what_the_tables_say(browser, report):
    page = open_page(browser, (report / "index.html").as_uri())
    assert page.locator("h2").all_inner_texts()[:4] == ["What it says", "In words", "To look at", "Tables"]
    assert page.locator(".pictures figure").count() == 9
    shown = page.locator(".pictures figcaption strong").all_inner_texts()
    assert shown[0] == f"caption {max(range(NUMBER), key=lambda k: k * 37 % NUMBER)}" and shown[-1] == "caption 0"
    assert page.locator(".pictures img").first.evaluate("i => i.decode().then(() => i.naturalWidth)") > 0
    top = page.locator(".pictures img").first.bounding_box()
    assert top["y"] + top["height"] < 900  # without scrolling
    said = page.locator("section", has_text="In words").first.inner_text()
    better = 100 * np.mean([(k * 37 % NUMBER) / 100 > 0.5 for k in range(NUMBER)])
    assert f"is the better one for {better:.0f}% of the photos" in said
    assert "one of its own comes first for 0% of the photos, and among the first ten for 1%" in said
    assert f"the right one comes first for {100 / 9:.0f}% of the sentences" in said
    assert page.locator("table", has_text="Retrieval").is_visible() and page.locator("text=Beam size").is_hidden()
    assert page.locator(".glossary dt").all_inner_texts() == list(GLOSSARY)
    for label in page.locator(".curve text").all():  # no label of a chart is cut
        box, chart = label.bounding_box(), label.locator("xpath=..").bounding_box()
        assert chart["x"] <= box["x"] and box["x"] + box["width"] <= chart["x"] + chart["width"] + 1
    page.close()


@pytest.mark.parametrize("name", ["index", "photos", "galleries", "magnitudes"])
def test_on_a_phone_nothing_runs_out_of_the_page(browser, report, name):
    page = open_page(
        browser, (report / f"{name}.html").as_uri(), viewport={"width": 390, "height": 844}, color_scheme="dark"
    )
    if name in ("photos", "galleries"):
        page.wait_for_selector("article")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    missing = page.eval_on_selector_all("img", "images => images.filter((i) => !i.alt).length")
    assert missing == 0 and page.script_errors == []
    page.close()


def test_nothing_is_fetched_from_elsewhere(report):
    files = [file for file in report.rglob("*") if file.suffix in (".html", ".js", ".css")]
    assert {file.suffix for file in files} == {".html", ".js", ".css"}
    for file in files:
        assert "://" not in file.read_text().replace("http://www.w3.org", ""), file


def test_thumbnails_are_made_once(tmp_path):
    Image.new("RGB", (900, 600), "red").save(tmp_path / "a b.png")
    (name,) = make_thumbnails(["a b.png"], tmp_path, tmp_path / "thumbs")
    made = (tmp_path / "thumbs" / name).stat().st_mtime_ns
    assert Image.open(tmp_path / "thumbs" / name).size == (420, 280)
    assert make_thumbnails(["a b.png"], tmp_path, tmp_path / "thumbs") == [name]
    assert (tmp_path / "thumbs" / name).stat().st_mtime_ns == made
    assert crop_region(tmp_path / "a b.png", [0.5, 0.5, 0.6, 0.75]).size == (90, 150)
    with pytest.raises(InputError, match=r"nowhere\.jpg.*--photos"):
        make_thumbnails(["nowhere.jpg"], tmp_path, tmp_path / "thumbs")


def test_curves_skip_what_is_no_number(tmp_path):
    (tmp_path / "log.csv").write_text("epoch,loss,val_loss,note\n1,3.0,,x\n2,nan,2.0,y\n3,1.0,1.5,z\n")
    log = read_log(tmp_path)
    assert log == {"epoch": [1, 2, 3], "loss": [3.0, None, 1.0], "val_loss": [None, 2.0, 1.5]}
    assert draw_curves(log).count("<polyline") == 2
    (tmp_path / "log.csv").write_text("epoch,cider\n1,0.5\n2,\n")
    assert read_log(tmp_path)["cider, %"] == [50, None]
    with pytest.raises(InputError, match="not a run folder"):
        read_log(tmp_path / "nowhere")


def test_tables_escape_what_they_show():
    assert "&lt;b&gt;" in table_html({"title": "<b>", "columns": ["x"], "rows": [["<b>"]]})
