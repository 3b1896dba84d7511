"""Settings and scores of a run folder, broken: one clear line."""

import json

import numpy as np
import pytest

from keras_imagesent.data.run_files import read_best, read_settings
from keras_imagesent.errors import InputError
from tests.broken import TIMES, break_content

SETTINGS = {"model": "captioner", "beam": 5, "length_penalty": 0.7, "beta": 0.5, "seed": 0}
SCORES = {"monitor": "cider", "best": [{"epoch": 2, "file": "epoch-002.keras", "score": 0.5, "scores": {"cider": 0.5}}]}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "best/scores.json").write_text(json.dumps(SCORES))
    return tmp_path


def test_they_are_read(run):
    assert read_settings(run) == SETTINGS == read_settings(run / "model.keras")
    assert read_best(run) == SCORES["best"]
    (run / "settings.json").unlink()
    assert read_settings(run) == {}


@pytest.mark.parametrize(
    "change", [{"beam": 10**9}, {"beam": 0}, {"beam": "3"}, {"beam": 2.5}, {"length_penalty": None}, {"beta": -1}]
)
def test_a_beam_that_takes_all_memory_is_refused(run, change):
    (run / "settings.json").write_text(json.dumps({**SETTINGS, **change}))
    with pytest.raises(InputError, match=f"settings.json: a {next(iter(change))} of"):
        read_settings(run)


@pytest.mark.parametrize("file, read", [("settings.json", read_settings), ("best/scores.json", read_best)])
def test_damage_ends_in_a_line(run, file, read):
    content, rng, refused = (run / file).read_bytes(), np.random.default_rng(3), 0
    for _ in range(100 * TIMES):
        (run / file).write_bytes(break_content(content, rng))
        try:
            read(run)
        except InputError as error:
            refused += 1
            assert file in str(error)
    assert refused
