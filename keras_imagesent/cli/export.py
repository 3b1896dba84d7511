"""Writes a trained model as files that run without this package.

  saved-model  one TensorFlow SavedModel with all signatures, as the next version in OUT (TF Serving's layout)
  onnx         a few files that share one image encoder, for ONNX Runtime; `imagesent caption --exported OUT` uses them
  litert       the same pieces for LiteRT (TensorFlow Lite) in float32, float16 and int8
  web          a folder for any web server: a page that captions, describes and aligns photos in the browser

Models that are not named are the shipped ones.

  imagesent export exported/imagesent
  imagesent export exported/onnx --format onnx --captioner runs/captioner
  imagesent export exported/litert --format litert --photos photos/
  imagesent export site --format web
"""

from pathlib import Path

PARTS = {
    "backbone": "the network that looks at the photo (.keras)",
    "detector": "the network that finds regions (.keras)",
    "alignment": "run folder of `imagesent train-alignment`",
    "captioner": "run folder of `imagesent train-captioner` on whole photos",
    "region-captioner": "run folder of `imagesent train-captioner` on regions",
}


def add_arguments(parser):
    parser.add_argument("out", type=Path, help="folder to write to; for a SavedModel its name is the model's name")
    formats = ["saved-model", "onnx", "litert", "web"]
    parser.add_argument("--format", choices=formats, default=formats[0], help="what to write (default: %(default)s)")
    for name, what in PARTS.items():
        parser.add_argument(f"--{name}", metavar="PATH", help=f"{what}; default: the shipped one")
    parser.add_argument("--beam", type=int, help="sentences kept in the search (default: the captioner's own)")
    parser.add_argument("--captions", type=int, help="captions for each photo (default: 3)")
    parser.add_argument("--max-length", type=int, default=20, help="most words of a caption (default: %(default)s)")
    parser.add_argument("--length-penalty", type=float, help="0 prefers short captions (default: the captioner's own)")
    parser.add_argument("--beta", type=float, help="0 or more: ties neighbouring words (default: the alignment's own)")
    parser.add_argument(
        "--rerank", type=float, default=0.0, help="rank the beam anew by the alignment with this weight (0)"
    )
    parser.add_argument(
        "--float16", action="store_true", help="store weights in float16, at half the size (LiteRT writes both)"
    )
    parser.add_argument("--int8", action="store_true", help="for ONNX: store weights in int8, at a quarter of the size")
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="FOLDER",
        help="real photos: int8 ranges, warm-up requests (default: drawn scenes)",
    )
    parser.add_argument(
        "--web-runtime",
        type=Path,
        metavar="FOLDER",
        help="the npm package onnxruntime-web, unpacked (default: ask npm)",
    )
    parser.add_argument(
        "--card", type=Path, action="append", default=[], help="a file to put beside the model, e.g. its card"
    )


def run(args):
    from keras_imagesent.errors import InputError

    for file in args.card:
        if not file.is_file():
            raise InputError(f"{file} is no file: name the model card or licence to put beside the model")
    for name in ("beam", "captions", "max_length"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(args, name)}")
    if args.beta is not None and args.beta < 0:
        raise InputError(f"--beta must be 0 or more, not {args.beta:g}")
    if args.rerank and args.format != "saved-model":
        raise InputError("--rerank is for the SavedModel: the other forms have the alignment in a file of its own")
    if args.int8 and (args.float16 or args.format != "onnx"):
        raise InputError("--int8 is for --format onnx, instead of --float16; litert and web have it without asking")
    if args.out.exists() and not args.out.is_dir():
        raise InputError(f"{args.out} is a file: name a folder to write to")
    photos = read_photos(args.photos)

    from keras_imagesent.model.image_sent import load
    from keras_imagesent.serving.export import documents, export

    model = load(
        **{name: getattr(args, name) for name in (part.replace("-", "_") for part in PARTS)},
        beam=args.beam,
        captions=args.captions,
        max_length=args.max_length,
        length_penalty=args.length_penalty,
        beta=args.beta,
        rerank=args.rerank,
    )
    papers = [*documents(all(getattr(args, part.replace("-", "_")) is None for part in PARTS)), *args.card]
    written = export(model, args.out, args.format, args.float16, photos, papers, args.web_runtime, args.int8)
    for path in written:
        size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
        print(f"{path}  {size / 1e6:.1f} MB")


def read_photos(folder, most=100):
    """The encoded photos of a folder, at most 100; none if no folder is given."""
    from keras_imagesent.errors import InputError

    if folder is None:
        return []
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: give one with photos")
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in (".jpg", ".jpeg", ".png"))[:most]
    if not files:
        raise InputError(f"{folder} has no .jpg or .png photo: give a folder with photos")
    return [file.read_bytes() for file in files]
