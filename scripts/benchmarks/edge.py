"""Edge: one photo on one and on two threads in every runtime: cold start, latency, peak memory, size.

The shipped models, exported anew. Each line is a process of its own: `cold` is from its start to the first caption,
`caption` and `all` (caption, regions, alignment) are medians of the calls after it. OpenVINO (pip install openvino)
takes the ONNX files as they are, if it can.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CALLS = 15
SENTENCE = "a man in a red shirt sits on a bench"
RUNTIMES = {  # name -> the exported folder
    "ONNX Runtime float32": "float32",
    "ONNX Runtime float16": "float16",
    "ONNX Runtime int8": "int8",
    "LiteRT float32": "litert",
    "LiteRT float16": "litert",
    "LiteRT int8": "litert",
    "OpenVINO float32": "float32",
    "SavedModel": "saved",
}


def run():
    """Prints a row for each runtime and number of threads."""
    from keras_imagesent.model.photo_model import load_photo_model
    from keras_imagesent.runtime.exported_model import PRECISIONS
    from keras_imagesent.serving.export import export

    with tempfile.TemporaryDirectory() as folder:
        model, folder = load_photo_model(), Path(folder)
        for precision in PRECISIONS:
            export(model, folder / precision, "onnx", float16=precision == "float16", int8=precision == "int8")
        export(model, folder / "litert", "litert")
        export(model, folder / "saved" / "imagesent")
        photo = folder / "photo.jpg"
        photo.write_bytes(drawn_jpeg())
        print(f"{'runtime':<24}{'threads':>8}{'MB':>8}{'cold s':>8}{'caption ms':>12}{'all ms':>9}{'peak MB':>9}")
        for name, place in RUNTIMES.items():
            for threads in (1, 2):
                started = time.time()
                command = [sys.executable, __file__, name, folder / place, photo, threads, started]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=settings(threads))
                if done.returncode:
                    print(f"{name:<24}{threads:>8}  {(done.stderr.strip().splitlines() or ['failed'])[-1][:100]}")
                    continue
                found = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"{name:<24}{threads:>8}{found['size']:8.1f}{found['cold']:8.2f}{found['caption']:12.0f}"
                    f"{found['all']:9.0f}{found['memory']:9.0f}",
                    flush=True,
                )


def settings(threads):
    """The environment of a child: this tree's package, and as many threads as are measured."""
    threads = {"TF_NUM_INTRAOP_THREADS": str(threads), "TF_NUM_INTEROP_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def drawn_jpeg():
    """A photo of the usual size with things on it."""
    import io

    from PIL import Image

    blocks = np.random.default_rng(0).integers(0, 256, (15, 20, 3))
    stream = io.BytesIO()
    Image.fromarray(np.kron(blocks, np.ones((25, 25, 1))).astype(np.uint8)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def child(name, folder, photo, threads, started):
    """Measures one runtime and prints what it found as JSON."""
    folder, photo = Path(folder), Path(photo).read_bytes()
    caption, everything, size = open_runtime(name, folder, photo, int(threads))
    caption()
    found = {"cold": time.time() - float(started), "size": size / 1e6}
    for key, call in (("caption", caption), ("all", everything)):
        call()
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        found[key] = 1000 * float(np.median(times))
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps(found))


def open_runtime(name, folder, photo, threads):
    """Functions that caption the photo and that give every answer for it, and the bytes of the files."""
    if name == "SavedModel":
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 -- the graph's tokenizer

        saved = tf.saved_model.load(str(folder / "imagesent" / "1")).signatures
        photos, sentences = tf.constant([photo]), tf.constant([SENTENCE])

        def everything():
            saved["serving_default"](image_bytes=photos)
            saved["describe"](image_bytes=photos)
            saved["align"](image_bytes=photos, sentences=sentences)

        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return lambda: saved["serving_default"](image_bytes=photos), everything, size

    from keras_imagesent.runtime import ExportedModel

    runtime, precision = name.rsplit(" ", 1)
    kind = in_openvino(ExportedModel) if runtime == "OpenVINO" else ExportedModel
    model = kind(folder, threads=threads, precision=precision)

    def everything():
        read = model.read([photo])
        model.predict("caption", read)
        model.predict("describe", read)
        model.predict("align", read, [SENTENCE])

    return lambda: model.predict("caption", [photo]), everything, sum(file["bytes"] for file in model.files)


def in_openvino(kind):
    """`ExportedModel` whose files are run by OpenVINO."""
    import openvino

    class InOpenVINO(kind):
        def _network(self, piece):
            if piece not in self._networks:
                path = self.folder / self._pieces[piece]["file"]
                chosen = {"INFERENCE_NUM_THREADS": self._threads, "INFERENCE_PRECISION_HINT": "f32"}
                compiled = openvino.Core().compile_model(str(path), "CPU", chosen)
                names = list(self._outputs(piece))
                self._networks[piece] = lambda inputs: {name: compiled(inputs)[name] for name in names}
            return self._networks[piece]

    return InOpenVINO


if __name__ == "__main__":
    child(*sys.argv[1:])
