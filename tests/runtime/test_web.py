"""The exported web page in a real Chromium: the answers of ONNX Runtime in Python, and again without a network."""

import functools
import http.server
import shutil
import subprocess
import threading

import numpy as np
import pytest

from keras_imagesent.data.tokenizer import typed_words
from keras_imagesent.errors import InputError
from keras_imagesent.regions.squash import squash
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.serving.web_export import RUNTIME, fetch_runtime, find_runtime, write_page
from tests.report.chromium import open_browser, open_page
from tests.runtime.conftest import PHOTOS

SENTENCE = "A big, RED-dog zzz runs ﬁne on the Straße"


@pytest.fixture(scope="module")
def site(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("web")
    if not shutil.which("npm"):
        pytest.skip("node is not installed: npm fetches onnxruntime-web")
    try:
        runtime = fetch_runtime(tmp_path_factory.mktemp("npm"))
    except InputError as error:
        pytest.skip(f"onnxruntime-web cannot be fetched: {error}")
    shutil.copytree(folder, place / "site")
    write_page(place / "site", runtime)
    return place / "site"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(site):
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def show(page, path):
    page.set_input_files("#file", path)
    page.wait_for_function("document.querySelectorAll('#regions li').length > 0")
    page.wait_for_selector("#busy", state="hidden")


def test_the_page_answers_as_python_does_and_goes_on_offline(folder, server, tmp_path):
    runtime = ExportedModel(folder)
    with open_browser() as browser:
        page = open_page(browser, f"http://127.0.0.1:{server.server_port}/", viewport={"width": 390, "height": 844})
        for number in (0, 6):  # the second is turned by its EXIF data
            path = tmp_path / f"{number}.jpg"
            path.write_bytes(PHOTOS[number])
            show(page, path)
            captions = runtime.caption(path)
            assert page.locator("#captions .text").all_inner_texts() == [caption.text for caption in captions]
            regions = page.evaluate("state.regions")
            described = runtime.describe(path)
            assert [region["caption"] for region in regions] == [region.caption.text for region in described]
            boxes = [region["box"] for region in regions]
            np.testing.assert_allclose(boxes, [region.box for region in described], atol=1 / 500)  # within a pixel
        page.fill("#sentence", SENTENCE)
        page.click("#match")
        page.wait_for_selector("#words .word.on")
        shown = page.eval_on_selector_all("#words .word", "nodes => nodes.map(n => +(n.dataset.key ?? -1))")
        aligned = runtime.predict("align", [path], [SENTENCE])
        assert shown == aligned["phrase_regions"][0][: len(shown)].tolist()
        assert page.locator("#score").inner_text() == f"{aligned['score'][0]:.2f}"
        assert page.evaluate("typedWords", SENTENCE) == [list(pair) for pair in typed_words(SENTENCE)]
        rgba = np.random.default_rng(0).integers(0, 256, (90, 61, 4), np.uint8)
        resized = page.evaluate("rgba => Array.from(squash(rgba, 61, 90, 48))", rgba.ravel().tolist())
        assert resized == squash(rgba[..., :3], 48).ravel().tolist()  # to the last bit
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("#loading").is_hidden() and page.locator("details").count() == 0
        page.evaluate("navigator.serviceWorker.ready")
        page.wait_for_function("navigator.serviceWorker.controller !== null")
        server.shutdown()  # from here on there is no network
        page.context.set_offline(True)
        page.reload()
        show(page, path)
        assert page.locator("#captions .text").first.inner_text() == captions[0].text
        assert page.evaluate("crossOriginIsolated")  # threads are allowed
        assert page.script_errors == []


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="has no ort.wasm.min.js"):
        find_runtime(tmp_path)
    (tmp_path / "dist").mkdir()
    for name in RUNTIME:
        (tmp_path / "dist" / name).touch()
    assert find_runtime(tmp_path) == tmp_path / "dist"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="npm is not installed.*--web-runtime"):
        fetch_runtime(tmp_path)

    def fail(*_, **__):
        raise subprocess.CalledProcessError(1, "npm", stderr="npm error network")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(InputError, match="npm error network.*--web-runtime"):
        fetch_runtime(tmp_path)
