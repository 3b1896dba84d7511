"""Phrase grounding: does the region chosen for a phrase cover what people drew for it?"""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_imagesent.alignment.encode import encode_photos, encode_sentences, phrase_words
from keras_imagesent.alignment.phrases import decode_phrases
from keras_imagesent.data.box_table import check_box, read_box_table
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.errors import InputError


@dataclass
class Item:
    """One phrase of one photo with the boxes that people drew for it, `(n,4)` in 0..1."""

    filename: str
    phrase: str
    boxes: np.ndarray


def read_phrase_boxes(path):
    """Items from a CSV with the columns filename, phrase, x0, y0, x1, y1 (in 0..1), one box a row.

    Example:
        items = read_phrase_boxes("phrase_boxes_dev.csv")
    """
    boxes = {}
    for _, row, box in read_box_table(path, ("filename", "phrase")):
        boxes.setdefault((row["filename"], row["phrase"]), []).append(box)
    if not boxes:
        raise InputError(f"{path}: no boxes in it")
    return [Item(filename, phrase, np.array(found)) for (filename, phrase), found in boxes.items()]


def read_entities(annotations, sentences):
    """Items from Flickr30k Entities' own folders, `Annotations/*.xml` and `Sentences/*.txt`.

    A phrase is written `[/EN#283585/people A young girl]` in a sentence; its boxes stand in the photo's XML under that
    number. Phrases without a box are left out.

    Example:
        items = read_entities("Flickr30kEntities/Annotations", "Flickr30kEntities/Sentences")
    """
    items = []
    files = sorted(Path(annotations).glob("*.xml"))
    if not files:
        raise InputError(f"no .xml in {annotations}: give the folder Annotations of Flickr30k Entities")
    for file in files:
        text = Path(sentences) / f"{file.stem}.txt"
        try:
            root = ElementTree.parse(file).getroot()
            width, height = (float(root.findtext(f"size/{side}")) for side in ("width", "height"))
            boxes = {}
            for thing in root.iter("object"):
                box = thing.find("bndbox")
                if box is None:
                    continue
                corners = [float(box.findtext(corner)) for corner in ("xmin", "ymin", "xmax", "ymax")]
                corners = check_box(np.array(corners) / [width, height, width, height], str(file))
                for name in thing.iter("name"):
                    boxes.setdefault(name.text, []).append(corners)
            lines = text.read_text("utf-8")
        except FileNotFoundError:
            raise InputError(f"{file} has no sentences beside it: expected {text}") from None
        except InputError:
            raise
        except (ElementTree.ParseError, TypeError, ArithmeticError, ValueError) as error:
            raise InputError(f"{file} is not an annotation of Flickr30k Entities ({error})") from None
        phrases = {}
        for entity, phrase in re.findall(r"\[/EN#(\d++)[^\s\[]*+ ([^\[\]]++)\]", lines):
            if entity in boxes:
                phrases.setdefault(phrase, []).extend(boxes[entity])
        filename = root.findtext("filename") or f"{file.stem}.jpg"
        items += [Item(filename, phrase, np.unique(found, axis=0)) for phrase, found in phrases.items()]
    return items


def overlaps(boxes, others):
    """Intersection over union of every pair: `(n,4), (m,4) -> (n,m)`."""
    boxes, others = np.asarray(boxes, float)[:, None], np.asarray(others, float)[None]
    sides = np.minimum(boxes[..., 2:], others[..., 2:]) - np.maximum(boxes[..., :2], others[..., :2])
    shared = np.maximum(sides, 0).prod(axis=-1)
    areas = [np.maximum(b[..., 2:] - b[..., :2], 0).prod(axis=-1) for b in (boxes, others)]
    return shared / np.maximum(areas[0] + areas[1] - shared, 1e-12)


def hits(boxes, human_boxes, threshold=0.5):
    """For each box, whether it covers one of the human boxes with IoU >= `threshold`."""
    return (overlaps(boxes, human_boxes) >= threshold).any(axis=1)


def around(boxes):
    """The box around some boxes, `(n,4) -> (1,4)`: what a plural phrase ("two dogs") stands for."""
    boxes = np.asarray(boxes, float)
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])[None]


def points(boxes, human_boxes):
    """The pointing game: for each box, whether its centre lies in one of the human boxes."""
    centres = (np.asarray(boxes)[:, None, :2] + np.asarray(boxes)[:, None, 2:]) / 2
    human_boxes = np.asarray(human_boxes)[None]
    return ((centres >= human_boxes[..., :2]) & (centres <= human_boxes[..., 2:])).all(axis=-1).any(axis=1)


def find_phrase(phrase, captions):
    """The first caption (its number, and the phrase's first and last word in it) that contains a phrase, or None.

    Phrase and captions are tokenized before they are matched, so case and punctuation do not count.
    """
    wanted = tokenize(phrase)
    for number, caption in enumerate(captions):
        words = tokenize(caption)
        for start in range(len(words) - len(wanted) + 1):
            if wanted and words[start : start + len(wanted)] == wanted:
                return number, start, start + len(wanted) - 1
    return None


def similarities(model, photos, items, vocabulary):
    """For each item: the photo's row, and the similarity `(T,R)` of its sentence's known words with the regions.

    The sentence is the first caption of the photo that contains the phrase, else the phrase alone. Yields
    `(item, row, similarity, in_phrase)`, with `in_phrase (T,)` True at the phrase's words; items whose photo is not
    among `photos` are left out, and `similarity` is empty if no word of the phrase is known.
    """
    rows = {filename: row for row, filename in enumerate(photos.filenames)}
    items = [item for item in items if item.filename in rows]
    if not items:
        raise InputError("none of the phrase boxes belongs to a photo of this split: compare the file names")
    wanted = sorted({rows[item.filename] for item in items})
    encoded = encode_photos(model, photos.regions(wanted))
    regions = dict(zip(wanted, encoded, strict=True))
    sentences, marks = [], []
    for item in items:
        captions = photos.captions[rows[item.filename]]
        place = find_phrase(item.phrase, captions)
        text = item.phrase if place is None else captions[place[0]]
        known = [(number, position) for position, (_, number) in enumerate(vocabulary.positions(text)) if number > 0]
        sentences.append([number for number, _ in known])
        marks.append([place is None or place[1] <= position <= place[2] for _, position in known])
    words = encode_sentences(model, sentences)
    starts = words.starts
    for n, item in enumerate(items):
        row = rows[item.filename]
        vectors = phrase_words(model, words.vectors[starts[n] : starts[n] + words.lengths[n]])
        yield item, row, vectors @ regions[row].T, np.array(marks[n][: len(vectors)], bool)


def measure_grounding(model, photos, items, vocabulary, beta=None, threshold=0.5):
    """Accuracy in percent of the model and of what it is compared with.

    The model's region for a phrase maximises the sum of its words' similarities. With `beta`, the MRF decodes the
    sentence and the phrase takes the region that most of its words got. `accuracy` asks for the box around all human
    boxes of the phrase, `any_box` for one of them; the pointing game whether the region's centre lies in one.

    Returns:
        `{"model": {"accuracy", "any_box", "pointing"}, "whole frame": ..., "random region": ..., "largest detector
        score": ..., "best region": ..., "items": number, "plural": how many have several boxes}`; `best region` is the
        most any choice could reach.

    Example:
        measure_grounding(model, prepared.load("dev"), read_phrase_boxes(path), prepared.vocabulary)["model"]
    """
    rows, plural = [], 0
    for item, row, similarity, in_phrase in similarities(model, photos, items, vocabulary):
        mask = photos.region_mask[row]
        boxes = photos.boxes[row][mask]
        found = (
            hits(boxes, around(item.boxes), threshold),
            hits(boxes, item.boxes, threshold),
            points(boxes, item.boxes),
        )
        plural += len(item.boxes) > 1
        chosen = choose_region(similarity, in_phrase, mask, beta)
        scores = photos.box_scores[row][mask]
        confident = 1 + int(np.argmax(scores[1:])) if len(scores) > 1 else 0
        rows.append([(x[chosen], x[0], x.mean(), x[confident], x.any()) for x in found])
    measures = 100 * np.array(rows, float).mean(axis=0)
    names = ("model", "whole frame", "random region", "largest detector score", "best region")
    figures = zip(names, measures.T.tolist(), strict=True)
    result = {name: dict(zip(("accuracy", "any_box", "pointing"), of_name, strict=True)) for name, of_name in figures}
    return {**result, "items": len(rows), "plural": plural}


def choose_region(similarity, in_phrase, region_mask, beta=None):
    """The region of a phrase, counted among the regions that are there; the whole frame if no word is known."""
    similarity = similarity[:, region_mask]
    if not in_phrase.any():
        return 0
    totals = similarity[in_phrase].sum(axis=0)
    if beta is not None:
        path = decode_phrases(similarity[None], beta=beta)[0][in_phrase]
        votes = np.bincount(path, minlength=similarity.shape[1])
        totals = np.where(votes == votes.max(), totals, -np.inf)
    return int(totals.argmax())
