import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.regions.torch_weights import _MAGIC, read_torch_weights


def test_reads_what_torch_wrote_bit_for_bit():
    """The file is of torch 2.13: `torch.save({"a": ..., "b": ..., "c": ....t()}, ...)` in its legacy form."""
    read = read_torch_weights(Path(__file__).with_name("written_by_torch.pth"))
    np.testing.assert_array_equal(read["a"], np.arange(24, dtype="float32").reshape(3, 4, 2) / 8)
    np.testing.assert_array_equal(read["b"], np.arange(5))
    np.testing.assert_array_equal(read["c"], (np.arange(24, dtype="float32").reshape(4, 6) / 4).T)
    assert set(read) == {"a", "b", "c"} and read["a"].dtype == np.float32 and read["b"].dtype == np.int64


class _Evil:
    def __reduce__(self):
        return eval, ("__import__('os').abort()",)


def _legacy_file(path, state, keys=()):
    content = b"".join(pickle.dumps(part, 2) for part in (_MAGIC, 1001, {}, state, list(keys)))
    path.write_bytes(content + struct.pack("<q", 0))
    return path


def test_runs_no_code_from_a_file(tmp_path):
    with pytest.raises(InputError, match="eval, which is not a tensor"):
        read_torch_weights(_legacy_file(tmp_path / "evil.pth", {"a": _Evil()}))


@pytest.mark.parametrize("content", [b"", b"\x80\x02.", b"PK\x03\x04", b"\x80\x04\x95" + b"\xff" * 40])
def test_refuses_what_is_not_a_weight_file(tmp_path, content):
    (tmp_path / "w.pth").write_bytes(content)
    with pytest.raises(InputError, match="w.pth: not a legacy PyTorch file"):
        read_torch_weights(tmp_path / "w.pth")


def test_says_which_file_is_missing(tmp_path):
    with pytest.raises(InputError, match="nowhere.pth: cannot be read"):
        read_torch_weights(tmp_path / "nowhere.pth")
