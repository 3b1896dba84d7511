"""A tiny model and its ONNX files, exported once for all tests of the runtimes without TensorFlow."""

import pytest

from keras_imagesent.serving.litert_export import export_litert
from keras_imagesent.serving.onnx_export import export_onnx
from tests.serving.photos import draw, encode, rotated
from tests.serving.tiny import teach, tiny_photo_model

PHOTOS = [*(encode(draw(90, 60, seed)) for seed in range(6)), rotated(draw(70, 50, 9), 6), b"junk"]


@pytest.fixture(scope="session")
def model():
    model = tiny_photo_model()
    teach(model, PHOTOS[:-1], epochs=30)
    return model


@pytest.fixture(scope="session")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    export_onnx(model, folder)
    return folder


@pytest.fixture(scope="session")
def litert_folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("litert")
    export_litert(model, folder, precisions=["float16", "float32"])
    return folder
