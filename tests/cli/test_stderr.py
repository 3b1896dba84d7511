"""No verb lets a line of TensorFlow's own through: what stands on stderr is ours."""

import os
import re
import subprocess
import sys

from tests.tiny_pipeline import write_pipeline

# All verbs that use TensorFlow, one after the other in one process, which begins without the settings of the tests.
PROGRAM = """
import sys
from keras_imagesent.cli.main import main
networks = "--backbone backbone.keras --detector detector.keras"
models = f"{networks} --alignment alignment --captioner captioner --region-captioner region_captioner"
photo = "scenes/images/" + sys.argv[1]
tiny = "--epochs 1 --units 8 --word-dim 8"
for line in [
    f"caption {photo} --captioner captioner --backbone backbone.keras",
    f"describe {photo} {models}",
    f"describe {photo} --box 0,0,0.5,0.5 --backbone backbone.keras --region-captioner region_captioner",
    f"prepare scenes/dataset.json --photos scenes/images --out again --image-size 64 {networks}",
    f"train-alignment prepared --out a --dim 8 {tiny}",
    f"train-captioner prepared --out c --monitor perplexity {tiny}",
    "align prepared --alignment a --out phrases.jsonl --pairs pairs.jsonl",
    "evaluate prepared --split val --alignment a --captioner c --out tables.json",
    f"index scenes/images --index index --alignment alignment {networks}",
    f"export saved {models}",
    f"export onnx --format onnx {models}",
    f"export litert --format litert {models}",
    "report prepared --split val --photos scenes/images --alignment alignment --captioner captioner "
    "--region-captioner region_captioner --out report",
]:
    print(f">>> {line}", file=sys.stderr, flush=True)
    if main(line.split()):
        print("FAILED", file=sys.stderr, flush=True)
"""
OURS = re.compile(r">>> |imagesent: |What was set aside: |.*\d%\||\s*$")  # and the bars of tqdm


def test_only_our_own_lines(tmp_path):
    write_pipeline(tmp_path)
    photo = sorted(path.name for path in (tmp_path / "scenes/images").iterdir())[0]
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "GRPC_", "ABSL_"))}
    command = [sys.executable, "-c", PROGRAM, photo]
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for text in done.stderr.splitlines() for line in text.split("\r")]
    assert [line for line in lines if not OURS.match(line)] == []
