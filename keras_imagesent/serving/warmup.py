"""`assets.extra/tf_serving_warmup_requests`: real requests that TF Serving runs before it opens a model."""

import os
from pathlib import Path

FILE = Path("assets.extra") / "tf_serving_warmup_requests"


def write_warmup(version_folder, name, requests):
    """Writes requests for TF Serving's warm-up; `requests` holds `(signature, {input: array})`.

    Example:
        >>> write_warmup("saved_models/imagesent/1", "imagesent", [("serving_default", {"image_bytes": [jpeg]})])
    """
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    path = Path(version_folder) / FILE
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    with tf.io.TFRecordWriter(str(unfinished)) as writer:
        for signature, inputs in requests:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())
    os.replace(unfinished, path)
    return path


def read_warmup(version_folder):
    """The PredictRequests of a version's warm-up file; none if there is no file."""
    path = Path(version_folder) / FILE
    if not path.is_file():
        return []
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record).predict_log.request for record in records]
