"""The report's folder: static pages with their data as scripts, so that they work from a file."""

import json
import shutil
from html import escape
from importlib.resources import files
from pathlib import Path

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.report.overview import LENGTHS, overview
from keras_imagesent.report.table import table_html

PHOTOS_IN_A_FILE = 20
SHARED = {
    "serving/live": ("style.css", "overlay.js"),
    "report/static": ("report.css", "listing.js", "photos.js", "galleries.js"),
}


def write_report(out, title, photos, thumbnails, alignment=None, captions=None, tables=(), logs=None, magnitudes=None):
    """Writes index.html, photos.html, and where there is data for them galleries.html and magnitudes.html.

    Args:
        out: the folder; files in it are replaced.
        title: such as "dev, 1,000 photos".
        photos: `Prepared.load(split)`.
        thumbnails: file names in `out/thumbs`, one a photo.
        alignment: from `align_split`.
        captions: from `caption_split`.
        tables: dicts as `imagesent evaluate --out` writes them.
        logs: name of a run -> `read_log(run)`.
        magnitudes: from `measure_magnitudes`.

    Example:

    >>> write_report("report", "dev", prepared.load("dev"), thumbnails, alignment=align_split(...))
    """
    out = Path(out)
    (out / "data").mkdir(parents=True, exist_ok=True)
    for folder, names in SHARED.items():
        for name in names:
            shutil.copyfile(files("keras_imagesent") / folder / name, out / name)
    pages = {"index.html": "Overview", "photos.html": "Photos"}
    if alignment:
        pages["galleries.html"] = "Galleries"
    if magnitudes:
        pages["magnitudes.html"] = "Magnitudes"
    _write_data(out, photos, thumbnails, alignment, captions)

    def page(name, body, scripts=()):
        write_whole(out / name, _page(title, pages, name, body, scripts))

    page("index.html", overview(pages, photos, thumbnails, alignment, captions, tables, logs))
    page("photos.html", _photos(alignment), ["data/summary.js", "listing.js", "photos.js"])
    if alignment:
        page("galleries.html", GALLERIES, ["data/summary.js", "data/sentences.js", "listing.js", "galleries.js"])
    if magnitudes:
        lengths = "".join(table_html(table) for table in tables if table.get("name") in LENGTHS)
        page("magnitudes.html", _magnitudes(magnitudes) + lengths)
    for name in ("galleries.html", "magnitudes.html"):  # of an earlier report into the same folder
        if name not in pages:
            (out / name).unlink(missing_ok=True)


def _write_data(out, photos, thumbnails, alignment, captions):
    summary, details = [], []
    for k, filename in enumerate(photos.filenames):
        aligned = alignment["photos"][k] if alignment else {}
        sentences = aligned.get("sentences") or [{"text": text, "score": None} for text in photos.captions[k]]
        caption = captions["photos"][k] if captions else {}
        summary.append(
            {
                "number": k,
                "filename": filename,
                "thumb": thumbnails[k],
                "text": " ".join([*photos.captions[k], caption.get("caption", {}).get("text", "")]),
                "cider": caption.get("caption", {}).get("cider"),
                **{name: aligned.get(name) for name in ("score", "rank", "best")},
            }
        )
        present = int(photos.region_mask[k].sum())
        details.append(
            {
                "width": int(photos.widths[k]),
                "height": int(photos.heights[k]),
                "boxes": [[round(float(c), 4) for c in box] for box in photos.boxes[k][:present]],
                "sentences": sentences,
                **{name: caption.get(name) for name in ("caption", "neighbour", "regions")},
            }
        )
    about = {"photosInAFile": PHOTOS_IN_A_FILE, "alignment": bool(alignment), "captions": bool(captions)}
    script = f"const REPORT = {_json(about)};\nconst SUMMARY = {_json(summary)};\n"
    write_whole(out / "data" / "summary.js", script)
    for first in range(0, len(details), PHOTOS_IN_A_FILE):
        number = first // PHOTOS_IN_A_FILE
        part = _json(details[first : first + PHOTOS_IN_A_FILE])
        write_whole(out / "data" / f"photos-{number:04d}.js", f"PHOTOS[{number}] = {part};\n")
    if alignment:
        write_whole(out / "data" / "sentences.js", f"const SENTENCES = {_json(alignment['sentences'])};\n")


def _photos(alignment):
    tools = ""
    if alignment:
        tools = (
            '<label class="check"><input type="checkbox" id="mrf" checked> phrases (after the MRF)</label>'
            '<label>Fade words that score low<input type="range" id="fade" min="0" max="100" value="25"></label>'
        )
    return f'<section id="photos" aria-label="Photos">{_tools("Find in file names and sentences", tools)}</section>'


def _magnitudes(magnitudes):
    both = magnitudes["largest"] + magnitudes["smallest"]
    longest = max((row["magnitude"] for row in both), default=1) or 1  # the bars of both tables can be compared

    def words(title, rows):
        lines = "".join(
            f'<tr><td>{escape(row["word"])}</td><td class="number">{row["magnitude"]:.2f}</td>'
            '<td style="width:45%"><span class="bar" '
            f'style="width:{100 * row["magnitude"] / longest:.0f}%"></span></td></tr>'
            for row in rows
        )
        return (
            f'<section class="card"><table><caption>{title}</caption><thead><tr><th scope="col">Word</th>'
            '<th scope="col" class="number">mean |s<sub>t</sub>|</th><th></th></tr></thead>'
            f"<tbody>{lines}</tbody></table></section>"
        )

    crops = "".join(
        f'<figure><img src="{escape(row["crop"])}" loading="lazy" alt="Region of {escape(row["filename"])}">'
        f"<figcaption>|v| {row['magnitude']:.2f}<br>{escape(row['filename'])}</figcaption></figure>"
        for row in magnitudes["regions"]
    )
    largest = words("The words that matter most to the score", magnitudes["largest"])
    smallest = words("The words that matter least", magnitudes["smallest"])
    return (
        f'<div class="two">{largest}{smallest}</div>'
        f'<section class="card"><h2>The most salient regions</h2><div class="gallery">{crops}</div></section>'
    )


def _tools(placeholder, more=""):
    return (
        f'<div class="tools"><label class="grow">{placeholder}<input type="search"></label>'
        f"<label>Order<select></select></label>{more}</div>"
        '<p class="count soft" role="status"></p><div class="list"></div><nav class="pager" aria-label="Pages"></nav>'
    )


def _page(title, pages, current, body, scripts):
    links = "".join(
        f'<a href="{name}"{" aria-current=" + chr(34) + "page" + chr(34) if name == current else ""}>{label}</a>'
        for name, label in pages.items()
    )
    included = "".join(f'<script src="{name}"></script>\n' for name in ["overlay.js", *scripts])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(pages[current])}: {escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<link rel="stylesheet" href="report.css">
</head>
<body>
<header class="top">
<h1>{escape(title)}</h1>
<nav aria-label="Report">{links}</nav>
<button id="theme" type="button" aria-label="Switch between light and dark">◐</button>
</header>
<main>
{body}
</main>
{included}<script>themeButton(document.getElementById("theme"));</script>
</body>
</html>
"""


def _json(value):
    """JSON that may stand inside a script."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


GALLERIES = f"""<div role="tablist" aria-label="Direction">
<button role="tab" type="button" aria-selected="true" aria-controls="photo-gallery">Photo → sentences</button>
<button role="tab" type="button" aria-selected="false" aria-controls="sentence-gallery" tabindex="-1"
>Sentence → photos</button>
</div>
<section id="photo-gallery" role="tabpanel" aria-label="Photo to sentences">
{_tools("Find in file names and sentences")}
</section>
<section id="sentence-gallery" role="tabpanel" class="hidden" aria-label="Sentence to photos">
{_tools("Find in sentences")}
</section>"""
