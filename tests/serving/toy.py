"""A small SavedModel, and a question to a server over it."""

import json
import urllib.error
import urllib.request

import tensorflow as tf

from keras_imagesent.regions.photo import decode_pixels

GOOD = {"x": 1.0, "text": "a"}


def save_toy(folder, factor=2.0):
    """y = factor * x, and text upper-cased."""

    class Toy(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.string, "text")])
        def both(self, x, text):
            rows = tf.fill(tf.shape(x), tf.shape(x)[0])
            return {"y": factor * x, "upper": tf.strings.upper(text), "raw_bytes": text, "batch_rows": rows}

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
        def one(self, x):
            return {"y": factor * x}

    toy = Toy()
    signatures = {"serving_default": toy.both, "one": toy.one}
    tf.saved_model.save(toy, str(folder), signatures)


def ask(server, path, body=None, method=None, **headers):
    url = f"http://127.0.0.1:{server.rest_port}{path}"
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def save_photo_toy(folder):
    """`image_bytes` -> `status` and the mean pixel; `spin` counts to `n`, which may take for ever."""

    class PhotoToy(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")], autograph=False)
        def read(self, image_bytes):
            pixels, status = decode_pixels(image_bytes, 8)
            return {"status": status, "mean": tf.reduce_mean(pixels, axis=[1, 2, 3])}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "n")], autograph=False)
        def spin(self, n):
            most = tf.reduce_max(n)
            end = tf.while_loop(lambda i: i < most, lambda i: (i + 1,), (tf.constant(0, tf.int64),))[0]
            return {"end": tf.fill(tf.shape(n), end)}

    toy = PhotoToy()
    tf.saved_model.save(toy, str(folder), {"serving_default": toy.read, "spin": toy.spin})
