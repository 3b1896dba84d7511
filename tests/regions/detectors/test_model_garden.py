"""RetinaNet and Faster R-CNN of tf-models-official: built from a config, filled from a checkpoint, run."""

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.errors import InputError

pytest.importorskip("official.vision", reason="tf-models-official is not installed")
from keras_imagesent.regions.detectors.model_garden import build_model_garden_detector

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
    first = build_model_garden_detector(experiment, tmp_path / "params.yaml", image_size=SIZE)
    found = {name: np.array(value) for name, value in first(PIXELS).items()}
    assert found["boxes"].shape == (2, 19, 4) and found["box_scores"].shape == (2, 19)
    assert found["boxes"].min() >= 0 and found["boxes"].max() <= 1
    present = found["box_scores"] > 0
    assert present.any()
    assert (found["boxes"][present][:, 2:] > found["boxes"][present][:, :2]).all()
    assert (np.diff(found["box_scores"]) <= 0).all()

    tf.train.Checkpoint(model=first.module.model).save(str(tmp_path / "ckpt"))
    tf.random.set_seed(2)
    second = build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path, SIZE)
    np.testing.assert_allclose(second(PIXELS)["boxes"], found["boxes"], atol=1e-5)
    np.testing.assert_allclose(second(PIXELS)["box_scores"], found["box_scores"], atol=1e-5)

    with pytest.raises(InputError, match="nowhere: no checkpoint there"):
        build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path / "nowhere", SIZE)
    tf.train.Checkpoint(other=tf.Variable(1.0)).save(str(tmp_path / "other" / "ckpt"))
    with pytest.raises(InputError, match="not a checkpoint of this network"):
        build_model_garden_detector(experiment, tmp_path / "params.yaml", tmp_path / "other", SIZE)


def test_wrong_names_and_configs(tmp_path):
    with pytest.raises(InputError, match="no experiment 'retinanet_on_the_moon'"):
        build_model_garden_detector("retinanet_on_the_moon")
    with pytest.raises(InputError, match=r"params\.yaml: no such file"):
        build_model_garden_detector("retinanet_mobile_coco", tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("task: {model: {number_of_wheels: 4}}")
    with pytest.raises(InputError, match=r"params\.yaml: does not fit retinanet_mobile_coco"):
        build_model_garden_detector("retinanet_mobile_coco", tmp_path / "params.yaml")
