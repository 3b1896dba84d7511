"""A model is never fed vectors that were made in another way than those it has learned from."""

from types import SimpleNamespace

import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.model.run import Run
from tests.serving.tiny import tiny_photo_model
from tests.tiny_prepared import write_tiny_prepared

POOLED = {"backbone": "efficientnet-lite2", "detector": "yolov4-tiny", "region_vectors": "pool"}


def folder(**changes):
    return SimpleNamespace(folder="prepared", vectors={**POOLED, **changes})


def test_another_backbone_detector_or_way_is_refused_by_name():
    run = Run.of(None, None, {"vectors": POOLED})
    run.check_vectors(folder())
    for name, other in {"backbone": "vgg16/fc2", "detector": "grid", "region_vectors": "crop"}.items():
        with pytest.raises(InputError, match=f"made with {name} {POOLED[name]}, prepared holds those of {other}"):
            run.check_vectors(folder(**{name: other}))


def test_what_is_not_known_is_not_refused(tmp_path):
    prepared = write_tiny_prepared(tmp_path / "prepared", {"train": 20})
    assert prepared.vectors == {"backbone": None, "detector": None, "region_vectors": None}
    Run.of(None, None, {"vectors": POOLED}).check_vectors(prepared)
    Run.of(None, None).check_vectors(folder())
    Run.of(None, None, {"vectors": POOLED}).check_vectors(folder(backbone="mine.keras"))


def test_a_model_of_crops_does_not_answer_on_pooled_vectors():
    model = tiny_photo_model()
    run = Run.of(model.captioner.model, model.captioner.vocabulary, {"vectors": {"region_vectors": "crop"}})
    with pytest.raises(InputError, match="has learned from cropped regions"):
        type(model)(model.backbone, captioner=run)
