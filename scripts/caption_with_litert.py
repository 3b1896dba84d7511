"""Captions photos with LiteRT alone: pip install ai-edge-litert numpy pillow

python caption_with_litert.py saved_models/litert float16 photo.jpg [more...]
python caption_with_litert.py exported/litert int8 photo.jpg
"""

import json
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image, ImageOps

folder, precision, *photos = Path(sys.argv[1]), *sys.argv[2:]
about = json.loads((folder / "model.json").read_text("utf-8"))
files = {file["piece"]: file for file in about["files"] if file.get("precision") == precision}
pieces = [files[piece] for piece in about["answers"]["caption"]]
runners = [Interpreter(str(folder / piece["file"])).get_signature_runner() for piece in pieces]
words = ["", *json.loads((folder / pieces[-1]["vocabulary"]).read_text("utf-8"))["words"]]
size = about["preprocessing"]["image_size"]


def read_pixels(path):
    photo = ImageOps.exif_transpose(Image.open(path))
    if photo.has_transparency_data:
        photo = Image.alpha_composite(Image.new("RGBA", photo.size, "white"), photo.convert("RGBA"))
    colors = [color.convert("F").resize((size, size), Image.BILINEAR) for color in photo.convert("RGB").split()]
    return np.round(np.clip(np.stack(colors, axis=-1), 0, 255))


for path in photos:
    found = {"pixels": read_pixels(path)[None]}
    for piece, runner in zip(pieces, runners, strict=True):
        found |= runner(**{name: found[name].astype(takes["dtype"]) for name, takes in piece["inputs"].items()})
    for ids, log_prob in zip(found["token_ids"][0], found["log_probs"][0], strict=True):
        print(f"{path}\t{log_prob:.2f}\t{' '.join(words[i] for i in ids if i)}")
