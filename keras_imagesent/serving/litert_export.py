"""The pieces as LiteRT (TensorFlow Lite) files, builtin operations only, in float32, float16 and int8."""

import contextlib
import io
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_imagesent.data.atomic import whole_files
from keras_imagesent.serving.model_json import answers, file_entry, tensor, write_about
from keras_imagesent.serving.pieces import chosen_pieces

PRECISIONS = ("float32", "float16", "int8")


def export_litert(photo_model, folder, precisions=PRECISIONS, photos=None, names=None):
    """Writes each piece as `<piece>-<precision>.tflite` with a signature of the piece's name; returns the paths.

    In int8 the image encoder is all integers (it takes uint8 pixels and gives float32 features), its ranges measured
    on `photos`, pixels (N,S,S,3) of real photos; the other pieces keep float activations and store int8 weights, since
    boxes and beam scores need more than 256 levels. There is no int8 `caption_pixels`: chain the two pieces.
    All files are written, or none.

    Example:
        >>> export_litert(load_photo_model(), "exported/litert", photos=pixels)
        [PosixPath('exported/litert/image_encoder-float32.tflite'), ...]
    """
    written, entries = [], []
    with whole_files(folder) as unfinished:
        for name, (function, specifications) in chosen_pieces(photo_model, names).items():
            with saved_piece(name, function, specifications) as saved:
                for precision in precisions:
                    if precision == "int8" and name == "caption_pixels":
                        continue
                    content = convert(saved, name, precision, photos)
                    path = unfinished / f"{name}-{precision}.tflite"
                    path.write_bytes(content)
                    entries.append(file_entry(photo_model, path, name, precision, *_tensors(content, name)))
                    written.append(Path(folder) / path.name)
        write_about(photo_model, unfinished, "litert", entries, answers=answers(entries))
    return written


@contextlib.contextmanager
def saved_piece(name, function, specifications):
    """The piece as a SavedModel in a temporary folder: from functions alone the converter loses Keras 3's weights."""
    with tempfile.TemporaryDirectory() as folder:
        archive = keras.export.ExportArchive()
        archive.add_endpoint(name, function, specifications)
        with contextlib.redirect_stdout(io.StringIO()):
            archive.write_out(folder, verbose=False)
        yield folder


def convert(saved, name, precision, photos=None):
    """The bytes of one LiteRT file; a piece that needs other than builtin operations does not convert."""
    converter = tf.lite.TFLiteConverter.from_saved_model(saved, signature_keys=[name])
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision == "int8" and name == "image_encoder":
        if photos is None:
            raise ValueError("the int8 image encoder needs photos to measure its ranges on. Received: photos=None")
        converter.representative_dataset = lambda: ((name, {"pixels": photo[None]}) for photo in np.float32(photos))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = tf.uint8
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return converter.convert()


def _tensors(content, name):
    """The inputs and outputs of a file's signature, as `model.json` describes them."""
    runner = tf.lite.Interpreter(model_content=content).get_signature_runner(name)
    for details in (runner.get_input_details(), runner.get_output_details()):
        yield {
            key: tensor(key, np.dtype(value["dtype"]).name, value["shape_signature"]) for key, value in details.items()
        }


def operators(content):
    """The operations of a LiteRT file by name; `CUSTOM:...` or `Flex...` would need more than the plain interpreter.

    Example:
        >>> operators(Path("image_encoder-float32.tflite").read_bytes())
        {'ADD', 'CONV_2D', 'DEPTHWISE_CONV_2D', ...}
    """
    from tensorflow.lite.python import schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    found = set()
    for code in schema.ModelT.InitFromPackedBuf(content, 0).operatorCodes:
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        custom = code.customCode.decode() if code.customCode else ""
        found.add(f"CUSTOM:{custom}" if custom else names[number])
    return found
