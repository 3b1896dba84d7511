"""Everything that a training needs to go on exactly where it was, in one file."""

import json

import numpy as np

from keras_imagesent.data.atomic import whole_file
from keras_imagesent.data.keras_file import check_archive
from keras_imagesent.errors import InputError


def write_state(path, model, progress, chief=True):
    """Writes weights, dropout seeds, optimizer and running means of `model`, and the JSON-able `progress`, whole.

    Processes that train together all call it, since the running means are their common ones; the chief writes.
    """
    arrays = {f"variable_{number:05d}": np.asarray(variable) for number, variable in enumerate(_variables(model))}
    if not chief:
        return
    with whole_file(path) as unfinished:
        np.savez(unfinished, progress=np.array(json.dumps(progress)), **arrays)


def read_progress(path):
    """The `progress` of a state file."""
    check_archive(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return json.loads(str(arrays["progress"]))
    except (ValueError, KeyError, OSError, RecursionError):
        raise InputError(f"{path} is not the state of a training: train into a new folder") from None


def restore_state(path, model):
    """Puts the variables of a state file back into a compiled `model` of the same build."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            values = [arrays[f"variable_{number:05d}"] for number in range(len(_variables(model)))]
        for variable, value in zip(_variables(model), values, strict=True):
            variable.assign(value)
    except (ValueError, KeyError, OSError):
        raise InputError(f"{path} is not the state of this model: train into a new folder") from None


def _variables(model):
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables, *model.metrics_variables]
