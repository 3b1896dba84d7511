import math

import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require


def test_require_returns_the_module():
    assert require("math", extra="none") is math


def test_require_names_the_extra_that_brings_a_missing_module():
    with pytest.raises(InputError, match=r"^this needs no_such_thing, .* pip install 'keras_imagesent\[onnx\]'$"):
        require("no_such_thing.part", extra="onnx")
