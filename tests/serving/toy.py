"""A small SavedModel, and a question to a server over it."""

import json
import urllib.error
import urllib.request

import tensorflow as tf

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


def ask(server, path, body=None, method=None):
    url = f"http://127.0.0.1:{server.rest_port}{path}"
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
