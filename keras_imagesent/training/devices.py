"""Which devices a training runs on."""

import functools
import json
import os

import tensorflow as tf

from keras_imagesent.errors import InputError


def choose_strategy(devices=None):
    """The strategy for `devices`: None is every visible GPU, or the CPU where there is none.

    `devices` is a comma-separated list such as `gpu:0,gpu:1` or `cpu:0`. `cpu:0,cpu:1` splits the CPU into logical
    devices, which gains nothing but shows that the result is one device's.

    With `TF_CONFIG` of several workers in the environment it is theirs: every process takes all of its GPUs.

    Example:
        with choose_strategy("gpu:0,gpu:1").scope():
            model = build_alignment(...)
    """
    if _several_workers():
        if devices is not None:
            raise InputError("under TF_CONFIG each worker takes all its GPUs: choose them with CUDA_VISIBLE_DEVICES")
        return _join_workers()
    if devices is None:
        names = [f"gpu:{number}" for number in range(len(tf.config.list_physical_devices("GPU")))] or ["cpu:0"]
    else:
        names = [name.strip().lower() for name in devices.split(",") if name.strip()]
    cpus = [name for name in names if name.startswith("cpu")]
    if len(cpus) > 1:
        _split_cpu(len(cpus))
    known = {device.name.split("device:")[-1].lower().removeprefix("/") for device in tf.config.list_logical_devices()}
    missing = [name for name in names if name not in known]
    if missing or not names:
        raise InputError(f"no device {', '.join(missing) or devices!r} here; there are {', '.join(sorted(known))}")
    if len(names) > 1:
        return tf.distribute.MirroredStrategy(names)
    only_device = not tf.config.list_physical_devices("GPU")
    return tf.distribute.get_strategy() if only_device else tf.distribute.OneDeviceStrategy(f"/{names[0]}")


@functools.cache  # a process joins the others once
def _join_workers():
    return tf.distribute.MultiWorkerMirroredStrategy()


def _several_workers():
    """Whether `TF_CONFIG` names more than one worker."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
        return sum(len(cluster.get(job, [])) for job in ("chief", "worker")) > 1
    except (ValueError, AttributeError, TypeError):
        raise InputError(
            "TF_CONFIG in the environment is no JSON such as "
            '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
        ) from None


def _split_cpu(number):
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or []) >= number:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * number)
    except RuntimeError as error:
        raise InputError(
            "the CPU must be split before TensorFlow is used: name the devices in a new process"
        ) from error
