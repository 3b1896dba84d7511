"""Karpathy's JSON: `dataset.json`, `dataset_flickr8k.json`, `dataset_flickr30k.json`, `dataset_coco.json`."""

from keras_imagesent.data.entries import Entry, is_utf8
from keras_imagesent.errors import InputError


def read_karpathy(content, source):
    """Parsed JSON -> entries. `restval` (COCO's validation photos outside the 5,000 + 5,000) trains, as the paper did.

    Example:

    >>> image = {"filename": "a.jpg", "split": "restval", "sentences": [{"raw": "A dog."}]}
    >>> read_karpathy({"images": [image]}, "dataset.json")
    [Entry(filename='a.jpg', split='train', captions=['A dog.'], folder='')]
    """
    entries = []
    name = content.get("dataset")
    name = name if isinstance(name, str) and is_utf8(name) else ""
    for number, image in enumerate(content["images"]):
        try:
            split = "train" if image["split"] == "restval" else image["split"]
            captions = [sentence["raw"] for sentence in image["sentences"]]
            entry = Entry(image["filename"], split, captions, image.get("filepath", ""), data_set=name)
            valid = all(isinstance(text, str) for text in (entry.filename, entry.split, entry.folder, *captions))
        except (KeyError, TypeError, AttributeError):
            valid = False
        if not valid:
            raise InputError(
                f"{source}: image number {number} (from 0) is not as in Karpathy's files: it needs the texts filename "
                "and split, and sentences with the text raw"
            )
        entries.append(entry)
    return entries
