"""A small data set of drawn photos, and a small model in the place of the networks."""

import json

import keras
import numpy as np
from keras import layers, ops
from PIL import Image

SIZE, REGIONS, FEATURES, CLASSES = 32, 4, 6, 3


def write_photos(folder, number, splits=("train", "train", "val")):
    """Photos of random colours with two or three captions each, and their dataset.json."""
    random = np.random.default_rng(0)
    (folder / "images").mkdir(parents=True)
    images = []
    for index in range(number):
        pixels = random.integers(0, 256, (3 + index % 5, 4, 3)).astype(np.uint8)
        Image.fromarray(pixels).resize((40, 30), Image.Resampling.NEAREST).save(folder / "images" / f"{index:03d}.png")
        sentences = [f"a dog number {index} runs", "two dogs play", "the dog"][: 2 + index % 2]
        images.append(
            {
                "filename": f"{index:03d}.png",
                "imgid": index,
                "split": splits[index % len(splits)],
                "sentences": [{"raw": text, "tokens": text.split(), "imgid": index} for text in sentences],
            }
        )
    (folder / "dataset.json").write_text(json.dumps({"images": images, "dataset": "tiny"}))
    return folder


def tiny_extractor(seed=0):
    """Pixels -> the outputs of a real extractor; the last region is absent in dark photos."""
    keras.utils.set_random_seed(seed)
    pixels = keras.Input((SIZE, SIZE, 3), name="pixels")
    x = layers.AveragePooling2D(8, name="pool")(layers.Rescaling(1 / 255, name="scale")(pixels))
    features = layers.Dense(REGIONS * FEATURES, name="dense")(layers.Flatten(name="flatten")(x))
    features = layers.Reshape((REGIONS, FEATURES), name="regions")(features)
    bright = ops.mean(pixels, axis=(1, 2, 3))[:, None] > 120.0
    scores = ops.concatenate([ops.ones_like(bright[:, :1], "float32")] * 3 + [ops.cast(bright, "float32")], axis=1)
    boxes = ops.stack([scores * 0.0, scores * 0.0, scores, scores], axis=-1)
    outputs = {"boxes": boxes, "box_scores": scores, "region_mask": scores > 0, "region_features": features}
    outputs["class_scores"] = ops.sigmoid(features[..., :CLASSES])
    return keras.Model(pixels, outputs, name="tiny_extractor")
