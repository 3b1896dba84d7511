"""What all tests share: the folder of real photos beside the repository, and quiet TensorFlow."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
# Processes that tests start find the package from any folder, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

# Why a test may be left out in CI: what no package there can bring. `pytest --fail-on-skip` fails on any other reason.
EXPECTED_SKIPS = (
    "../shared/",
    "no TF Serving binary here",
    "node is not installed",
    "onnxruntime-web cannot be fetched",
)


def pytest_addoption(parser):
    parser.addoption("--fail-on-skip", action="store_true", help="fail when a test is skipped that CI should run")
    parser.addoption(
        "--tf-serving", metavar="BINARY", help="run TF Serving's corpus against its tensorflow_model_server"
    )


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    """Under --fail-on-skip an unexpected skip is named at the end and fails the run."""
    if not config.getoption("--fail-on-skip"):
        return
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    unexpected = [report for report in skipped if not any(reason in report.longrepr[2] for reason in EXPECTED_SKIPS)]
    for report in unexpected:
        terminalreporter.write_line(f"UNEXPECTED SKIP {report.nodeid}: {report.longrepr[2]}")
    if unexpected:
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


needs_shared = pytest.mark.skipif(not (SHARED / "flickr8k").is_dir(), reason="../shared/flickr8k is not here")
