"""The phone guide names every file, input and output of what is exported, with the shipped files' own shapes."""

import importlib.util
import json
import re

import pytest

from keras_imagesent.shipped import shipped
from tests.conftest import ROOT

GUIDE = (ROOT / "docs" / "phones.md").read_text("utf-8")
ROWS = {row.split("`")[1]: row for row in GUIDE.splitlines() if row.startswith("| `")}


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("ai_edge_litert.interpreter", reason="pip install 'keras_imagesent[litert]'")
    specification = importlib.util.spec_from_file_location("phone_guide", ROOT / "scripts" / "phone_guide.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def code(language, number):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)[number]


def test_the_tables_are_the_shipped_files_own(script):
    """scripts/phone_guide.py writes them; it must find nothing to change, and no signature without a row."""
    assert script.rewrite(GUIDE, shipped("litert").parent) == GUIDE
    signatures = {**script.of_litert(shipped("litert")), **script.of_onnx(shipped("onnx"))}
    assert "caption_pixels" in signatures and set(signatures) <= set(ROWS)


def test_the_code_names_the_shipped_litert_file_and_its_tensors(script):
    (file,) = shipped("litert").glob("*.tflite")
    assert file.name in GUIDE
    for signature, tensors in script.of_litert(shipped("litert")).items():
        names = [tensor.split("`")[1] for side in tensors for tensor in side]
        for language in ("kotlin", "swift"):
            assert all(f'"{name}"' in code(language, 0) for name in (signature, *names))


def test_another_shape_is_written_into_its_row(script, folder, tmp_path):
    (tmp_path / "litert").mkdir()
    (tmp_path / "onnx").symlink_to(folder)
    rewritten = script.rewrite(GUIDE, tmp_path)
    about = json.loads((folder / "model.json").read_text())
    pieces = {file["piece"]: file for file in about["files"] if "piece" in file}
    rows = {row.split("`")[1]: row for row in rewritten.splitlines() if row.startswith("| `")}
    assert set(rows) == {*pieces, "caption_pixels"}  # a row for each file that is written, and the LiteRT file's
    assert rows["caption_pixels"] == ROWS["caption_pixels"]
    size = about["preprocessing"]["image_size"]
    assert f"| `pixels` float32 (1, {size}, {size}, 3) |" in rows["image_encoder"]
    assert all(
        f"`{name}`" in rows[piece] for piece, file in pieces.items() for name in file["inputs"] | file["outputs"]
    )
    for language in ("kotlin", "swift"):
        assert all(f'"{piece}"' in code(language, 1) for piece in pieces)
