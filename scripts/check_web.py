"""Compares an exported page in Chromium with ONNX Runtime in Python: captions, boxes, times, size of the download.

imagesent export site --format web
python scripts/check_web.py site ../shared/flickr8k/images --photos 20
"""

import argparse
import functools
import gzip
import http.server
import random
import shutil
import threading
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from keras_imagesent.runtime import ExportedModel

NEAR = 0.01  # captions whose log probabilities lie closer may differ
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("site", type=Path)
parser.add_argument("folder", type=Path)
parser.add_argument("--photos", type=int, default=20)
args = parser.parse_args()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(args.site)))
threading.Thread(target=server.serve_forever, daemon=True).start()
photos = sorted(args.folder.glob("*.jpg"))
photos = random.Random(0).sample(photos, min(args.photos, len(photos)))
model = ExportedModel(args.site)
needed = model.about["answers"]["caption"]
everything = [path.name for path in args.site.iterdir() if path.is_file()]
others = {file["file"] for file in model.files if file["piece"] not in needed}
captions_only = [name for name in everything if name not in others]
for what, names in (("captions", captions_only), ("everything", everything)):
    contents = [(args.site / name).read_bytes() for name in names]
    raw, packed = sum(map(len, contents)), sum(len(gzip.compress(content, 6)) for content in contents)
    print(f"download for {what}: {raw / 1e6:.1f} MB, {packed / 1e6:.1f} MB where the server compresses (gzip)")

with sync_playwright() as engine:
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
    page = browser.new_page()
    page.set_default_timeout(300_000)
    same, farthest, seconds = 0, 0.0, []
    for threads in (False, True):  # the service worker allows threads from the second load on
        opened = time.perf_counter()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        for number, path in enumerate(photos if threads else photos[:1]):
            start = time.perf_counter()
            page.set_input_files("#file", path)
            page.wait_for_function("document.querySelectorAll('#captions li').length > 0")
            captioned = time.perf_counter()
            page.wait_for_function("document.querySelectorAll('#regions li').length > 0")
            page.wait_for_selector("#busy", state="hidden")
            if number == 0:
                isolated = page.evaluate("crossOriginIsolated")
                print(f"threads {isolated}: first caption {captioned - opened:.1f} s after opening")
            if not threads:
                page.evaluate("navigator.serviceWorker.ready")
                page.wait_for_function("navigator.serviceWorker.controller !== null")
                continue
            seconds.append((captioned - start, time.perf_counter() - start))
            wanted, regions = model.caption(path), model.describe(path)
            found = page.locator("#captions .text").all_inner_texts()
            shown = page.locator("#captions .number").all_inner_texts()
            near = abs(float(shown[0]) - wanted[0].log_prob) < NEAR
            same += found[0] == wanted[0].text or near
            boxes = page.evaluate("state.regions.map((region) => region.box)")
            apart = np.abs(np.array([region.box for region in regions]) - np.array(boxes))
            farthest = max(farthest, float(apart.max()) * 500)
    browser.close()
server.shutdown()
captioned, described = np.median(np.array(seconds[1:]), axis=0)
print(f"{same} of {len(photos)} first captions are Python's; boxes at most {farthest:.2f} pixels of 500 away")
print(f"a photo takes {captioned:.2f} s for captions, {described:.2f} s with regions (median of {len(seconds) - 1})")
