"""Learn which words belong to which region, from the region vectors and sentences of a prepared folder.

The run folder gets the best model, the five best epochs, the log and the settings. The same command goes on where a
killed run was. Settings come from a preset; every one of them is a flag too.

example:
  imagesent train-alignment prepared/flickr8k --out runs/alignment
  imagesent train-alignment prepared/flickr8k --out runs/paper --preset paper --search 8
"""

import argparse
import json
import math
from pathlib import Path

from keras_imagesent.errors import InputError
from keras_imagesent.presets import ALIGNMENT

MODEL_SETTINGS = (
    "dim", "units", "word_dim", "score", "regions", "negatives", "margin", "similarity", "temperature", "dropout",
    "hide_frame", "hide_regions", "prior", "frame_dim", "root", "classes", "train_words",
)  # fmt: skip
CHOICES = {
    "score": ("max_sim", "mean_max_sim", "defrag"),
    "regions": ("all", "whole-frame"),
    "negatives": ("sum", "hardest", "softmax"),
    "similarity": ("dot", "cosine"),
    "optimizer": ("sgd", "adam"),
    "schedule": ("constant", "cosine"),
}
HELP = {
    "dim": "size of the common space",
    "units": "size of the recurrent states",
    "word_dim": "length of a word vector; where a file gives fewer numbers, the others start at random",
    "score": "max_sim: each word takes its best region (Eq. 8); mean_max_sim: that, divided by the number of words; "
    "defrag: each word takes all that are positive (Eq. 7)",
    "regions": "all, or the whole frame alone",
    "negatives": "sum over all wrong pairs of a batch, the hardest one, or softmax (no margin)",
    "margin": "by how much the right pair must win",
    "similarity": "dot product, or cosine divided by the temperature",
    "temperature": "of the cosine",
    "dropout": "share dropped everywhere but in the recurrence",
    "hide_frame": "share of photos whose whole frame is hidden in training, so that words learn the other regions",
    "hide_regions": "share of the other regions hidden in training",
    "prior": "weight of the detector's scores in the choice of a word's region",
    "frame_dim": "length of a second vector of each word, for the whole frame alone",
    "root": "the square roots of the CNN's activations instead of themselves",
    "classes": "what the detector takes each region for, behind its CNN vector, if the prepared folder has it",
    "optimizer": "sgd has momentum 0.9",
    "learning_rate": "the largest that the schedule reaches",
    "weight_decay": "decoupled; biases do not decay",
    "schedule": "of the learning rate: constant, or cosine, which rises for a tenth of the steps and falls to nothing",
    "batch_size": "pairs in a batch, over all devices",
    "epochs": "at most",
    "patience": "epochs without a better one before stopping",
}


def add_arguments(parser):
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote")
    add("--out", type=Path, required=True, metavar="RUN", help="the run folder to write or to go on with")
    add("--preset", choices=sorted(ALIGNMENT), default="best", help="settings to start from (best)")
    add("--validation", metavar="SPLIT", help="split that chooses the best epoch (tune, else val, else dev)")
    add(
        "--word-vectors",
        type=Path,
        metavar="FILE",
        help="GloVe or word2vec file to start from, or glove: the 50 numbers a word that the extra weights brings",
    )
    add("--fixed-words", action="store_true", help="do not train the word vectors")
    add("--start-from", type=Path, metavar="RUN", help="start with what another run of the same shape has learned")
    add("--search", type=int, default=0, metavar="N", help="first try N random learning rates and weight decays")
    add("--search-epochs", type=int, default=2, metavar="N", help="epochs of each of those tries (2)")
    add("--beta", type=float, help="ties between neighbouring words (Eq. 12); else chosen on the validation split")
    add("--devices", metavar="LIST", help="such as gpu:0,gpu:1 (all GPUs, or the CPU)")
    add("--seed", type=int, default=0, help="decides weights, order and dropout (0)")
    add("--save-minutes", type=float, default=2.0, metavar="M", help="how often the state is saved inside an epoch (2)")
    settings = parser.add_argument_group("settings of the preset")
    for name, value in ALIGNMENT["paper"].items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool) and name != "train_words":
            settings.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=HELP[name])
        elif name != "train_words":
            settings.add_argument(flag, type=type(value), choices=CHOICES.get(name), help=HELP[name])


def run(args):
    given = {name: getattr(args, name) for name in ALIGNMENT["paper"] if getattr(args, name, None) is not None}
    settings = {**ALIGNMENT[args.preset], **given}
    if args.fixed_words:
        settings["train_words"] = False
    for name in ("dim", "units", "word_dim", "batch_size", "epochs", "learning_rate"):
        if settings[name] <= 0:
            raise InputError(f"--{name.replace('_', '-')} must be above 0, not {settings[name]}")
    if settings["frame_dim"] < 0:
        raise InputError(f"--frame-dim must be 0 or more, not {settings['frame_dim']}")
    if settings["frame_dim"] and settings["score"] == "defrag":
        raise InputError("--score defrag has no frame beside the regions: add --frame-dim 0")
    for name in ("dropout", "hide_frame", "hide_regions"):
        if not 0 <= settings[name] < 1:
            raise InputError(f"--{name.replace('_', '-')} is a share from 0 up to 1, not {settings[name]}")
    if args.beta is not None and args.beta < 0:
        raise InputError(f"--beta must be 0 or more, not {args.beta:g}")

    from keras_imagesent.data.shards import Prepared

    prepared = Prepared.open(args.prepared)
    validation = args.validation or next((s for s in ("tune", "val", "dev") if s in prepared.splits), None)
    if validation not in prepared.splits:
        raise InputError(
            f"{args.prepared} has no split {validation or 'tune, val or dev'} to choose the best epoch on: "
            f"it has {', '.join(prepared.splits)}; name one with --validation, or prepare with --set-aside 500"
        )
    extra = {
        "preset": args.preset,
        "prepared": str(args.prepared),
        "data": prepared.settings.get("data"),
        "extractor": prepared.settings.get("extractor"),
        "validation": validation,
        "word_vectors": args.word_vectors and str(args.word_vectors),
        "start_from": args.start_from and str(args.start_from),
        "seed": args.seed,
    }
    trainer = Trainer(prepared, validation, extra, args.devices, args.save_minutes)
    if args.search:
        settings = {**settings, **search(trainer, settings, args.out, args.search, args.search_epochs)}
    rows = trainer.train(settings, args.out)
    best = max(rows, key=lambda row: row["recall_sum"])
    print(
        f"best epoch {best['epoch']} on {validation}: annotation R@1 {best['annotation_r1']:.1f}, "
        f"search R@1 {best['search_r1']:.1f}\n{args.out / 'model.keras'}"
    )
    keep_beta(args.out, args.beta, trainer.validation_photos)


def keep_beta(run, beta, photos):
    """Puts beta into the run's settings: the one given, or the one that suits the validation photos best."""
    from keras_imagesent.training.fit import write_whole

    if beta is None:
        from keras_imagesent.alignment.alignment_model import load_alignment
        from keras_imagesent.alignment.choose_beta import choose_beta

        beta, measured = choose_beta(load_alignment(run), photos)
        listed = ", ".join(f"{value:g}: {percent:.1f}" for value, percent in measured.items())
        print(f"beta {beta:g}: equal words of a photo's sentences meet in one region most above chance ({listed})")
    path = run / "settings.json"
    write_whole(path, json.dumps({**json.loads(path.read_text()), "beta": beta}, indent=2) + "\n")


class Trainer:
    """What every training of one command shares: the data in memory, the devices, the seed."""

    def __init__(self, prepared, validation, extra, devices=None, save_minutes=2.0):
        from keras_imagesent.training.devices import choose_strategy

        self.strategy = choose_strategy(devices)
        self.prepared, self.extra, self.save_minutes = prepared, extra, save_minutes
        self.validation_photos = prepared.load(validation)
        self.centre = None

    def build(self, settings, steps):
        """A compiled alignment model for these settings."""
        import keras

        from keras_imagesent.alignment.alignment_model import build_alignment, load_alignment
        from keras_imagesent.alignment.word_vectors import read_word_vectors
        from keras_imagesent.training.optimizers import build_optimizer

        keras.utils.set_random_seed(self.extra["seed"])
        options = {name: settings[name] for name in MODEL_SETTINGS}
        options["classes"] = self.prepared.classes if settings["classes"] else 0
        vocabulary = self.prepared.vocabulary
        if self.extra["word_vectors"]:
            least_dim = settings["word_dim"] if settings["train_words"] else 0
            vectors, found = read_word_vectors(self.extra["word_vectors"], vocabulary, self.extra["seed"], least_dim)
            print(f"word vectors: {found} of {len(vocabulary)} words found")
            options |= {"word_vectors": vectors, "word_dim": vectors.shape[1]}
        with self.strategy.scope():
            model = build_alignment(
                self.prepared.feature_dim,
                len(vocabulary),
                number_of_regions=self.prepared.number_of_regions,
                **options,
            )
            self.measure_centre(model.get_layer("region_encoder").get_layer("centre"))
            if self.extra["start_from"]:
                _start_from(model, load_alignment(self.extra["start_from"]))
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
            photos = self.prepared.load("train")
            centre.measure(photos.region_features[photos.region_mask])
            self.centre = centre.get_weights()
        centre.set_weights(self.centre)

    def train(self, settings, out):
        """Trains into the run folder `out`; the log's rows."""
        from keras_imagesent.data.batches import pair_batches, steps_per_epoch
        from keras_imagesent.evaluation.frame_weight import choose_frame_weight
        from keras_imagesent.training.fit import fit_run

        size, seed = settings["batch_size"], self.extra["seed"]

        def batches(epoch, start_step):
            pairs = pair_batches(self.prepared, "train", size, seed, epoch, start_step)
            return pairs.map(lambda batch: {name: batch[name] for name in model.input})

        def steps(epoch):
            return steps_per_epoch(self.prepared, "train", size, seed, epoch)

        model = self.build(settings, steps(0))
        out.mkdir(parents=True, exist_ok=True)
        self.prepared.vocabulary.save(out / "vocabulary.json")
        return fit_run(
            model,
            batches,
            steps,
            lambda model: choose_frame_weight(model, self.validation_photos),
            out,
            monitor="recall_sum",
            epochs=settings["epochs"],
            patience=settings["patience"],
            save_minutes=self.save_minutes,
            settings={"model": "alignment", **self.extra, **settings},
        )


def _start_from(model, other):
    """Copies what another model of the same shape has learned."""
    if [weight.shape for weight in model.weights] != [weight.shape for weight in other.weights]:
        raise InputError(
            "--start-from names a run of another shape: give the same --dim, --units, --word-dim, --frame-dim and data"
        )
    model.set_weights(other.get_weights())


def search(trainer, settings, out, trials, epochs):
    """Random search over learning rate and weight decay on the validation split, as the paper chose them.

    Learning rates lie within a factor of 10 around the preset's, weight decays between 1e-7 and 1e-3. Every try is a
    run folder of its own under `out/search`, so a killed search goes on as well.
    """
    import numpy as np

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
        raise InputError("every try of the search diverged: give a smaller --learning-rate to search around")
    (out / "search" / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    print(f"chosen: learning rate {best['learning_rate']:.3g}, weight decay {best['weight_decay']:.3g}")
    return {name: best[name] for name in ("learning_rate", "weight_decay")}
