"""The phone guide names every file, input and output of what is exported, with the shipped files' own shapes."""

import json
import re
from pathlib import Path

import pytest

from keras_imagesent.shipped import shipped

GUIDE = (Path(__file__).parents[2] / "docs" / "phones.md").read_text("utf-8")
ROWS = {row.split("`")[1]: row for row in GUIDE.splitlines() if row.startswith("| `")}


def test_the_shipped_litert_file_is_the_guide_s():
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="pip install 'keras_imagesent[litert]'")
    (file,) = shipped("litert").glob("*.tflite")
    assert file.name in GUIDE
    interpreter = litert.Interpreter(str(file))
    for signature in interpreter.get_signature_list():
        runner = interpreter.get_signature_runner(signature)
        found = {**runner.get_input_details(), **runner.get_output_details()}
        for name, details in found.items():
            shape = ", ".join(str(max(1, size)) for size in details["shape_signature"])  # -1: any number of photos
            dtype = details["dtype"].__name__
            assert f"`{name}` {dtype} ({shape})" in ROWS[signature]
        for language in ("kotlin", "swift"):
            code = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL).group(1)
            assert all(f'"{name}"' in code for name in (signature, *found))


def test_the_guide_names_what_onnx_export_writes(folder):
    """Names from a fresh export; the shapes are the shipped models' and stand in model.json."""
    about = json.loads((folder / "model.json").read_text())
    pieces = [file for file in about["files"] if "piece" in file]
    assert {file["piece"] for file in pieces} == set(ROWS) - {"caption_pixels"}
    for file in pieces:
        _, _, inputs, outputs, _ = ROWS[file["piece"]].split("|")
        assert set(re.findall(r"`(\w+)`", inputs)) == set(file["inputs"])
        assert set(re.findall(r"`(\w+)`", outputs)) == set(file["outputs"])
    for language in ("kotlin", "swift"):
        code = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)[1]
        assert all(f'"{file["piece"]}"' in code for file in pieces)
