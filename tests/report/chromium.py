"""A real browser for the tests of the pages."""

import shutil
from contextlib import contextmanager

import pytest

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-fake-device-for-media-stream --use-fake-ui-for-media-stream"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def open_browser():
    """A Chromium with a camera that shows a test picture; skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


def open_page(browser, address, **settings):
    """A page on which any error of a script fails the test."""
    page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page.script_errors = []
    page.on("pageerror", lambda error: page.script_errors.append(str(error)))
    page.set_default_timeout(60_000)
    page.goto(address)
    return page
