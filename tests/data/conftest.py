"""What the tests of data sets share."""

import pytest

from tests.data.small_sets import make_photo


@pytest.fixture
def folder(tmp_path):
    """Four whole photos, a.jpg to d.png, in images/."""
    for name, colour in [("a.jpg", "red"), ("b.jpg", "blue"), ("c.jpg", "green"), ("d.png", "white")]:
        make_photo(tmp_path / "images" / name, colour)
    return tmp_path
