"""The door to the benchmarks: sections by name, and what a person gets wrong."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DOOR = Path(__file__).resolve().parents[1] / "scripts" / "benchmark"


def ask(*words):
    return subprocess.run([sys.executable, DOOR, *words], capture_output=True, text=True, check=False)


def test_help_names_every_section():
    answer = ask("--help")
    sections = answer.stdout.splitlines()[-1].removeprefix("sections: ").split(", ")
    assert answer.returncode == 0
    assert sections == sorted(path.stem for path in (DOOR.parent / "benchmarks").glob("*.py"))
    assert {"extraction", "alignment", "serving", "search"} <= set(sections)


def test_a_wrong_section_is_answered_with_the_right_ones():
    answer = ask("extractoin")
    assert answer.returncode == 2 and answer.stdout == ""
    assert answer.stderr.startswith("benchmark: no section 'extractoin'. There are: alignment, ")


SMALL = {
    "alignment": {"BATCH": 6, "FEATURES": 8, "DIM": 8, "UNITS": 8, "WORD_DIM": 8, "VOCABULARY": 30, "SCORED_PHOTOS": 6},
    "captioning": {"PHOTOS": 4, "FEATURES": 8, "UNITS": 8, "WORD_DIM": 8, "VOCABULARY": 30, "BEAM": 2},
    "search": {"PHOTOS": 1000, "REGIONS": 10, "DIM": 8, "REPEATS": 2},
}


def load_section(name, **constants):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", DOOR.parent / "benchmarks" / f"{name}.py")
    section = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(section)
    for constant, value in constants.items():
        assert hasattr(section, constant)
        setattr(section, constant, value)
    return section


@pytest.mark.parametrize("name", SMALL)
def test_a_section_runs_in_small(name, capsys):
    """The sections of extraction and serving want the real networks: they are run by hand."""
    load_section(name, **SMALL[name]).run()
    ratios = re.findall(r"= \d+\.\d\d|\d+\.\d\d$", capsys.readouterr().out, re.MULTILINE)
    assert len(ratios) >= 3


def test_stores_are_filled_once_and_compared(tmp_path, capsys):
    rng = np.random.default_rng(0)
    arrays = {
        "regions": rng.standard_normal((40, 4, 8), np.float32),
        "words": rng.standard_normal((10, 8), np.float32),
        "lengths": [3, 5, 2],
    }
    np.savez(tmp_path / "real.npz", **arrays)
    stores = load_section("stores", FOLDER=str(tmp_path), SIZES=[(40, 4), (150, 1)], BLOCK=50)
    drawn, draw = [], stores.Real.photos
    stores.Real.photos = lambda self, *given: drawn.append(given) or draw(self, *given)
    stores.run()
    first = capsys.readouterr().out
    lines = [line for line in first.splitlines() if line.startswith("| ")][2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[:4] for row in rows] == [
        [*size, store, recall]
        for size in (["40", "4"], ["150", "1"])
        for store, recall in (("embedded", "1"), ("qdrant", "1"), ("embedded, files not in memory", "1"))
    ]
    assert all(float(row[4]) > 0 for row in rows)
    made_up = stores.Real(tmp_path / "real.npz").photos(0, 5000, 10**6, 4)
    real = arrays["regions"]
    np.testing.assert_allclose(made_up.mean((0, 1)), real.mean((0, 1)), atol=0.1)
    assert np.cov(made_up.mean(1).T).trace() == pytest.approx(np.cov(real.mean(1).T).trace(), rel=0.15)
    assert made_up.std(1).mean() == pytest.approx(real.std(1).mean(), rel=0.1)
    drawn.clear()
    stores.run()  # all of it is there
    assert drawn == [] and capsys.readouterr().out == first[first.index("\n| photos") :]
