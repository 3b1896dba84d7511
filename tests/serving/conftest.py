"""What the tests of the server share."""

import pytest

from tests.serving.toy import save_toy


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_toy(folder / "toy" / "1")
    return folder
