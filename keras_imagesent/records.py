"""What the models answer with: plain records of strings and numbers, for Python and for every runtime."""

from dataclasses import dataclass

Box = tuple[float, float, float, float]  # left, top, right, bottom, as shares of the photo's width and height

MIN_SCORE = 0.2  # regions that the detector is less sure of are not described, unless asked for: three of 19 remain


@dataclass(frozen=True, slots=True)
class Caption:
    """A sentence that a captioner wrote.

    Args:
        text: the sentence, in lower case, without punctuation.
        log_prob: its natural log probability, the sum over its words and its end.

    Example:
        >>> ki.Caption("a dog runs", -4.2).text
        'a dog runs'
    """

    text: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a photo; the first of a photo's regions is the whole frame.

    Args:
        box: left, top, right, bottom, as shares of the photo's width and height.
        score: how sure the detector is that something is there, from 0 to 1.
        label: the detector's name for what it found; None for the whole frame, or if the detector has no names.
        caption: what the region captioner says of it; None if it was not asked.

    Example:
        >>> ki.Region((0.1, 0.2, 0.5, 0.9), 0.93, "dog", ki.Caption("a brown dog", -3.1)).label
        'dog'
    """

    box: Box
    score: float
    label: str | None = None
    caption: Caption | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """Neighboring words of a sentence that belong to one region of the photo.

    Args:
        text: the words as they were typed.
        box: the region, as in `Region`.
        score: how well words and region agree: the mean of the words' similarities with the region.
        region: the number of the region among all of the photo's regions (`describe` with `min_score=0`); 0 is the
            whole frame.

    Example:
        >>> ki.Phrase("a dog", (0.1, 0.2, 0.5, 0.9), 3.4, region=2).text
        'a dog'
    """

    text: str
    box: Box
    score: float
    region: int
