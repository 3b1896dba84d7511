"""Detection SavedModels in the forms that the object-detection API and Model Garden export."""

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.errors import InputError
from keras_imagesent.regions.detectors.saved_model import build_saved_model_detector
from keras_imagesent.regions.networks import choose_networks

SIZE = 32
PIXELS = np.zeros((3, SIZE, SIZE, 3), np.float32)
PIXELS[:, 0, 0, 0] = [10, 20, 30]  # the stand-in detectors tell photos apart by their first pixel


def save(folder, spec, answer, name="input_tensor"):
    """A SavedModel whose signature is `answer`."""
    module = tf.Module()
    module.answer = tf.function(answer, input_signature=[tf.TensorSpec(*spec, name=name)])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.answer.get_concrete_function()})
    return folder


def detection_api(images):
    """As the object-detection API's exporter: one image at a time, boxes in 0..1, floats for counts."""
    share = tf.cast(images[:, 0, 0, 0], tf.float32)[:, None] / 100
    y0 = tf.concat([share, share * 0, share], axis=1)
    boxes = tf.stack([y0, y0 * 0 + 0.5, y0 * 0 + 1, y0 * 0 + 0.75], axis=-1)
    return {
        "detection_boxes": boxes,
        "detection_scores": tf.constant([[0.9, 0.8, 0.7]]),
        "detection_classes": tf.ones((1, 3)),
        "num_detections": tf.constant([2.0]),
    }


def test_object_detection_api(tmp_path):
    detector = build_saved_model_detector(save(tmp_path, ((1, None, None, 3), tf.uint8), detection_api), SIZE)
    found = {name: np.array(value) for name, value in detector(PIXELS).items()}
    assert found["boxes"].shape == (3, 19, 4) and found["box_scores"].shape == (3, 19)
    np.testing.assert_allclose(found["boxes"][:, 0], [[0.5, y, 0.75, 1] for y in (0.1, 0.2, 0.3)], atol=1e-6)
    np.testing.assert_allclose(found["boxes"][2, 1], [0.5, 0, 0.75, 1])
    np.testing.assert_allclose(found["box_scores"][:, :2], [[0.9, 0.8]] * 3)
    assert not found["box_scores"][:, 2:].any() and not found["boxes"][:, 2:].any()  # beyond num_detections


def test_model_garden_pixels_are_scaled_back(tmp_path):
    def model_garden(inputs):
        """Batched, boxes in pixels of an input of 64 x 64, with image_info; more boxes than we take."""
        batch = tf.shape(inputs)[0]
        y0 = tf.tile(tf.range(30, dtype=tf.float32)[None], (batch, 1))
        boxes = tf.stack([y0, y0 * 0 + 16, y0 + 32, y0 * 0 + 48], axis=-1)
        info = tf.constant([[32.0, 32], [64, 64], [2, 2], [0, 0]])
        return {
            "detection_boxes": boxes,
            "detection_scores": y0 / 30,
            "num_detections": tf.fill((batch,), 30),
            "image_info": tf.tile(info[None], (batch, 1, 1)),
        }

    detector = build_saved_model_detector(
        save(tmp_path, ((None, None, None, 3), tf.uint8), model_garden, "inputs"), SIZE
    )
    found = detector(PIXELS)
    expected = [[0.25, y / 64, 0.75, min((y + 32) / 64, 1)] for y in range(29, 10, -1)]
    np.testing.assert_allclose(found["boxes"][1], expected, atol=1e-6)
    np.testing.assert_allclose(found["box_scores"][1], np.arange(29, 10, -1) / 30, atol=1e-6)


def test_bytes_and_one_size_only(tmp_path):
    def from_bytes(image_bytes):
        first = tf.map_fn(
            lambda content: tf.cast(tf.io.decode_png(content)[0, 0, 0], tf.float32),
            image_bytes,
            fn_output_signature=tf.float32,
        )
        box = tf.stack([first / 100, first * 0, first * 0 + 1, first * 0 + 1], axis=-1)
        return {"detection_boxes": box[:, None], "detection_scores": tf.ones_like(first)[:, None]}

    def fixed_size(images):
        assert images.shape[1:] == (16, 16, 3) and images.dtype == tf.float32
        return {
            "detection_boxes": images[:, :1, 0, :1] * [0.0, 0, 1, 1] + [0.0, 0, 0.5, 0.5],
            "detection_scores": images[:, 0, :1, 0],
        }

    for name, spec, answer in (
        ("bytes", ((None,), tf.string), from_bytes),
        ("size", ((None, 16, 16, 3), tf.float32), fixed_size),
    ):
        detector = build_saved_model_detector(save(tmp_path / name, spec, answer), SIZE)
        found = detector(PIXELS)
        assert found["boxes"].shape == (3, 19, 4)
    np.testing.assert_array_equal(np.array(found["box_scores"])[:, 0], [2, 4, 6])  # 10, 20, 30 beside black
    detector = build_saved_model_detector(tmp_path / "bytes", SIZE)
    np.testing.assert_allclose(detector(PIXELS)["boxes"][:, 0, 1], [0.1, 0.2, 0.3], atol=1e-6)


def test_what_is_no_detector_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a SavedModel"):
        build_saved_model_detector(tmp_path)
    classifier = save(
        tmp_path / "classifier", ((None, None, None, 3), tf.uint8), lambda x: {"probabilities": tf.ones((1, 5))}
    )
    with pytest.raises(InputError, match="no detector, it gives probabilities"):
        build_saved_model_detector(classifier)


def test_a_saved_model_is_not_run_until_it_is_named_as_trusted(tmp_path):
    folder = save(tmp_path, ((1, None, None, 3), tf.uint8), detection_api)
    with pytest.raises(InputError, match="is a SavedModel, a program that runs with your rights.*--trust-detector"):
        choose_networks(detector=str(folder))
    with pytest.raises(InputError, match="nothing.keras is no .keras file"):  # the next thing that is wrong
        choose_networks(tmp_path / "nothing.keras", detector=str(folder), trusted=True)
