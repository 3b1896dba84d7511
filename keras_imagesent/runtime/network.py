"""One exported file as a function from named arrays to named arrays, in the runtime that its ending asks for."""

import os
from pathlib import Path

from keras_imagesent.extras import require

ENDINGS = (".onnx", ".tflite")


def load_network(path: Path, piece: str, outputs, threads: int | None = None):
    """Loads an exported file.

    Args:
        path: ends in .onnx (ONNX Runtime) or .tflite (LiteRT).
        piece: the name of its signature.
        outputs: the names of what it gives.
        threads: None lets the runtime choose.

    Example:
        >>> load_network(Path("onnx/captioner.onnx"), "captioner", ["token_ids"])({"image_features": features})
    """
    return (_litert if path.suffix == ".tflite" else _onnx)(path, piece, list(outputs), threads)


def _onnx(path, _, outputs, threads):
    onnxruntime = require("onnxruntime", "onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting would take a core
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # int8 weights become float32 once, at loading
    if threads:
        options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: dict(zip(outputs, session.run(outputs, inputs), strict=True))


def _litert(path, piece, outputs, threads):
    interpreter = require("ai_edge_litert.interpreter", "litert").Interpreter(
        str(path), num_threads=threads or os.cpu_count()
    )
    run = interpreter.get_signature_runner(piece)
    dtypes = {name: details["dtype"] for name, details in run.get_input_details().items()}  # int8: pixels are uint8

    def network(inputs):
        found = run(**{name: value.astype(dtypes[name]) for name, value in inputs.items()})
        return {name: found[name] for name in outputs}

    return network
