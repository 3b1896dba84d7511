"""Captions photos with ONNX Runtime alone: pip install onnxruntime numpy pillow

python caption_with_onnx.py exported/onnx photo.jpg [more...]
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

folder, *photos = map(Path, sys.argv[1:])
about = json.loads((folder / "model.json").read_text("utf-8"))
files = {file["piece"]: file for file in about["files"] if "piece" in file}
pieces = [files[piece] for piece in about["answers"]["caption"]]
sessions = [onnxruntime.InferenceSession(folder / piece["file"]) for piece in pieces]
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
    for piece, session in zip(pieces, sessions, strict=True):
        outputs = session.run(list(piece["outputs"]), {name: found[name] for name in piece["inputs"]})
        found |= dict(zip(piece["outputs"], outputs, strict=True))
    for ids, log_prob in zip(found["token_ids"][0], found["log_probs"][0], strict=True):
        print(f"{path}\t{log_prob:.2f}\t{' '.join(words[i] for i in ids if i)}")
