"""Write captions for photos: files, folders, patterns, or a list of names on standard input (-).

A photo that cannot be read gives one line on stderr; the others still get their captions, and the exit status is 1.

example:
  imagesent caption dog.jpg
  imagesent caption holiday/ "scans/*.png" --captions 3
  imagesent caption holiday/ --sidecar --alt-text alt.csv --min-confidence 0.5
  find . -name '*.jpg' | imagesent caption - --json > captions.jsonl
"""

import json

from keras_imagesent.captioning.confidence import confidence
from keras_imagesent.cli.answers import HELP, load_answers
from keras_imagesent.cli.photo_list import Complaints, list_photos, picture_path
from keras_imagesent.data.photo_batches import read_in_batches
from keras_imagesent.errors import InputError
from keras_imagesent.report.alt_text import check_alt_path, write_alt_texts, write_sidecar


def add_arguments(parser):
    add = parser.add_argument
    add("photo", nargs="+", help="photos, folders, patterns, or - for names on standard input")
    add("--captioner", metavar="RUN", help="run of train-captioner (the shipped one)")
    add("--alignment", metavar="RUN", help="run of train-alignment, for --rerank (the shipped one)")
    add("--backbone", metavar="FILE", help="the .keras that makes the vectors (the shipped one)")
    add("--detector", metavar="FILE", help="the .keras that finds regions, if they are looked at (the shipped one)")
    add("--captions", type=int, default=1, help="captions for each photo, best first (1)")
    add("--beam", type=int, help="sentences kept in the search (the captioner's own; 20 with --rerank)")
    add("--length-penalty", type=float, help="0 prefers short captions (the captioner's own)")
    add("--rerank", type=float, default=0.0, metavar="WEIGHT", help="rank the beam anew by the alignment (0.2 is good)")
    add("--min-confidence", type=float, metavar="P", help="say 'not sure' of captions that are less sure (from 0 to 1)")
    add("--sidecar", action="store_true", help="write each caption beside its photo, as photo.jpg.xmp")
    add("--alt-text", metavar="FILE", help="write all captions as alt texts (.csv or .html)")
    add("--exported", metavar="FOLDER", help=HELP)
    add("--json", action="store_true", help="one JSON object a line instead of text")
    add("--picture", metavar="FILE", help="draw the caption under the photo (.png, .svg; a folder for several photos)")


def run(args):
    if args.captions < 1 or (args.beam is not None and args.beam < 1):
        raise InputError("--captions and --beam are numbers from 1 up")
    if not args.rerank >= 0:
        raise InputError(f"--rerank is a weight from 0 up (0.2 is good), not {args.rerank:g}")
    if args.min_confidence is not None and not 0 <= args.min_confidence <= 1:
        raise InputError(f"--min-confidence is a number from 0 to 1, not {args.min_confidence:g}")
    if args.min_confidence is not None and args.rerank:
        raise InputError("--min-confidence knows nothing of captions ranked anew: leave out --rerank")
    if args.alt_text:
        check_alt_path(args.alt_text)
    photos, complain = list_photos(args.photo), Complaints()
    if args.picture:
        picture_path(args.picture, photos[0], len(photos) > 1)  # a wrong name is said before the work

    wanted = ("captioner", "alignment", "backbone", "detector", "beam", "rerank")
    model = load_answers(
        ["caption"],
        args.exported,
        {name: getattr(args, name) for name in wanted} | {"length_penalty": args.length_penalty is not None},
        backbone=args.backbone,
        detector=args.detector or (None if args.rerank else False),
        alignment=args.alignment if args.rerank else False,
        captioner=args.captioner,
        region_captioner=False,
        captions=args.captions,
        beam=args.beam,
        length_penalty=args.length_penalty,
        rerank=args.rerank,
    )
    constants = None if args.rerank else model.confidence
    if args.min_confidence is not None and not constants:
        raise InputError("this captioner does not know how sure it is: run `imagesent calibrate` first")
    told = {}
    for paths, contents in read_in_batches(photos, complain):
        found = model.predict("caption", contents)
        for row, path in enumerate(paths):
            status = found["status"][row]
            if status != "ok":
                complain(path, status)
                continue
            captions = list(found["captions"][row][: args.captions])
            log_probs = [round(float(value), 4) for value in found["log_probs"][row][: args.captions]]
            pairs = zip(captions, log_probs, strict=True)
            sure = [round(confidence(*pair, constants), 4) for pair in pairs if constants]
            unsure = args.min_confidence is not None and sure[0] < args.min_confidence
            if not unsure:
                told[path] = captions[0]
            if args.json:
                answer = {"photo": str(path), "captions": captions, "log_probs": log_probs}
                answer |= {"confidences": sure} if constants else {}
                answer |= {"sure": not unsure} if args.min_confidence is not None else {}
                print(json.dumps(answer), flush=True)
            elif unsure:
                print(f"{path}\tnot sure ({sure[0]:.2f})", flush=True)
            elif args.captions == 1:
                print(f"{path}\t{captions[0]}", flush=True)
            else:
                print(path, *(f"  {p:8.3f}  {text}" for text, p in zip(captions, log_probs, strict=True)), sep="\n")
            if args.picture:
                from keras_imagesent.report.pictures import draw_regions

                target = picture_path(args.picture, path, len(photos) > 1)
                draw_regions(path, [[0, 0, 1, 1]] * len(captions), captions, log_probs).save(target)
            if args.sidecar and path in told:
                try:
                    write_sidecar(path, captions[0])
                except InputError as error:
                    complain(path, error)
    if args.alt_text:
        print(write_alt_texts(args.alt_text, list(told), list(told.values())))
    return complain.exit_status
