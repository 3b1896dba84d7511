"""Crops are Pillow's crops; every network of keras.applications carries its own preprocessing."""

import keras
import numpy as np
import pytest
from PIL import Image

from keras_imagesent.errors import InputError
from keras_imagesent.regions.applications import build_application, names
from keras_imagesent.regions.backbone import build_backbone
from keras_imagesent.regions.crop_regions import CropRegions
from keras_imagesent.regions.detectors.grid import GRID, build_grid
from keras_imagesent.regions.extractor import build_extractor

PHOTO = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)


@pytest.mark.parametrize("size", [8, 24, 90])
def test_crops_are_those_of_pillow(size):
    corners = [(0, 0, 64, 64), (16, 32, 48, 64), (5, 0, 6, 64), (60, 3, 64, 5)]
    boxes = np.array([corners], np.float32) / 64
    crops = np.array(CropRegions(size, name="crop")([PHOTO[None].astype("float32"), boxes]))
    for crop, box in zip(crops, corners, strict=True):
        expected = Image.fromarray(PHOTO).crop(box).resize((size, size), Image.Resampling.BILINEAR)
        np.testing.assert_allclose(crop, np.asarray(expected), atol=1.01)


def test_each_photo_is_cropped_from_itself_and_a_box_without_area_is_black():
    photos = np.stack([PHOTO, 255 - PHOTO]).astype("float32")
    boxes = np.array([[[0, 0, 0.5, 0.5], [0, 0, 0, 0]], [[0.5, 0.5, 1, 1], [0, 0, 1, 1]]], np.float32)
    crops = np.array(CropRegions(32, name="crop")([photos, boxes]))
    np.testing.assert_allclose(crops[0], photos[0, :32, :32], atol=1e-3)
    assert not crops[1].any()
    np.testing.assert_allclose(crops[2], photos[1, 32:, 32:], atol=1e-3)


def test_a_crop_extractor_gives_each_crop_its_own_vector():
    backbone = build_backbone(image_size=32)  # with its weights: random ones leave nothing of a picture this small
    extractor = build_extractor(backbone, build_grid(64), crop_from=64)
    found = extractor(PHOTO[None].astype("float32"))
    assert found["region_features"].shape == (1, 20, 1280)
    for region, box in ((0, (0, 0, 64, 64)), (11, (0, 0, 32, 32))):
        crop = Image.fromarray(PHOTO).crop(box).resize((32, 32), Image.Resampling.BILINEAR)
        alone = np.array(backbone(np.asarray(crop, np.float32)[None])).mean((1, 2))[0]
        np.testing.assert_allclose(found["region_features"][0, region], alone, atol=0.02 * alone.max())
    np.testing.assert_allclose(found["boxes"][0, 11], [0, 0, 0.5, 0.5])


def test_boxes_can_be_an_input():
    extractor = build_extractor(build_backbone("efficientnet-lite0", 64, weights=None))
    boxes, scores = np.zeros((1, 19, 4), np.float32), np.zeros((1, 19), np.float32)
    boxes[0, 0], scores[0, 0] = (0, 0, 1, 1), 0.5
    found = extractor({"pixels": PHOTO[None].astype("float32"), "boxes": boxes, "box_scores": scores})
    assert np.array(found["region_mask"])[0].tolist() == [True, True] + [False] * 18
    np.testing.assert_allclose(found["region_features"][0, 0], found["region_features"][0, 1])
    assert not np.array(found["region_features"])[0, 2:].any()


def test_the_papers_vector_has_4096_numbers():
    model = build_application("VGG16/fc2", 32, weights=None)
    assert model.output_shape == (None, 4096)


@pytest.mark.parametrize("name, module", [("mobilenet", "mobilenet"), ("MobileNetV3Small", "mobilenet_v3")])
def test_preprocessing_is_the_networks_own(name, module, tmp_path):
    keras.utils.set_random_seed(0)
    model = build_application(name, 32, weights=None)
    pixels = PHOTO[None, :32, :32].astype("float32")
    inner = model.layers[-1]
    prepared = getattr(keras.applications, module).preprocess_input(pixels.copy())
    np.testing.assert_allclose(model(pixels), inner(prepared), atol=1e-5)
    model.save(tmp_path / "backbone.keras")  # and travels with the network
    np.testing.assert_array_equal(keras.saving.load_model(tmp_path / "backbone.keras")(pixels), model(pixels))


def test_wrong_names_are_answered_with_the_right_ones():
    assert {"vgg16", "resnet50", "efficientnetb0"} <= set(names())
    with pytest.raises(InputError, match=r"no backbone is called 'vgg17'.*vgg16, vgg19"):
        build_application("vgg17")
    with pytest.raises(InputError, match=r"mobilenet has no layer 'fc9'\. The last ones are"):
        build_application("mobilenet/fc9", 224, weights=None)
    with pytest.raises(InputError, match="mobilenet cannot be built for 8 pixels"):
        build_application("mobilenet", 8, weights=None)


def test_the_grid_is_19_boxes_inside_the_photo():
    found = build_grid(32)(np.zeros((2, 32, 32, 3), "float32"))
    np.testing.assert_array_equal(found["boxes"][1], GRID)
    assert GRID.shape == (19, 4) and GRID.min() >= 0 and GRID.max() <= 1 and (GRID[:, 2:] > GRID[:, :2]).all()
    assert len({tuple(box) for box in GRID.tolist()}) == 19
    assert np.array(found["box_scores"]).tolist() == [[1.0] * 19] * 2
