"""One worker of a training: `python -m tests.training.one_worker JSON`; under TF_CONFIG with others, else alone."""

import json
import os
import signal
import sys

from keras_imagesent.errors import InputError
from keras_imagesent.training import fit
from keras_imagesent.training.train_alignment import train_alignment
from keras_imagesent.training.train_captioner import train_captioner

ALIGNMENT = {
    "dim": 12, "units": 10, "word_dim": 8, "dropout": 0.0, "hide_frame": 0.0, "hide_regions": 0.0, "frame_dim": 6,
    "schedule": "constant", "batch_size": 11, "learning_rate": 0.01, "patience": 99, "beta": 0.5, "save_minutes": 0,
}  # fmt: skip
CAPTIONER = {
    "units": 10, "word_dim": 8, "dropout": 0.0, "batch_size": 11, "learning_rate": 0.01, "patience": 99, "beam": 1,
    "save_minutes": 0,
}  # fmt: skip


def train(folder, prepared, alignment=0, captioner=0):
    """Trains up to so many epochs of each into `folder`."""
    if alignment:
        train_alignment(prepared, f"{folder}/alignment", epochs=alignment, **ALIGNMENT)
    if captioner:
        train_captioner(prepared, f"{folder}/captioner", epochs=captioner, **CAPTIONER)


def die_at_save(number):
    """This process is killed when the state is saved for the n-th time."""
    write, calls = fit.write_state, []

    def write_or_die(*args):
        calls.append(args)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*args)

    fit.write_state = write_or_die


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if die := given.pop("die_at_save", None):
        die_at_save(die)
    try:
        train(**given)
    except InputError as error:
        print(f"imagesent: {error}", file=sys.stderr)
        sys.exit(2)
