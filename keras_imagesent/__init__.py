"""Photos and sentences: align words with regions, caption photos and regions, serve both.

```python
import keras_imagesent as ki

model = ki.load()                     # the shipped models; or ki.load(captioner="runs/captioner")
model.caption("dog.jpg")              # [Caption(text, log_prob), ...], the best first
model.describe("dog.jpg")             # [Region(box, score, label, caption), ...]
model.align("dog.jpg", "a dog runs")  # [Phrase(text, box, score, region), ...]

ki.prepare("dataset.json", "photos", "prepared", tune=500)
ki.train_alignment("prepared", "runs/alignment")
ki.train_captioner("prepared", "runs/captioner")
ki.evaluate("prepared", "dev", captioners={"mine": "runs/captioner"})
ki.export(ki.load(captioner="runs/captioner"), "exported/imagesent")
ki.Collection("index").search("red bus", top=5)
```

Every name is imported when it is first used, so that `import keras_imagesent` takes no time. It is enough for
`keras.saving.load_model` on every `.keras` file that this package writes.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from keras_imagesent.keras_names import register_when_keras_is_there

if TYPE_CHECKING:
    from keras_imagesent.alignment.alignment_model import build_alignment
    from keras_imagesent.captioning.captioner import build_captioner
    from keras_imagesent.data.prepared import Prepared
    from keras_imagesent.errors import InputError
    from keras_imagesent.evaluation.evaluate import evaluate
    from keras_imagesent.model.align_split import align_split
    from keras_imagesent.model.image_sent import ImageSent, load
    from keras_imagesent.model.run import Run
    from keras_imagesent.records import Caption, Phrase, Region
    from keras_imagesent.regions.prepare_dataset import prepare_dataset as prepare
    from keras_imagesent.search.collection import Collection
    from keras_imagesent.serving.export import export
    from keras_imagesent.training.train_alignment import train_alignment
    from keras_imagesent.training.train_captioner import train_captioner

__version__ = "0.1.0"

# Public name -> the module that has it, and its name there.
_NAMES = {
    "Caption": ("records", "Caption"),
    "Collection": ("search.collection", "Collection"),
    "ImageSent": ("model.image_sent", "ImageSent"),
    "InputError": ("errors", "InputError"),
    "Phrase": ("records", "Phrase"),
    "Prepared": ("data.prepared", "Prepared"),
    "Region": ("records", "Region"),
    "Run": ("model.run", "Run"),
    "align_split": ("model.align_split", "align_split"),
    "build_alignment": ("alignment.alignment_model", "build_alignment"),
    "build_captioner": ("captioning.captioner", "build_captioner"),
    "evaluate": ("evaluation.evaluate", "evaluate"),
    "export": ("serving.export", "export"),
    "load": ("model.image_sent", "load"),
    "prepare": ("regions.prepare_dataset", "prepare_dataset"),
    "train_alignment": ("training.train_alignment", "train_alignment"),
    "train_captioner": ("training.train_captioner", "train_captioner"),
}
__all__ = [
    "Caption", "Collection", "ImageSent", "InputError", "Phrase", "Prepared", "Region", "Run", "align_split",
    "build_alignment", "build_captioner", "evaluate", "export", "load", "prepare", "train_alignment",
    "train_captioner",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _NAMES[name]
    found = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


# TensorFlow, if it is not loaded yet, keeps its memory from batch to batch: regions take a quarter less CPU time.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
register_when_keras_is_there()
