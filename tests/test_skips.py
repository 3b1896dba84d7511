"""`pytest --fail-on-skip`, as CI runs: a skip that nobody expects fails the run."""

import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SKIPS = """
import pytest

def test_that_runs():
    pass

def test_that_is_skipped():
    pytest.skip({reason!r})
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "xdist"])
@pytest.mark.parametrize(
    ("reason", "status"), [("no Chromium on this machine", 1), ("../shared/flickr8k is not here", 0)]
)
def test_an_unexpected_skip_fails_the_run(tmp_path, reason, status, workers):
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(SKIPS.format(reason=reason))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_some.py", *workers]
    done = subprocess.run([*command, "--fail-on-skip"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("UNEXPECTED SKIP" in done.stdout) == bool(status)


def test_without_the_option_a_skip_is_a_skip(tmp_path):
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(SKIPS.format(reason="whatever"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_some.py"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
