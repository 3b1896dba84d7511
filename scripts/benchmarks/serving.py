"""Serving: photos per second and latency of every runtime, one photo and a batch of 32, side by side.

The shipped models where they are, else networks of that size with random weights. Beside them `transformers`' generate
with a BLIP-base-sized model of random weights on the same cores. That is for comparison only and needs PyTorch, which
may have an environment of its own: pip install torch transformers pillow, and name its Python in BLIP_PYTHON.
"""

import base64
import concurrent.futures
import http.client
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

BATCH, BEAM, LENGTH = 32, 3, 20
SECONDS = 8  # for each measurement
TURNS = 5  # of the server and the SavedModel, since the machine's own speed changes


def run():
    """Prints a row for each runtime: photos/s, p50 and p95 in ms for 1 photo and for 32."""
    import tensorflow as tf

    from keras_imagesent.serving.litert_export import export_litert
    from keras_imagesent.serving.onnx_export import export_onnx
    from keras_imagesent.serving.saved_model import export_saved_model

    model = photo_model()
    jpegs = drawn_jpegs(BATCH)
    print(f"beam {BEAM}, up to {LENGTH} words, {model.image_size} px, JPEG 500x375 in, captions out")
    print(f"{'runtime':<26}{'1 photo/s':>10}{'p50 ms':>9}{'p95 ms':>9}{'32: photos/s':>14}{'p50 ms':>9}{'p95 ms':>9}")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        report("Keras (tf.function)", lambda photos: model.caption(tf.constant(photos)), jpegs)
        start = time.perf_counter()
        version = export_saved_model(model, folder / "imagesent", warmup_photos=jpegs[:1])
        export_seconds = time.perf_counter() - start
        loaded = tf.saved_model.load(str(version)).signatures["serving_default"]

        def caption(photos):
            return loaded(image_bytes=tf.constant(photos))

        report("SavedModel", caption, jpegs)
        serve(folder / "imagesent", jpegs, lambda: caption(jpegs))

        pixels, _ = model._decode(tf.constant(jpegs))
        pixels = pixels.numpy()
        export_onnx(model, folder, names=["caption_pixels"])
        report("ONNX Runtime (pixels)", onnx_runner(folder / "caption_pixels.onnx"), pixels)
        export_litert(model, folder, photos=pixels, names=["image_encoder", "captioner", "caption_pixels"])
        for precision in ("float32", "float16", "int8"):
            report(f"LiteRT {precision} (pixels)", litert_runner(folder, precision), pixels)
        subprocess.run([os.environ.get("BLIP_PYTHON", sys.executable), __file__, "blip"], check=True)
        print(f"export of the SavedModel: {export_seconds:.0f} s")
        print(f"cold start of the SavedModel, process to first caption: {cold_start(version, jpegs[0]):.1f} s")
        sizes = {path.name: path.stat().st_size / 1e6 for path in sorted(folder.glob("*.*")) if path.is_file()}
        print("MB:", ", ".join(f"{name} {size:.1f}" for name, size in sizes.items() if size > 0.1))


def photo_model():
    """The shipped whole-photo captioner, or one of the same size with random weights."""
    from keras_imagesent.captioning.captioner import build_captioner
    from keras_imagesent.data.vocabulary import Vocabulary
    from keras_imagesent.errors import InputError
    from keras_imagesent.model.photo_model import PhotoModel, load_photo_model
    from keras_imagesent.model.run import Run
    from keras_imagesent.regions.backbone import build_backbone

    search = {"beam": BEAM, "captions": BEAM, "max_length": LENGTH}
    try:
        return load_photo_model(detector=False, alignment=False, region_captioner=False, **search)
    except InputError:
        words = [f"word{i}" for i in range(2537)]
        captioner = build_captioner(1280, len(words), "lstm", 512, 256)
        part = Run.of(captioner, Vocabulary(words, [1] * len(words)))
        return PhotoModel(build_backbone(weights=None), captioner=part, **search)


def drawn_jpegs(number):
    """JPEGs of the usual size with things on them."""
    rng = np.random.default_rng(0)
    jpegs = []
    for _ in range(number):
        photo = np.kron(rng.integers(0, 256, (15, 20, 3)), np.ones((25, 25, 1))).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(photo).save(stream, "JPEG", quality=90)
        jpegs.append(stream.getvalue())
    return jpegs


def report(name, caption, photos, least=3):
    """Times one photo and 32 photos a call."""
    one, many = measure(lambda: caption(photos[:1]), least), measure(lambda: caption(photos), least)
    row(name, one, many, len(photos))


def row(name, one, many, batch):
    def columns(times, photos):
        middle, high = np.percentile(times, [50, 95])
        return photos / middle, 1000 * middle, 1000 * high

    single, group = columns(one, 1), columns(many, batch)
    print(
        f"{name:<26}{single[0]:10.1f}{single[1]:9.0f}{single[2]:9.0f}{group[0]:14.1f}{group[1]:9.0f}{group[2]:9.0f}",
        flush=True,
    )


def measure(call, least):
    """Seconds of each call, after a first one that is not counted; at least so many."""
    call()
    times, until = [], time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(times) < least:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return np.array(times)


def serve(folder, jpegs, batch):
    """Our server as its own process, asked by 1 and by 16 clients, one photo a request, in turns with the SavedModel.

    `batch` calls the SavedModel with all photos at once: what the server's throughput is compared with.
    """
    command = [sys.executable, "-m", "keras_imagesent", "serve", str(folder), "--port", "0", "--grpc-port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = next(line for line in server.stdout if line.startswith("REST"))
        port = int(line.split(":")[2].split("/")[0])
        bodies = [json.dumps({"instances": [{"b64": base64.b64encode(jpeg).decode()}]}) for jpeg in jpegs]
        for clients in (1, 16):
            ask(port, bodies, clients, 3)  # let it warm up
            latencies, rates, shares = [], [], []
            for _ in range(TURNS):
                alone = len(jpegs) / np.median(measure(batch, 3))
                times, seconds = ask(port, bodies, clients, SECONDS)
                latencies += times
                rates.append(len(times) / seconds)
                shares.append(rates[-1] / alone)
            middle, high = np.percentile(latencies, [50, 95])
            print(
                f"{f'server, {clients} client(s)':<26}{np.median(rates):10.1f}{1000 * middle:9.0f}{1000 * high:9.0f}"
                f"{np.median(shares):14.0%} of the SavedModel's batch throughput "
                f"({', '.join(f'{share:.0%}' for share in sorted(shares))})",
                flush=True,
            )
    finally:
        server.terminate()
        server.wait()


def ask(port, bodies, clients, seconds):
    """Every client asks again as soon as it is answered; returns the latencies and the time it took."""
    start = time.perf_counter()

    def client(number):
        connection, times = http.client.HTTPConnection("127.0.0.1", port), []
        while time.perf_counter() < start + seconds:
            sent = time.perf_counter()
            body = bodies[(number + len(times)) % len(bodies)]
            connection.request("POST", "/v1/models/imagesent:predict", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            response.read()
            times.append(time.perf_counter() - sent)
        return times

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        times = [value for values in pool.map(client, range(clients)) for value in values]
    return times, time.perf_counter() - start


def onnx_runner(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    return lambda pixels: session.run(None, {"pixels": pixels})


def litert_runner(folder, precision):
    """From pixels to words, photo by photo as phones do; int8 chains the encoder and the beam search."""
    from ai_edge_litert.interpreter import Interpreter

    def runner(piece):
        return Interpreter(str(folder / f"{piece}-{precision}.tflite"), num_threads=2).get_signature_runner(piece)

    if precision != "int8":
        whole = runner("caption_pixels")
        return lambda pixels: [whole(pixels=photo[None]) for photo in pixels]
    encoder, captioner = runner("image_encoder"), runner("captioner")

    def caption(pixels):
        for photo in pixels.astype(np.uint8):
            captioner(image_features=encoder(pixels=photo[None])["image_features"])

    return caption


def blip(size=384):
    """transformers' generate with a BLIP-base-sized model of random weights; runs in the Python that has them."""
    if not (importlib.util.find_spec("transformers") and importlib.util.find_spec("torch")):
        print("transformers BLIP-base: torch or transformers is not installed; name a Python with both in BLIP_PYTHON")
        return
    import torch
    from transformers import BlipConfig, BlipForConditionalGeneration

    model = BlipForConditionalGeneration(BlipConfig()).eval()
    images = torch.rand(BATCH, 3, size, size)

    def caption(images):
        with torch.inference_mode():
            said = model.generate(pixel_values=images, num_beams=BEAM, max_length=LENGTH, min_length=LENGTH)
        assert said.shape == (len(images), LENGTH), said.shape

    report("transformers BLIP-base", caption, images, least=1)


def cold_start(version, jpeg):
    """Seconds from starting Python to the first caption."""
    script = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "model = tf.saved_model.load(sys.argv[1]).signatures['serving_default']\n"
        "model(image_bytes=tf.constant([sys.stdin.buffer.read()]))\n"
    )
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script, str(version)], input=jpeg, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    blip() if sys.argv[1:] == ["blip"] else run()
