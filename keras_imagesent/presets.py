"""Published settings: name -> keyword arguments of a trainer."""

from keras_imagesent.errors import InputError

ALIGNMENT = {
    # The paper: dot products (Eq. 8), hinges with margin 1 summed over a batch of 100 (Eq. 9), SGD with momentum 0.9,
    # elements of the gradient clipped at 5, dropout everywhere but in the recurrence, 1000 dimensions; no classes, no
    # prior, no cosine, no second space, nothing hidden. What its text does not say and it needs on our vectors: each
    # centred region vector has unit length (`unit`), the two projections start at 0.3 of Glorot's spread
    # (`projection_start`), and the learning rate rises and falls (`schedule`). Its word vectors are word2vec's, fixed:
    # give them with --word-vectors; it found random ones, trained, about as good.
    "paper": {
        "dim": 1000,
        "units": 512,
        "word_dim": 300,
        "sentences": "brnn",
        "score": "max_sim",
        "whole_frame": False,
        "negatives": "sum",
        "margin": 1.0,
        "similarity": "dot",
        "temperature": 0.1,
        "dropout": 0.3,
        "hide_frame": 0.0,
        "hide_regions": 0.0,
        "prior": 0.0,
        "frame_dim": 0,
        "root": False,
        "unit": True,
        "classes": False,
        "train_words": True,
        "optimizer": "sgd",
        "learning_rate": 1e-4,  # of a sum over the batch: a mean over 100 pairs would want 1e-2
        "weight_decay": 1e-5,
        "schedule": "cosine",
        "batch_size": 100,
        "epochs": 20,
        "patience": 5,
    },
}
# What scores highest on 500 training photos set aside: the mean of the best cosines, trained as a choice in the batch.
# Tried there, after one epoch (sum of the six recalls): sum of hinges 119, softmax over dot products 117, over summed
# cosines 137, over mean cosines 199.
ALIGNMENT["best"] = {
    **ALIGNMENT["paper"],
    "dim": 384,
    "frame_dim": 384,
    "hide_frame": 0.8,  # the frame has its own vector: among the regions it would keep words from finding their places
    "hide_regions": 0.5,
    "root": True,  # sum of recalls after two epochs 296.7, without 286.5
    "unit": False,
    "classes": True,
    "score": "mean_max_sim",
    "negatives": "softmax",
    "similarity": "cosine",
    "temperature": 0.05,
    "dropout": 0.3,
    "prior": 0.3,  # as good as 0 in retrieval after three epochs (271.6 and 272.0; 1 gave 243), and better in grounding
    "optimizer": "adam",
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "epochs": 10,
}

CAPTIONER = {
    # The paper's network, optimiser and beam, on the vectors that can be had here.
    "paper": {
        "cell": "relu",
        "units": 512,
        "word_dim": 256,
        "dropout": 0.5,
        "activate_image": False,
        "activate_words": False,
        "classes": False,
        "attention": 0,
        "optimizer": "rmsprop",
        "learning_rate": 1e-3,
        "decay": 1.0,
        "weight_decay": 0.0,
        "clip": 5.0,
        "batch_size": 100,
        "epochs": 20,
        "patience": 3,
        "monitor": "perplexity",
        "beam": 7,
        "length_penalty": 0.0,
    },
}
# What scores highest on validation data.
CAPTIONER["best"] = {
    **CAPTIONER["paper"],
    "cell": "lstm",
    "optimizer": "adam",
    "learning_rate": 2e-3,
    "decay": 0.8,
    "epochs": 12,
    "monitor": "cider",
    "beam": 3,
    "length_penalty": 0.7,
}
# What `imagesent train-captioner --self-critical` changes: small steps from a trained captioner.
SELF_CRITICAL = {
    "dropout": 0.2,
    "optimizer": "adam",
    "learning_rate": 5e-5,
    "decay": 0.9,
    "epochs": 10,
    "patience": 3,
    "monitor": "cider",
}

SENTENCES = ("brnn", "words", "bigrams", "trees")  # how words meet their neighbors
# Those of the settings that shape the model: arguments of `build_alignment` and `build_captioner`.
ALIGNMENT_MODEL = (
    "dim", "units", "word_dim", "sentences", "score", "whole_frame", "negatives", "margin", "similarity", "temperature",
    "dropout", "hide_frame", "hide_regions", "prior", "frame_dim", "root", "unit", "classes", "train_words",
)  # fmt: skip
CAPTIONER_MODEL = ("cell", "units", "word_dim", "dropout", "activate_image", "activate_words", "classes", "attention")


def alignment_settings(preset="best", **changes):
    """The settings of an alignment preset with some of them changed, checked.

    Example:
        >>> alignment_settings("paper", epochs=3)["epochs"]
        3
    """
    settings = _choose(ALIGNMENT, preset, changes)
    for name in ("dim", "units", "word_dim", "batch_size", "epochs", "learning_rate"):
        if settings[name] <= 0:
            raise InputError(f"{name} must be above 0, not {settings[name]}")
    if settings["sentences"] not in SENTENCES:
        raise InputError(f"sentences must be one of {', '.join(SENTENCES)}, not {settings['sentences']}")
    if settings["frame_dim"] < 0:
        raise InputError(f"frame_dim must be 0 or more, not {settings['frame_dim']}")
    if settings["frame_dim"] and settings["score"] == "defrag":
        raise InputError("the score defrag has no frame beside the regions: frame_dim must be 0")
    _check_shares(settings, "dropout", "hide_frame", "hide_regions")
    return settings


def captioner_settings(preset="best", **changes):
    """The settings of a captioner preset with some of them changed, checked.

    Example:
        >>> captioner_settings("best", units=64)["cell"]
        'lstm'
    """
    settings = _choose(CAPTIONER, preset, changes)
    for name in ("units", "word_dim", "batch_size", "epochs", "patience", "learning_rate", "clip", "beam", "decay"):
        if settings[name] <= 0:
            raise InputError(f"{name} must be above 0, not {settings[name]}")
    if settings["attention"] < 0:
        raise InputError(f"attention must be 0 or more, not {settings['attention']}")
    _check_shares(settings, "dropout")
    return settings


def _choose(presets, name, changes):
    if name not in presets:
        raise InputError(f"no preset {name!r}: there are {', '.join(presets)}")
    unknown = [key for key in changes if key not in presets[name]]
    if unknown:
        raise InputError(f"no setting {unknown[0]!r}: there are {', '.join(presets[name])}")
    return {**presets[name], **changes}


def _check_shares(settings, *names):
    for name in names:
        if not 0 <= settings[name] < 1:
            raise InputError(f"{name} is a share from 0 up to 1, not {settings[name]}")
