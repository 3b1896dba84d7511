"""Learn to caption: whole photos, the (region, snippet) pairs of `imagesent align`, or both.

The run folder gets the best model, the five best epochs, the log and the settings. The same command goes on where a
killed run was. Settings come from a preset; every one of them is a flag too. The classic failures (the same caption for
every photo, captions that ignore the photo, an exploding loss) are told in plain words.

example:
  imagesent train-captioner prepared/flickr8k --out runs/captioner
  imagesent train-captioner prepared/flickr8k --out runs/regions --pairs pairs.jsonl --frame
  imagesent train-captioner prepared/flickr8k --out runs/better --start-from runs/captioner --self-critical
"""

from pathlib import Path

from keras_imagesent.cli.training_flags import add_settings, add_training_flags
from keras_imagesent.presets import CAPTIONER, captioner_settings

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
    "classes": "what the detector takes things for stands beside the image (with --pairs, beside the region)",
    "attention": "size of the space in which every word looks at the photo's regions; 0 looks at the frame alone",
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
    "length_penalty": "exponent of the length: 0 ranks captions by total, 1 by mean log probability",
}


def add_arguments(parser):
    add_training_flags(parser, CAPTIONER)
    add = parser.add_argument
    add("--pairs", type=Path, metavar="FILE", help="learn from these (region, snippet) pairs instead of whole photos")
    add("--validation-pairs", type=Path, metavar="FILE", help="pairs of the validation split (else some are held out)")
    add("--both", action="store_true", help="learn from the pairs and from whole photos")
    add("--frame", action="store_true", help="give the whole frame's vector beside the region's")
    add("--self-critical", action="store_true", help="learn from the CIDEr of its own samples (needs --start-from)")
    add("--fine-tune", type=Path, metavar="PHOTOS", help="train the backbone too, from the photos in this folder")
    add("--backbone", type=Path, metavar="FILE", help="the .keras to fine-tune (the shipped one)")
    add("--backbone-learning-rate", type=float, default=1e-5, help="the backbone's own learning rate (1e-5)")
    add_settings(parser, CAPTIONER["paper"], CHOICES, HELP)


def run(args):
    options = vars(args)
    changes = {name: options[name] for name in CAPTIONER["paper"] if options[name] is not None}
    captioner_settings(args.preset, **changes)  # says what is wrong before TensorFlow is loaded

    from keras_imagesent.data.run_files import read_settings
    from keras_imagesent.training.train_captioner import train_captioner

    names = (
        "preset", "pairs", "validation_pairs", "both", "frame", "start_from", "self_critical", "fine_tune", "backbone",
        "backbone_learning_rate", "validation", "devices", "seed", "save_minutes",
    )  # fmt: skip
    rows = train_captioner(args.prepared, args.out, **{name: options[name] for name in names}, **changes)
    monitor = read_settings(args.out)["monitor"]
    best = (min if monitor == "perplexity" else max)(rows, key=lambda row: row[monitor])
    print(
        f"best epoch {best['epoch']}: perplexity {best['perplexity']:.2f}, "
        f"BLEU-4 {100 * best['bleu4']:.1f}, CIDEr {100 * best['cider']:.1f}\n{args.out / 'model.keras'}"
    )
