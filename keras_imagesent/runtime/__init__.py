"""Answers from exported models without TensorFlow: ONNX Runtime, NumPy and Pillow are enough."""

from keras_imagesent.runtime.exported_model import ExportedModel

__all__ = ["ExportedModel"]
