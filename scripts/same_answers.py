"""Do the ONNX and the LiteRT files give the SavedModel's answers? Counts them on photos of a folder.

python scripts/same_answers.py ../shared/flickr8k/images --photos 200
python scripts/same_answers.py photos --saved saved_models/imagesent --exported saved_models/onnx

Exits with status 1 if fewer captions, regions or words agree than LEAST says. A caption may differ where its log
probability is within 0.01 of the SavedModel's; a box may lie a pixel of 500 away.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 -- the SavedModel's tokenizer
from tqdm import tqdm

from keras_imagesent.model.photo_model import load_photo_model
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.serving.litert_export import export_litert
from keras_imagesent.serving.onnx_export import export_onnx
from keras_imagesent.shipped import shipped

NEAR, PIXEL = 0.01, 1 / 500
LEAST = {"captions": 0.98, "boxes": 0.98, "region captions": 0.98, "words' regions": 0.98}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--saved", type=Path, default=shipped("imagesent"), help="the SavedModel (the shipped one)")
    parser.add_argument(
        "--exported", type=Path, action="append", help="ONNX or LiteRT files (the shipped models', anew)"
    )
    args = parser.parse_args()
    version = max((path for path in args.saved.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    signatures = tf.saved_model.load(str(version)).signatures
    paths = sorted(path for path in args.folder.iterdir() if path.suffix.lower() in (".jpg", ".png"))
    photos = [path.read_bytes() for path in random.Random(0).sample(paths, min(args.photos, len(paths)))]
    with tempfile.TemporaryDirectory() as folder:
        given = args.exported or export_shipped(Path(folder))
        runtimes = {path.name: ExportedModel(path) for path in given}
        found = {name: {what: [] for what in LEAST} for name in runtimes}
        for photo in tqdm(photos, unit="photo"):
            wanted = answers_of_saved(signatures, photo)
            for name, runtime in runtimes.items():
                for what, same in compare(runtime, photo, wanted).items():
                    found[name][what] += list(same)
    failed = False
    for name, rows in found.items():
        for what, same in rows.items():
            failed |= np.mean(same) < LEAST[what]
            print(f"{name}: {sum(same)} of {len(same)} {what} are the SavedModel's")
    return int(failed)


def export_shipped(folder):
    """The shipped models as ONNX and as LiteRT files."""
    model = load_photo_model()
    export_onnx(model, folder / "onnx")
    export_litert(model, folder / "litert", precisions=["float32"])
    return [folder / "onnx", folder / "litert"]


def answers_of_saved(signatures, photo):
    """The SavedModel's caption of a photo, its regions, and that caption's words on them."""
    image = tf.constant([photo])
    said = plain(signatures["serving_default"](image_bytes=image))
    described = plain(signatures["describe"](image_bytes=image))
    sentence = said["captions"][0].decode()
    aligned = plain(signatures["align"](image_bytes=image, sentences=tf.constant([sentence])))
    return said, described, sentence, aligned


def plain(answer):
    return {name: value.numpy()[0] for name, value in answer.items()}


def compare(runtime, photo, wanted):
    """{what: whether each of them is the SavedModel's}."""
    said, described, sentence, aligned = wanted
    read = runtime.read([photo])
    mine = {name: value[0] for name, value in runtime.predict("caption", read).items()}
    regions = {name: value[0] for name, value in runtime.predict("describe", read).items()}
    words = {name: value[0] for name, value in runtime.predict("align", read, [sentence]).items()}
    near = abs(mine["log_probs"][0] - said["log_probs"][0]) < NEAR
    number = int(described["number_of_regions"])
    apart = np.abs(regions["boxes"][:number] - described["boxes"][:number]).max(axis=1)
    texts = zip(regions["captions"][:number], described["captions"][:number], strict=True)
    known = aligned["word_mask"]
    return {
        "captions": [mine["captions"][0] == sentence or bool(near)],
        "boxes": (apart < PIXEL).tolist(),
        "region captions": [text == other.decode() for text, other in texts],
        "words' regions": (words["phrase_regions"] == aligned["phrase_regions"])[known].tolist(),
    }


if __name__ == "__main__":
    sys.exit(main())
