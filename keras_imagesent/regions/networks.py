"""From what a person writes on the command line to the networks that `prepare` runs."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import keras

from keras_imagesent.data.keras_file import load_keras_file
from keras_imagesent.errors import InputError
from keras_imagesent.regions.backbone import build_backbone
from keras_imagesent.regions.detector import build_detector
from keras_imagesent.regions.detectors.boxes_file import NO_BOXES, read_boxes
from keras_imagesent.regions.detectors.grid import build_grid
from keras_imagesent.regions.extractor import build_extractor, is_detector
from keras_imagesent.regions.squash import IMAGE_SIZE

CROP_SIZE = 224
_MODEL_GARDEN = re.compile(r"(fasterrcnn|maskrcnn|cascadercnn|retinanet)(_\w+)?")


@dataclass
class Networks:
    """The extractor, where its boxes come from if not from itself, and the settings that decide its vectors."""

    extractor: keras.Model
    boxes_of: object  # filename -> boxes, scores; None when the extractor has its detector inside
    photos_at_once: int
    made_with: dict


def choose_networks(
    backbone="efficientnet-lite2",
    detector="yolov4-tiny",
    region_vectors="pool",
    image_size=IMAGE_SIZE,
    detector_config=None,
    detector_checkpoint=None,
    trusted=False,
):
    """The networks of these names.

    Args:
        backbone: `efficientnet-lite0` to `-lite2`, a name of keras.applications (`resnet50`, `vgg16/fc2`), or a
            `.keras` file.
        detector: `yolov4-tiny`, `grid`, the folder of a detection SavedModel, a `.json` or `.csv` file of boxes, a
            `.keras` file, or a Model Garden experiment such as `fasterrcnn_resnetfpn_coco`.
        trusted: a SavedModel is a program: as a detector it is loaded only if this is True.
        region_vectors: `pool` (one look at the photo) or `crop` (one look at each region, 224 x 224 pixels).

    Example:
        choose_networks("vgg16/fc2", region_vectors="crop").extractor
    """
    if _is_saved_model(detector) and not trusted:
        raise InputError(
            f"{detector} is a SavedModel, a program that runs with your rights: look where it comes from, and if you "
            "trust it say so with --trust-detector"
        )
    crop = region_vectors == "crop"
    network = _load(backbone) or build_backbone(backbone, CROP_SIZE if crop else image_size)
    if not isinstance(network.output_shape, tuple):
        raise InputError(f"{backbone} is no backbone: --backbone names a network that makes vectors of pixels.")
    if not crop and len(network.output_shape) != 4:
        raise InputError(f"{backbone} gives one vector for a picture, not a map to pool: add --region-vectors crop.")
    if not crop and network.input_shape[1] != image_size:
        raise InputError(
            f"{backbone} takes {network.input_shape[1]} pixels: add --image-size {network.input_shape[1]}."
        )
    finder, boxes_of, made_by = _find_boxes(detector, image_size, detector_config, detector_checkpoint)
    return Networks(
        extractor=build_extractor(network, finder, crop_from=image_size if crop else None),
        boxes_of=boxes_of,
        photos_at_once=1 if crop else 16,
        # its key in prepared.json stays: a folder of an older version is gone on with
        made_with={"backbone": str(backbone), "detector": made_by, "regions": region_vectors},
    )


def _is_saved_model(detector):
    return any(Path(detector).glob("saved_model.pb*"))


def _find_boxes(name, image_size, config, checkpoint):
    """(detector model or None, function from filename to boxes or None, what to call it in the settings)."""
    path = Path(name)
    if _MODEL_GARDEN.fullmatch(name):
        from keras_imagesent.regions.detectors.model_garden import build_model_garden_detector

        detector = build_model_garden_detector(name, config, checkpoint, image_size)
        files = ([Path(config)] if config else []) + _checkpoint_files(checkpoint)
        return detector, None, f"{name} {digest(files)}"
    if config or checkpoint:
        raise InputError(
            f"--detector-config and --detector-checkpoint belong to Model Garden's detectors, not to {name}."
        )
    if name == "yolov4-tiny":
        return build_detector(image_size), None, name
    if name == "grid":
        return build_grid(image_size), None, name
    if path.is_dir():
        from keras_imagesent.regions.detectors.saved_model import build_saved_model_detector

        detector = build_saved_model_detector(path, image_size)
        return detector, None, f"SavedModel {digest(sorted(path.rglob('*')))}"
    if path.suffix in (".json", ".csv"):
        boxes = read_boxes(path)
        return None, lambda filename: boxes.get(filename, NO_BOXES), f"boxes {digest([path])}"
    detector = _load(name)
    if detector is None:
        raise InputError(
            f"no detector is called {name!r}. There are yolov4-tiny, grid, fasterrcnn_... and retinanet_... of Model "
            "Garden, or give a SavedModel's folder, a .keras file, or a .json or .csv file of boxes."
        )
    if not is_detector(detector):
        raise InputError(f"{name} is no detector: it takes no pixels or gives no boxes.")
    if detector.input_shape[1] != image_size:
        raise InputError(f"{name} takes {detector.input_shape[1]} pixels: add --image-size {detector.input_shape[1]}.")
    return detector, None, path.name


def _load(name):
    """The model of a `.keras` file; None unless the name ends in .keras."""
    if not str(name).endswith(".keras"):
        return None
    return load_keras_file(name)


def _checkpoint_files(checkpoint):
    if checkpoint is None:
        return []
    path = Path(checkpoint)
    return sorted(path.glob("*") if path.is_dir() else path.parent.glob(f"{path.name}.*"))


def digest(paths):
    """Names the content of some files."""
    content = hashlib.sha256()
    for path in paths:
        if path.is_file():
            content.update(path.read_bytes())
    return content.hexdigest()[:16]
