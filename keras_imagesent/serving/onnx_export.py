"""The pieces as ONNX files that run in ONNX Runtime without TensorFlow."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_imagesent.data.atomic import whole_files
from keras_imagesent.extras import require
from keras_imagesent.serving.half_weights import halve_initializers
from keras_imagesent.serving.pieces import piece_part, pieces, words_json, write_side_files
from keras_imagesent.serving.saved_model import preprocessing

OPSET = 18  # the newest that tf2onnx writes
NEAR = 1e-3  # how far a converted number may lie from Keras's, relative to the largest
NEAR_TIE = 1e-5  # boxes or captions whose scores lie closer may change places


def export_onnx(photo_model, folder, licence="Apache-2.0", names=None, half=False):
    """Writes each piece as `<piece>.onnx` with a dynamic batch, checked against Keras; returns the paths.

    The converter reports success even where the file computes something else, so every file is run in ONNX Runtime on
    two photos' worth of input and compared before it is kept. All files are written, or none.

    Example:
        >>> export_onnx(load_photo_model(), "exported/onnx")
        [PosixPath('exported/onnx/image_encoder.onnx'), ...]
    """
    require("onnxruntime", "onnx")
    written = []
    with whole_files(folder) as unfinished:
        for name, (function, specifications) in pieces(photo_model).items():
            if names and name not in names:
                continue
            model = convert(function, specifications, name)
            if half:
                halve_initializers(model)
            _set_metadata(model, photo_model, name, licence)
            content = model.SerializeToString()
            check(content, function, specifications, name)
            (unfinished / f"{name}.onnx").write_bytes(content)
            written.append(Path(folder) / f"{name}.onnx")
        write_side_files(photo_model, unfinished)
    return written


def convert(function, specifications, name):
    """A `tf.function`-able function -> onnx.ModelProto with the function's own input and output names."""
    tf2onnx = require("tf2onnx", "onnx")
    onnx = require("onnx", "onnx")
    traced = tf.function(function, input_signature=specifications, autograph=False)
    model, _ = tf2onnx.convert.from_function(traced, input_signature=specifications, opset=OPSET)
    model.graph.name = name
    onnx.checker.check_model(model, full_check=True)
    foreign = sorted({node.op_type for node in _nodes(model.graph) if node.domain not in ("", "ai.onnx")})
    if foreign:
        raise RuntimeError(f"{name}: tf2onnx left operations that are not ONNX's: {', '.join(foreign)}")
    return model


def check(content, function, specifications, name):
    """Runs the file in ONNX Runtime and compares with TensorFlow: every number near, only near ties in other places."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = sample_inputs(specifications)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, inputs), strict=True))
    wanted = function(*(tf.constant(inputs[specification.name]) for specification in specifications))
    if not same_numbers(found, {key: value.numpy() for key, value in wanted.items()}):
        raise RuntimeError(f"{name}: ONNX Runtime's {', '.join(names)} are not TensorFlow's: do not use this file")


def same_numbers(found, wanted):
    """Whether two runtimes' outputs (B,N,...) agree, where boxes or captions of nearly equal score may change places.

    Example:
        >>> same_numbers({"box_scores": np.array([[0.9, 0.1]])}, {"box_scores": np.array([[0.9, 0.2]])})
        False
    """
    if {key: value.shape for key, value in found.items()} != {key: value.shape for key, value in wanted.items()}:
        return False
    if not {"box_scores", "log_probs"} & set(wanted):
        return all(_near(found[key], value).all() for key, value in wanted.items())
    scores = "box_scores" if "box_scores" in wanted else "log_probs"
    mine, theirs = found[scores], wanted[scores]
    same = np.abs(theirs[:, :, None] - theirs[:, None, :]) < NEAR_TIE  # (B,N,N): places that may be exchanged
    for key, value in wanted.items():
        rows = [array.reshape(*theirs.shape, -1) for array in (found[key], value)]
        same &= _near(rows[0][:, None], rows[1][:, :, None]).all(axis=-1)
    # what ties for the last place may have lost it to another
    last = (np.abs(theirs - theirs[:, -1:]) < NEAR_TIE) & (np.abs(mine - theirs[:, -1:]) < NEAR_TIE)
    return bool((same.any(axis=2) | last).all())


def _near(value, wanted):
    return np.isclose(value, wanted, atol=NEAR * max(1.0, float(np.abs(wanted).max())))


def sample_inputs(specifications, rows=2):
    """Pixels, features and ids that look like real ones, by specification."""
    rng = np.random.default_rng(0)
    inputs = {}
    for specification in specifications:
        shape = [rows, *specification.shape[1:]]
        if specification.dtype == tf.int32:
            value = rng.integers(0, 5, shape)
        elif specification.name == "pixels":
            value = np.round(
                np.linspace(0, 255, int(np.prod(shape))).reshape(shape) * rng.uniform(0.5, 1, [*shape[:3], 1])
            )
        else:
            value = rng.uniform(0, 1, shape)
        inputs[specification.name] = value.astype(specification.dtype.as_numpy_dtype)
    return inputs


def _set_metadata(model, photo_model, name, licence):
    import onnx

    metadata = {"preprocessing": json.dumps(preprocessing(photo_model)), "licence": licence}
    part = piece_part(photo_model, name)
    if part:
        metadata["words"] = words_json(part.vocabulary)
        metadata["training"] = json.dumps(part.settings)
    onnx.helper.set_model_props(model, metadata)
    model.producer_name = "keras_imagesent"


def _nodes(graph):
    """All nodes of a graph and of the graphs inside its loops and branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _nodes(inner)
