"""`model.json` beside every export: what goes in and comes out, what happens to a photo first, and checksums."""

import json
from pathlib import Path

import tensorflow as tf

from keras_imagesent import __version__
from keras_imagesent.data.atomic import write_whole
from keras_imagesent.data.tokenizer import BLANKS, UNSEEN
from keras_imagesent.runtime.about import NAME, checksum
from keras_imagesent.runtime.exported_model import NEEDED, needed_pieces
from keras_imagesent.serving.pieces import WHOLE, piece_part

LICENSE = "Apache-2.0"
MEANINGS = {
    "pixels": "the photo, see preprocessing",
    "image_bytes": "the photo's file: JPEG, PNG, GIF or BMP",
    "sentences": "UTF-8 text",
    "feature_map": "the image encoder's last map",
    "image_features": "the whole frame's vector",
    "boxes": "x0, y0, x1, y1 in 0..1 of the upright photo; region 0 is the whole frame",
    "box": "one box of your own: x0, y0, x1, y1 in 0..1 of the upright photo",
    "box_scores": "how sure the detector is, 0..1; 1 for the whole frame, 0 where there is no region",
    "class_scores": "how sure the detector is of each of `labels`, 0..1",
    "region_mask": "whether there is a region",
    "region_features": "a vector for each region, from the feature map under its box",
    "regions": "a vector for each region, in the space of the words",
    "token_ids": "words by their place in the vocabulary, 0 from the sentence's end on",
    "word_vectors": "a vector for each word, in the space of the regions",
    "word_mask": "whether there is a word that the vocabulary knows",
    "words": "the words as they were typed",
    "similarity": "of each word with each region",
    "phrase_regions": "the region that each word belongs to, -1 where there is no word",
    "score": "of the photo with the sentence: larger where they belong together",
    "labels": "what the detector calls each region; empty where it has no name for it",
    "captions": "sentences, the best first; for regions one each",
    "log_probs": "natural log probability of each sentence",
    "number_of_regions": "regions come first, then padding",
    "status": '"ok", or why the photo could not be read',
}


def write_about(photo_model, folder: Path, made_for: str, files: list[dict], **more) -> None:
    """Writes the vocabularies, then `model.json`, which lists them and `files`, all with their checksums."""
    folder = Path(folder)
    parts = photo_model_parts(photo_model)
    vocabularies = {name: vocabulary_file(part.vocabulary) for name, part in parts.items()}
    for part in parts.values():
        vocabulary = part.vocabulary
        content = {"sentences": vocabulary.sentences, "words": vocabulary.words, "counts": vocabulary.counts}
        write_whole(folder / vocabulary_file(vocabulary), json.dumps(content, ensure_ascii=False).encode())
    about = {
        "format": made_for,
        "made_by": f"keras_imagesent {__version__}",
        "tensorflow": tf.__version__,
        "license": LICENSE,
        "preprocessing": preprocessing(photo_model),
        "beam": photo_model.beam,
        "captions": photo_model.n_captions,
        "max_length": photo_model.max_length,
        "length_penalty": photo_model.length_penalty,
        "beta": photo_model.beta,
        "rerank": photo_model.rerank,
        # captioning/confidence.py says how these make a confidence out of a caption and its log probability
        "confidence": parts["captioner"].settings.get("confidence") if "captioner" in parts else None,
        "labels": photo_model.labels,
        "tokenizer": tokenizer(),
        "training": {name: part.settings for name, part in parts.items()},
        "metrics": {name: part.metrics for name, part in parts.items()},
        "vocabularies": vocabularies,
        **more,
        "files": [
            *files,
            *({"file": name, **size_and_checksum(folder / name)} for name in dict.fromkeys(vocabularies.values())),
        ],
    }
    write_whole(folder / NAME, json.dumps(about, indent=1, ensure_ascii=False).encode())


def file_entry(photo_model, path: Path, piece: str, precision: str, inputs: dict, outputs: dict) -> dict:
    """What `model.json` says of one exported piece; `inputs` and `outputs` as the file itself has them."""
    part = piece_part(photo_model, piece)
    return {
        "file": path.name,
        **size_and_checksum(path),
        "piece": piece,
        "precision": precision,
        **({"vocabulary": vocabulary_file(part.vocabulary)} if part else {}),
        "inputs": inputs,
        "outputs": outputs,
    }


def answers(entries: list[dict]) -> dict:
    """Signature -> the pieces that answer it, in the order in which they run, as far as they are there.

    `entries` are those of `file_entry`.
    """
    pieces = {entry["piece"]: entry for entry in entries}
    captioner = pieces.get("captioner", {"inputs": ()})
    chains = {name: needed_pieces(name, captioner["inputs"]) for name in NEEDED}
    found = {name: list(needed) for name, needed in chains.items() if set(needed) <= set(pieces)}
    return found if "caption" in found or WHOLE not in pieces else {"caption": [WHOLE], **found}


def tensor(name: str, dtype: str, shape) -> dict:
    """How `model.json` describes an input or an output; the first dimension is the batch."""
    return {
        "dtype": dtype,
        "shape": ["batch", *("any" if size is None else int(size) for size in shape[1:])],
        "meaning": MEANINGS[name],
    }


def photo_model_parts(photo_model) -> dict:
    names = ("captioner", "region_captioner", "alignment")
    return {name: getattr(photo_model, name) for name in names if getattr(photo_model, name)}


def vocabulary_file(vocabulary) -> str:
    return f"vocabulary-{vocabulary.digest}.json"


def size_and_checksum(path: Path) -> dict:
    return {"bytes": path.stat().st_size, "sha256": checksum(path)}


def tokenizer() -> dict:
    """How a sentence becomes words, in words and as the insides of regular expressions' character classes."""
    return {
        "rule": "split at blanks; leave unseen characters out; NFKC and case folding until nothing changes; then keep "
        "letters, marks and digits only; words outside the vocabulary are left out",
        "blanks": BLANKS.encode("ascii").decode("unicode_escape"),
        "unseen": UNSEEN.encode("ascii").decode("unicode_escape"),
    }


def preprocessing(photo_model) -> dict:
    """What happens to a photo before the graph's `pixels`, in words and numbers."""
    return {
        "image_size": photo_model.image_size,
        "range": "0..255, RGB, float32, whole numbers",
        "minimum": 0,
        "maximum": 255,
        "channels": "RGB",
        "orientation": "EXIF applied",
        "transparency": "over white",
        "resize": "squashed to a square: bilinear with antialiasing in float32, then rounded (see regions/squash.py)",
        "boxes": MEANINGS["boxes"],
    }
