"""What a search found, as one page that carries its pictures inside."""

import base64
import io
from html import escape
from importlib.resources import files
from pathlib import Path

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.report.pictures import draw_alignment
from keras_imagesent.report.thumbnails import crop_region

STYLE = """
.found { grid-template-columns: repeat(auto-fill, minmax(min(100%, 210px), 1fr)); }
.found.wide { grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr)); align-items: start; }
.found .card { margin: 0; padding: 12px; }
.found img { height: 200px; aspect-ratio: auto; object-fit: contain; border: 0; margin-bottom: 8px; }
.found.wide img { height: auto; }
.found strong { color: var(--ink); }
.asked { max-width: min(100%, 420px); max-height: 320px; border-radius: 8px; }
.answers li { margin-bottom: 4px; }
"""


def write_search_page(path, query, hits, words=None, photo=None):
    """Writes a page of crops (region hits), of photos with the words' boxes (photo hits), or of sentences.

    Args:
        path: the HTML file.
        query: what was asked, shown as the title.
        hits: from `Collection.search_photos`, `search_regions` or `search_sentences`.
        words: the query's known words, for photo hits.
        photo: the photo that sentences were asked for.

    Example:

    >>> write_search_page("found.html", "red bus", collection.search_regions(vectors))
    """
    shared = ("serving/live/style.css", "report/static/report.css")
    style = "".join((files("keras_imagesent") / name).read_text() for name in shared)
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(query)}</title><link rel="icon" href="data:,">
<style>{style}{STYLE}</style></head>
<body><header class="top"><h1>{escape(query)}</h1><p class="soft">{len(hits)} found, best first</p></header>
<main>{_sentences(hits, photo) if photo else _cards(hits, words)}</main></body></html>
"""
    write_whole(path, text)


def _sentences(hits, photo):
    asked = crop_region(photo, [0, 0, 1, 1], size=640)
    lines = "".join(
        f'<li>{escape(hit.sentence)} <span class="soft number">{hit.score:.2f} {escape(hit.filename)}</span></li>'
        for hit in hits
    )
    return f'{_picture(asked, "The photo", "asked")}<ol class="answers">{lines}</ol>'


def _cards(hits, words):
    wide = "wide" if hits and hasattr(hits[0], "word_scores") else ""
    cards = "".join(_card(number, hit, words) for number, hit in enumerate(hits, 1))
    return f'<div class="gallery found {wide}">{cards}</div>'


def _card(number, hit, words):
    name = Path(hit.filename).name
    if hasattr(hit, "word_scores"):
        image = draw_alignment(hit.path, words, hit.boxes, _places(hit.regions), hit.word_scores, width=640).image()
        picture = _picture(image, f"{name} with the words' regions")
    else:
        picture = _picture(crop_region(hit.path, hit.box, size=400), f"Region {hit.region} of {name}")
    return (
        f'<figure class="card">{picture}<figcaption title="{escape(hit.path)}">'
        f'<strong class="number">{number}. {hit.score:.2f}</strong> {escape(name)}</figcaption></figure>'
    )


def _places(regions):
    """Words of the same region share the first such word's box."""
    return [regions.index(region) for region in regions]


def _picture(image, alt, kind=""):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img class="{kind}" src="data:image/jpeg;base64,{data}" alt="{escape(alt)}">'
