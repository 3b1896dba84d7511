"""The report's first page: pictures, a verdict in words, the tables that matter, training curves, a glossary."""

from html import escape

import numpy as np

from keras_imagesent.report.curves import draw_curves
from keras_imagesent.report.table import cell, table_html

PICTURES = 3  # of each kind
MATTER = ("retrieval", "captions", "grounding", "regions", "truth")  # in this order; other tables are folded away
LENGTHS = ("word_magnitudes", "region_magnitudes")  # they have a page of their own
ABOUT = {
    "photos.html": "every photo with its sentences on its regions, its captions and its regions' captions",
    "galleries.html": "each photo's best sentences, each sentence's best photos",
    "magnitudes.html": "words and regions that matter most and least to the score",
}
GLOSSARY = {
    "R@1, R@5, R@10": "how often what was looked for is the first, among the first five, among the first ten; percent",
    "annotation, search": "a photo looks for its sentences among all; a sentence looks for its photo among all",
    "Med r": "the median place of what was looked for; 1 is best",
    "BLEU, METEOR, ROUGE-L, CIDEr": "how much a caption shares with what people wrote of the photo, in words and in "
    "runs of words; CIDEr counts rare words more and may exceed 100; percent",
    "grounding": "how often the region chosen for a phrase covers the box that people drew (IoU 0.5); percent",
    "pointing": "how often that region's centre lies in the box; percent",
    "beam": "how many unfinished sentences the captioner keeps while it looks for the best one",
    "MRF, beta": "neighbouring words are drawn to one region, the stronger the larger beta",
    "perplexity": "among how many equally likely words the captioner hesitates, on average; 1 is best",
}


def overview(pages, photos, thumbnails, alignment=None, captions=None, tables=(), logs=None):
    """The body of index.html; the arguments are those of `write_report`, `pages` maps file names to labels."""
    if "magnitudes.html" in pages:
        tables = [table for table in tables if table.get("name") not in LENGTHS]
    first = [table for name in MATTER for table in tables if table.get("name") == name] or tables
    more = [table for table in tables if table not in first]
    links = "".join(
        f'<li><a href="{name}">{label}</a>: {ABOUT[name]}</li>' for name, label in pages.items() if name in ABOUT
    )
    parts = [pictures(photos, thumbnails, captions), verdict(alignment, captions)]
    parts.append(f'<section class="card"><h2>To look at</h2><ul>{links}</ul></section>')
    if first:
        parts.append("<h2>Tables</h2>" + "".join(map(table_html, first)))
    if more:
        parts.append(f"<details><summary>More tables ({len(more)})</summary>{''.join(map(table_html, more))}</details>")
    for run, log in (logs or {}).items():
        parts.append(
            f'<section class="card"><h2>Training: {escape(run)}</h2>{draw_curves(log)}{_log_table(log)}</section>'
        )
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in GLOSSARY.items())
    parts.append(f'<section class="card"><h2>What the words mean</h2><dl class="glossary">{terms}</dl></section>')
    return "".join(parts)


def pictures(photos, thumbnails, captions):
    """Photos with what the model says of them: of its best captions, of its middling ones and of its worst."""
    if not captions:
        chosen = {"Photos": range(min(2 * PICTURES, len(thumbnails)))}
    else:
        scores = [photo["caption"]["cider"] for photo in captions["photos"]]
        order = np.argsort(-np.array(scores), kind="stable")
        middle = max(len(order) // 2 - PICTURES // 2, 0)
        chosen = {
            "Its best captions": order[:PICTURES],
            "In the middle": order[middle : middle + PICTURES],
            "Its worst": order[-PICTURES:],
        }
    parts = []
    for title, rows in chosen.items():
        figures = "".join(_figure(row, photos, thumbnails, captions) for row in rows)
        parts.append(f'<h3>{title}</h3><div class="gallery shown">{figures}</div>')
    note = "<p class='soft'>Sorted by CIDEr, what the caption shares with people's own; below it one of theirs.</p>"
    return f'<section class="card pictures"><h2>What it says</h2>{"".join(parts)}{note if captions else ""}</section>'


def _figure(row, photos, thumbnails, captions):
    said = f"<strong>{escape(captions['photos'][row]['caption']['text'])}</strong>" if captions else ""
    written = f"<q>{escape(photos.captions[row][0])}</q>" if photos.captions[row] else ""
    alt = escape(f"Photo {photos.filenames[row]}")
    source = escape(f"thumbs/{thumbnails[row]}")
    return f'<figure><img src="{source}" alt="{alt}"><figcaption>{said}{written}</figcaption></figure>'


def verdict(alignment, captions):
    """What the numbers come to, in sentences."""
    said = []
    if captions:
        photos = captions["photos"]
        own = np.array([photo["caption"]["cider"] for photo in photos])
        said.append(f"The captions of {len(own):,} photos reach a CIDEr of {100 * own.mean():.0f}% with people's own.")
        rows = [(photo["caption"]["cider"], photo["neighbour"]["cider"]) for photo in photos if photo.get("neighbour")]
        if rows:
            mine, copied = np.array(rows).T
            said.append(
                f"Copying the caption of the most similar training photo gives {100 * copied.mean():.0f}%; the model's "
                f"own is the better one for {100 * np.mean(mine > copied):.0f}% of the photos, and as good for "
                f"{100 * np.mean(mine == copied):.0f}%."
            )
        same = len(photos) - len({photo["caption"]["text"] for photo in photos})
        said.append(f"{100 * same / len(photos):.0f}% of the captions repeat another photo's.")
    if alignment:
        ranks = np.array([photo["rank"] for photo in alignment["photos"]])
        found = np.array([sentence["rank"] for sentence in alignment["sentences"]])
        said.append(
            f"Among all {len(found):,} sentences, one of its own comes first for {100 * np.mean(ranks == 1):.0f}% of "
            f"the photos, and among the first ten for {100 * np.mean(ranks <= 10):.0f}%."
        )
        said.append(
            f"Among all {len(ranks):,} photos, the right one comes first for {100 * np.mean(found == 1):.0f}% of the "
            f"sentences, and among the first ten for {100 * np.mean(found <= 10):.0f}%."
        )
    return f'<section class="card"><h2>In words</h2><p>{" ".join(said)}</p></section>' if said else ""


def _log_table(log):
    """The numbers behind the curves, for those who cannot see them."""
    epochs = max((len(values) for values in log.values()), default=0)
    rows = [[values[epoch] if epoch < len(values) else None for values in log.values()] for epoch in range(epochs)]
    head = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in log)
    body = "".join("<tr>" + "".join(f'<td class="number">{cell(v)}</td>' for v in row) + "</tr>" for row in rows)
    return (
        f"<details><summary>The same as numbers</summary><div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></details>"
    )
