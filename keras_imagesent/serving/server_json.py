"""TF Serving's JSON <-> tensor rules: row and column form, `{"b64": ...}`, its error texts.

The texts and rules follow TF Serving's `json_tensor.cc`, so that a client cannot tell the two servers apart.
"""

import base64
import binascii
import json
import re

import numpy as np

from keras_imagesent.serving.server_errors import ServingError

INTEGERS = {
    np.dtype(f"{sign}int{bits}"): np.iinfo(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
}
TYPE_NAMES = {"float32": "float", "float64": "double", "object": "string"}
MAX_VALUES = 500_000  # in a request's JSON: each takes up to 100 bytes of memory, and some time
MAX_LEVELS = 16  # of lists in lists; no signature of ours has more than 4 dimensions
TOO_BIG = "Number too big to be stored in double."
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(body):
    """The request's JSON object, or TF Serving's own complaint about it.

    Commas and brackets are counted first, strings and all: what a few bytes of `[],[],...` take is bounded by them.
    """
    if not body:
        raise ServingError("INVALID_ARGUMENT", "JSON Parse error: The document is empty")
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        message = f"The request's JSON has more than {MAX_VALUES:,} values"
        raise ServingError("INVALID_ARGUMENT", message, http_status=413)
    try:
        request = json.loads(body)
        if SURROGATE.search(body):
            json.dumps(request, ensure_ascii=False).encode()  # a lone one is no text
    except json.JSONDecodeError as error:
        reason = "Invalid value."
        if error.msg == "Extra data":
            reason = "The document root must not be followed by other values."
        raise ServingError("INVALID_ARGUMENT", f"JSON Parse error: {reason} at offset: {error.pos}") from None
    except UnicodeDecodeError as error:
        message = f"JSON Parse error: Invalid encoding in string. at offset: {error.start}"
        raise ServingError("INVALID_ARGUMENT", message) from None
    except UnicodeEncodeError:
        message = "JSON Parse error: The surrogate pair in string is invalid."
        raise ServingError("INVALID_ARGUMENT", message) from None
    except RecursionError:
        raise ServingError("INVALID_ARGUMENT", "JSON Parse error: nested too deeply") from None
    except ValueError:  # an integer of more digits than Python reads
        raise ServingError("INVALID_ARGUMENT", f"JSON Parse error: {TOO_BIG}") from None
    if not isinstance(request, dict):
        raise ServingError("INVALID_ARGUMENT", f"JSON Value: {_show(request)} Is not object")
    if not isinstance(request.get("signature_name", ""), str):
        message = f"JSON Value: {_show(request)} not formatted correctly. 'signature_name' key must be a string value."
        raise ServingError("INVALID_ARGUMENT", message)
    return request


def check_examples(request):
    """Refuses a classify or regress request without `examples`, in TF Serving's words."""
    if "examples" not in request:
        message = f"JSON Value: {_show(request)} When method is classify, key 'examples' is expected and was not found"
        raise ServingError("INVALID_ARGUMENT", message)
    if not isinstance(request["examples"], list):
        message = f"JSON Value: {_show(request)} Expecting 'examples' value to be an list/array"
        raise ServingError("INVALID_ARGUMENT", message)
    if not request["examples"]:
        message = f"JSON Value: {_show(request)} 'examples' value is an empty array"
        raise ServingError("INVALID_ARGUMENT", message)


def tensors_from_json(request, dtypes, most_rows=10**9):
    """The input arrays of a predict request, and whether it was in row form.

    `dtypes` maps each input's name to its NumPy type (`object` for strings).

    Example:
        >>> tensors_from_json({"instances": [{"b64": "aGk="}]}, {"image_bytes": np.dtype(object)})
        ({'image_bytes': array([b'hi'], dtype=object)}, True)
    """
    if "instances" in request:
        if "inputs" in request:
            raise ServingError(
                "INVALID_ARGUMENT",
                f"JSON Value: {_show(request)} Not formatted correctly expecting only one of 'inputs' or 'instances' "
                "keys to exist ",
            )
        rows = request["instances"]
        if isinstance(rows, list) and len(rows) > most_rows:
            message = f"Task size {len(rows)} is larger than maximum input batch size {most_rows}"
            raise ServingError("INVALID_ARGUMENT", message)
        return _from_rows(request, dtypes), True
    if "inputs" in request:
        return _from_columns(request["inputs"], dtypes), False
    raise ServingError("INVALID_ARGUMENT", "Missing 'inputs' or 'instances' key")


def json_from_tensors(tensors, row_form):
    """The response's JSON text: `predictions` for the row form, `outputs` for the column form."""
    values = {name: _to_lists(name, array) for name, array in sorted(tensors.items())}
    if not row_form:
        return json.dumps({"outputs": values if len(values) > 1 else next(iter(values.values()))})
    sizes = {name: array.shape[:1] for name, array in tensors.items()}
    for name, size in sizes.items():
        if not size:
            raise ServingError("INVALID_ARGUMENT", f"Tensor name: {name} has no shape information ")
        if size != next(iter(sizes.values())):
            expected = next(iter(sizes.values()))[0]
            message = f"Tensor name: {name} has inconsistent batch size: {size[0]} expecting: {expected}"
            raise ServingError("INVALID_ARGUMENT", message)
    if len(values) == 1:
        return json.dumps({"predictions": next(iter(values.values()))})
    rows = zip(*values.values(), strict=True)
    return json.dumps({"predictions": [dict(zip(values, row, strict=True)) for row in rows]})


def _from_rows(request, dtypes):
    rows = request["instances"]
    if not isinstance(rows, list):
        message = f"JSON Value: {_show(request)} Excepting 'instances' to be an list/array"  # their spelling
        raise ServingError("INVALID_ARGUMENT", message)
    if not rows:
        raise ServingError("INVALID_ARGUMENT", f"JSON Value: {_show(request)} No values in 'instances' array")
    if not isinstance(rows[0], dict) and len(dtypes) > 1:
        raise ServingError(
            "INVALID_ARGUMENT",
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        )
    named = _is_object(rows[0])
    columns = {name: [] for name in dtypes}
    shapes = {}
    for number, row in enumerate(rows):
        if _is_object(row) != named:
            wanted, got = ("object", "list") if named else ("value/list", "object")
            message = f"Expecting {wanted} but got {got} at item {number} of input list"
            raise ServingError("INVALID_ARGUMENT", message)
        items = row if named else {next(iter(dtypes)): row}
        for name, value in items.items():
            where = f"element: {number} key: {name}" if named else f"element: {number}"
            try:
                if name not in dtypes:
                    raise ServingError("INVALID_ARGUMENT", f"JSON object: does not have named input: {name}")
                array = _to_array(value, dtypes[name])
                if array.shape != shapes.setdefault(name, array.shape):
                    if array.size != np.prod(shapes[name]):
                        message = f"Expecting tensor size: {int(np.prod(shapes[name]))} but got: {array.size}"
                    else:
                        message = f"Expecting shape {_show_shape(shapes[name])} but got: {_show_shape(array.shape)}"
                    raise ServingError("INVALID_ARGUMENT", message)
            except ServingError as error:
                message = f"Failed to process {where} of 'instances' list. Error: INVALID_ARGUMENT: {error.message}"
                raise ServingError("INVALID_ARGUMENT", message) from None
            columns[name].append(array)
        if set(items) != set(dtypes):
            raise ServingError(
                "INVALID_ARGUMENT",
                f"Failed to process element: {number} of 'instances' list. JSON object: {_show(row)} keys must "
                f"be equal to: {','.join(sorted(dtypes))}",
            )
    return {name: np.stack(arrays) for name, arrays in columns.items()}


def _from_columns(inputs, dtypes):
    if not _is_object(inputs):
        if len(dtypes) > 1:
            raise ServingError(
                "INVALID_ARGUMENT",
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map",
            )
        name, dtype = next(iter(dtypes.items()))
        return {name: _to_array(inputs, dtype)}
    arrays = {}
    for name, dtype in dtypes.items():
        if name not in inputs:
            raise ServingError("INVALID_ARGUMENT", f"Missing named input: {name} in 'inputs' object.")
        arrays[name] = _to_array(inputs[name], dtype)
    return arrays


def _is_object(value):
    """True for a JSON object that is not a base64 string in disguise."""
    return isinstance(value, dict) and not (set(value) == {"b64"} and isinstance(value["b64"], str))


def _to_array(value, dtype):
    """A dense array from nested lists; the first element of each list tells the shape."""
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
        if len(shape) > MAX_LEVELS:
            raise ServingError("INVALID_ARGUMENT", f"JSON lists are nested more than {MAX_LEVELS} deep")
    flat = []
    _flatten(value, 0, shape, dtype, flat)
    array = np.empty(len(flat), dtype)
    with np.errstate(over="ignore"):  # a number beyond float32 is infinite, as in TF Serving
        array[:] = flat
    return array.reshape(shape)


def _flatten(value, level, shape, dtype, flat):
    if not isinstance(value, list):
        if level != len(shape):
            raise ServingError(
                "INVALID_ARGUMENT",
                f"JSON Value: {_show(value)} found at incorrect level: {level + 1} in the JSON DOM. Expected at level: "
                f"{len(shape)}",
            )
        flat.append(_to_scalar(value, dtype))
        return
    if level >= len(shape):
        raise ServingError("INVALID_ARGUMENT", f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise ServingError(
            "INVALID_ARGUMENT",
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}",
        )
    for element in value:
        _flatten(element, level + 1, shape, dtype, flat)


def _to_scalar(value, dtype):
    if dtype.kind == "O":
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict):
            return _decode_base64(value)
    elif dtype.kind == "b":
        if isinstance(value, bool):
            return value
    elif dtype in INTEGERS:
        limits = INTEGERS[dtype]
        if type(value) is int and limits.min <= value <= limits.max:
            return value
    elif type(value) in (int, float):
        if type(value) is int and abs(value) >= 2**64:  # RapidJSON reads it as a double
            try:
                return float(value)
            except OverflowError:
                raise ServingError("INVALID_ARGUMENT", f"JSON Parse error: {TOO_BIG}") from None
        if type(value) is int and abs(value) >= 2 ** (np.finfo(dtype).nmant + 1):
            kind = TYPE_NAMES.get(dtype.name, dtype.name)
            message = f"Cannot convert JSON value: {value} to {kind} without loss of precision."
            raise ServingError("INVALID_ARGUMENT", message)
        return value
    kind = TYPE_NAMES.get(dtype.name, dtype.name)
    message = f"JSON Value: {_show(value)} Type: {_kind(value)} is not of expected type: {kind}"
    raise ServingError("INVALID_ARGUMENT", message)


def _decode_base64(value):
    if _is_object(value):
        message = f"JSON Value: {_show(value)} not formatted correctly for base64 data"
        raise ServingError("INVALID_ARGUMENT", message)
    try:
        text = "".join(value["b64"].split()).encode("ascii")  # lines are allowed
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ServingError("INVALID_ARGUMENT", "Unable to base64 decode") from None


def _to_lists(name, array):
    """Nested lists; a float32 keeps its own shortest digits, bytes become text or base64."""
    if array.dtype == np.float32:
        return array.astype("U").astype(np.float64).tolist()
    if array.dtype == object:
        if name.endswith("_bytes"):
            flat = [{"b64": base64.b64encode(value).decode()} for value in array.ravel()]
        else:
            flat = [value.decode("utf-8", "replace") for value in array.ravel()]
        lists = np.empty(array.size, object)
        lists[:] = flat
        return lists.reshape(array.shape).tolist()
    return array.tolist()


def _show(value):
    """The value as JSON for an error message, cut short: a photo would fill pages."""
    text = json.dumps(_prune(value))
    return text if len(text) <= 200 else text[:200] + "..."


def _prune(value, levels=4):
    """The beginning of a value: what an error message shows."""
    if isinstance(value, (list, dict)) and not levels:
        return "..."
    if isinstance(value, list):
        return [_prune(element, levels - 1) for element in value[:50]]
    if isinstance(value, dict):
        return {key[:200]: _prune(value[key], levels - 1) for key in list(value)[:50]}
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"{float(value):g}" if abs(value) < 2**1000 else "a huge number"
    return value[:201] if isinstance(value, str) else value


def _show_shape(shape):
    return "[" + ",".join(map(str, shape)) + "]"


def _kind(value):
    names = {type(None): "Null", bool: str(value), dict: "Object", list: "Array", str: "String"}
    return names.get(type(value), "Number")
