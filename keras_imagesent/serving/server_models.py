"""The models a server holds: version folders found, loaded, warmed up, replaced and let go."""

import threading
from pathlib import Path

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.serving.server_batching import as_serving_error
from keras_imagesent.serving.server_errors import CODES, ServingError
from keras_imagesent.serving.warmup import read_warmup

DEFAULT_SIGNATURE = "serving_default"


class ModelVersion:
    """One loaded SavedModel, called with NumPy arrays."""

    def __init__(self, name, folder):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the operations of the tokenizer
        from tensorflow.core.protobuf import saved_model_pb2

        self.name = name
        self.number = int(Path(folder).name)
        graphs = saved_model_pb2.SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes()).meta_graphs
        serving = next((graph for graph in graphs if "serve" in graph.meta_info_def.tags), None)
        if serving is None:
            raise InputError(f"{folder} holds no graph tagged 'serve': export it with `imagesent export`")
        self.signature_defs = {
            key: value for key, value in serving.signature_def.items() if not key.startswith("__saved_model")
        }
        self._model = tf.saved_model.load(str(folder))
        self._tf = tf
        for request in read_warmup(folder):
            inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
            self.call(request.model_spec.signature_name or DEFAULT_SIGNATURE, inputs)

    def input_dtypes(self, signature):
        """Input name -> NumPy type (`object` for strings), by name."""
        inputs = self.signature_defs[signature].inputs
        return {name: np.dtype(self._tf.as_dtype(inputs[name].dtype).as_numpy_dtype) for name in sorted(inputs)}

    def check(self, signature, inputs, output_filter=()):
        """Refuses what the signature does not take, in TF Serving's words."""
        known = self.signature_defs[signature]
        sent, wanted = set(inputs), set(known.inputs)
        if len(sent) != len(wanted):
            raise ServingError(
                "INVALID_ARGUMENT",
                f"input size does not match signature: {len(sent)}!={len(wanted)} len({{{_join(sent)}}}) != "
                f"len({{{_join(wanted)}}}). Sent extra: {{{_join(sent - wanted)}}}. Missing but required: "
                f"{{{_join(wanted - sent)}}}.",
            )
        for name in sorted(sent - wanted):
            raise ServingError(
                "INVALID_ARGUMENT",
                f"input tensor alias not found in signature: {name}. Inputs expected to be in the set "
                f"{{{_join(wanted)}}}.",
            )
        for name in output_filter:
            if name not in known.outputs:
                raise ServingError(
                    "INVALID_ARGUMENT",
                    f"output tensor alias not found in signature: {name} Outputs expected to be in the set "
                    f"{{{_join(known.outputs)}}}.",
                )
        for name, dtype in self.input_dtypes(signature).items():
            shape = self._tf.TensorShape(known.inputs[name].tensor_shape)
            if inputs[name].dtype != dtype or not shape.is_compatible_with(inputs[name].shape):
                raise ServingError(
                    "INVALID_ARGUMENT",
                    f"input {name} must be {self._tf.as_dtype(known.inputs[name].dtype).name} of shape {shape}, got "
                    f"{self._tf.as_dtype(inputs[name].dtype).name} of shape {inputs[name].shape}",
                )

    def call(self, signature, inputs):
        """Runs a signature; every output as a NumPy array."""
        tensors = {name: self._tf.convert_to_tensor(array) for name, array in inputs.items()}
        outputs = self._model.signatures[signature](**tensors)
        return {name: np.asarray(value.numpy()) for name, value in outputs.items()}


class ModelStore:
    """Serves the newest version folder of each model and watches for newer ones.

    A new version is loaded and warmed up beside the old one, then takes its place; requests under way keep the old one
    alive until they are answered. A version that does not load is reported in the status, the old one stays, and it is
    tried again when its files change: they may have been copied one by one.

    Example:
        >>> store = ModelStore({"imagesent": "saved_models/imagesent"})
        >>> store.get("imagesent").number
        1
    """

    def __init__(self, folders, poll_seconds=2.0):
        self._folders = {name: Path(folder) for name, folder in folders.items()}
        self._serving = {}  # name -> ModelVersion
        self._states = {name: {} for name in folders}  # name -> version -> (state, code, message)
        self._failed = {}  # folder -> its files when it did not load
        self._stop = threading.Event()
        for name, folder in self._folders.items():
            if not _versions(folder):
                raise InputError(
                    f"{folder} has no numbered version folder with a saved_model.pb: write one with `imagesent export`"
                )
            self._refresh(name)
            if name not in self._serving:
                _, _, message = self._states[name][max(self._states[name])]
                raise InputError(f"{folder}: the newest version does not load: {message}")
        self._poll_seconds = poll_seconds
        self._watcher = threading.Thread(target=self._watch, name="version-watch", daemon=True)
        self._watcher.start()

    @property
    def names(self):
        return list(self._folders)

    def get(self, name, version=None):
        """The loaded version, or NOT_FOUND in TF Serving's words."""
        model = self._serving.get(name)
        if model is None or version not in (None, model.number):
            asked = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise ServingError("NOT_FOUND", f"Servable not found for request: {asked}")
        return model

    def states(self, name, version=None):
        """[(version, state, error code's number, message)], newest first."""
        known = self._states.get(name, {})
        if version is not None and version not in known:
            raise ServingError("NOT_FOUND", f"Could not find version {version} of model {name}")
        if not known:
            raise ServingError("NOT_FOUND", f"Could not find any versions of model {name}")
        chosen = sorted(known, reverse=True) if version is None else [version]
        return [(number, known[number][0], CODES[known[number][1]][0], known[number][2]) for number in chosen]

    def close(self):
        self._stop.set()
        self._watcher.join()

    def _watch(self):
        while not self._stop.wait(self._poll_seconds):
            for name in self._folders:
                self._refresh(name)

    def _refresh(self, name):
        """Loads the newest version folder, unless it is being served or has failed with the same files."""
        versions = _versions(self._folders[name])
        if not versions:
            return  # the folder is gone: go on with what is in memory, as TF Serving does
        newest = max(versions)
        old = self._serving.get(name)
        states = self._states[name]
        files = _files(versions[newest])
        if (old and old.number == newest) or self._failed.get(versions[newest]) == files:
            return
        states[newest] = ("LOADING", "OK", "")
        try:
            self._serving[name] = ModelVersion(name, versions[newest])
        except Exception as error:
            problem = as_serving_error(error)
            states[newest] = ("END", problem.code, problem.message)
            self._failed[versions[newest]] = files
            return
        states[newest] = ("AVAILABLE", "OK", "")
        if old:
            states[old.number] = ("END", "OK", "")


def _versions(folder):
    """Version number -> folder, for every numeric folder that holds a SavedModel."""
    return {
        int(child.name): child
        for child in (folder.iterdir() if folder.is_dir() else ())
        if child.name.isdecimal() and (child / "saved_model.pb").is_file()
    }


def _files(folder):
    """The files of a version folder with their sizes and times."""
    found = [(path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in found]


def _join(names):
    return ",".join(sorted(names))
