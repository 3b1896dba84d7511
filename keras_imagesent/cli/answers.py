"""Chooses the model that answers a verb: exported files without TensorFlow where they are enough, else TensorFlow."""

import importlib.util

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.runtime import ExportedModel
from keras_imagesent.shipped import shipped

HELP = "answer with what `imagesent export --format onnx` wrote there, without TensorFlow (the shipped files)"


def load_answers(signatures, exported, needs_tensorflow, captions=1, beta=None, **settings):
    """A model with `predict` and `describe_whole` (see `ExportedModel`) for these signatures.

    Args:
        signatures: what will be asked of it.
        exported: the folder that --exported names, or None: the shipped one, if it has all that is asked.
        needs_tensorflow: option -> its value; if one was given, exported files cannot do what it wants.
        captions: how many are wanted of each photo.
        beta: of the phrases, or None.
        settings: for `load_photo_model`, where TensorFlow is needed.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in needs_tensorflow.items() if value]
    if exported:
        model = ExportedModel(exported, beta=beta)
        if given or captions > model.about["captions"]:
            raise InputError(f"{(given or ['--captions'])[0]} is fixed in exported models: leave it or --exported out")
        return model
    model = None if given else shipped_answers(signatures, beta)
    if model and captions <= model.about["captions"]:
        return model
    return InTensorFlow(captions=captions, beta=beta, **settings)


def shipped_answers(signatures, beta=None):
    """The shipped exported model; None if it does not have all these signatures, or ONNX Runtime is not installed."""
    if not importlib.util.find_spec("onnxruntime"):
        return None
    try:
        model = ExportedModel(shipped("onnx"), beta=beta)
    except InputError:
        return None
    return model if all(map(model.answers, signatures)) else None


class InTensorFlow:
    """`load_photo_model` with the methods of `ExportedModel` that the verbs use."""

    def __init__(self, **settings):
        from keras_imagesent.model.photo_model import load_photo_model

        self.model = load_photo_model(**settings)

    @property
    def vocabulary(self):
        return self.model.alignment.vocabulary

    @property
    def max_words(self):
        return self.model.max_words

    @property
    def confidence(self):
        return self.model.captioner.settings.get("confidence")

    def describe_whole(self, photos):
        import tensorflow as tf

        answers = self.model.describe_whole(tf.constant(photos))
        return {part: _numpy(answer) for part, answer in answers.items()}

    def describe_boxes(self, photos, boxes):
        """The captions of the same boxes (N,4) in each photo, as arrays (B,N)."""
        import tensorflow as tf

        return _numpy(self.model.describe_boxes(tf.constant(photos), tf.constant([boxes] * len(photos))))

    def predict(self, signature, photos=(), sentences=()):
        import tensorflow as tf

        given = [tf.constant(values) for values in (photos, sentences) if len(values)]
        return _numpy(getattr(self.model, signature)(*given))


def _numpy(answer):
    """Tensors as arrays; bytes become text."""
    arrays = {name: value.numpy() for name, value in answer.items()}
    text = np.vectorize(bytes.decode, otypes=[object])
    return {name: text(values) if values.dtype == object else values for name, values in arrays.items()}
