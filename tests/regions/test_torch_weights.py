import pickle
import struct

import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.regions.torch_weights import _MAGIC, read_torch_weights


def test_reads_what_torch_wrote_bit_for_bit(tmp_path):
    torch = pytest.importorskip("torch", reason="torch only checks our reader; the product never needs it")
    saved = {"a": torch.randn(3, 4, 2), "b": torch.arange(5), "c": torch.randn(4, 6).t()}
    torch.save(saved, tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    read = read_torch_weights(tmp_path / "w.pth")
    assert {name: array.tolist() for name, array in read.items()} == {n: t.tolist() for n, t in saved.items()}


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
