"""The pieces as ONNX files that run in ONNX Runtime without TensorFlow."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_imagesent.data.atomic import whole_files
from keras_imagesent.extras import require
from keras_imagesent.serving.model_json import LICENSE, answers, file_entry, preprocessing, tensor, write_about
from keras_imagesent.serving.onnx_weights import all_nodes, halve_initializers, quantize_initializers
from keras_imagesent.serving.pieces import chosen_pieces, piece_part

OPSET = 18  # the newest that tf2onnx writes
NEAR = 1e-3  # how far a converted number may lie from Keras's, relative to the largest
NEAR_TIE = 1e-5  # boxes or captions whose scores lie closer may change places


def export_onnx(photo_model, folder, names=None, precision="float32"):
    """Writes each piece as `<piece>.onnx` with a dynamic batch, checked against Keras; returns the paths.

    The converter reports success even where the file computes something else, so every file is run in ONNX Runtime on
    two photos' worth of input and compared before it is kept. All files are written, or none. `model.json` beside them
    says how to use them; with it, `keras_imagesent.runtime.ExportedModel` answers whatever the SavedModel answers.

    Args:
        names: the pieces to write (see `pieces`); None writes all that share the image encoder.
        precision: of the stored weights, "float32", "float16" or "int8" (a scale for each channel); computed with is
            float32. The comparison is made before weights become int8, which changes numbers (scripts/precisions).

    Example:
        >>> export_onnx(load_photo_model(), "exported/onnx")
        [PosixPath('exported/onnx/image_encoder.onnx'), ...]
    """
    require("onnxruntime", "onnx")
    written, entries = [], []
    with whole_files(folder) as unfinished:
        for name, (function, specifications) in chosen_pieces(photo_model, names).items():
            model = convert(function, specifications, name)
            if precision == "float16":
                halve_initializers(model)
            check(model.SerializeToString(), function, specifications, name)
            if precision == "int8":
                quantize_initializers(model)
            _set_metadata(model, photo_model, name)
            path = unfinished / f"{name}.onnx"
            path.write_bytes(model.SerializeToString())
            entries.append(file_entry(photo_model, path, name, precision, *_tensors(model)))
            written.append(Path(folder) / path.name)
        write_about(photo_model, unfinished, "onnx", entries, answers=answers(entries), opset=OPSET)
    return written


def convert(function, specifications, name):
    """A `tf.function`-able function -> onnx.ModelProto with the function's own input and output names."""
    tf2onnx = require("tf2onnx", "onnx")
    onnx = require("onnx", "onnx")
    traced = tf.function(function, input_signature=specifications, autograph=False)
    model, _ = tf2onnx.convert.from_function(traced, input_signature=specifications, opset=OPSET)
    model.graph.name = name
    onnx.checker.check_model(model, full_check=True)
    foreign = sorted({node.op_type for node in all_nodes(model.graph) if node.domain not in ("", "ai.onnx")})
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
        elif specification.dtype == tf.bool:
            value = np.arange(np.prod(shape)).reshape(shape) % 7 != 6
        elif specification.name == "boxes":
            value = rng.uniform(0, 1, shape)
            value = np.concatenate([value[..., :2] / 2, 0.5 + value[..., 2:] / 2], axis=-1)
        elif specification.name == "pixels":
            value = np.round(
                np.linspace(0, 255, int(np.prod(shape))).reshape(shape) * rng.uniform(0.5, 1, [*shape[:3], 1])
            )
        else:
            value = rng.uniform(0, 1, shape)
        inputs[specification.name] = value.astype(specification.dtype.as_numpy_dtype)
    return inputs


def _tensors(model):
    """The inputs and outputs of a model, as `model.json` describes them."""
    import onnx

    for values in (model.graph.input, model.graph.output):
        found = {}
        for value in values:
            kind = value.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
            found[value.name] = tensor(value.name, dtype, [size.dim_value for size in kind.shape.dim])
        yield found


def _set_metadata(model, photo_model, name):
    import onnx

    metadata = {"preprocessing": json.dumps(preprocessing(photo_model)), "license": LICENSE}
    part = piece_part(photo_model, name)
    if part:
        metadata["words"] = json.dumps(["", *part.vocabulary.words], ensure_ascii=False)  # by id; 0 ends a sentence
        metadata["training"] = json.dumps(part.settings)
    onnx.helper.set_model_props(model, metadata)
    model.producer_name = "keras_imagesent"
