"""Captions photos with LiteRT alone: pip install ai-edge-litert numpy pillow

python caption_with_litert.py saved_models/litert/caption_pixels-float16.tflite photo.jpg [more...]
python caption_with_litert.py exported/litert/image_encoder-int8.tflite photo.jpg  # its captioner lies beside it
"""

import json
import re
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image, ImageOps

model, *photos = sys.argv[1:]
files = [model] if "caption_pixels" in model else [model, model.replace("image_encoder", "caption_features")]
runners = [Interpreter(file).get_signature_runner() for file in files]
with open(re.sub(r"-\w+\.tflite$", ".words.json", files[-1]), encoding="utf-8") as file:
    words = json.load(file)
wanted = runners[0].get_input_details()["pixels"]


def read_pixels(path):
    photo = ImageOps.exif_transpose(Image.open(path))
    if photo.has_transparency_data:
        photo = Image.alpha_composite(Image.new("RGBA", photo.size, "white"), photo.convert("RGBA"))
    return np.asarray(photo.convert("RGB").resize(wanted["shape"][1:3], Image.BILINEAR), wanted["dtype"])


for path in photos:
    found = {"pixels": read_pixels(path)[None]}
    for runner in runners:
        found = runner(**found)
    for ids, log_prob in zip(found["token_ids"][0], found["log_probs"][0], strict=True):
        print(f"{path}\t{log_prob:.2f}\t{' '.join(words[i] for i in ids if i)}")
