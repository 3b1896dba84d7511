"""Write a caption for every region of a photo, and show which words of the photo's own caption belong to which region.

A photo that cannot be read gives one line on stderr; the others are still described, and the exit status is 1.

example:
  imagesent describe dog.jpg --picture described.png
  imagesent describe dog.jpg --box 0.1,0.4,0.6,0.9        (x0,y0,x1,y1 in shares of the width and height)
  imagesent describe holiday/ --json > descriptions.jsonl
"""

import json

from keras_imagesent.cli.answers import HELP, load_answers
from keras_imagesent.cli.photo_list import Complaints, list_photos, picture_path
from keras_imagesent.data.photo_batches import read_in_batches
from keras_imagesent.errors import InputError
from keras_imagesent.records import MIN_SCORE
from keras_imagesent.runtime.description import describe_photos


def add_arguments(parser):
    add = parser.add_argument
    add("photo", nargs="+", help="photos, folders, patterns, or - for names on standard input")
    add("--captioner", metavar="RUN", help="run of train-captioner on whole photos (the shipped one)")
    add("--region-captioner", metavar="RUN", help="run of train-captioner on region pairs (the shipped one)")
    add("--alignment", metavar="RUN", help="run of train-alignment, which ties words to regions (the shipped one)")
    add("--backbone", metavar="FILE", help="the .keras that makes the vectors (the shipped one)")
    add("--detector", metavar="FILE", help="the .keras that finds regions (the shipped one)")
    add(
        "--box",
        action="append",
        default=[],
        metavar="X0,Y0,X1,Y1",
        help="describe only this part of the photo, in 0..1; may be given several times",
    )
    add("--regions", type=int, default=20, metavar="N", help="at most so many regions, best detector score first (20)")
    add("--all", action="store_true", help=f"regions of a detector score below {MIN_SCORE:g} too")
    add("--beam", type=int, help="sentences kept in the search (the region captioner's own)")
    add("--beta", type=float, help="strength of the ties between neighbouring words (the alignment's own)")
    add("--exported", metavar="FOLDER", help=HELP)
    add("--json", action="store_true", help="one JSON object a line instead of text")
    add("--picture", metavar="FILE", help="draw the regions on the photo (.png, .svg; a folder for several photos)")


def run(args):
    if args.regions < 1 or (args.beam is not None and args.beam < 1):
        raise InputError("--regions and --beam are numbers from 1 up")
    boxes = [parse_box(text) for text in args.box]
    photos, complain = list_photos(args.photo), Complaints()
    if args.picture:
        picture_path(args.picture, photos[0], len(photos) > 1)  # a wrong name is said before the work

    wanted = ("captioner", "region_captioner", "alignment", "backbone", "detector", "beam")
    model = load_answers(
        ["caption", "describe", "align"],
        args.exported,
        {name: getattr(args, name) for name in wanted} | {"box": boxes},
        backbone=args.backbone,
        detector=False if boxes else args.detector,
        alignment=False if boxes else args.alignment,
        captioner=False if boxes else args.captioner,
        region_captioner=args.region_captioner,
        captions=1,
        beam=args.beam,
        beta=args.beta,
    )
    for paths, contents in read_in_batches(photos, complain):
        if boxes:
            answers = describe_boxes(model, contents, boxes)
        else:
            answers = describe_photos(model, contents, args.regions, 0.0 if args.all else MIN_SCORE)
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, InputError):
                complain(path, answer)
                continue
            if args.json:
                print(json.dumps({"photo": str(path), **answer}), flush=True)
            elif boxes:
                for text, region in zip(args.box, answer["regions"], strict=True):
                    print(f"{path}\t{text}\t{region['caption']}", flush=True)
            else:
                print(text_of(path, answer), flush=True)
            if args.picture:
                from keras_imagesent.report.pictures import draw_regions

                columns = [[region[key] for region in answer["regions"]] for key in ("box", "caption", "log_prob")]
                draw_regions(path, *columns).save(picture_path(args.picture, path, len(photos) > 1))
    return complain.exit_status


def parse_box(text):
    """ "0.1,0.4,0.6,0.9" -> the box, or what is wrong with it."""
    try:
        box = [float(number) for number in text.split(",")]
        good = len(box) == 4 and 0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1
    except ValueError:
        good = False
    if not good:
        raise InputError(f"--box {text}: give x0,y0,x1,y1 from 0 to 1, x0 < x1 and y0 < y1, such as 0.1,0.4,0.6,0.9")
    return box


def describe_boxes(model, contents, boxes):
    """The captions of the given boxes in each photo, in the form of `describe_photos`."""
    found = model.describe_boxes(contents, boxes)
    answers = []
    for status, captions, log_probs in zip(found["status"], found["captions"], found["log_probs"], strict=True):
        rows = zip(boxes, captions, log_probs, strict=True)
        regions = [{"box": box, "caption": text, "log_prob": round(float(value), 4)} for box, text, value in rows]
        answers.append({"regions": regions} if status[0] == "ok" else InputError(status[0]))
    return answers


def text_of(path, description):
    """The description as lines for a terminal."""
    lines = [f"{path}: {description['caption']}"]
    for phrase in description["phrases"]:
        lines.append(f"  {phrase['words']!r} is in region {phrase['region']} (score {phrase['score']:.2f})")
    for region in description["regions"]:
        box = " ".join(f"{corner:.3f}" for corner in region["box"])
        lines.append(
            f"  region {region['region']:2d}  box {box}  detector {region['box_score']:.2f}  "
            f"{region['log_prob']:7.2f}  {region['caption']}"
        )
    return "\n".join(lines)
