"""`assets.extra/tf_serving_warmup_requests`: real requests that TF Serving runs before it opens a model."""

from pathlib import Path

from keras_imagesent.data.atomic import whole_file

FILE = Path("assets.extra") / "tf_serving_warmup_requests"


def write_warmup(version_folder, name, requests):
    """Writes requests for TF Serving's warm-up; `requests` holds `(signature, {input: array})`.

    Example:
        >>> write_warmup("saved_models/imagesent/1", "imagesent", [("serving_default", {"image_bytes": [jpeg]})])
    """
    import tensorflow as tf

    path = Path(version_folder) / FILE
    path.parent.mkdir(exist_ok=True)
    with whole_file(path) as unfinished, tf.io.TFRecordWriter(str(unfinished)) as writer:
        for signature, inputs in requests:
            tensors = {key: tf.make_tensor_proto(value).SerializeToString() for key, value in inputs.items()}
            writer.write(_prediction_log(name, signature, tensors))
    return path


def _prediction_log(name, signature, tensors):
    """TF Serving's PredictionLog of one request, in protobuf's wire form: an export does not need its package.

    PredictionLog.predict_log = 6, PredictLog.request = 1, PredictRequest.model_spec = 1 and .inputs = 2 (key = 1,
    value = 2), ModelSpec.name = 1 and .signature_name = 3.
    """
    request = _field(1, _field(1, name.encode()) + _field(3, signature.encode()))
    for key, tensor in tensors.items():
        request += _field(2, _field(1, key.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))


def _field(number, content):
    """One length-delimited field: its tag, its length as a varint, its bytes."""
    length, size = b"", len(content)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def read_warmup(version_folder):
    """The PredictRequests of a version's warm-up file; none if there is no file."""
    path = Path(version_folder) / FILE
    if not path.is_file():
        return []
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
