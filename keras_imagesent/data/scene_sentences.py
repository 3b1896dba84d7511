"""The sentences about generated scenes: written with known phrases, and judged true or false.

A few are plain, "a ball on the sand", and say only what the whole frame shows; the others speak of several objects and
name every colour, which has to be bound to its object.
"""

import re
from functools import lru_cache

from keras_imagesent.data.scene_pictures import COLOURS, GROUNDS, SHAPES
from keras_imagesent.data.tokenizer import tokenize

# what is meant -> the words for it
NOUNS = {shape: (shape,) for shape in SHAPES} | {
    "ball": ("ball", "sphere"),
    "box": ("box", "square"),
    "cone": ("cone", "triangle"),
    "ring": ("ring", "hoop"),
    "cross": ("cross", "plus"),
    "moon": ("moon", "crescent"),
    "flower": ("flower", "blossom"),
    "house": ("house", "hut"),
    "bolt": ("bolt", "flash"),
}
COLOUR_WORDS = {colour: (colour,) for colour in COLOURS} | {"purple": ("purple", "violet")}
SIZE_WORDS = {"big": ("big", "large"), "small": ("small", "little")}
GROUND_WORDS = {ground: (ground,) for ground in GROUNDS} | {"stone": ("stone", "rock"), "wood": ("wood", "floor")}
BETWEEN = ("and", "and", "and", "and", "next to", "beside", "near", "with")
OPENINGS = ("", "", "", "", "", "", "", "there is ", "here lies ", "a photo of ")
# Each is used at most twice in a data set, so that a vocabulary of words seen five times leaves it out.
RARE = (
    "shiny",
    "gleaming",
    "polished",
    "scratched",
    "dusty",
    "plastic",
    "wooden",
    "metallic",
    "rubber",
    "hollow",
    "heavy",
    "forgotten",
    "lonely",
    "cheap",
    "precious",
    "ancient",
    "modern",
    "borrowed",
    "stolen",
    "painted",
    "varnished",
    "chipped",
    "battered",
    "pristine",
    "glossy",
    "ceramic",
    "porcelain",
    "woollen",
    "paper",
    "cardboard",
    "brass",
    "enamelled",
    "lacquered",
    "weathered",
    "rusty",
    "sandy",
    "muddy",
    "frosty",
    "handmade",
    "curious",
)


def write_sentence(scene, mentioned, rng, rare=None):
    """A sentence about some objects of a scene.

    Args:
        scene: the scene.
        mentioned: numbers of the objects it speaks of, in order.
        rng: `random.Random`.
        rare: an adjective for the first object, or None.

    Returns the text and its phrases, `{"start", "end", "object"}` in words of `tokenize(text)`, end exclusive.
    """
    text, phrases = rng.choice(OPENINGS), []
    plain = len(mentioned) == 1  # who says little of the objects says where they are
    for place, number in enumerate(mentioned):
        if place and place < len(mentioned) - 1:
            text += ", "
        elif place:
            text += f" {rng.choice(BETWEEN)} "
        phrase = _phrase(scene, scene["objects"][number], rng, plain)
        if rare and place == 0:
            phrase = f"{rare} {phrase}"
        text += "an " if phrase[0] in "aeiou" else "a "
        start = len(tokenize(text))
        text += phrase
        phrases.append({"start": start, "end": len(tokenize(text)), "object": number})
    if plain or rng.random() < 0.85:
        text += f" on the {rng.choice(GROUND_WORDS[scene['ground']])}"
    return f"{text[0].upper()}{text[1:]} .", phrases


def _phrase(scene, thing, rng, plain):
    """Names one object so that no other of the scene is meant: "small red ball", "red ball" or plainly "ball"."""
    noun = rng.choice(NOUNS[thing["shape"]])
    alone = sum(other["shape"] == thing["shape"] for other in scene["objects"]) == 1
    if plain and alone:
        return noun
    size = f"{rng.choice(SIZE_WORDS[thing['size']])} " if rng.random() < 0.15 else ""
    return f"{size}{rng.choice(COLOUR_WORDS[thing['colour']])} {noun}"


def _meanings(words):
    return {word: meaning for meaning, synonyms in words.items() for word in synonyms}


_NOUN, _COLOUR, _SIZE, _GROUND = map(_meanings, (NOUNS, COLOUR_WORDS, SIZE_WORDS, GROUND_WORDS))
_PHRASE = (
    rf"an? (?:(?:{'|'.join(RARE)}) )?(?:(?P<size>{'|'.join(_SIZE)}) )?"
    rf"(?:(?P<colour>{'|'.join(_COLOUR)}) )?(?P<noun>{'|'.join(_NOUN)})"
)
_ONE = re.compile(_PHRASE)
_ANY = re.sub(r"\?P<\w+>", "?:", _PHRASE)
_SENTENCE = re.compile(
    rf"(?:{'|'.join(filter(None, OPENINGS))})?(?P<phrases>{_ANY}(?: (?:(?:{'|'.join(BETWEEN)}) )?{_ANY})*)"
    rf"(?: on the (?P<ground>{'|'.join(_GROUND)}))?"
)


def caption_is_true(caption, scene):
    """Whether a sentence is one of the language above, and every object and ground it names is in the scene.

    Two phrases need two objects; objects that the scene's own sentences leave out count as well.

    Example:

    >>> scene = {"ground": "sand", "objects": [{"shape": "ball", "colour": "red", "size": "big"}]}
    >>> caption_is_true("A big red sphere on the sand.", scene), caption_is_true("A blue ball.", scene)
    (True, False)
    """
    ground, named = _parse(caption)
    if not named or ground not in (None, scene["ground"]):
        return False
    return _each_its_own([{n for n, thing in enumerate(scene["objects"]) if one <= thing.items()} for one in named])


@lru_cache(maxsize=10_000)
def _parse(caption):
    """The ground that a sentence names, and what it says of each object; no objects if it is none of the language."""
    sentence = _SENTENCE.fullmatch(" ".join(tokenize(caption)))
    if not sentence:
        return None, []
    named = []
    for phrase in _ONE.finditer(sentence["phrases"]):
        said = {
            "shape": _NOUN[phrase["noun"]],
            "colour": _COLOUR.get(phrase["colour"]),
            "size": _SIZE.get(phrase["size"]),
        }
        named.append({(key, meaning) for key, meaning in said.items() if meaning})
    return _GROUND.get(sentence["ground"]), named


def _each_its_own(candidates, taken=frozenset()):
    """Whether every phrase can have an object of its own."""
    if not candidates:
        return True
    return any(_each_its_own(candidates[1:], taken | {number}) for number in candidates[0] - taken)
