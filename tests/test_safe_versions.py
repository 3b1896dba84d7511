"""No installed package is older than its first version without an advisory that tests/safe_versions.json knows.

pip-audit asks a database over the network, which not every machine can. This list is checked in instead: it knows only
what somebody wrote into it, on the day that it names.
"""

import json
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.conftest import ROOT

PACKAGES = json.loads(Path(__file__).with_name("safe_versions.json").read_text())["packages"]


def oldest_allowed(name):
    """The lower bound that pyproject.toml sets for a package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (found,) = [r for r in map(Requirement, project["dependencies"]) if r.name == name]
    return min(Version(bound.version) for bound in found.specifier if bound.operator in (">=", "=="))


@pytest.mark.parametrize("name", PACKAGES)
def test_neither_what_is_installed_nor_what_may_be_has_a_known_advisory(name):
    safe = Version(PACKAGES[name]["safe_from"])
    assert Version(version(name)) >= safe
    assert oldest_allowed(name) >= safe, f"pyproject.toml admits {name} with known advisories"
