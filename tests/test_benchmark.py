"""The door to the benchmarks: sections by name, and what a person gets wrong."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("name", SMALL)
def test_a_section_runs_in_small(name, capsys):
    """The sections of extraction and serving want the real networks: they are run by hand."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", DOOR.parent / "benchmarks" / f"{name}.py")
    section = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(section)
    for constant, value in SMALL[name].items():
        assert hasattr(section, constant)
        setattr(section, constant, value)
    section.run()
    ratios = re.findall(r"= \d+\.\d\d|\d+\.\d\d$", capsys.readouterr().out, re.MULTILINE)
    assert len(ratios) >= 3
