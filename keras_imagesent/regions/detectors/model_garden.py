"""Faster R-CNN and RetinaNet of the TensorFlow Model Garden (extra `models`), from their config and checkpoint."""

from pathlib import Path

import tensorflow as tf

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require
from keras_imagesent.regions.detectors.detections import build_detections
from keras_imagesent.regions.squash import IMAGE_SIZE


def build_model_garden_detector(experiment, config=None, checkpoint=None, image_size=IMAGE_SIZE):
    """Pixels -> `boxes (B,19,4)`, `box_scores (B,19)` by a detector that tf-models-official built and trained.

    Model Garden stands on the older `tf_keras`; the network runs frozen inside our model, in the same process.

    Args:
        experiment: name of its configuration, such as `fasterrcnn_resnetfpn_coco` or `retinanet_resnetfpn_coco`.
        config: its `params.yaml`, which overrides the experiment's defaults.
        checkpoint: path of a checkpoint (`ckpt-1000`) or of a folder whose latest is taken.

    Example:
        detector = build_model_garden_detector("retinanet_resnetfpn_coco", "run/params.yaml", "run")
    """
    params = read_params(experiment, config)
    if checkpoint is None:
        raise InputError(f"{experiment} needs its trained weights: add --detector-checkpoint.")
    module = build_module(params, image_size)
    restore(module.model, checkpoint)
    detector = build_detections(tf.function(module.serve), image_size, "model_garden")
    detector.module = module
    return detector


def read_params(experiment, config=None):
    """The experiment's settings with those of the file `config` over them."""
    require("official.vision.serving.detection", "models")
    from official.core import exp_factory
    from official.modeling import hyperparams

    try:
        params = exp_factory.get_exp_config(experiment)
    except LookupError:
        raise InputError(f"Model Garden has no experiment {experiment!r}, e.g. fasterrcnn_resnetfpn_coco.") from None
    if config is not None:
        try:
            params = hyperparams.override_params_dict(params, str(config), is_strict=True)
        except (OSError, tf.errors.NotFoundError):
            raise InputError(f"{config}: no such file. Name the params.yaml of {experiment}.") from None
        except Exception as error:  # of the YAML parser, or of any setting that does not fit
            raise InputError(f"{config}: does not fit {experiment} ({error}).") from None
    if not hasattr(params.task.model, "detection_generator"):
        raise InputError(f"{experiment} is no detector. Take one such as fasterrcnn_resnetfpn_coco.")
    params.task.model.detection_generator.nms_version = "batched"
    return params


def build_module(params, image_size):
    """Model Garden's serving module of a detector, with random weights."""
    from official.vision.serving.detection import DetectionModule

    try:
        module = DetectionModule(
            params, batch_size=None, input_image_size=list(params.task.model.input_size[:2]), input_type="image_tensor"
        )
        module.serve(tf.zeros((1, image_size, image_size, 3), tf.uint8))  # makes the weights
    except Exception as error:  # settings that no network can have fail anywhere inside
        raise InputError(f"Model Garden cannot build this detector ({str(error).partition(chr(10))[0]}).") from None
    return module


def restore(model, checkpoint):
    """Fills a Model Garden network, or says that the checkpoint is another network's."""
    path = tf.train.latest_checkpoint(str(checkpoint)) if Path(checkpoint).is_dir() else str(checkpoint)
    if not (path and Path(f"{path}.index").is_file()):
        raise InputError(f"{checkpoint}: no checkpoint there. Name a folder with one, or ckpt-N without suffix.")
    try:
        tf.train.Checkpoint(model=model).restore(path).assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"{checkpoint}: not a checkpoint of this network ({reason}).") from None
