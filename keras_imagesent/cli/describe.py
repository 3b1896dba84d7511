"""Write a caption for every region of a photo, and show which words of the photo's own caption belong to which region.

A photo that cannot be read gives one line on stderr; the others are still described, and the exit status is 1.

example:
  imagesent describe dog.jpg --picture described.png
  imagesent describe dog.jpg --box 0.1,0.4,0.6,0.9        (x0,y0,x1,y1 in shares of the width and height)
  imagesent describe holiday/ --json > descriptions.jsonl
"""

import json

from keras_imagesent.cli.answers import HELP, load_answers
from keras_imagesent.cli.photo_list import Complaints, list_photos, picture_path, read_in_batches
from keras_imagesent.errors import InputError


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
        help="only this part, in 0..1; several --box do too",
    )
    add("--regions", type=int, default=20, metavar="N", help="at most so many regions, best detector score first (20)")
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
            import tensorflow as tf

            describe_boxes(args, model.model, paths, tf.constant(contents), boxes, complain, len(photos) > 1)
            continue
        contents = model.read(contents)
        found = model.predict("describe", contents)
        sentences = [captions[0] for captions in model.predict("caption", contents)["captions"]]
        aligned = model.predict("align", contents, sentences)
        for row, path in enumerate(paths):
            status = found["status"][row]
            if status != "ok":
                complain(path, status)
                continue
            description = describe(found, aligned, sentences[row], row, args.regions)
            if args.json:
                print(json.dumps({"photo": str(path), **description}), flush=True)
            else:
                print(text_of(path, description), flush=True)
            if args.picture:
                from keras_imagesent.report.pictures import draw_regions

                regions = description["regions"]
                columns = [[region[key] for region in regions] for key in ("box", "caption", "log_prob")]
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


def describe_boxes(args, model, paths, contents, boxes, complain, several):
    """Prints (and draws) the caption of each box of one's own in each photo."""
    import tensorflow as tf

    answers = []
    for box in boxes:
        found = model.describe_box(contents, tf.constant([box] * len(paths)))
        answers.append({name: value.numpy() for name, value in found.items()})
    for row, path in enumerate(paths):
        status = answers[0]["status"][row].decode()
        if status != "ok":
            complain(path, status)
            continue
        captions = [answer["captions"][row].decode() for answer in answers]
        log_probs = [round(float(answer["log_probs"][row]), 4) for answer in answers]
        if args.json:
            each = zip(boxes, captions, log_probs, strict=True)
            regions = [{"box": box, "caption": caption, "log_prob": value} for box, caption, value in each]
            print(json.dumps({"photo": str(path), "regions": regions}), flush=True)
        else:
            for text, caption in zip(args.box, captions, strict=True):
                print(f"{path}\t{text}\t{caption}", flush=True)
        if args.picture:
            from keras_imagesent.report.pictures import draw_regions

            draw_regions(path, boxes, captions, log_probs).save(picture_path(args.picture, path, several))


def describe(found, aligned, caption, row, most):
    """One photo's answer: its caption, whose phrases point into its regions, and the regions."""
    from keras_imagesent.alignment.phrases import group_phrases

    regions = [
        {
            "region": region,
            "box": [round(float(corner), 4) for corner in found["boxes"][row, region]],
            "box_score": round(float(found["box_scores"][row, region]), 4),
            "label": found["labels"][row][region] or None,
            "caption": found["captions"][row][region],
            "log_prob": round(float(found["log_probs"][row, region]), 4),
        }
        for region in range(min(most, int(found["number_of_regions"][row])))
    ]
    words = [word for word in aligned["words"][row] if word]
    phrases = [
        {
            "words": " ".join(words[phrase.first : phrase.last + 1]),
            "region": phrase.region,
            "box": [round(float(corner), 4) for corner in aligned["boxes"][row, phrase.region]],
            "score": round(phrase.score, 4),
        }
        for phrase in group_phrases(aligned["phrase_regions"][row][: len(words)], aligned["similarity"][row])
    ]
    return {"caption": caption, "phrases": phrases, "regions": regions}


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
