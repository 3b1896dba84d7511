"""What smaller files cost: float32, float16 and int8, ONNX and LiteRT, on a split's photos.

BLEU-4, CIDEr, retrieval, grounding, how many captions are float32's own, size and latency. A second run with another
data set adds its table to --out.

python scripts/precisions.py ../shared/flickr8k/dataset.json --photos ../shared/flickr8k/images --split val \
    --phrase-boxes ../shared/flickr8k/phrase_boxes_dev.csv --name flickr8k --out runs/shipped/precisions.json
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from keras_imagesent.alignment.encode import Words
from keras_imagesent.alignment.score_pairs import score_pairs
from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.evaluation.caption_scores import CaptionScorer
from keras_imagesent.evaluation.grounding import choose_region, find_phrase, hits, read_phrase_boxes
from keras_imagesent.evaluation.retrieval import measure_scores
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.model.photo_model import load_photo_model
from keras_imagesent.regions.pillow_photo import read_pixels
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.runtime.exported_model import PRECISIONS
from keras_imagesent.serving.litert_export import export_litert
from keras_imagesent.serving.onnx_export import export_onnx

COLUMNS = [
    "file",
    "MB",
    "ms caption",
    "ms all",
    "BLEU-4",
    "CIDEr",
    "annotation R@1",
    "search R@1",
    "grounding",
    "same, %",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--name", required=True, help="of the data set, in the table")
    parser.add_argument("--split", default="val")
    parser.add_argument("--phrase-boxes", type=Path, help="boxes that people drew for phrases, for the grounding")
    parser.add_argument("--limit", type=int, help="only so many photos of the split")
    parser.add_argument("--out", type=Path, help="where to write the table as JSON, for scripts/results")
    args = parser.parse_args()

    photos = read_dataset(args.dataset, args.photos).photos
    chosen = [photo for photo in photos if photo.split == args.split][: args.limit]
    calibration = [photo for photo in photos if photo.split == "train"][:100]
    items = read_phrase_boxes(args.phrase_boxes) if args.phrase_boxes else []
    scorer = CaptionScorer([photo.captions for photo in chosen])
    model = load_photo_model()
    score = model.alignment.model.get_layer("scores").score
    rows, first = [], None
    with tempfile.TemporaryDirectory() as folder:
        for kind, precision, runtime in exports(model, Path(folder), calibration):
            found = answers(runtime, chosen, items, f"{kind} {precision}")
            first = first or found["captions"]
            row = measure(found, scorer, chosen, score)
            same = 100 * np.mean([mine == theirs for mine, theirs in zip(found["captions"], first, strict=True)])
            size = sum(file["bytes"] for file in runtime.files) / 1e6
            rows.append([f"{kind} {precision}", size, *row, float(same)])
    command = f"python scripts/precisions.py {args.dataset} --photos {args.photos} --split {args.split}"
    note = (
        f"{len(chosen)} photos, from pixels; ms: median of one photo on two threads, for its caption and for everything"
    )
    note += ". int8 weights have a scale for each channel; LiteRT's int8 image encoder is all integers, its ranges "
    note += f"measured on {len(calibration)} training photos. same: captions that are those of the first row."
    table = Table(f"precisions_{args.name}", f"Smaller files, {args.name}", COLUMNS, rows, note, command, args.split)
    print(table.to_markdown())
    if args.out:
        kept = json.loads(args.out.read_text()) if args.out.exists() else []
        kept = [other for other in kept if other["name"] != table.name]
        args.out.write_text(json.dumps([*kept, json.loads(table.to_json())], indent=1) + "\n")


def exports(model, folder, calibration):
    """Each kind of file in each precision, written and opened."""
    for precision in PRECISIONS:
        export_onnx(model, folder / precision, precision=precision)
        yield "ONNX", precision, ExportedModel(folder / precision, threads=2)
    pixels = np.stack([read_pixels(photo.path, model.image_size) for photo in calibration])
    export_litert(model, folder / "litert", photos=pixels)
    for precision in PRECISIONS:
        yield "LiteRT", precision, ExportedModel(folder / "litert", threads=2, precision=precision)


def answers(runtime, photos, items, name):
    """What one runtime says of every photo: captions, region vectors, word vectors, hits of phrases, and times."""
    found = {"captions": [], "regions": [], "mask": [], "words": [], "hits": [], "times": []}
    phrases = {}
    for item in items:
        phrases.setdefault(item.filename, []).append(item)
    for photo in tqdm(photos, desc=name, unit="photo"):
        read = runtime.read([photo.path])
        start = time.perf_counter()
        found["captions"].append(runtime.predict("caption", read)["captions"][0][0])
        captioned = time.perf_counter()
        runtime.predict("describe", read)
        image = runtime.predict("embed_image", read)
        found["times"].append((captioned - start, time.perf_counter() - start))
        found["regions"].append(image["regions"][0])
        found["mask"].append(image["region_mask"][0])
        found["words"].append([runtime.embed_sentence(sentence) for sentence in photo.captions])
        for item in phrases.get(photo.path.name, ()):
            found["hits"].append(grounded(runtime, read, item, photo.captions))
    return found


def grounded(runtime, read, item, captions):
    """Whether the region of a phrase covers what people drew for it (as `measure_grounding` has it)."""
    place = find_phrase(item.phrase, captions)
    sentence = item.phrase if place is None else captions[place[0]]
    aligned = {key: value[0] for key, value in runtime.predict("align", read, [sentence]).items()}
    known = aligned["word_mask"]
    in_phrase = np.array([place is None or place[1] <= word <= place[2] for word in range(len(known))])
    mask = aligned["region_mask"]
    region = choose_region(aligned["similarity"][known], in_phrase[known], mask)
    return bool(hits(aligned["boxes"][mask][region][None], item.boxes)[0])


def measure(found, scorer, photos, score):
    """The row's numbers between the size and the share of equal captions."""
    said = scorer.score(found["captions"], meteor=False)
    words = [vectors for group in found["words"] for vectors in group]
    words = Words(np.concatenate(words), np.array([len(vectors) for vectors in words]))
    scores = score_pairs(np.stack(found["regions"]), words, np.stack(found["mask"]), score)
    own = np.repeat(np.arange(len(photos)), [len(photo.captions) for photo in photos])
    recalls = measure_scores(scores, own)
    times = [1000 * float(value) for value in np.median(found["times"], axis=0)]
    ground = 100 * float(np.mean(found["hits"])) if found["hits"] else None
    return [*times, said["BLEU-4"], said["CIDEr"], recalls["annotation_r1"], recalls["search_r1"], ground]


if __name__ == "__main__":
    main()
