"""Captions photos with ONNX Runtime alone: pip install onnxruntime numpy pillow

python caption_with_onnx.py exported/onnx/caption_pixels.onnx photo.jpg [more...]
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model, *photos = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
metadata = session.get_modelmeta().custom_metadata_map
words = json.loads(metadata["words"])
size = json.loads(metadata["preprocessing"])["image_size"]


def read_pixels(path):
    photo = ImageOps.exif_transpose(Image.open(path))
    if photo.has_transparency_data:
        photo = Image.alpha_composite(Image.new("RGBA", photo.size, "white"), photo.convert("RGBA"))
    return np.asarray(photo.convert("RGB").resize((size, size), Image.BILINEAR), np.float32)


for path in photos:
    log_probs, token_ids = session.run(["log_probs", "token_ids"], {"pixels": read_pixels(path)[None]})
    for ids, log_prob in zip(token_ids[0], log_probs[0], strict=True):
        print(f"{path}\t{log_prob:.2f}\t{' '.join(words[i] for i in ids if i)}")
