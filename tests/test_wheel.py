"""The wheel carries the package, the pages' files and the shipped models, and builds without models as well."""

import shutil
import zipfile

from hatchling.builders.wheel import WheelBuilder

from tests.conftest import ROOT


def build_wheel(tree, out):
    (wheel,) = WheelBuilder(str(tree)).build(directory=str(out), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        entry_points = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        return set(archive.namelist()), archive.read(entry_points).decode()


def files_below(folder, *patterns):
    found = (path for pattern in patterns for path in (ROOT / folder).rglob(pattern) if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_all_that_the_default_needs(tmp_path):
    names, entry_points = build_wheel(ROOT, tmp_path)
    assert files_below("keras_imagesent", "*.py", "*.html", "*.css", "*.js") <= names
    shipped = files_below("saved_models", "*.keras", "vocabulary.json", "settings.json")
    assert {f"keras_imagesent/{name}" for name in shipped} <= names
    assert not any(name.startswith(("tests/", "scripts/", "saved_models/")) for name in names)
    assert "imagesent = keras_imagesent.cli.main:main" in entry_points


def test_a_tree_without_shipped_models_builds(tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "keras_imagesent", tree / "keras_imagesent", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    names, _ = build_wheel(tree, tmp_path / "dist")
    assert "keras_imagesent/cli/main.py" in names
    assert not any("saved_models" in name for name in names)
