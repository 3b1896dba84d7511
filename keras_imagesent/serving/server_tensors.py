"""PredictRequests from the wire to arrays, with everything checked before anything is allocated."""

import math

import numpy as np
import tensorflow as tf

from keras_imagesent.serving.server_errors import ServingError

MAX_FIELDS = 50_000  # of a message; packed numbers count once
MAX_DIMENSIONS = 254  # TensorFlow's own limit
MAX_SMALL_BYTES = 2**20  # of a request without tensors
# Field numbers of the messages inside a PredictRequest: inputs (a map entry), its value (TensorProto), its shape, its
# dimensions. A TensorProto's resource handles and variants (14, 15) are never taken.
PREDICT_FIELDS = {2: {2: {2: {2: {}}, 14: None, 15: None}}}


def parse_request(message_type, data):
    """The message in `data`, or INVALID_ARGUMENT.

    A protobuf message can take 75 times its size in memory (empty messages of two bytes), so the fields of a
    PredictRequest are counted first, and other requests are small.
    """
    name = message_type.DESCRIPTOR.name
    try:
        if name == "PredictRequest":
            _count_fields(memoryview(data), PREDICT_FIELDS, MAX_FIELDS)
        elif len(data) > MAX_SMALL_BYTES:
            raise ServingError("INVALID_ARGUMENT", f"The {name} is larger than {MAX_SMALL_BYTES} bytes")
        return message_type.FromString(bytes(data))
    except ServingError:
        raise
    except Exception:  # _Malformed, and what protobuf raises: DecodeError, UnicodeDecodeError for names
        raise ServingError("INVALID_ARGUMENT", f"not a {name} message") from None


def tensors_from_proto(inputs, signature, most_bytes):
    """Arrays of a PredictRequest's inputs; type, shape and size are compared with the signature's before.

    Inputs that the signature does not know are given as None, for the model to name them.
    """
    arrays = {}
    for name, tensor in inputs.items():
        if name not in signature.inputs:
            arrays[name] = None
            continue
        _check(name, tensor, signature.inputs[name], most_bytes)
        try:
            arrays[name] = tf.make_ndarray(tensor)
        except (ValueError, TypeError, OverflowError):
            raise ServingError("INVALID_ARGUMENT", f"tensor parsing error: {name}") from None
    return arrays


class _Malformed(Exception):
    pass


def _count_fields(data, inside, most):
    """Walks the fields of a message and of those inside it; more than `most` are refused. Returns what is left."""
    at = 0
    while at < len(data):
        most -= 1
        if most < 0:
            raise ServingError("INVALID_ARGUMENT", f"The request has more than {MAX_FIELDS:,} fields")
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 2:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise _Malformed
            if inside.get(tag >> 3, {}) is None:
                raise ServingError("INVALID_ARGUMENT", "tensor parsing error: resources and variants are not taken")
            if tag >> 3 in inside:
                most = _count_fields(data[at : at + length], inside[tag >> 3], most)
            at += length
        elif kind == 5:
            at += 4
        else:
            raise _Malformed  # groups, which none of these messages has
    if at > len(data):
        raise _Malformed
    return most


def _varint(data, at):
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _Malformed
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _Malformed


def _check(name, tensor, wanted, most_bytes):
    shape = [dimension.size for dimension in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or len(shape) > MAX_DIMENSIONS or any(size < 0 for size in shape):
        raise ServingError("INVALID_ARGUMENT", f"tensor parsing error: {name}")
    known = [dimension.size for dimension in wanted.tensor_shape.dim]
    fits = wanted.tensor_shape.unknown_rank or (
        len(known) == len(shape) and all(k in (-1, size) for k, size in zip(known, shape, strict=True))
    )
    if tensor.dtype != wanted.dtype or not fits:
        raise wrong_input(name, wanted, tensor.dtype, shape)
    string = tensor.dtype == tf.string.as_datatype_enum
    each = 64 if string else tf.as_dtype(tensor.dtype).size
    # Fewer values than elements are legal: the last one is repeated, so that a few bytes can ask for gigabytes.
    if math.prod(shape) * each > most_bytes:
        message = f"input {name} of shape {shape} is larger than {most_bytes} bytes"
        raise ServingError("INVALID_ARGUMENT", message)


def wrong_input(name, wanted, dtype, shape):
    """The refusal of an input of another type or shape than the signature's."""
    known = tuple(None if dimension.size < 0 else dimension.size for dimension in wanted.tensor_shape.dim)
    return ServingError(
        "INVALID_ARGUMENT",
        f"input {name} must be {_type_name(wanted.dtype)} of shape {known}, got {_type_name(dtype)} of shape "
        f"{tuple(shape)}",
    )


def _type_name(dtype):
    try:
        return tf.as_dtype(dtype).name
    except TypeError:
        return f"type {dtype}" if not isinstance(dtype, np.dtype) else dtype.name
