"""Read the tensors of a legacy PyTorch weight file without PyTorch and without trusting it."""

import collections
import pickle
import struct

import numpy as np

from keras_imagesent.errors import InputError

_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}


class _StorageType:
    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)


class _Tensor:
    """Where a tensor lies in its storage; the numbers come after the pickle."""

    def __init__(self, storage, offset, shape, strides, *_):
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def read(self, storages):
        flat = storages[self.storage.key]
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        if min(self.offset, *self.strides, *self.shape, 0) < 0 or last >= len(flat):
            raise ValueError("a tensor reaches outside its storage")
        steps = [s * flat.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, steps).copy()


class _Storage:
    def __init__(self, kind, key):
        self.dtype, self.key = kind.dtype, key


class _TensorsOnly(pickle.Unpickler):
    """An unpickler that can build dictionaries of tensors and nothing else, so that no code can run."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Tensor
        if module == "torch" and name in _DTYPES:
            return _StorageType(_DTYPES[name])
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not a tensor")

    def persistent_load(self, saved_id):
        kind, storage_type, key, *_ = saved_id
        if kind != "storage" or not isinstance(storage_type, _StorageType):
            raise pickle.UnpicklingError(f"unknown persistent object {kind!r}")
        return _Storage(storage_type, key)


def read_torch_weights(path):
    """Name -> NumPy array of every tensor in a legacy PyTorch state dictionary.

    Only tensors are accepted: a file that asks for any other class or function is refused, nothing of it is run.

    Example:
        weights = read_torch_weights("efficientnet-lite2-9656183e.pth")
        weights["_conv_stem.weight"].shape  # (32, 3, 3, 3)
    """
    try:
        with open(path, "rb") as file:
            if _TensorsOnly(file).load() != _MAGIC:
                raise ValueError("not a legacy PyTorch file")
            _TensorsOnly(file).load()  # protocol version
            _TensorsOnly(file).load()  # byte order and type sizes of the machine that wrote it
            state = _TensorsOnly(file).load()
            keys = _TensorsOnly(file).load()
            dtypes = {t.storage.key: t.storage.dtype for t in state.values()}
            storages = {}
            for key in keys:
                (size,) = struct.unpack("<q", file.read(8))
                content = file.read(size * dtypes[key].itemsize)
                storages[key] = np.frombuffer(content, dtypes[key], count=size)
            return {name: tensor.read(storages) for name, tensor in state.items()}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check the path.") from error
    except Exception as error:  # a hostile pickle can raise anything
        raise InputError(f"{path}: not a legacy PyTorch file of plain tensors ({error}).") from error
