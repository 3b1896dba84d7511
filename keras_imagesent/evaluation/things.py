"""Do captions name the things that people name? 65 everyday things, their words in `things.json`."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.evaluation.tables import Table

LEAST_PEOPLE = 3  # a photo shows a thing if so many of its captions name it
LEAST_PHOTOS = 10  # a thing counts if so many photos show it


@cache
def thing_words() -> dict[str, frozenset[str]]:
    """Each thing with the words that name it.

    Example:
        >>> sorted(thing_words()["cat"])
        ['cat', 'cats', 'kitten', 'kittens']
    """
    content = json.loads(Path(__file__).with_name("things.json").read_text("utf-8"))
    return {thing: frozenset(words) for thing, words in content.items()}


def things_in(caption: str) -> set[str]:
    """The things that a caption names.

    Example:
        >>> sorted(things_in("Two kittens on a sofa."))
        ['cat', 'couch']
    """
    words = set(tokenize(caption))
    return {thing for thing, names in thing_words().items() if words & names}


def things_shown(captions: Sequence[str], least_people: int = LEAST_PEOPLE) -> set[str]:
    """The things that at least `least_people` of a photo's captions name.

    Example:
        >>> things_shown(["a cat", "one cat on a bed", "my cat", "a bed", "hello"])
        {'cat'}
    """
    counts = Counter(thing for caption in captions for thing in things_in(caption))
    return {thing for thing, count in counts.items() if count >= least_people}


def count_named(captions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, tuple[int, int]]:
    """For each thing: how many photos show it, and in how many of them the photo's caption names it.

    Args:
        captions: one caption for each photo.
        references: what people wrote about each photo.

    Example:
        >>> count_named(["a cat sleeps"], [["a cat", "the cat", "my cat on a bed"]])
        {'cat': (1, 1)}
    """
    shown, named = Counter(), Counter()
    for caption, people in zip(captions, references, strict=True):
        there = things_shown(people)
        shown.update(there)
        named.update(there & things_in(caption))
    return {thing: (shown[thing], named[thing]) for thing in thing_words() if shown[thing]}


def things_table(
    captions: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]], split: str, command: str = ""
) -> Table:
    """The share of photos whose caption names what people name, for each thing and over all; a column each captioner.

    Example:
        >>> things_table({"best": ["a cat"]}, [["a cat", "the cat", "my cat"]], "dev").rows[0]
        ['all of them', 0, None]
    """
    counts = {name: count_named(texts, references) for name, texts in captions.items()}
    shown = {thing: photos for thing, (photos, _) in next(iter(counts.values())).items() if photos >= LEAST_PHOTOS}

    def share(found, things):
        photos = sum(found[thing][0] for thing in things)
        return 100 * sum(found[thing][1] for thing in things) / photos if photos else None

    rows = [["all of them", sum(shown.values()), *(share(found, shown) for found in counts.values())]]
    for thing in sorted(shown, key=shown.get, reverse=True):
        rows.append([thing, shown[thing], *(share(found, [thing]) for found in counts.values())])
    note = (
        f"Of the photos where at least {LEAST_PEOPLE} people name a thing, the share whose caption names it "
        f"too; things with at least {LEAST_PHOTOS} such photos. "
        "The words that count are listed in evaluation/things.json. "
        "This measure is our own, not the paper's."
    )
    columns = ["thing", "photos", *(f"{name}, %" for name in captions)]
    return Table("things", "Things named", columns, rows, note, command, split)
