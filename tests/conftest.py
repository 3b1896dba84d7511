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

needs_shared = pytest.mark.skipif(not (SHARED / "flickr8k").is_dir(), reason="../shared/flickr8k is not here")
