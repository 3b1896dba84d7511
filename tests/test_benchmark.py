"""The door to the benchmarks: sections by name, and what a person gets wrong."""

import subprocess
import sys
from pathlib import Path

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
