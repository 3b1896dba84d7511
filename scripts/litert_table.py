"""What a smaller LiteRT file costs: size, latency, BLEU-4 and CIDEr of float32, float16 and int8 on a split's photos.

python scripts/litert_table.py ../shared/flickr8k/dataset.json --photos ../shared/flickr8k/images --split val
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from tqdm import tqdm

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.evaluation.caption_scores import CaptionScorer
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.model.photo_model import load_photo_model
from keras_imagesent.regions.pillow_photo import read_pixels
from keras_imagesent.serving.litert_export import PRECISIONS, export_litert

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("dataset", type=Path)
parser.add_argument("--photos", type=Path, required=True)
parser.add_argument("--split", default="val")
parser.add_argument("--captioner", help="run folder (default: the shipped one)")
parser.add_argument("--limit", type=int, help="only so many photos of the split")
parser.add_argument("--out", type=Path, help="where to write the table as JSON: RUNS/litert.json, for scripts/results")
args = parser.parse_args()

photos = read_dataset(args.dataset, args.photos).photos
chosen = [photo for photo in photos if photo.split == args.split][: args.limit]
calibration = [photo for photo in photos if photo.split == "train"][:100]
model = load_photo_model(captioner=args.captioner, detector=False, alignment=False, region_captioner=False)
scorer = CaptionScorer([photo.captions for photo in chosen])
rows = []

with tempfile.TemporaryDirectory() as folder:
    pixels = np.stack([read_pixels(photo.path, model.image_size) for photo in calibration])
    export_litert(model, folder, photos=pixels, names=["image_encoder", "captioner"])
    for precision in PRECISIONS:
        files = [Path(folder) / f"{piece}-{precision}.tflite" for piece in ("image_encoder", "captioner")]
        encoder, captioner = [
            Interpreter(str(file), num_threads=2).get_signature_runner(file.name.split("-")[0]) for file in files
        ]
        dtype = encoder.get_input_details()["pixels"]["dtype"]
        captions, times = [], []
        for photo in tqdm(chosen, desc=precision, unit="photo"):
            square = read_pixels(photo.path, model.image_size)[None].astype(dtype)
            start = time.perf_counter()
            features = encoder(pixels=square)["image_features"]
            token_ids = captioner(image_features=features)["token_ids"]
            times.append(time.perf_counter() - start)
            captions.append(model.captioner.vocabulary.decode(token_ids[0, 0]))
        scores = scorer.score(captions, meteor=False)
        size = sum(file.stat().st_size for file in files) / 1e6
        same = np.mean(
            [mine == theirs for mine, theirs in zip(captions, rows[0][-1] if rows else captions, strict=True)]
        )
        rows.append([precision, size, 1000 * np.median(times), scores["BLEU-4"], scores["CIDEr"], 100 * same, captions])

whole = rows[0]
table = Table(
    "litert",
    "LiteRT: what a smaller file costs",
    ["precision", "MB", "ms a photo", "BLEU-4", "lost", "CIDEr", "lost", "same caption, %"],
    [
        [name, mb, ms, bleu, whole[3] - bleu, cider, whole[4] - cider, same]
        for name, mb, ms, bleu, cider, same, _ in rows
    ],
    f"{len(chosen)} photos, from pixels, median latency on 2 cores. int8: an all-integer encoder, "
    "its ranges measured on 100 training photos.",
    f"python scripts/litert_table.py {args.dataset} --photos {args.photos} --split {args.split}",
    args.split,
)
print(table.to_markdown())
if args.out:
    args.out.write_text(f"[{table.to_json()}]\n")
