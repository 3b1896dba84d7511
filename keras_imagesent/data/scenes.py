"""A generated data set: scenes of coloured objects, sentences about them, and the box of every phrase.

Always the same for a seed. Every scene has objects that its sentences never mention. A quarter of the scenes repeat the
one before with the colours dealt out anew, and the sentences of both name the colours: only who binds each colour to
its object tells the two apart, and the whole frame hardly shows that.
"""

import csv
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np

from keras_imagesent.data.atomic import whole_folder
from keras_imagesent.data.scene_pictures import COLOURS, GROUNDS, SHAPES, draw_scene
from keras_imagesent.data.scene_sentences import RARE, caption_is_true, write_sentence
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.errors import InputError

__all__ = ["caption_is_true", "make_scenes", "phrase_boxes", "read_scenes"]

SIDES = ((320, 320), (320, 288), (288, 320), (352, 288))
SIZES = {"small": (84, 96), "big": (118, 136)}  # an object's larger side, in pixels
HELD_OUT = 200  # scenes at most, so that recall among them can be compared


def make_scenes(folder, number, seed=0, splits=None, progress=None):
    """Makes photos, `dataset.json`, `phrase_boxes.csv`, `boxes.csv` and `scenes.json` in a new or empty folder.

    - `images/scene_00000.jpg` ...
    - `dataset.json`: the sentences, in Karpathy's form.
    - `phrase_boxes.csv`: filename, phrase, x0, y0, x1, y1 (in 0..1).
    - `boxes.csv`: filename, x0, y0, x1, y1, score of every object, for those who want no detector.
    - `scenes.json`: all that is known of each scene; `read_scenes` reads it.

    Args:
        folder: where to.
        number: how many scenes.
        seed: another seed, other scenes.
        splits: split -> share of the scenes; by default one in five is `val`, 200 at most, and the others train.
        progress: wraps the scenes as they are drawn, e.g. `tqdm`.

    Example:

    >>> make_scenes("scenes", 1000)
    """
    folder, shares = Path(folder), splits or default_shares(number)
    if number < len(shares):
        raise InputError(f"{number} scenes are too few: each of the splits {', '.join(shares)} needs one")
    if seed < 0:
        raise InputError(f"the seed must be 0 or more. Received: {seed}")
    for place in (folder, *folder.parents):
        if place.is_file() or (place == folder and place.exists() and any(place.iterdir())):
            raise InputError(f"{place} is there already: name a new folder")
    scenes = invent_scenes(number, seed, shares)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder) as unfinished:
        _write(unfinished, scenes, seed, progress)


def _write(folder, scenes, seed, progress):
    (folder / "images").mkdir()
    for position, scene in enumerate(progress(scenes) if progress else scenes):
        photo = draw_scene(scene, np.random.default_rng([seed, position]))
        photo.save(folder / "images" / scene["filename"], quality=92)
    _write_table(
        folder / "phrase_boxes.csv",
        ["filename", "phrase", "x0", "y0", "x1", "y1"],
        sorted({(scene["filename"], phrase, *box) for scene in scenes for phrase, box in _phrases(scene)}),
    )
    _write_table(
        folder / "boxes.csv",
        ["filename", "x0", "y0", "x1", "y1", "score"],
        [(scene["filename"], *thing["box"], 1) for scene in scenes for thing in scene["objects"]],
    )
    (folder / "scenes.json").write_text(json.dumps({"seed": seed, "scenes": scenes}))
    (folder / "dataset.json").write_text(json.dumps(_karpathy(scenes)))


def default_shares(number):
    """One scene in five is held out, `HELD_OUT` at most."""
    held_out = min(round(0.2 * number), HELD_OUT)
    return {"train": number - held_out, "val": held_out}


def invent_scenes(number, seed=0, shares=None):
    """The scenes without their photos: a list of dicts, as in `scenes.json`."""
    shares = shares or default_shares(number)
    ends = np.round(np.cumsum(list(shares.values())) / sum(shares.values()) * number).astype(int)
    first = np.arange(1, len(shares) + 1)
    ends = np.clip(ends, first, number - len(shares) + first)  # every split has one scene at least
    rare_uses, scenes = Counter(), []
    for position in range(number):
        rng = random.Random(f"{seed} {position}")
        split = list(shares)[int(np.searchsorted(ends, position, side="right"))]
        last = scenes[-1] if scenes and scenes[-1]["split"] == split else None
        repeat = last and not last["repeats"] and rng.random() < 0.33
        scene = (_recoloured(last, rng) if repeat else None) or _new(rng)
        scene |= {"filename": f"scene_{position:05d}.jpg", "split": split}
        if scene["repeats"]:
            last["told_apart"] = True
            last["captions"] = _captions(last, rng, rare_uses)
        scene["captions"] = _captions(scene, rng, rare_uses)
        scenes.append(scene)
    return scenes


def _new(rng):
    """A scene of three or four different objects, sometimes two of one shape; one of them it never mentions."""
    width, height = rng.choice(SIDES)
    shapes = rng.sample(list(SHAPES), rng.choice((3, 4)))
    if rng.random() < 0.2:
        shapes[-1] = shapes[0]
    colours = rng.sample(list(COLOURS), len(shapes))
    objects = [
        {"shape": shape, "colour": colour, "size": rng.choice(list(SIZES))}
        for shape, colour in zip(shapes, colours, strict=True)
    ]
    scene = {"width": width, "height": height, "ground": rng.choice(list(GROUNDS)), "objects": objects}
    return _placed(scene, rng) | {
        "mentioned": len(objects) - 1,
        "repeats": False,
        "told_apart": False,
    }


def _recoloured(scene, rng):
    """The scene with its colours on other objects, at other places; None where that would make two objects alike."""
    colours = [thing["colour"] for thing in scene["objects"]]
    dealings = []
    for turn in range(1, len(colours)):
        dealt = colours[turn:] + colours[:turn]
        kinds = {(thing["shape"], colour) for thing, colour in zip(scene["objects"], dealt, strict=True)}
        if len(kinds) == len(colours) and kinds != {(thing["shape"], thing["colour"]) for thing in scene["objects"]}:
            dealings.append(dealt)
    if not dealings:
        return None
    dealt = rng.choice(dealings)
    objects = [thing | {"colour": colour} for thing, colour in zip(scene["objects"], dealt, strict=True)]
    return _placed(scene | {"objects": objects}, rng) | {"repeats": True, "told_apart": True}


def _placed(scene, rng):
    """The scene with a box for each object, none touching another."""
    while True:
        boxes = []
        for thing in scene["objects"]:
            side = rng.randint(*SIZES[thing["size"]])
            across = side if rng.random() < 0.5 else round(side * rng.uniform(0.85, 1))
            down = side if across < side else round(side * rng.uniform(0.85, 1))
            for _ in range(30):
                x, y = rng.randint(4, scene["width"] - across - 4), rng.randint(4, scene["height"] - down - 6)
                if all(x + across + 8 < a or c + 8 < x or y + down + 8 < b or d + 8 < y for a, b, c, d in boxes):
                    boxes.append((x, y, x + across, y + down))
                    break
        if len(boxes) == len(scene["objects"]):
            break
    sides = (scene["width"], scene["height"]) * 2
    for thing, box in zip(scene["objects"], boxes, strict=True):
        thing["box"] = [round(edge / side, 6) for edge, side in zip(box, sides, strict=True)]
    return scene


def _captions(scene, rng, rare_uses):
    """Two to five different sentences about the objects that this scene mentions: its first ones."""
    captions, wanted = {}, rng.randint(2, 5)
    while len(captions) < wanted:
        how_many = min(scene["mentioned"], rng.choices((1, 2, 3), (24, 34, 42))[0])
        how_many = max(how_many, 2) if scene["told_apart"] else how_many  # one object alone is named without its colour
        rare = rng.choice(RARE) if rng.random() < 0.03 else None
        rare = None if rare_uses[rare] >= 2 else rare
        text, phrases = write_sentence(scene, rng.sample(range(scene["mentioned"]), how_many), rng, rare)
        if text not in captions:
            rare_uses[rare] += 1
            captions[text] = {"text": text, "phrases": phrases}
    return list(captions.values())


def _phrases(scene):
    """Each phrase of a scene's sentences as text, with its object's box."""
    for caption in scene["captions"]:
        words = tokenize(caption["text"])
        for start, end, box in phrase_boxes(scene, caption):
            yield " ".join(words[start:end]), box


def phrase_boxes(scene, caption):
    """Where each phrase of a caption lies: `[(first word, word after the last, box)]`, words as `tokenize` counts them.

    Example:

    >>> scene = read_scenes("scenes")["scene_00000.jpg"]
    >>> phrase_boxes(scene, scene["captions"][0])
    [(1, 3, [0.1, 0.2, 0.4, 0.5])]
    """
    return [
        (phrase["start"], phrase["end"], scene["objects"][phrase["object"]]["box"]) for phrase in caption["phrases"]
    ]


def read_scenes(folder):
    """All that is known of the scenes of a folder: filename -> scene."""
    path = Path(folder) / "scenes.json"
    if not path.exists():
        raise InputError(f"no {path}: name a folder that `imagesent scenes` made")
    try:
        return {scene["filename"]: scene for scene in json.loads(path.read_text("utf-8"))["scenes"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is damaged: make the scenes anew in another folder") from None


def _karpathy(scenes):
    images, sentence_id = [], 0
    for position, scene in enumerate(scenes):
        sentences = []
        for caption in scene["captions"]:
            sentences.append({"raw": caption["text"], "imgid": position, "sentid": sentence_id})
            sentence_id += 1
        images.append(
            {"filename": scene["filename"], "imgid": position, "split": scene["split"], "sentences": sentences}
        )
    return {"dataset": "scenes", "images": images}


def _write_table(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
