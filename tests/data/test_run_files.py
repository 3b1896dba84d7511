"""What a run folder says of itself."""

import json

import pytest

from keras_imagesent.data.run_files import read_settings
from keras_imagesent.shipped import shipped


@pytest.mark.parametrize(("old", "new"), [("all", False), ("whole-frame", True)])
def test_a_setting_of_an_older_name_is_read_by_its_new_name(tmp_path, old, new):
    (tmp_path / "settings.json").write_text(json.dumps({"regions": old, "dim": 8}))
    assert read_settings(tmp_path) == {"dim": 8, "whole_frame": new}


def test_the_shipped_alignment_has_the_presets_names():
    settings = read_settings(shipped("alignment"))
    assert settings["whole_frame"] is False and "regions" not in settings
