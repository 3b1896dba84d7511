"""The models a server holds: version folders found, loaded, warmed up, replaced and let go."""

import importlib.util
import logging
import threading
import time
import weakref
from pathlib import Path

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.serving.server_batching import as_serving_error
from keras_imagesent.serving.server_config import ModelConfig
from keras_imagesent.serving.server_errors import CODES, ServingError
from keras_imagesent.serving.server_tensors import wrong_input
from keras_imagesent.serving.warmup import read_warmup

DEFAULT_SIGNATURE = "serving_default"
log = logging.getLogger("keras_imagesent.serving")


class ModelVersion:
    """One loaded SavedModel, called with NumPy arrays."""

    def __init__(self, name, folder):
        import tensorflow as tf
        from tensorflow.core.protobuf import saved_model_pb2
        from tensorflow.python.eager import cancellation

        self.name = name
        self.number = int(Path(folder).name)
        graphs = saved_model_pb2.SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes()).meta_graphs
        serving = next((graph for graph in graphs if "serve" in graph.meta_info_def.tags), None)
        if serving is None:
            raise InputError(f"{folder} holds no graph tagged 'serve': export it with `imagesent export`")
        self.all_signature_defs = dict(serving.signature_def)  # what the metadata shows
        self.signature_defs = {
            key: value for key, value in serving.signature_def.items() if not key.startswith("__saved_model")
        }
        _load_text_operations(tf)
        self._model = tf.saved_model.load(str(folder))
        self._tf, self._cancellation = tf, cancellation
        self.warmup = read_warmup(folder)

    def warm_up(self, most=None):
        """Runs the recorded requests, or so many of them: TensorFlow prepares a signature at its first call."""
        while self.warmup and most != 0:
            request = self.warmup[0]
            try:
                inputs = {key: self._tf.make_ndarray(value) for key, value in request.inputs.items()}
                self.call(request.model_spec.signature_name or DEFAULT_SIGNATURE, inputs)
            finally:
                self.warmup.remove(request)
            most = None if most is None else most - 1

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
        for place, name in enumerate(output_filter):
            if name not in known.outputs:
                raise ServingError(
                    "INVALID_ARGUMENT",
                    f"output tensor alias not found in signature: {name} Outputs expected to be in the set "
                    f"{{{_join(known.outputs)}}}.",
                )
            if name in output_filter[:place]:
                raise ServingError("INVALID_ARGUMENT", f"duplicate output tensor alias: {name}")
        for name, dtype in self.input_dtypes(signature).items():
            shape = self._tf.TensorShape(known.inputs[name].tensor_shape)
            if inputs[name].dtype != dtype or not shape.is_compatible_with(inputs[name].shape):
                raise wrong_input(name, known.inputs[name], inputs[name].dtype, inputs[name].shape)

    def call(self, signature, inputs, stop=None):
        """Runs a signature; every output as a NumPy array. `stop` (see `Stop`) ends it from another thread."""
        tensors = {name: self._tf.convert_to_tensor(array) for name, array in inputs.items()}
        manager = self._cancellation.CancellationManager()
        if stop:
            stop.when_asked(manager.start_cancel)
        with self._cancellation.CancellationManagerContext(manager):
            outputs = self._model.signatures[signature](**tensors)
        return {name: np.asarray(value.numpy()) for name, value in outputs.items()}


class ModelStore:
    """Serves the versions of each model that its config asks for and watches for others.

    A new version is loaded and warmed up beside the old one, then takes its place; requests under way keep the old one
    alive until they are answered. When there is no old one, it is served after the first of its warm-up requests; the
    others are run meanwhile, and `is_warm` says when they are done. A version that does not load is reported in the
    status, the old one stays, and it is tried again when its files change: they may have been copied one by one.

    Args:
        models: model name -> its folder, of which the newest version is served, or a `ModelConfig`.

    Example:
        >>> store = ModelStore({"imagesent": "saved_models/imagesent"})
        >>> store.get("imagesent").number
        1
    """

    def __init__(self, models, poll_seconds=2.0, read_config=None):
        self._configs = {}
        self._serving = {}  # name -> version number -> ModelVersion
        self._states = {}  # name -> version number -> (state, code, message)
        self._failed = {}  # folder -> its files when it did not load
        self._lock = threading.Lock()  # held while versions are loaded
        self._stop = threading.Event()
        self._read_config = read_config
        self._poll_seconds = poll_seconds
        self.last_look = time.monotonic()
        self.failed_looks = 0
        self.reload(models)
        self._watcher = threading.Thread(target=self._watch, name="version-watch", daemon=True)
        self._watcher.start()

    @property
    def names(self):
        return list(self._configs)

    @property
    def is_warm(self):
        return not any(model.warmup for loaded in list(self._serving.values()) for model in loaded.values())

    def get(self, name, version=None, label=None):
        """The loaded version, or NOT_FOUND in TF Serving's words."""
        if label:
            labels = self._configs[name].labels if name in self._configs else {}
            if label not in labels:
                raise ServingError("INVALID_ARGUMENT", f"Unrecognized servable version label: {label}")
            version = labels[label]
        loaded = self._serving.get(name, {})
        model = loaded.get(max(loaded, default=None) if version is None else version)
        if model is None:
            asked = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise ServingError("NOT_FOUND", f"Servable not found for request: {asked}")
        return model

    def states(self, name, version=None, label=None):
        """[(version, state, error code's number, message)], newest first."""
        if label:
            version = self.get(name, label=label).number
        known = dict(self._states.get(name, {}))
        if version is not None and version not in known:
            raise ServingError("NOT_FOUND", f"Could not find version {version} of model {name}")
        if not known:
            raise ServingError("NOT_FOUND", f"Could not find any versions of model {name}")
        chosen = sorted(known, reverse=True) if version is None else [version]
        return [(number, known[number][0], CODES[known[number][1]][0], known[number][2]) for number in chosen]

    def reload(self, models):
        """Takes other models or configs: what is new is loaded, then what is gone is let go. All or nothing."""
        configs = {
            name: config if isinstance(config, ModelConfig) else ModelConfig(Path(config))
            for name, config in models.items()
        }
        with self._lock:
            before = self._configs
            for name, config in configs.items():
                found = _versions(config.folder)
                if not found:
                    raise InputError(
                        f"{config.folder} has no numbered version folder with a saved_model.pb: write one with "
                        "`imagesent export`"
                    )
                if not config.choose(found):
                    wanted = ", ".join(map(str, config.versions))
                    raise InputError(f"{config.folder} has none of the versions {wanted} that {name} is to serve")
            for name, config in configs.items():
                self._states.setdefault(name, {})
                self._refresh(name, config)
                problem = self._problem(name, config)
                if problem:
                    for new in set(configs) - set(before):
                        self._serving.pop(new, None)
                        self._states.pop(new, None)
                    raise InputError(problem)
            self._configs = configs
            for name in set(before) - set(configs):
                for number in list(self._serving.get(name, {})):
                    self._unload(name, number)

    def close(self):
        self._stop.set()
        self._watcher.join(5.0)

    def _problem(self, name, config):
        """Why a config cannot be served; None when it can."""
        loaded = self._serving.get(name, {})
        if not loaded:
            return f"{config.folder}: the newest version does not load: {self._failed_message}"
        for label, number in config.labels.items():
            if number not in loaded:
                return (
                    f"Request to assign label to version {number} of model {name}, which is not currently available "
                    f"for inference: label {label}"
                )
        return None

    def _finish_warmup(self):
        for model in [model for loaded in list(self._serving.values()) for model in loaded.values()]:
            while model.warmup and not self._stop.is_set():
                try:
                    model.warm_up(1)
                except Exception as error:
                    log.warning("warming up %s failed: %s: %.300s", model.name, type(error).__name__, error)

    def _watch(self):
        self._stop.wait(min(1.0, self._poll_seconds))  # the first request goes first
        self._finish_warmup()
        while not self._stop.wait(self._poll_seconds):
            try:
                if self._read_config and (models := self._read_config()) != self._configs:
                    self.reload(models)
                with self._lock:
                    for name, config in self._configs.items():
                        self._refresh(name, config)
                self.last_look = time.monotonic()
            except Exception as error:  # a folder that cannot be read now may be readable at the next look
                self.failed_looks += 1
                log.warning("looking for versions failed: %s: %s", type(error).__name__, error)

    def _refresh(self, name, config):
        """Loads the wanted versions that are not served yet, unless they have failed with the same files."""
        folders = _versions(config.folder)
        wanted = config.choose(folders)
        if not wanted:
            return  # the folder is gone: go on with what is in memory, as TF Serving does
        loaded, states = self._serving.setdefault(name, {}), self._states[name]
        files = {number: _files(folders[number]) for number in wanted if number not in loaded}
        new = [number for number in files if self._failed.get(folders[number]) != files[number]]
        for number in new:
            states[number] = ("START", "OK", "")
        for number in sorted(new, reverse=True):
            states[number] = ("LOADING", "OK", "")
            try:
                model = ModelVersion(name, folders[number])
                model.warm_up(most=None if loaded else 1)
            except Exception as error:
                problem = as_serving_error(error)
                self._failed_message = problem.message
                log.warning("version %d of %s does not load: %s", number, name, problem.message)
                message = "this version does not load: the server's log says why"  # no paths for strangers
                states[number] = ("END", problem.code, message)
                self._failed[folders[number]] = files[number]
                continue
            self._serving[name] = {**self._serving[name], number: model}
            states[number] = ("AVAILABLE", "OK", "")
        if set(wanted) & set(self._serving[name]):
            for number in set(self._serving[name]) - set(wanted):
                self._unload(name, number)

    def _unload(self, name, number):
        """Takes a version out; it ends when the last request that uses it is answered."""
        states = self._states[name]
        states[number] = ("UNLOADING", "OK", "")
        others = dict(self._serving[name])
        model = others.pop(number)
        self._serving[name] = others
        weakref.finalize(model, _end, states, number)


def _end(states, number):
    if states.get(number, ("",))[0] == "UNLOADING":
        states[number] = ("END", "OK", "")


def _load_text_operations(tf):
    """The tokenizer's operations, without the rest of tensorflow_text: that imports Keras, which takes a second."""
    package = Path(importlib.util.find_spec("tensorflow_text").origin).parent
    for library in sorted((package / "python" / "ops").glob("_*.so")):
        tf.load_op_library(str(library))


def _versions(folder):
    """Version number -> folder, for every numeric folder that holds a SavedModel."""
    return {
        int(child.name): child
        for child in (folder.iterdir() if folder.is_dir() else ())
        if child.name.isdecimal() and int(child.name) < 2**63 and (child / "saved_model.pb").is_file()
    }


def _files(folder):
    """The files of a version folder with their sizes and times."""
    found = [(path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in found]


def _join(names):
    return ",".join(sorted(names))
