"""A whole pipeline in small, on disk as the commands leave it: scenes, a prepared folder, models of random weights."""

import json

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from keras_imagesent.data.scenes import make_scenes
from keras_imagesent.regions.extractor import build_extractor
from keras_imagesent.regions.prepare import prepare
from tests.serving.tiny import tiny_photo_model


def write_pipeline(folder, scenes=24):
    """Writes `scenes/`, `prepared/`, `backbone.keras`, `detector.keras` and the runs `alignment/`, `captioner/`,
    `region_captioner/`; returns the model of all of them."""
    make_scenes(folder / "scenes", scenes)
    model = tiny_photo_model()
    model.backbone.save(folder / "backbone.keras")
    detector = model.extractor.get_layer("tiny_detector")
    detector.save(folder / "detector.keras")
    for name in ("alignment", "captioner", "region_captioner"):
        part = getattr(model, name)
        (folder / name).mkdir()
        part.model.save(folder / name / "model.keras")
        part.vocabulary.save(folder / name / "vocabulary.json")
        settings = {"frame": True} if name == "region_captioner" else {}
        (folder / name / "settings.json").write_text(json.dumps(settings))
        (folder / name / "log.csv").write_text("epoch,loss,val_loss\n1,3.5,3.6\n2,2.5,2.9\n")
    dataset = check_dataset(read_dataset(folder / "scenes/dataset.json", folder / "scenes/images"))
    extractor = build_extractor(model.backbone, detector)
    prepare(dataset, folder / "prepared", extractor, {"backbone": "tiny"}, threshold=1, progress=False)
    return model
