"""Learn which words belong to which region, from the region vectors and sentences of a prepared folder.

The run folder gets the best model, the five best epochs, the log and the settings. The same command goes on where a
killed run was. Settings come from a preset; every one of them is a flag too.

example:
  imagesent train-alignment prepared/flickr8k --out runs/alignment
  imagesent train-alignment prepared/flickr8k --out runs/paper --preset paper --search 8
"""

from pathlib import Path

from keras_imagesent.cli.training_flags import add_settings, add_training_flags
from keras_imagesent.presets import ALIGNMENT, SENTENCES, alignment_settings

CHOICES = {
    "sentences": SENTENCES,
    "score": ("max_sim", "mean_max_sim", "defrag"),
    "negatives": ("sum", "hardest", "softmax"),
    "similarity": ("dot", "cosine"),
    "optimizer": ("sgd", "adam"),
    "schedule": ("constant", "cosine"),
}
HELP = {
    "dim": "size of the common space",
    "units": "size of the recurrent states",
    "word_dim": "length of a word vector; where a file gives fewer numbers, the others start at random",
    "sentences": "brnn (Eqs. 2-6); for the ablations single words, bigrams, or the edges of dependency trees",
    "score": "max_sim: each word takes its best region (Eq. 8); mean_max_sim: that, divided by the number of words; "
    "defrag: each word takes all that are positive (Eq. 7)",
    "whole_frame": "words see the whole frame alone, no other region",
    "negatives": "sum over all wrong pairs of a batch, the hardest one, or softmax (no margin)",
    "margin": "by how much the right pair must win",
    "similarity": "dot product, or cosine divided by the temperature",
    "temperature": "of the cosine",
    "dropout": "share dropped everywhere but in the recurrence",
    "hide_frame": "share of photos whose whole frame is hidden in training, so that words learn the other regions",
    "hide_regions": "share of the other regions hidden in training",
    "prior": "weight of the detector's scores in the choice of a word's region",
    "frame_dim": "size of an extra embedding that compares each word with the whole frame; 0 for none",
    "root": "the square roots of the CNN's activations instead of themselves",
    "unit": "each centered CNN vector gets unit length",
    "classes": "add the detector's class scores to the CNN vector, if the prepared folder has them",
    "optimizer": "sgd has momentum 0.9",
    "learning_rate": "the largest that the schedule reaches",
    "weight_decay": "decoupled; biases do not decay",
    "schedule": "of the learning rate: constant, or cosine, which rises for a tenth of the steps and falls to nothing",
    "batch_size": "pairs in a batch, over all devices",
    "epochs": "at most",
    "patience": "epochs without a better one before stopping",
}


def add_arguments(parser):
    add_training_flags(parser, ALIGNMENT)
    add = parser.add_argument
    add(
        "--word-vectors",
        type=Path,
        metavar="FILE",
        help="GloVe or word2vec file to start from, or glove: the 50 numbers a word that the extra weights brings",
    )
    add("--fixed-words", action="store_true", help="do not train the word vectors")
    add("--search", type=int, default=0, metavar="N", help="first try N random learning rates and weight decays")
    add("--search-epochs", type=int, default=2, metavar="N", help="epochs of each of those tries (2)")
    add("--beta", type=float, help="ties between neighbouring words (Eq. 12); else chosen on the validation split")
    add_settings(parser, ALIGNMENT["paper"], CHOICES, HELP)


def run(args):
    options = vars(args)
    changes = {name: options[name] for name in ALIGNMENT["paper"] if options.get(name) is not None}
    if args.fixed_words:
        changes["train_words"] = False
    settings = alignment_settings(args.preset, **changes)

    from keras_imagesent.training.train_alignment import train_alignment

    names = ("preset", "validation", "word_vectors", "start_from", "search", "search_epochs", "beta", "devices", "seed")
    rows = train_alignment(
        args.prepared,
        args.out,
        save_minutes=args.save_minutes,
        **{name: options[name] for name in names},
        **settings,
    )
    best = max(rows, key=lambda row: row["recall_sum"])
    print(
        f"best epoch {best['epoch']}: annotation R@1 {best['annotation_r1']:.1f}, "
        f"search R@1 {best['search_r1']:.1f}\n{args.out / 'model.keras'}"
    )
