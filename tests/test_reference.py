"""The API reference is made from the docstrings, without a warning: `python -m pdoc -d google keras_imagesent`."""

import warnings

import pytest

import keras_imagesent as ki


def test_the_reference_is_built_without_warnings_and_has_every_name(tmp_path):
    pdoc = pytest.importorskip("pdoc", reason="pdoc is in the extra test")
    pdoc.render.configure(docformat="google", show_source=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        pdoc.pdoc("keras_imagesent", "!keras_imagesent.", output_directory=tmp_path)
    page = (tmp_path / "keras_imagesent.html").read_text("utf-8")
    for name in ki.__all__:
        assert f'id="{name}"' in page, name
    assert "length_penalty" in page and "Example" in page
