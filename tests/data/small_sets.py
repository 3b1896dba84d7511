"""Small data sets in every form, written for a test."""

import json

from PIL import Image

from keras_imagesent.data.dataset import read_dataset

CHILD = [
    "A child in a pink dress is climbing up a set of stairs in an entry way .",
    "A girl going into a wooden building .",
]
TOKENS = f"a.jpg#0\t{CHILD[0]}\na.jpg#1\t{CHILD[1]}\nb.jpg#0\tA dog .\nz.jpg.1#0\tStray .\n"


def write(path, content):
    """Writes text, bytes, or anything else as JSON."""
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def make_photo(path, colour="red", size=(40, 30)):
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def karpathy(*photos):
    """Karpathy's JSON of (filename, split, captions)."""
    images = [
        {
            "filename": name,
            "split": split,
            "imgid": number,
            "sentences": [{"raw": raw, "tokens": []} for raw in captions],
        }
        for number, (name, split, captions) in enumerate(photos)
    ]
    return {"images": images, "dataset": "mine"}


def read(folder, content, name="data", **options):
    return read_dataset(write(folder / name, content), folder / "images", **options)
