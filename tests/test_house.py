"""The plan of the package: a folder imports only from folders before it, and needs TensorFlow only where it says so."""

import ast
from pathlib import Path

import keras_imagesent

ROOT = Path(keras_imagesent.__file__).parent
# Modules beside the folders, which import nothing but each other, and the folders in the order of the data's walk.
FOUNDATION = ("errors", "extras", "files", "keras_names", "presets", "records", "shipped", "silence")
FOLDERS = (
    "data", "regions", "alignment", "captioning", "runtime", "model", "evaluation", "training", "search", "serving",
    "report", "cli",
)  # fmt: skip


def imported(path):
    """The names of this package's modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            # `from keras_imagesent import report` names the folder in the list
            names = [
                f"{node.module}.{alias.name}" if node.module == "keras_imagesent" else node.module
                for alias in node.names
            ]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("keras_imagesent."))


def wrong_imports(root, folders=FOLDERS):
    """`file imports folder` for every import of a folder that comes later."""
    wrong = []
    for place, folder in enumerate(folders):
        allowed = {*FOUNDATION, *folders[: place + 1], "__version__"}
        for path in sorted((root / folder).rglob("*.py")):
            wrong += [f"{path.relative_to(root)} imports {name}" for name in imported(path) if name not in allowed]
    for name in FOUNDATION:
        path = root / f"{name}.py"
        if path.is_file():
            wrong += [f"{path.name} imports {other}" for other in imported(path) if other not in FOUNDATION]
    return wrong


def test_a_folder_imports_only_from_folders_before_it():
    assert wrong_imports(ROOT) == []


def test_every_folder_and_module_has_its_place():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders <= set(FOLDERS)
    modules = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"}
    assert modules <= set(FOUNDATION)


def test_a_wrong_import_would_be_found(tmp_path):
    for folder in ("data", "cli"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "bad.py").write_text("def f():\n    from keras_imagesent.cli.main import main\n")
    (tmp_path / "cli" / "good.py").write_text("from keras_imagesent.data import bad\n")
    assert wrong_imports(tmp_path) == ["data/bad.py imports cli"]
