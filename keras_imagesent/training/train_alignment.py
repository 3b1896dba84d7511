"""Trains an alignment model into a run folder."""

import math
from pathlib import Path

import keras
import numpy as np

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.choose_beta import choose_beta
from keras_imagesent.alignment.word_vectors import read_word_vectors
from keras_imagesent.data.atomic import write_json
from keras_imagesent.data.batches import pair_batches, steps_per_epoch
from keras_imagesent.data.dependency_edges import EdgeVocabulary
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.frame_weight import measure_frame_weights, set_frame_weight
from keras_imagesent.model.run import SETTINGS, Run
from keras_imagesent.presets import ALIGNMENT_MODEL, alignment_settings
from keras_imagesent.training.devices import choose_strategy
from keras_imagesent.training.fit import fit_run, keep_vocabulary, validation_split
from keras_imagesent.training.optimizers import build_optimizer
from keras_imagesent.training.start_from import add_words
from keras_imagesent.training.workers import Workers


def train_alignment(
    prepared,
    out,
    preset="best",
    validation=None,
    word_vectors=None,
    start_from=None,
    search=0,
    search_epochs=2,
    beta=None,
    devices=None,
    seed=0,
    save_minutes=2.0,
    **settings,
):
    """Learns which words belong to which region; called again on the same folder, it goes on where it was.

    Args:
        prepared: folder that `prepare` wrote.
        out: the run folder to write.
        preset: the settings to start from, a name in `keras_imagesent.presets.ALIGNMENT`.
        validation: the split that chooses the best epoch and beta; None takes "tune", else "val", else "dev".
        word_vectors: a GloVe or word2vec file to start from, or "glove" for the one in the extra `weights`.
        start_from: another run whose weights to start with; its words are kept, and new ones are added.
        search: how many random learning rates and weight decays to try first, `search_epochs` epochs each.
        beta: strength of the ties between neighboring words (Eq. 12); None chooses it on the validation split.
        devices: such as "gpu:0,gpu:1"; None takes all GPUs, or the CPU.
        seed: decides weights, order and dropout.
        save_minutes: how often the state is saved inside an epoch.
        **settings: any of the preset's settings, such as `epochs=3` or `dim=256`.

    Returns:
        The log: one dict for each epoch, with the loss and the validation scores.

    Example:
        >>> rows = ki.train_alignment("prepared", "runs/alignment", epochs=1, dim=16, units=16, frame_dim=16)
        epoch 1/1 ...
        chose beta=...
        >>> [row["epoch"] for row in rows]
        [1]
    """
    settings = alignment_settings(preset, **settings)
    if beta is not None and beta < 0:
        raise InputError(f"beta must be 0 or more, not {beta:g}")
    out = Path(out)
    prepared = Prepared.open(prepared)
    validation = validation_split(prepared, validation)
    if start_from:
        prepared = add_words(prepared, Run(start_from, "alignment"))
    if settings["sentences"] == "trees":
        prepared, beta = prepared.in_words(EdgeVocabulary(prepared.vocabulary)), beta or 0.0  # edges have no order
    extra = {
        "preset": preset,
        "prepared": str(prepared.folder),
        "data": prepared.settings.get("data"),
        "extractor": prepared.settings.get("extractor"),
        "vectors": prepared.vectors,
        "photos": prepared.settings.get("photos"),
        "validation": validation,
        "word_vectors": word_vectors and str(word_vectors),
        "start_from": start_from and str(start_from),
        "seed": seed,
    }
    trainer = Trainer(prepared, validation, extra, devices, save_minutes)
    if search:
        settings = {**settings, **search_rates(trainer, settings, out, search, search_epochs)}
    rows = trainer.train(settings, out)
    if trainer.workers.chief:
        keep_beta(out, beta, trainer.validation_photos)
    return rows


def keep_beta(run, beta, photos):
    """Puts beta into the run's settings: the one given, or the one that suits the validation photos best."""
    if beta is None:
        beta, measured = choose_beta(Run(run, "alignment").model, photos)
        listed = "; ".join(f"{value:g}: {share:.1f}, {words:.1f} words" for value, (share, words) in measured.items())
        print(f"chose beta={beta:g}: words keep their regions most consistently (and a phrase has, {listed})")
    write_json(run / SETTINGS, {**Run(run).settings, "beta": beta})


class Trainer:
    """What every training of one command shares: the data in memory, the devices, the seed."""

    def __init__(self, prepared, validation, extra, devices=None, save_minutes=2.0):
        self.strategy = choose_strategy(devices)  # first: TensorFlow joins the workers only before its first step
        self.workers = Workers(self.strategy)
        self.prepared, self.extra, self.save_minutes = prepared, extra, save_minutes
        self.validation_photos = prepared.load(validation)
        self.centre = None

    def build(self, settings, steps):
        """A compiled alignment model for these settings."""
        keras.utils.set_random_seed(self.extra["seed"])
        options = {name: settings[name] for name in ALIGNMENT_MODEL}
        options["classes"] = self.prepared.classes if settings["classes"] else 0
        vocabulary = self.prepared.vocabulary
        if self.extra["word_vectors"]:
            least_dim = settings["word_dim"] if settings["train_words"] else 0
            vectors, found = read_word_vectors(self.extra["word_vectors"], vocabulary, self.extra["seed"], least_dim)
            print(f"word vectors: {found} of {len(vocabulary)} words found")
            options |= {"embeddings": vectors, "word_dim": vectors.shape[1]}
        with self.strategy.scope():
            model = build_alignment(
                self.prepared.feature_dim,
                len(vocabulary),
                number_of_regions=self.prepared.number_of_regions,
                **options,
            )
            self.measure_centre(model.get_layer("region_encoder").get_layer("centre"))
            if self.extra["start_from"]:
                _start_from(model, Run(self.extra["start_from"], "alignment").model)
            optimizer = build_optimizer(
                settings["optimizer"],
                settings["learning_rate"],
                settings["weight_decay"],
                schedule=settings["schedule"],
                steps=steps * settings["epochs"],
            )
            # No XLA: its matrix products are slower on CPUs, and real words are packed, so shapes vary
            model.compile(optimizer=optimizer, jit_compile=False)
        return model

    def measure_centre(self, centre):
        if self.centre is None:
            photos = self.prepared.sample("train")
            centre.measure(photos.region_features[photos.region_mask])
            self.centre = centre.get_weights()
        centre.set_weights(self.centre)

    def train(self, settings, out):
        """Trains into the run folder `out`; the log's rows."""
        size, seed = settings["batch_size"], self.extra["seed"]

        def batches(epoch, start_step):
            share = self.workers.share
            pairs = pair_batches(self.prepared, "train", size, seed, epoch, start_step, share=share)
            return pairs.map(lambda batch: {name: batch[name] for name in model.input})

        def steps(epoch):
            return steps_per_epoch(self.prepared, "train", size, seed, epoch)

        model = self.build(settings, steps(0))
        if self.workers.chief:
            keep_vocabulary(self.prepared.vocabulary, out)
        return fit_run(
            model,
            batches,
            steps,
            lambda model: measure_frame_weights(model, self.validation_photos),
            out,
            monitor="recall_sum",
            epochs=settings["epochs"],
            patience=settings["patience"],
            save_minutes=self.save_minutes,
            settings={"model": "alignment", **self.extra, **settings},
            finish=lambda saved, scores: "frame_weight" in scores and set_frame_weight(saved, scores["frame_weight"]),
        )


def _start_from(model, other):
    """Copies what another model has learned; words that it does not know start as they are."""
    wrong = "start_from names a run of another shape: give the same dim, units, word_dim, frame_dim and data"
    if len(model.weights) != len(other.weights):
        raise InputError(wrong)
    for mine, theirs in zip(model.weights, other.weights, strict=True):
        value = theirs.numpy()
        if mine.path.endswith("words/embeddings"):  # padding, the words
            value = np.concatenate([value, mine.numpy()[len(value) :]])
        if value.shape != tuple(mine.shape):
            raise InputError(wrong)
        mine.assign(value)


def search_rates(trainer, settings, out, trials, epochs):
    """Random search over learning rate and weight decay on the validation split, as the paper chose them.

    Learning rates lie within a factor of 10 around the preset's, weight decays between 1e-7 and 1e-3. Every try is a
    run folder of its own under `out/search`, so a killed search goes on as well.
    """
    rng = np.random.default_rng(trainer.extra["seed"])
    results = []
    for trial in range(trials):
        chosen = {
            "learning_rate": float(settings["learning_rate"] * 10 ** rng.uniform(-1, 1)),
            "weight_decay": float(10 ** rng.uniform(-7, -3)),
        }
        print(f"try {trial + 1}/{trials}: " + ", ".join(f"{name} {value:.3g}" for name, value in chosen.items()))
        try:
            rows = trainer.train({**settings, **chosen, "epochs": epochs}, out / "search" / f"try-{trial:03d}")
            score = max(row["recall_sum"] for row in rows)
        except InputError as error:
            if "diverged" not in str(error):
                raise
            print(f"try {trial + 1} diverged")
            score = -math.inf
        results.append({**chosen, "recall_sum": score})
    best = max(results, key=lambda result: result["recall_sum"])
    if best["recall_sum"] == -math.inf:
        raise InputError("every try of the search diverged: give a smaller learning_rate to search around")
    write_json(out / "search" / "results.json", results)
    print(f"chosen: learning rate {best['learning_rate']:.3g}, weight decay {best['weight_decay']:.3g}")
    return {name: best[name] for name in ("learning_rate", "weight_decay")}
