"""Captions photos with LiteRT alone: pip install ai-edge-litert numpy pillow

python caption_with_litert.py exported/litert float32|float16|int8 photo.jpg [more...]
"""

import json
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image, ImageOps

folder, precision, *photos = sys.argv[1:]
words = json.loads((Path(folder) / "caption_features.words.json").read_text())
runners = [
    Interpreter(f"{folder}/{piece}-{precision}.tflite").get_signature_runner(piece)
    for piece in ("image_encoder", "caption_features")
]


def read_pixels(path, wanted):
    photo = ImageOps.exif_transpose(Image.open(path))
    if photo.has_transparency_data:
        photo = Image.alpha_composite(Image.new("RGBA", photo.size, "white"), photo.convert("RGBA"))
    size = wanted["shape"][1]
    return np.asarray(photo.convert("RGB").resize((size, size), Image.BILINEAR), wanted["dtype"])


for path in photos:
    pixels = read_pixels(path, runners[0].get_input_details()["pixels"])
    found = runners[1](image_features=runners[0](pixels=pixels[None])["image_features"])
    for ids, log_prob in zip(found["token_ids"][0], found["log_probs"][0], strict=True):
        print(f"{path}\t{log_prob:.2f}\t{' '.join(words[i] for i in ids if i)}")
