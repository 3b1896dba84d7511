"""The user's own table, CSV or JSON Lines: `filename, caption[, split]`, a caption a row."""

import csv
import io
import json

from keras_imagesent.data.entries import Entry, Problem
from keras_imagesent.errors import InputError

WANTED = "filename, caption and, if you like, split"
EXPECTED = (
    "give Karpathy or COCO JSON, a Flickr token file, "
    f"a CSV whose first line is {WANTED}, or JSON Lines with those keys"
)


def read_csv(text, source):
    """A CSV file's text (comma, semicolon or tab) -> entries and problems.

    Example:

    >>> read_csv("filename,caption\\na.jpg,A dog.\\n", Path("mine.csv"))
    ([Entry(filename='a.jpg', split='train', captions=['A dog.'], folder='')], [])
    """
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows, problems = [], []
    try:
        names = [name.strip().lower() for name in lines.fieldnames]
    except csv.Error as error:
        raise InputError(f"{source} line 1: {error}") from None
    lines.fieldnames = ["filename" if name == "image" else name for name in names]  # Kaggle's Flickr8k says image
    if not {"filename", "caption"} <= set(lines.fieldnames):
        raise InputError(f"{source} is no data set I know: its first line is {header.strip()[:60]!r}; {EXPECTED}")
    while True:
        start = lines.reader.line_num + 1
        try:
            row = next(lines)
        except StopIteration:
            return gather(rows, problems)
        except csv.Error as error:
            end = lines.reader.line_num
            if end > start:  # a cell went on over the lines behind it, which are lost with it
                raise InputError(
                    f"{source}: a quotation mark in line {start} is not closed ({error} in line {end})"
                ) from None
            problems.append(Problem(f"{source.name} line {start}", f"not CSV: {error}"))
            continue
        where = f"{source.name} line {lines.line_num}"
        if None in row:
            problems.append(Problem(where, 'more cells than the first line: put captions with commas in "quotes"'))
        elif row["caption"] is None or row["filename"] is None:
            problems.append(Problem(where, f"has no {'caption' if row['caption'] is None else 'filename'}"))
        else:
            rows.append((where, row))


def read_jsonl(text, source):
    """A JSON Lines file's text -> entries and problems; `caption` may be a list of them.

    Example:

    >>> read_jsonl('{"filename": "a.jpg", "caption": ["A dog.", "A pet."], "split": "test"}', Path("mine.jsonl"))
    ([Entry(filename='a.jpg', split='test', captions=['A dog.', 'A pet.'], folder='')], [])
    """
    rows, problems = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{source.name} line {number}"
        try:
            row = json.loads(line)
            captions = row["caption"] if isinstance(row["caption"], list) else [row["caption"]]
            texts = [row["filename"], row.get("split") or "train", *captions]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            texts = [None]
        if not all(isinstance(text, str) for text in texts):
            problems.append(Problem(where, f"needs the texts {WANTED}"))
            continue
        rows += [(where, {"filename": texts[0], "split": texts[1], "caption": caption}) for caption in captions]
    return gather(rows, problems)


def gather(rows, problems):
    """Rows of one caption each -> one entry for each photo and split."""
    entries = {}
    for where, row in rows:
        filename, split = row["filename"].strip(), (row.get("split") or "").strip() or "train"
        if not filename:
            problems.append(Problem(where, "has no filename"))
            continue
        entry = entries.setdefault((filename, split), Entry(filename, split))
        entry.captions.append(row["caption"])
        entry.lines.append(where)
    return list(entries.values()), problems
