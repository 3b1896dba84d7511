"""The MRF in the page decodes as the one in Python."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import keras_imagesent.serving
from keras_imagesent.alignment.phrases import decode_phrases

SCRIPT = Path(keras_imagesent.serving.__file__).parent / "live" / "phrases.js"
RUN = """
const { decodePhrases } = require(process.argv[1]);
const cases = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(cases.map((c) => decodePhrases(c.similarity, c.words, c.regions, c.beta))));
"""


def make_cases(number, seed=0):
    rng = np.random.default_rng(seed)
    for case in range(number):
        words, regions = rng.integers(1, 15), rng.integers(1, 21)
        similarity = rng.normal(size=(words, regions)).round(4)
        if case % 3 == 0:
            similarity = rng.integers(0, 3, (words, regions)).astype(float)  # many equal paths
        region_mask = rng.random(regions) < 0.8
        region_mask[0] = True
        yield {
            "similarity": similarity.tolist(),
            "words": (rng.random(words) < 0.8).tolist(),
            "regions": region_mask.tolist(),
            "beta": float(rng.choice([0, 0.25, 0.5, 1, 2, 100])),
        }


def in_python(case):
    return decode_phrases([case["similarity"]], [case["words"]], [case["regions"]], case["beta"])[0].tolist()


def test_it_decodes_as_python_does():
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed; test_live_page runs the same script in Chromium")
    cases = list(make_cases(600))
    answer = subprocess.run(
        [node, "-e", RUN, SCRIPT], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout) == [in_python(case) for case in cases]
