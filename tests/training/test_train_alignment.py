"""Every setting of a preset reaches the model that is trained."""

import keras
import pytest

from keras_imagesent.presets import alignment_settings
from keras_imagesent.training.train_alignment import Trainer
from tests.tiny_prepared import THINGS, write_tiny_prepared

OTHER = {  # nothing as in a preset
    "score": "max_sim",
    "whole_frame": False,
    "negatives": "hardest",
    "margin": 0.25,
    "similarity": "cosine",
    "temperature": 0.2,
    "dropout": 0.4,
    "hide_frame": 0.15,
    "hide_regions": 0.35,
    "prior": 0.45,
    "frame_dim": 6,
    "root": True,
    "classes": True,
    "train_words": False,
}


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    prepared = write_tiny_prepared(tmp_path_factory.mktemp("data") / "prepared", named=True)
    return Trainer(prepared, "val", {"seed": 0, "word_vectors": None, "start_from": None})


@pytest.mark.parametrize(
    ("preset", "changes"),
    [("paper", {}), ("best", {"frame_dim": 7}), ("paper", OTHER), ("best", {"whole_frame": True, "frame_dim": 0})],
    ids=["paper", "best", "other", "whole frame"],
)
def test_every_setting_reaches_the_model(trainer, preset, changes):
    settings = alignment_settings(preset, dim=12, units=10, word_dim=8, **changes)
    model = trainer.build(settings, steps=4)
    regions, words = model.get_layer("region_encoder"), model.get_layer("sentence_encoder")
    layers = {layer.name: layer for part in (model, regions, words) for layer in part.layers}
    hide = layers.get("hide_regions")
    dropout = {layer.rate for layer in layers.values() if isinstance(layer, keras.layers.Dropout)}
    cosine = settings["similarity"] == "cosine"
    built = {
        "dim": layers["region_projection"].units,
        "units": layers["word_projection"].units,
        "word_dim": layers["words"].output_dim,
        "score": layers["scores"].score,
        "whole_frame": layers["scores"].whole_frame,
        "negatives": layers["losses"].negatives,
        "margin": layers["losses"].margin,
        "similarity": "cosine" if {"region_norm", "word_norm"} <= set(layers) else "dot",
        "temperature": 1 / layers["temperature"].scale if cosine else settings["temperature"],
        "dropout": dropout.pop() if len(dropout) == 1 else dropout,
        "hide_frame": hide.frame if hide else 0.0,
        "hide_regions": hide.detections if hide else 0.0,
        "prior": layers["detector_prior"].weight if "detector_prior" in layers else 0.0,
        "frame_dim": layers["frame_words"].units if "frame_words" in layers else 0,
        "root": layers["centre"].root,
        "classes": model.input["class_scores"].shape[-1] == len(THINGS) if "class_scores" in model.input else False,
        "train_words": layers["words"].trainable,
    }
    assert built == pytest.approx({name: settings[name] for name in built})
    assert type(model.optimizer).__name__.lower().endswith(settings["optimizer"])
    assert float(model.optimizer.weight_decay) == settings["weight_decay"] and model.optimizer.clip == 5.0
    rate = model.optimizer._learning_rate
    assert isinstance(rate, keras.optimizers.schedules.CosineDecay) == (settings["schedule"] == "cosine")
