"""Makes the generated data set: scenes of coloured objects, sentences about them, and the box of every phrase.

It needs nothing and is always the same for a seed, so it serves a first try of everything:

  imagesent scenes scenes --number 1000
  imagesent prepare scenes/dataset.json --photos scenes/images --out prepared
"""

from pathlib import Path


def add_arguments(parser):
    parser.add_argument("out", type=Path, help="a new folder for photos, sentences and boxes")
    parser.add_argument("--number", type=int, default=1000, help="how many scenes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other scenes (default: %(default)s)")


def run(args):
    from tqdm import tqdm

    from keras_imagesent.data.scenes import make_scenes

    make_scenes(args.out, args.number, args.seed, progress=lambda scenes: tqdm(scenes, desc="scenes", unit="scene"))
    print(f"{args.number} scenes in {args.out}: {args.out / 'dataset.json'} and {args.out / 'images'}")
