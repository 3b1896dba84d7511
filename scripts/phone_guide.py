"""Writes the shapes of the shipped LiteRT and ONNX files into docs/phones.md's tables; scripts/ship_models runs it.

python scripts/phone_guide.py
"""

import re
from pathlib import Path

from ai_edge_litert.interpreter import Interpreter

from keras_imagesent.errors import InputError
from keras_imagesent.runtime.about import read_about

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "phones.md"


def rewrite(guide, saved_models):
    """The guide's text with the rows of its tables as the files in `saved_models` have them."""
    for signature, (inputs, outputs) in {
        **of_litert(saved_models / "litert"),
        **of_onnx(saved_models / "onnx"),
    }.items():
        row = f"| `{signature}` | {', '.join(inputs)} | {', '.join(outputs)} |"
        guide = re.sub(rf"^\| `{signature}` \|.*$", lambda _, row=row: row, guide, flags=re.MULTILINE)
    return guide


def of_litert(folder):
    """{signature: ([inputs], [outputs])} of all LiteRT files of a folder, from the files themselves."""
    found = {}
    for file in sorted(folder.glob("*.tflite")):
        interpreter = Interpreter(str(file))
        for signature in interpreter.get_signature_list():
            runner = interpreter.get_signature_runner(signature)
            found[signature] = tuple(
                [tensor(name, value["dtype"].__name__, value["shape_signature"][1:]) for name, value in details.items()]
                for details in (runner.get_input_details(), runner.get_output_details())
            )
    return found


def of_onnx(folder):
    """{piece: ([inputs], [outputs])} of the ONNX files that share an image encoder; {} where there are none."""
    try:
        files = [
            file for file in read_about(folder)["files"] if file.get("piece", "caption_pixels") != "caption_pixels"
        ]
    except InputError:
        return {}
    return {
        file["piece"]: tuple(
            [tensor(name, value["dtype"], value["shape"][1:]) for name, value in file[side].items()]
            for side in ("inputs", "outputs")
        )
        for file in files
    }


def tensor(name, dtype, shape):
    """One photo's worth of an input or output, such as `boxes` float32 (1, 20, 4)."""
    return f"`{name}` {dtype} ({', '.join(str(size) for size in (1, *shape))})"


if __name__ == "__main__":
    GUIDE.write_text(rewrite(GUIDE.read_text("utf-8"), ROOT / "saved_models"), "utf-8")
