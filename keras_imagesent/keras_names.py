"""Makes every layer of this package known to Keras by name, without importing Keras or TensorFlow.

`keras.saving.load_model` finds custom layers by the names under which they were registered, that is, after their
modules were imported. `import keras_imagesent` shall be enough, and quick. So each name is registered with a stand-in
that imports the layer's module when a saved model asks for it; the import then registers the layer itself.
"""

import importlib
import importlib.abc
import importlib.util
import sys

LAYERS = {
    "alignment.alignment_model": ("Alignment",),
    "alignment.edges": ("RelationDense", "SplitEdges"),
    "alignment.hide_regions": ("HideRegions",),
    "alignment.max_sim": ("MaxSim",),
    "alignment.ranking_loss": ("RankingLoss",),
    "alignment.region_encoder": ("BesideFrame", "Centre", "DetectorPrior"),
    "alignment.sentence_encoder": ("AdditiveRNN", "AppendOne", "BesideNext", "MaskWords"),
    "captioning.attention": ("RegionAttention",),
    "captioning.captioner": ("Captioner", "FeatureCentring"),
    "captioning.cells": ("GRUCell", "LSTMCell", "Recurrence", "ReluCell"),
    "regions.crop_regions": ("CropRegions",),
    "regions.detectors.grid": ("FixedBoxes",),
    "regions.efficientnet_lite": ("Smooth",),
    "regions.extractor": ("AddWholeFrame",),
    "regions.pool_regions": ("PoolRegions",),
    "regions.select_boxes": ("SelectBoxes",),
    "regions.yolo": ("DecodeBoxes", "SecondHalf"),
    "training.optimizers": ("ClippedAdam", "ClippedRMSprop", "ClippedSGD"),
}


class StandIn:
    """Stands for a layer whose module is not imported yet."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def from_config(self, config):
        """The real layer from its settings; Keras calls this when it loads a model."""
        return getattr(importlib.import_module(self.module), self.name).from_config(config)


def register():
    """Puts a stand-in for each of our layers that is not registered into Keras's own table."""
    from keras.saving import get_custom_objects

    for module, names in LAYERS.items():
        for name in names:
            get_custom_objects().setdefault(f"keras_imagesent>{name}", StandIn(f"keras_imagesent.{module}", name))


class AfterKeras(importlib.abc.MetaPathFinder):
    """Calls `register` once Keras has been imported, whoever imports it."""

    looking = False

    def find_spec(self, name, path=None, target=None):
        """Finds Keras as the other finders do, and has its loader call `register` at the end."""
        if name != "keras" or self.looking:
            return None
        self.looking = True  # the other finders are asked in this one's place
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None:  # TensorFlow only asks whether Keras is there, and imports it later
            load = spec.loader.exec_module

            def load_and_register(module):
                load(module)
                sys.meta_path.remove(self)
                register()

            spec.loader.exec_module = load_and_register
        return spec


def register_when_keras_is_there():
    """Registers at once if Keras is imported already, else as soon as it is."""
    if "keras" in sys.modules:
        register()
    elif not any(isinstance(finder, AfterKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterKeras())
