"""The notebook of the first ten minutes runs, and prints what it shows.

`python -m tests.scripts.test_notebook` runs it and writes its outputs anew.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "first_ten_minutes.ipynb"


def run_cell(source, names):
    """What a notebook shows for a cell: what it printed, and the value of its last line."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(compile(last, "<cell>", "eval"), names) if last else None
    return printed.getvalue(), None if value is None else repr(value)


def outputs_of(printed, value):
    """The outputs as a notebook file has them; a training's own lines, which tell seconds, are left out."""
    outputs = []
    if printed and "epoch 1/" not in printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed})
    if value is not None:
        data = {"text/plain": value}
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def run_notebook(notebook):
    """`(cell, outputs)` of every cell with code, run one after the other in the working folder."""
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield cell, outputs_of(*run_cell("".join(cell["source"]), names))


def test_every_cell_prints_what_the_notebook_shows(tmp_path, monkeypatch):
    pytest.importorskip("skimage", reason="the photo comes from scikit-image")
    monkeypatch.chdir(tmp_path)
    for cell, outputs in run_notebook(json.loads(NOTEBOOK.read_text("utf-8"))):
        assert outputs == cell["outputs"], cell["source"]


if __name__ == "__main__":
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    sys.path.insert(0, str(NOTEBOOK.parents[1]))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for cell, outputs in run_notebook(notebook):
            cell["outputs"] = outputs
            print("".join(cell["source"]), *outputs, sep="\n", end="\n\n", flush=True)
        os.chdir("/")
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
