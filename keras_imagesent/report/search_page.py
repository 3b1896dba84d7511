"""What a search found, as one page that carries its pictures inside."""

import base64
import io
import os
from html import escape
from importlib.resources import files
from pathlib import Path

from keras_imagesent.report.pictures import draw_alignment
from keras_imagesent.report.thumbnails import crop_region


def write_search_page(path, query, hits, words=None):
    """Writes a page of crops (region hits), of photos with the words' boxes (photo hits), or of sentences.

    Args:
        path: the HTML file.
        query: what was asked, shown as the title.
        hits: from `Collection.search_photos`, `search_regions` or `search_sentences`.
        words: the query's known words, for photo hits.

    Example:

    >>> write_search_page("found.html", "red bus", collection.search_regions(vectors))
    """
    style = "".join(
        (files("keras_imagesent.report") / folder / name).read_text()
        for folder, name in (("live", "style.css"), ("static", "report.css"))
    )
    cards = "".join(_card(number, hit, words) for number, hit in enumerate(hits, 1))
    kind = "wide" if hits and hasattr(hits[0], "word_scores") else ""
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(query)}</title><link rel="icon" href="data:,">
<style>{style}
.found.wide {{ grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr)); }}
.found img {{ height: 180px; aspect-ratio: auto; object-fit: contain; border: 0; }}
.found.wide img {{ height: 380px; }}
</style></head>
<body><header class="top"><h1>{escape(query)}</h1><p class="soft">{len(hits)} found, best first</p></header>
<main class="gallery found {kind}">{cards}</main></body></html>
"""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def _card(number, hit, words):
    if hasattr(hit, "sentence"):
        picture, text = "", hit.sentence
    elif hasattr(hit, "word_scores"):
        image = draw_alignment(hit.path, words, hit.boxes, _places(hit.regions), hit.word_scores, width=640).image()
        picture, text = _picture(image, f"{hit.filename} with the words' regions"), hit.filename
    else:
        picture, text = _picture(crop_region(hit.path, hit.box), f"Region of {hit.filename}"), hit.filename
    return (
        f'<figure class="card">{picture}<figcaption>{number}. <span class="number">{hit.score:.2f}</span> '
        f"{escape(text)}</figcaption></figure>"
    )


def _places(regions):
    """Words of the same region share the first such word's box."""
    return [regions.index(region) for region in regions]


def _picture(image, alt):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return f'<img src="data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}" alt="{escape(alt)}">'
