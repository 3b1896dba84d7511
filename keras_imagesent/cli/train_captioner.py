"""Learn to caption: whole photos, the (region, snippet) pairs of `imagesent align`, or both.

The run folder gets the best model, the five best epochs, the log and the settings. The same command goes on where a
killed run was. Settings come from a preset; every one of them is a flag too. The classic failures (the same caption for
every photo, captions that ignore the photo, an exploding loss) are told in plain words.

example:
  imagesent train-captioner prepared/flickr8k --out runs/captioner
  imagesent train-captioner prepared/flickr8k --out runs/regions --pairs pairs.jsonl --frame
  imagesent train-captioner prepared/flickr8k --out runs/better --start-from runs/captioner --self-critical
"""

import json
from pathlib import Path

from keras_imagesent.errors import InputError
from keras_imagesent.presets import CAPTIONER, SELF_CRITICAL

MODEL_SETTINGS = ("cell", "units", "word_dim", "dropout", "activate_image", "activate_words")
CHOICES = {
    "cell": ("relu", "lstm", "gru"),
    "optimizer": ("rmsprop", "adam", "sgd"),
    "monitor": ("cider", "perplexity"),
}
HELP = {
    "cell": "relu is the paper's",
    "units": "size of the hidden state",
    "word_dim": "length of a word vector",
    "dropout": "share dropped of the image, the words and the output, not of the recurrence",
    "activate_image": "the image through the ReLU before it enters",
    "activate_words": "the word input through the ReLU before it enters",
    "optimizer": "rmsprop is the paper's",
    "learning_rate": "of the first epoch",
    "decay": "each epoch's learning rate is this share of the one before",
    "weight_decay": "decoupled; biases do not decay",
    "clip": "gradients are clipped elementwise at this value",
    "batch_size": "pairs in a batch, over all devices",
    "epochs": "at most",
    "patience": "epochs without a better one before stopping",
    "monitor": "what chooses the best epoch on the validation split",
    "beam": "beam of the captions that CIDEr is measured on; also the model's own",
    "length_penalty": "0 prefers short captions, 1 compares the mean log probability of a word",
}


def add_arguments(parser):
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote")
    add("--out", type=Path, required=True, metavar="RUN", help="the run folder to write or to go on with")
    add("--preset", choices=sorted(CAPTIONER), default="best", help="settings to start from (best)")
    add("--pairs", type=Path, metavar="FILE", help="learn from these (region, snippet) pairs instead of whole photos")
    add("--validation-pairs", type=Path, metavar="FILE", help="pairs of the validation split (else some are held out)")
    add("--both", action="store_true", help="learn from the pairs and from whole photos")
    add("--frame", action="store_true", help="give the whole frame's vector beside the region's")
    add("--start-from", type=Path, metavar="RUN", help="start with the weights of another run of the same shape")
    add("--self-critical", action="store_true", help="learn from the CIDEr of its own samples (needs --start-from)")
    add("--fine-tune", type=Path, metavar="PHOTOS", help="train the backbone too, from the photos in this folder")
    add("--backbone", type=Path, metavar="FILE", help="the .keras to fine-tune (the shipped one)")
    add("--backbone-learning-rate", type=float, default=1e-5, help="the backbone's own learning rate (1e-5)")
    add("--validation", metavar="SPLIT", help="split that chooses the best epoch (tune, else val, else dev)")
    add("--devices", metavar="LIST", help="such as gpu:0,gpu:1 (all GPUs, or the CPU)")
    add("--seed", type=int, default=0, help="decides weights, order and dropout (0)")
    add("--save-minutes", type=float, default=2.0, metavar="M", help="how often the state is saved inside an epoch (2)")
    settings = parser.add_argument_group("settings of the preset")
    for name, value in CAPTIONER["paper"].items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            settings.add_argument(flag, action="store_true", default=None, help=HELP[name])
        else:
            settings.add_argument(flag, type=type(value), choices=CHOICES.get(name), help=HELP[name])


def run(args):
    settings = choose_settings(args)

    from keras_imagesent.data.shards import Prepared

    prepared = Prepared.open(args.prepared)
    validation = args.validation or next((s for s in ("tune", "val", "dev") if s in prepared.splits), None)
    if validation not in prepared.splits:
        raise InputError(
            f"{args.prepared} has no split {validation or 'tune, val or dev'} to choose the best epoch on: "
            f"it has {', '.join(prepared.splits)}; name one with --validation, or prepare with --set-aside 500"
        )
    rows = train(prepared, validation, settings, args)
    best = (min if settings["monitor"] == "perplexity" else max)(rows, key=lambda row: row[settings["monitor"]])
    print(
        f"best epoch {best['epoch']} on {validation}: perplexity {best['perplexity']:.2f}, "
        f"BLEU-4 {100 * best['bleu4']:.1f}, CIDEr {100 * best['cider']:.1f}\n{args.out / 'model.keras'}"
    )


def choose_settings(args):
    """The preset's settings with what was given beside, checked."""
    given = {name: getattr(args, name) for name in CAPTIONER["paper"] if getattr(args, name) is not None}
    start = model_settings(args.start_from) if args.start_from else {}
    settings = {**CAPTIONER[args.preset], **start, **(SELF_CRITICAL if args.self_critical else {}), **given}
    for name in ("units", "word_dim", "batch_size", "epochs", "patience", "learning_rate", "clip", "beam", "decay"):
        if settings[name] <= 0:
            raise InputError(f"--{name.replace('_', '-')} must be above 0, not {settings[name]}")
    if not 0 <= settings["dropout"] < 1:
        raise InputError(f"--dropout is a share from 0 up to 1, not {settings['dropout']}")
    if (args.both or args.validation_pairs) and not args.pairs:
        raise InputError("--both and --validation-pairs go with the pairs of `imagesent align`: --pairs pairs.jsonl")
    if args.self_critical and not args.start_from:
        raise InputError("--self-critical improves a trained captioner: name its run with --start-from")
    if args.self_critical and (args.pairs or args.fine_tune):
        raise InputError("--self-critical learns from whole photos' vectors: leave out --pairs and --fine-tune")
    if args.fine_tune and (args.pairs or args.frame):
        raise InputError("--fine-tune learns from whole photos: leave out --pairs and --frame")
    return settings


def model_settings(run):
    """The settings of another run that shape the model."""
    path = (run if run.is_dir() else run.parent) / "settings.json"
    settings = json.loads(path.read_text()) if path.is_file() else {}
    return {name: settings[name] for name in MODEL_SETTINGS if name in settings}


def train(prepared, validation, settings, args):
    """Builds the captioner and its data, and trains into the run folder; the log's rows."""
    from keras_imagesent.training.devices import choose_strategy
    from keras_imagesent.training.fit import fit_run

    strategy, vocabulary = choose_strategy(args.devices), prepared.vocabulary
    photos = prepared.load("train")
    validation_photos = prepared.load(validation)
    pairs, validation_pairs = choose_pairs(photos, validation_photos, vocabulary, args)
    validate = Validator(validation_pairs, vocabulary, settings)
    size, tuning = settings["batch_size"], None
    with strategy.scope():
        model = build(pairs, vocabulary, settings, args)
        steps, batches = pairs.steps(size), lambda epoch, start: pairs.batches(size, args.seed, epoch, start)
        if args.self_critical:
            steps, batches = self_critical_data(model, pairs, photos, vocabulary, size, args)
        optimizer = make_optimizer(settings, steps)
        if args.fine_tune:
            tuning = fine_tuning(model, pairs, photos, optimizer, settings, args)
            validate = tuning.validate_with(validate, validation_photos.filenames)
            model, batches = tuning.model, tuning.batches
        model.compile(optimizer)
    keep_vocabulary(vocabulary, args.out)
    rows = fit_run(
        model,
        batches,
        steps,
        validate,
        args.out,
        monitor=settings["monitor"],
        mode="min" if settings["monitor"] == "perplexity" else "max",
        epochs=settings["epochs"],
        patience=settings["patience"],
        save_minutes=args.save_minutes,
        settings={
            "model": "captioner",
            "preset": args.preset,
            "prepared": str(args.prepared),
            "data": prepared.settings.get("data"),
            "extractor": prepared.settings.get("extractor"),
            "validation": validation,
            "pairs": args.pairs and str(args.pairs),
            "validation_pairs": args.validation_pairs and str(args.validation_pairs),
            "both": args.both,
            "frame": args.frame,
            "start_from": args.start_from and str(args.start_from),
            "self_critical": args.self_critical,
            "fine_tune": args.fine_tune and str(args.fine_tune),
            "seed": args.seed,
            **settings,
        },
    )
    if tuning:
        tuning.split(args.out)
    return rows


def choose_pairs(photos, validation_photos, vocabulary, args):
    """What is learned, and what the best epoch is chosen on: whole photos, or regions where only those are learned."""
    from keras_imagesent.data.caption_pairs import CaptionPairs

    if not args.pairs:
        return (CaptionPairs.of_photos(some, args.frame) for some in (photos, validation_photos))
    pairs = CaptionPairs.of_regions(args.pairs, photos, vocabulary, args.frame, args.both)
    if args.validation_pairs:
        file = args.validation_pairs
        return pairs, CaptionPairs.of_regions(file, validation_photos, vocabulary, args.frame)
    return (pairs, CaptionPairs.of_photos(validation_photos, args.frame)) if args.both else pairs.hold_out(0.05)


def build(pairs, vocabulary, settings, args):
    """The captioner at the start of training: centred, its output bias set, or with another run's weights."""
    import keras

    from keras_imagesent.captioning.captioner import build_captioner, set_feature_centring, set_output_bias

    keras.utils.set_random_seed(args.seed)
    options = {name: settings[name] for name in MODEL_SETTINGS}
    model = build_captioner(pairs.feature_dim, len(vocabulary), **options)
    if args.start_from:
        start_from(model, vocabulary, args.start_from)
    else:
        set_feature_centring(model, *pairs.mean_and_scale())
        set_output_bias(model, vocabulary.log_frequencies())
    return model


def start_from(model, vocabulary, run):
    """Takes over another run's weights, centring included."""
    from keras_imagesent.data.vocabulary import Vocabulary
    from keras_imagesent.model.run import load_keras

    path = run / "model.keras" if run.is_dir() else run
    if not path.is_file():
        raise InputError(f"no model at {path}: --start-from names a run folder or a .keras file")
    other = load_keras(path, "captioner")
    if [w.shape for w in model.weights] != [w.shape for w in other.weights]:
        raise InputError(
            "--start-from names a run of another shape: give the same --cell, --units, --word-dim and data"
        )
    if Vocabulary.load(path.with_name("vocabulary.json")).words != vocabulary.words:
        raise InputError(f"--start-from names a run with other words: {path.with_name('vocabulary.json')}")
    model.set_weights(other.get_weights())


def make_optimizer(settings, steps):
    import keras

    from keras_imagesent.training.optimizers import build_optimizer

    rate = settings["learning_rate"]
    if settings["decay"] != 1:
        rate = keras.optimizers.schedules.ExponentialDecay(rate, steps, settings["decay"], staircase=True)
    return build_optimizer(settings["optimizer"], rate, settings["weight_decay"], clip=settings["clip"])


def self_critical_data(model, pairs, photos, vocabulary, size, args):
    """`(steps per epoch, function (epoch, start_step) -> dataset)` of sampled captions, scored by CIDEr."""
    from keras_imagesent.captioning.self_critical import END, SelfCritical
    from keras_imagesent.data.tokenizer import tokenize
    from keras_imagesent.evaluation.cider import Cider

    cider = Cider([[[*tokenize(caption), END] for caption in group] for group in photos.captions])
    critic = SelfCritical(model, pairs, vocabulary, cider.scores, size, args.seed)
    return critic.steps, critic.batches


def fine_tuning(model, pairs, photos, optimizer, settings, args):
    """The captioner with the shipped backbone before it, which learns at its own rate."""
    from keras_imagesent.captioning.fine_tune import FineTuning, slow_backbone
    from keras_imagesent.model.run import load_keras
    from keras_imagesent.shipped import shipped

    backbone = load_keras(args.backbone or shipped("backbone.keras"), "backbone")
    if backbone.output_shape[-1] != pairs.feature_dim:
        raise InputError(
            f"{args.prepared} holds vectors of {pairs.feature_dim} numbers, the backbone gives "
            f"{backbone.output_shape[-1]}: name the one that made them with --backbone"
        )
    backbone.trainable = True
    slow_backbone(optimizer, backbone, args.backbone_learning_rate / settings["learning_rate"])
    return FineTuning(model, backbone, pairs, photos.filenames, args.fine_tune, settings["batch_size"], args.seed)


def keep_vocabulary(vocabulary, out):
    """Puts the vocabulary into the run folder, unless a run with other words is there."""
    from keras_imagesent.data.vocabulary import Vocabulary

    path = out / "vocabulary.json"
    if path.exists() and Vocabulary.load(path).digest != vocabulary.digest:
        raise InputError(f"{out} holds a run with another vocabulary: name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    vocabulary.save(path)


class Validator:
    """After each epoch: perplexity, the same with shuffled photos, BLEU-4 and CIDEr; alarms are printed."""

    def __init__(self, pairs, vocabulary, settings):
        from keras_imagesent.data.tokenizer import tokenize
        from keras_imagesent.evaluation.cider import Cider

        self.pairs, self.vocabulary, self.settings = pairs, vocabulary, settings
        self.first, self.item = pairs.items()
        self.references = [[] for _ in self.first]
        for text, item in zip(pairs.texts, self.item, strict=True):
            self.references[item].append(tokenize(text))
        self.cider = Cider(self.references)
        self.tools, self.history = None, []

    def set_frames(self, frames):
        """Other vectors (N, F) for the same photos, from a backbone that has changed."""
        self.pairs.region_features = frames[:, None]

    def __call__(self, model):
        import numpy as np

        from keras_imagesent.captioning.alarms import find_alarms
        from keras_imagesent.captioning.caption_photos import Perplexity, Searcher
        from keras_imagesent.evaluation.bleu import bleu

        if self.tools is None:
            search = Searcher(model, self.settings["beam"], length_penalty=self.settings["length_penalty"])
            self.tools = Perplexity(model), search
        perplexity, search = self.tools
        features = self.pairs.features(self.first)
        token_ids, _ = search(features)
        captions = [self.vocabulary.decode(ids[0]).split() for ids in token_ids]
        some = slice(None, None, max(1, len(self.pairs) // 1000))  # shuffled: a thousand sentences will do
        shuffled = np.random.default_rng(0).permutation(features)[self.item[some]]
        row = {
            "perplexity": perplexity(self.pairs.features(slice(None)), self.pairs.token_ids),
            "perplexity_shuffled": perplexity(shuffled, self.pairs.token_ids[some]),
            "bleu4": bleu(captions, self.references)[3],
            "cider": self.cider.score(captions),
            "distinct_captions": len({" ".join(words) for words in captions}),
            "words": float(np.mean([len(words) for words in captions])),
            "photos": len(captions),
        }
        self.history.append({"loss": float(model.word_loss.result()), **row})
        for alarm in find_alarms(self.history):
            print(f"warning: {alarm}")
        return row
