"""TF Serving's text files: models.config (which versions of which models) and the batching parameters."""

import dataclasses
import re
from pathlib import Path

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One model: its folder, which of the versions there are served, and names for some of them.

    `latest` is how many of the newest are served, None all of them; `versions`, when given, are served instead.
    """

    folder: Path
    latest: int | None = 1
    versions: tuple = ()
    labels: dict = dataclasses.field(default_factory=dict)

    def choose(self, numbers):
        """The version numbers to serve among those that exist."""
        if self.versions:
            return sorted(set(self.versions) & set(numbers))
        newest = sorted(numbers)
        return newest if self.latest is None else newest[-self.latest :]


def read_models_config(path):
    """Model name -> ModelConfig, from TF Serving's `models.config` (its `model_config_list`).

    A relative `base_path`, or one under the container's `/models`, is taken beside the file.
    """
    require("tensorflow_serving", "serve")
    from tensorflow_serving.config import model_server_config_pb2

    path = Path(path)
    config = _parse(path, model_server_config_pb2.ModelServerConfig(), "a models.config of TF Serving")
    return models_of(config, path.parent, str(path))


def models_of(config, folder, source):
    """Model name -> ModelConfig of a ModelServerConfig message; what this server cannot do is refused."""
    if config.WhichOneof("config") == "custom_model_config":
        raise InputError(f"{source} has a custom_model_config: only a model_config_list is served")
    models = {}
    for model in config.model_config_list.config:
        if not model.name:
            raise InputError(f"{source} has a model without a name: add name")
        if model.name in models:
            raise InputError(f"{source} lists model {model.name} more than once")
        if model.model_platform not in ("", "tensorflow"):
            raise InputError(f"{source}: model {model.name} is for {model.model_platform}: only tensorflow is served")
        if model.HasField("logging_config"):
            raise InputError(f"{source}: model {model.name} has a logging_config, which is not served: remove it")
        base = Path(model.base_path)
        if base.is_relative_to("/models"):
            base = base.relative_to("/models")
        policy = model.model_version_policy
        choice = policy.WhichOneof("policy_choice")
        if choice == "specific" and not policy.specific.versions:
            raise InputError(f"{source}: model {model.name} serves specific versions but names none: add versions")
        models[model.name] = ModelConfig(
            folder / base,
            latest=None if choice == "all" else max(policy.latest.num_versions, 1),
            versions=tuple(policy.specific.versions),
            labels=dict(model.version_labels),
        )
    if not models:
        raise InputError(f"{source} names no model: add one to its model_config_list")
    return models


# Of TF Serving's session_bundle_config.proto, which tensorflow-serving-api does not carry: what we take, and our name.
BATCHING = {
    "max_batch_size": "max_batch_size",
    "batch_timeout_micros": "batch_wait_seconds",
    "max_enqueued_batches": "max_queued_rows",
    "num_batch_threads": "batch_threads",
}
PARAMETER = re.compile(r"(\w+)\s*:?\s*\{\s*value\s*:\s*(\d+)\s*\}")


def read_batching_config(path):
    """Keyword arguments of `Server` from TF Serving's batching parameters file.

    Lines of `name { value: NUMBER }`, as TF Serving's guide writes them; a parameter we do not have is refused.
    """
    path = Path(path)
    try:
        text = re.sub(r"#.*", "", path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): give TF Serving's batching parameters") from None
    found = dict(PARAMETER.findall(text))
    rest = PARAMETER.sub("", text).strip()
    if rest:
        raise InputError(
            f"{path}: cannot read {rest.splitlines()[0]!r}: write lines like max_batch_size {{ value: 32 }}"
        )
    if unknown := sorted(set(found) - set(BATCHING)):
        raise InputError(f"{path}: {', '.join(unknown)} is not served here: use {', '.join(BATCHING)}")
    values = {name: int(value) for name, value in found.items()}
    if any(value < 1 for name, value in values.items() if name != "batch_timeout_micros"):
        raise InputError(f"{path}: every value but batch_timeout_micros must be at least 1")
    settings = {BATCHING[name]: value for name, value in values.items()}
    if "batch_wait_seconds" in settings:
        settings["batch_wait_seconds"] /= 1e6
    if "max_queued_rows" in settings:  # TF Serving counts batches, we count rows
        settings["max_queued_rows"] *= settings.get("max_batch_size", 32)
    return settings


def _parse(path, message, what):
    from google.protobuf import text_format

    try:
        return text_format.Parse(path.read_text(), message)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give {what}") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not {what}: {error}") from None
