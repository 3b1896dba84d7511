"""Trains a captioner into a run folder."""

from functools import partial
from pathlib import Path

import keras
import numpy as np

from keras_imagesent.captioning.captioner import (
    build_captioner,
    set_feature_centring,
    set_output_bias,
    set_region_mean,
)
from keras_imagesent.captioning.fine_tune import FineTuning
from keras_imagesent.captioning.self_critical import END, SelfCritical
from keras_imagesent.data.caption_pairs import CaptionPairs
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.cider import Cider
from keras_imagesent.model.run import Run, load_keras
from keras_imagesent.presets import CAPTIONER_MODEL, SELF_CRITICAL, captioner_settings
from keras_imagesent.shipped import shipped
from keras_imagesent.training.devices import choose_strategy
from keras_imagesent.training.fit import fit_run, keep_vocabulary, validation_split
from keras_imagesent.training.optimizers import build_optimizer
from keras_imagesent.training.start_from import add_words
from keras_imagesent.training.validate_captions import Validator
from keras_imagesent.training.workers import Workers


def train_captioner(
    prepared,
    out,
    preset="best",
    pairs=None,
    validation_pairs=None,
    both=False,
    frame=False,
    start_from=None,
    self_critical=False,
    fine_tune=None,
    backbone=None,
    backbone_learning_rate=1e-5,
    validation=None,
    devices=None,
    seed=0,
    save_minutes=2.0,
    **settings,
):
    """Learns to caption whole photos or regions; called again on the same folder, it goes on where it was.

    Args:
        prepared: folder that `prepare` wrote.
        out: the run folder to write.
        preset: the settings to start from, a name in `keras_imagesent.presets.CAPTIONER`.
        pairs: a file of (region, snippet) pairs to learn from instead of whole photos.
        validation_pairs: pairs of the validation split; without them a twentieth of `pairs` is held out.
        both: whether to learn from the pairs and from whole photos.
        frame: whether the whole frame's vector is given beside the region's.
        start_from: another run whose weights to start with; its words are kept, and new ones are added.
        self_critical: whether to learn from the CIDEr of the captioner's own samples (needs `start_from`).
        fine_tune: the folder of the photos, to train the backbone too.
        backbone: the `.keras` file to fine-tune; None is the shipped one.
        backbone_learning_rate: the backbone's own learning rate.
        validation: the split that chooses the best epoch; None takes "tune", else "val", else "dev".
        devices: such as "gpu:0,gpu:1"; None takes all GPUs, or the CPU.
        seed: decides weights, order and dropout.
        save_minutes: how often the state is saved inside an epoch.
        **settings: any of the preset's settings, such as `epochs=3` or `cell="gru"`.

    Returns:
        The log: one dict for each epoch, with the loss and the validation scores.

    Example:
        >>> rows = ki.train_captioner("prepared", "runs/captioner", epochs=1, units=16)
        epoch 1/1 ...
        >>> [row["epoch"] for row in rows]
        [1]
    """
    if (both or validation_pairs) and not pairs:
        raise InputError("both and validation_pairs need pairs: a file that `imagesent align --pairs` wrote")
    if self_critical and not start_from:
        raise InputError("self_critical improves a trained captioner: name its run as start_from")
    if self_critical and (pairs or fine_tune):
        raise InputError("self_critical learns from whole photos' vectors: leave out pairs and fine_tune")
    if fine_tune and (pairs or frame):
        raise InputError("fine_tune learns from whole photos: leave out pairs and frame")
    start = model_settings(start_from) if start_from else {}
    settings = captioner_settings(preset, **{**start, **(SELF_CRITICAL if self_critical else {}), **settings})
    if settings["attention"] and (pairs or frame):
        raise InputError("attention looks at the regions of whole photos: leave out pairs and frame")
    if fine_tune and (settings["attention"] or settings["classes"]):
        raise InputError("fine_tune looks at the whole frame alone: leave out attention and classes")
    out, prepared = Path(out), Prepared.open(prepared)
    if settings["classes"] and not prepared.classes:
        raise InputError(f"{prepared.folder}: its detector does not say what it found: leave out classes")
    validation = validation_split(prepared, validation)
    strategy, origin = choose_strategy(devices), Run(start_from, "captioner") if start_from else None
    if origin:
        prepared = add_words(prepared, origin)
    vocabulary, size = prepared.vocabulary, settings["batch_size"]
    workers = Workers(strategy)
    if workers.number > 1 and (self_critical or fine_tune):
        raise InputError("self_critical and fine_tune run on one machine: leave out TF_CONFIG")
    frames_only = not pairs and not settings["attention"]
    photos, validation_photos = (prepared.load(split, frames_only) for split in ("train", validation))
    looks_at = {name: settings[name] for name in ("classes", "attention")}
    learned, validated = choose_pairs(
        photos, validation_photos, vocabulary, pairs, validation_pairs, both, frame, **looks_at
    )
    validate, tuning = Validator(validated, vocabulary, settings), None
    with strategy.scope():
        model = build(learned, vocabulary, settings, origin, seed)
        steps = learned.steps(size)
        batches = partial(learned.batches, size, seed, share=workers.share)
        if self_critical:
            critic = self_critic(model, learned, photos, vocabulary, size, seed)
            steps, batches = critic.steps, critic.batches
        optimizer = make_optimizer(settings, steps)
        if fine_tune:
            backbone = load_backbone(backbone, learned.feature_dim)
            optimizer.slow_down(backbone.trainable_variables, backbone_learning_rate / settings["learning_rate"])
            tuning = FineTuning(model, backbone, learned, photos.filenames, Path(fine_tune), size, seed)
            validate = tuning.validate_with(validate, validation_photos.filenames)
            model, batches = tuning.model, tuning.batches
        model.compile(optimizer)
    if workers.chief:
        keep_vocabulary(vocabulary, out)
    rows = fit_run(
        model,
        batches,
        steps,
        validate,
        out,
        monitor=settings["monitor"],
        mode="min" if settings["monitor"] == "perplexity" else "max",
        epochs=settings["epochs"],
        patience=settings["patience"],
        save_minutes=save_minutes,
        settings={
            "model": "captioner",
            "preset": preset,
            "prepared": str(prepared.folder),
            "data": prepared.settings.get("data"),
            "extractor": prepared.settings.get("extractor"),
            "vectors": prepared.vectors,
            "photos": prepared.settings.get("photos"),
            "validation": validation,
            "pairs": pairs and str(pairs),
            "validation_pairs": validation_pairs and str(validation_pairs),
            "both": both,
            "frame": frame,
            "start_from": start_from and str(start_from),
            "self_critical": self_critical,
            "fine_tune": fine_tune and str(fine_tune),
            "seed": seed,
            **settings,
        },
    )
    if tuning:
        tuning.split(out)
    return rows


def model_settings(run):
    """The settings of another run that shape the model."""
    own = {name: value for name, value in Run(run).settings.items() if name in CAPTIONER_MODEL}
    return {"classes": False, "attention": 0, **own}  # what runs of earlier versions do not name


def choose_pairs(
    photos, validation_photos, vocabulary, pairs, validation_pairs, both, frame, classes=False, attention=0
):
    """What is learned, and what the best epoch is chosen on: whole photos, or regions where only those are learned."""
    if not pairs:
        return [CaptionPairs.of_photos(some, frame, classes, attention) for some in (photos, validation_photos)]
    learned = CaptionPairs.of_regions(pairs, photos, vocabulary, frame, both, classes)
    if validation_pairs:
        return learned, CaptionPairs.of_regions(validation_pairs, validation_photos, vocabulary, frame, classes=classes)
    return (learned, CaptionPairs.as_regions(validation_photos, frame, classes)) if both else learned.hold_out(0.05)


def build(pairs, vocabulary, settings, origin, seed):
    """The captioner at the start of training: centered, its output bias set, or with another run's weights."""
    keras.utils.set_random_seed(seed)
    options = {name: settings[name] for name in CAPTIONER_MODEL} | {"classes": pairs.classes}
    model = build_captioner(pairs.feature_dim, len(vocabulary), **options)
    if origin:
        take_weights(model, vocabulary, origin)
        return model
    set_feature_centring(model, *pairs.mean_and_scale())
    set_output_bias(model, pairs.log_frequencies(len(vocabulary)))
    if settings["attention"]:
        set_region_mean(model, pairs.region_mean())
    return model


def take_weights(model, vocabulary, run):
    """Takes over another run's weights, centering included; words that it does not know start as they are."""
    other, known = run.model, len(run.vocabulary)
    if vocabulary.words[:known] != run.vocabulary.words:
        raise ValueError("the vocabulary must begin with the words of the run to start from")
    set_output_bias(model, vocabulary.log_frequencies())  # of the new words
    for mine, theirs in zip(model.weights, other.weights, strict=False):
        value = theirs.numpy()
        if mine.path.endswith("word_vectors/embeddings"):  # END, the words, START
            value = np.concatenate([value[: known + 1], mine.numpy()[known + 1 : -1], value[-1:]])
        elif mine.path.endswith(("output/kernel", "output/bias")):  # END, the words
            value = np.concatenate([value, mine.numpy()[..., known + 1 :]], axis=-1)
        if value.shape != tuple(mine.shape) or len(model.weights) != len(other.weights):
            raise InputError("start_from names a run of another shape: give the same cell, units, word_dim and data")
        mine.assign(value)


def make_optimizer(settings, steps):
    """The optimizer of the settings; its learning rate falls after each epoch of `steps` steps."""
    rate = settings["learning_rate"]
    if settings["decay"] != 1:
        rate = keras.optimizers.schedules.ExponentialDecay(rate, steps, settings["decay"], staircase=True)
    return build_optimizer(settings["optimizer"], rate, settings["weight_decay"], clip=settings["clip"])


def self_critic(model, pairs, photos, vocabulary, size, seed):
    """Batches of the captioner's own samples, scored by CIDEr against the photos' captions."""
    cider = Cider([[[*tokenize(caption), END] for caption in group] for group in photos.captions])
    return SelfCritical(model, pairs, vocabulary, cider.scores, size, seed)


def load_backbone(path, feature_dim):
    """A backbone to train, which must give vectors as long as those that were prepared."""
    backbone = load_keras(path or shipped("backbone.keras"), "backbone")
    if backbone.output_shape[-1] != feature_dim:
        raise InputError(
            f"the prepared vectors have {feature_dim} numbers, the backbone gives {backbone.output_shape[-1]}: "
            "name the backbone that made them"
        )
    backbone.trainable = True
    return backbone
