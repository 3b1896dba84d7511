"""Write the pages people look at: a folder of static pages about one split, no server and no network needed.

Training curves and tables; every photo with its sentences on its regions, before and after the MRF; captions beside the
human ones and the nearest neighbour's, best and worst by CIDEr; captions of regions; galleries of retrieval both ways;
the words and regions that matter most. What was computed is kept in the folder and not computed again.

example:
  imagesent report prepared --split dev --photos images --out report
  imagesent report prepared --split val --photos images --alignment runs/alignment --captioner runs/captioner \\
      --region-captioner runs/regions --tables results.json --out report
"""

from pathlib import Path

from keras_imagesent.errors import InputError

NONE = "none"


def add_arguments(parser):
    add = parser.add_argument
    add("prepared", type=Path, help="folder that `imagesent prepare` wrote")
    add("--split", required=True, help="the split to show")
    add("--photos", type=Path, required=True, metavar="FOLDER", help="where its photos are")
    add("--out", type=Path, required=True, metavar="FOLDER", help="the report's folder, new or to be written again")
    add("--alignment", metavar="RUN", help="run of train-alignment (the shipped one; 'none': leave it out)")
    add("--captioner", metavar="RUN", help="run of train-captioner (the shipped one; 'none')")
    add("--region-captioner", metavar="RUN", help="run on regions (the shipped one; 'none')")
    add("--tables", type=Path, nargs="+", default=[], metavar="FILE", help="JSON that `imagesent evaluate` wrote")
    add("--beta", type=float, help="of the phrases; the alignment run's own, else 1")
    add("--title", help="at the head of every page")


def run(args):
    if not args.photos.is_dir():
        raise InputError(f"{args.photos}: no such folder (--photos)")
    if args.out.exists() and not args.out.is_dir():
        raise InputError(f"{args.out}: a file. Name a folder with --out.")
    for path in args.tables:
        if not path.is_file():
            raise InputError(f"{path}: no such file (--tables)")
    runs = {name: named_run(args, name) for name in ("alignment", "captioner", "region_captioner")}
    from keras_imagesent.report.make_report import make_report

    page = make_report(
        args.prepared,
        args.split,
        args.photos,
        args.out,
        **runs,
        tables=args.tables,
        beta=args.beta,
        title=args.title,
        say=lambda text: print(text, flush=True),
    )
    print(f"{page}: open it in a browser")


def named_run(args, name):
    """The run that an option names: None for the shipped one, False for 'none'."""
    named = getattr(args, name)
    if named and named != NONE and not Path(named).exists():
        raise InputError(f"{named}: no such run (--{name.replace('_', '-')})")
    return False if named == NONE else named
