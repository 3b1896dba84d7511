"""Everything that a training needs to go on exactly where it was, in one file."""

import json

import numpy as np

from keras_imagesent.data.atomic import whole_file


def write_state(path, model, progress):
    """Writes weights, dropout seeds, optimizer and running means of `model`, and the JSON-able `progress`, whole."""
    arrays = {f"variable_{number:05d}": np.asarray(variable) for number, variable in enumerate(_variables(model))}
    with whole_file(path) as unfinished:
        np.savez(unfinished, progress=np.array(json.dumps(progress)), **arrays)


def read_progress(path):
    """The `progress` of a state file."""
    with np.load(path, allow_pickle=False) as arrays:
        return json.loads(str(arrays["progress"]))


def restore_state(path, model):
    """Puts the variables of a state file back into a compiled `model` of the same build."""
    with np.load(path, allow_pickle=False) as arrays:
        for number, variable in enumerate(_variables(model)):
            variable.assign(arrays[f"variable_{number:05d}"])


def _variables(model):
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables, *model.metrics_variables]
