"""RetinaNet and Faster R-CNN of tf-models-official: built from a config, filled from a checkpoint, run."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_imagesent.cli.main import main
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.regions.detectors.detections import best_boxes
from keras_imagesent.regions.pillow_photo import read_pixels
from tests.regions.tiny_photos import write_photos

pytest.importorskip("official.vision", reason="tf-models-official is not installed")
from keras_imagesent.regions.detectors.model_garden import build_model_garden_detector, build_module, read_params

SIZE = 64
RETINANET = """
task:
  model:
    num_classes: 3
    input_size: [64, 64, 3]
    min_level: 3
    max_level: 5
    backbone: {mobilenet: {filter_size_scale: 0.25}}
    decoder: {fpn: {num_filters: 8}}
    head: {num_convs: 1, num_filters: 8}
    detection_generator: {pre_nms_score_threshold: 0.0, max_num_detections: 25}
"""
FASTER_RCNN = """
task:
  model:
    num_classes: 3
    input_size: [64, 64, 3]
    min_level: 3
    max_level: 5
    backbone: {type: mobilenet, mobilenet: {model_id: MobileNetV2, filter_size_scale: 0.25}}
    decoder: {type: fpn, fpn: {num_filters: 8}}
    rpn_head: {num_convs: 1, num_filters: 8}
    detection_head: {num_convs: 1, num_filters: 8, num_fcs: 1, fc_dims: 16}
    roi_generator: {test_pre_nms_top_k: 50, test_num_proposals: 30, test_pre_nms_score_threshold: 0.0}
    detection_generator: {pre_nms_score_threshold: 0.0, max_num_detections: 25}
"""
PIXELS = np.random.default_rng(0).integers(0, 256, (2, SIZE, SIZE, 3)).astype(np.float32)


@pytest.mark.parametrize(
    "experiment, config", [("retinanet_mobile_coco", RETINANET), ("fasterrcnn_resnetfpn_coco", FASTER_RCNN)]
)
def test_built_filled_and_run(experiment, config, tmp_path):
    (tmp_path / "params.yaml").write_text(config)
    tf.random.set_seed(1)
    module = build_module(read_params(experiment, tmp_path / "params.yaml"), SIZE)
    tf.train.Checkpoint(model=module.model).save(str(tmp_path / "ckpt"))
    tf.random.set_seed(2)
    detector = build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path, SIZE)
    found = {name: np.array(value) for name, value in detector(PIXELS).items()}
    assert found["boxes"].shape == (2, 19, 4) and found["box_scores"].shape == (2, 19)
    assert found["boxes"].min() >= 0 and found["boxes"].max() <= 1
    present = found["box_scores"] > 0
    assert present.any()
    assert (found["boxes"][present][:, 2:] > found["boxes"][present][:, :2]).all()
    assert (np.diff(found["box_scores"]) <= 0).all()

    boxes, scores = best_boxes(module.serve(tf.constant(PIXELS, tf.uint8)), SIZE)  # the weights that were saved
    np.testing.assert_allclose(boxes, found["boxes"], atol=1e-5)
    np.testing.assert_allclose(scores, found["box_scores"], atol=1e-5)

    photos = write_photos(tmp_path / "photos", 4)
    command = f"prepare {photos}/dataset.json --photos {photos}/images --out {tmp_path}/out --threshold 1"
    command += f" --backbone {tiny_backbone(tmp_path)} --image-size {SIZE} --detector {experiment}"
    assert main([*command.split(), "--detector-config", f"{tmp_path}/params.yaml"]) == 2  # no checkpoint
    assert not (tmp_path / "out").exists()
    options = f" --detector-config {tmp_path}/params.yaml --detector-checkpoint {tmp_path}"
    assert main((command + options).split()) == 0
    prepared = Prepared.open(tmp_path / "out").load("train")
    expected = detector(np.stack([read_pixels(photos / "images" / name, SIZE) for name in prepared.filenames]))
    assert prepared.region_mask.sum() > len(prepared.filenames)  # more than the whole frames
    np.testing.assert_allclose(prepared.box_scores[:, 1:], expected["box_scores"], atol=0.01)

    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: no checkpoint there"):
        build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path / "empty", SIZE)
    with pytest.raises(InputError, match="nowhere: no checkpoint there"):
        build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path / "nowhere", SIZE)
    tf.train.Checkpoint(other=tf.Variable(1.0)).save(str(tmp_path / "other" / "ckpt"))
    with pytest.raises(InputError, match="not a checkpoint of this network"):
        build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path / "other", SIZE)


def tiny_backbone(folder):
    pixels = keras.Input((SIZE, SIZE, 3), name="pixels")
    keras.Model(pixels, layers.Conv2D(5, 16, strides=16, name="conv")(pixels)).save(folder / "tiny.keras")
    return folder / "tiny.keras"


def test_wrong_names_and_configs(tmp_path):
    with pytest.raises(InputError, match=r"retinanet_mobile_coco needs its trained weights: add --detector-checkpoint"):
        build_model_garden_detector("retinanet_mobile_coco")
    (tmp_path / "broken.yaml").write_text("task: [")
    with pytest.raises(InputError, match=r"broken\.yaml: does not fit retinanet_mobile_coco"):
        read_params("retinanet_mobile_coco", tmp_path / "broken.yaml")
    (tmp_path / "odd.yaml").write_text("task: {model: {backbone: {type: engine}}}")
    with pytest.raises(InputError, match="odd.yaml: does not fit|cannot build this detector"):
        build_module(read_params("retinanet_mobile_coco", tmp_path / "odd.yaml"), SIZE)
    with pytest.raises(InputError, match="no experiment 'retinanet_on_the_moon'"):
        build_model_garden_detector("retinanet_on_the_moon")
    with pytest.raises(InputError, match=r"params\.yaml: no such file"):
        build_model_garden_detector("retinanet_mobile_coco", tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("task: {model: {number_of_wheels: 4}}")
    with pytest.raises(InputError, match=r"params\.yaml: does not fit retinanet_mobile_coco"):
        build_model_garden_detector("retinanet_mobile_coco", tmp_path / "params.yaml")
