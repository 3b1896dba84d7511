"""The flags that both trainings have."""

import argparse
from pathlib import Path


def add_training_flags(parser, presets):
    """Adds the folders, the preset, the other run to start from, the devices, the seed and how often to save."""
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote")
    add("--out", type=Path, required=True, metavar="RUN", help="the run folder to write or to go on with")
    add("--preset", choices=sorted(presets), default="best", help="settings to start from (best)")
    add("--validation", metavar="SPLIT", help="split that chooses the best epoch (tune, else val, else dev)")
    add("--start-from", type=Path, metavar="RUN", help="start with another run's weights; new words are added")
    add("--devices", metavar="LIST", help="such as gpu:0,gpu:1 (all GPUs, or the CPU)")
    add("--seed", type=int, default=0, help="decides weights, order and dropout (0)")
    add("--save-minutes", type=float, default=2.0, metavar="M", help="how often the state is saved inside an epoch (2)")


def add_settings(parser, preset, choices, texts):
    """Adds a flag for each setting of a preset.

    Args:
        parser: the verb's parser.
        preset: name -> value, which gives the flag's type.
        choices: name -> the values that a setting may have.
        texts: name -> what the help says; a setting without one gets no flag.
    """
    group = parser.add_argument_group("settings of the preset")
    for name, value in preset.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in texts:
            continue
        if isinstance(value, bool):
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=texts[name])
        else:
            group.add_argument(flag, type=type(value), choices=choices.get(name), help=texts[name])
