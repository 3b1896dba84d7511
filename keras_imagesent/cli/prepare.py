"""Photos and sentences in, region vectors on disk, ready to train on.

Reads a data set (Karpathy JSON, COCO captions JSON, Flickr token file, CSV or JSONL of your own; WebDataset tars and
Parquet files hold the photos too), sets broken photos aside, finds up to 19 boxes in each photo, adds the whole frame,
and writes a vector for each of the 20 regions.
Killed and started again it goes on where it was.

  imagesent prepare dataset.json --photos images --out prepared --set-aside 500
  imagesent prepare dataset.json --photos images --out prepared --shard 1/4    (the first of four machines)
  imagesent prepare captions_train2017.json captions_val2017.json --photos coco --out prepared
  imagesent prepare laion/ --out prepared --ray 8    (img2dataset's tars, or Parquet, on a Ray cluster)
  imagesent prepare my.csv --photos images --out prepared --backbone vgg16/fc2 --region-vectors crop   (as in the paper)
  imagesent prepare flickr8k=dataset.json coco=captions.csv --photos flickr8k=f8k/images coco=coco/images --out prepared
  imagesent prepare test.csv --photos images --out prepared --words-of runs/alignment    (photos to measure a model on)
"""

import sys
from pathlib import Path

from keras_imagesent.cli.argument_types import data_sets, image_size, shard, share, whole_number
from keras_imagesent.regions.squash import IMAGE_SIZE


def add_arguments(parser):
    add = parser.add_argument
    add(
        "dataset",
        nargs="+",
        metavar="[NAME=]FILE",
        help="the data set's JSON (COCO: one a split), token file, CSV, JSONL, tars or Parquet; with names, several "
        "data sets in one",
    )
    add(
        "--photos",
        nargs="+",
        default=[],
        metavar="[NAME=]FOLDER",
        help="where the photos are, of each data set that does not hold them itself",
    )
    add("--out", type=Path, required=True, metavar="FOLDER", help="the prepared folder to write or to go on with")
    add("--split-files", type=Path, nargs="+", metavar="FILE", help="lists of file names, for a Flickr token file")
    add(
        "--set-aside",
        type=whole_number,
        default=0,
        metavar="N",
        help="training photos of each set to move to tune, those with five captions first",
    )
    add("--words-of", type=Path, metavar="RUN", help="take a trained model's vocabulary, to measure it on these photos")
    add("--seed", type=whole_number, default=0, help="chooses the photos set aside (0)")
    add("--threshold", type=whole_number, default=5, help="words seen less often in training are dropped (5)")
    add("--max-broken", type=share, default=0.01, metavar="SHARE", help="stop if more than this is broken (0.01)")
    add(
        "--image-size",
        type=image_size,
        default=IMAGE_SIZE,
        metavar="S",
        help=f"photos are squashed to S x S pixels ({IMAGE_SIZE})",
    )
    add("--backbone", default="efficientnet-lite2", help="a name, also of keras.applications, or a .keras file")
    add(
        "--detector",
        default="yolov4-tiny",
        help="yolov4-tiny, grid, a SavedModel folder, a .json or .csv file of boxes, a .keras file, or a Model Garden "
        "experiment such as fasterrcnn_resnetfpn_coco",
    )
    add("--trust-detector", action="store_true", help="run a SavedModel given as --detector: it is a program")
    add("--detector-config", type=Path, metavar="FILE", help="params.yaml of the Model Garden experiment")
    add("--detector-checkpoint", metavar="PATH", help="its checkpoint, or the folder of its checkpoints")
    add(
        "--region-vectors",
        choices=("pool", "crop"),
        default="pool",
        help="one look at the photo (pool), or one look at each region, slower (crop)",
    )
    add("--shard", type=shard, default=(1, 1), metavar="I/N", help="do the I-th of N shares of the work")
    add(
        "--ray",
        type=whole_number,
        nargs="?",
        const=0,
        metavar="N",
        help="extract in N actors of a Ray cluster, that of RAY_ADDRESS or one on this machine (one a GPU, else a CPU)",
    )


def run(args):
    files, photos = data_sets(args.dataset, args.photos)

    from keras_imagesent.regions.prepare_dataset import prepare_dataset

    prepare_dataset(
        files,
        photos,
        args.out,
        split_files=args.split_files,
        tune=args.set_aside,
        words_of=args.words_of,
        seed=args.seed,
        threshold=args.threshold,
        max_broken=args.max_broken,
        image_size=args.image_size,
        backbone=args.backbone,
        detector=args.detector,
        trust_detector=args.trust_detector,
        detector_config=args.detector_config,
        detector_checkpoint=args.detector_checkpoint,
        region_vectors=args.region_vectors,
        machine=args.shard,
        ray=args.ray,
    )
    print_summary(args.out)


def print_summary(out):
    from keras_imagesent.data.prepared import missing_shards
    from keras_imagesent.data.shards import read_settings

    splits = read_settings(out)["splits"]
    print(f"{out}: " + ", ".join(f"{split} {content['photos']} photos" for split, content in splits.items()))
    missing, number = missing_shards(out)
    if missing:
        print(f"This share is done. {len(missing)} of {number} shards belong to the other shares.", file=sys.stderr)
    else:
        print(f"What was set aside: {out / 'problems.json'}", file=sys.stderr)
