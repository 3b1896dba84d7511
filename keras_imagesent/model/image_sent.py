"""The trained models for Python: photos and sentences in, plain records out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_imagesent.alignment.phrases import group_phrases
from keras_imagesent.data.photo_bytes import Photo, photo_bytes, photo_name
from keras_imagesent.errors import InputError
from keras_imagesent.model.photo_model import PhotoModel, load_photo_model
from keras_imagesent.records import MIN_SCORE, Caption, Phrase, Region

PHOTOS_AT_ONCE = 8  # what the networks look at together: a longer list is cut
Part = str | Path | bool | None


def load(
    captioner: Part = None,
    alignment: Part = None,
    region_captioner: Part = None,
    backbone: Part = None,
    detector: Part = None,
    *,
    beam: int | None = None,
    captions: int | None = None,
    max_length: int = 20,
    length_penalty: float | None = None,
    beta: float | None = None,
    rerank: float = 0.0,
) -> "ImageSent":
    """Loads trained models; of each one that is not named, the shipped one.

    Args:
        captioner: run folder of `train_captioner` on whole photos. False leaves a model out, which saves time where
            its answers are not needed; so with the next four.
        alignment: run folder of `train_alignment`.
        region_captioner: run folder of `train_captioner` on regions.
        backbone: `.keras` file of the network that makes the vectors.
        detector: `.keras` file of the network that finds regions.
        beam: how many sentences the search keeps; None takes the captioner's own.
        captions: how many captions a photo gets; None is 3, or the beam if that is smaller.
        max_length: most words of a caption.
        length_penalty: exponent of the length: 0 ranks captions by total, 1 by mean log probability.
        beta: how strongly neighboring words are tied to one region; None takes the alignment's own.
        rerank: weight of the alignment's score in the choice among the captions of the beam; 0 leaves it out.

    Returns:
        An `ImageSent`.

    Example:
        >>> model = ki.load(captioner="captioner", alignment="alignment", backbone="backbone.keras",
        ...                 detector="detector.keras", region_captioner="region_captioner")
        >>> len(model.caption("dog.jpg"))
        3
    """
    return ImageSent(
        load_photo_model(
            backbone,
            detector,
            alignment,
            captioner,
            region_captioner,
            beam=beam,
            captions=captions,
            max_length=max_length,
            length_penalty=length_penalty,
            beta=beta,
            rerank=rerank,
        )
    )


class ImageSent:
    """Trained models that answer for photos.

    A photo is a path, encoded bytes, a Pillow image or a NumPy array of pixels (`photo_bytes` says which). One photo
    gives one answer, a list of photos a list of answers. A photo that cannot be read raises an `InputError` that says
    why.

    Args:
        tensors: the same models as functions of tensors, for those who build graphs: `tensors.caption` and so on.

    Example:
        >>> model.caption("dog.jpg")[0].text == model.caption(["dog.jpg", "dog.jpg"])[1][0].text
        True
    """

    def __init__(self, tensors: PhotoModel):
        self.tensors = tensors

    def caption(self, photo: Photo | Sequence[Photo]) -> list[Caption] | list[list[Caption]]:
        """Captions of whole photos, the best first.

        Example:
            >>> captions = model.caption("dog.jpg")
            >>> captions[0].log_prob < 0
            True
        """
        self._need("captioner")
        found = self._ask(self.tensors.caption, photo)
        return found.answer(
            lambda row: [Caption(text, p) for text, p in zip(*row("captions", "log_probs"), strict=True)]
        )

    def describe(
        self, photo: Photo | Sequence[Photo], min_score: float = MIN_SCORE
    ) -> list[Region] | list[list[Region]]:
        """The regions of photos, each with its caption; the first is the whole frame.

        Regions that the detector gives less than `min_score` are left out; 0 describes all of them.

        Example:
            >>> [region.box for region in model.describe("dog.jpg")][0]
            (0.0, 0.0, 1.0, 1.0)
        """
        self._need("detector", "region_captioner")
        found = self._ask(self.tensors.describe, photo)

        def regions(row):
            boxes, scores, texts, log_probs = row("boxes", "box_scores", "captions", "log_probs")
            labels = row("labels")[0] if "labels" in found.values else [""] * len(boxes)
            return [
                Region(tuple(boxes[n]), scores[n], labels[n] or None, Caption(texts[n], log_probs[n]))
                for n in range(row("number_of_regions")[0])
                if scores[n] >= min_score
            ]

        return found.answer(regions)

    def align(self, photo: Photo | Sequence[Photo], sentence: str | Sequence[str]) -> list[Phrase] | list[list[Phrase]]:
        """The phrases of a sentence, each with the region of the photo that it speaks of.

        A list of photos needs a list of as many sentences. Words that the model does not know belong to the phrase
        around them, or to none.

        Example:
            >>> [phrase.text for phrase in model.align("dog.jpg", "a dog runs")]
            ['a dog runs']
        """
        self._need("detector", "alignment")
        many = not isinstance(sentence, str)
        if many != _is_many(photo) or (many and len(photo) != len(sentence)):  # type: ignore[arg-type]
            raise InputError("align takes one photo with one sentence, or a list of photos with a list of as many")
        found = self._ask(self.tensors.align, photo, list(sentence) if many else [sentence])

        def phrases(row):
            words, regions, similarity, boxes = row("words", "phrase_regions", "similarity", "boxes")
            words = [word for word in words if word]
            return [
                Phrase(span.text(words), tuple(boxes[span.region]), span.score, span.region)
                for span in group_phrases(regions[: len(words)], np.asarray(similarity))
            ]

        return found.answer(phrases)

    def embed_image(self, photo: Photo | Sequence[Photo]) -> np.ndarray | list[np.ndarray]:
        """The vectors of a photo's regions in the space that it shares with words (Eq. 1): `(R, D)` float32.

        Example:
            >>> model.embed_image("dog.jpg").ndim
            2
        """
        self._need("detector", "alignment")
        found = self._ask(self.tensors.embed_image, photo)
        return found.answer(lambda row: np.asarray(row("regions")[0], np.float32)[np.array(row("region_mask")[0])])

    def embed_sentence(self, sentence: str | Sequence[str]) -> np.ndarray | list[np.ndarray]:
        """The vectors of a sentence's known words in the space that they share with regions (Eq. 6): `(T, D)`.

        Example:
            >>> len(model.embed_sentence("a dog"))
            2
        """
        self._need("alignment")
        many = not isinstance(sentence, str)
        found = self.tensors.embed_sentence(tf.constant(list(sentence) if many else [sentence]))
        vectors, mask = found["word_vectors"].numpy(), found["word_mask"].numpy()
        each = [row[known] for row, known in zip(vectors, mask, strict=True)]
        return each if many else each[0]

    def _need(self, *parts):
        there = {"detector": self.tensors.extractor, "captioner": self.tensors.captioner}
        there |= {"region_captioner": self.tensors.region_captioner, "alignment": self.tensors.alignment}
        missing = [name for name in parts if there[name] is None]
        if missing:
            raise InputError(f"this model was loaded without its {missing[0]}: leave out {missing[0]}=False in `load`")

    def _ask(self, function, photo, sentences=None):
        """What a function of tensors says of photos, as plain values; an error names the first unreadable photo."""
        many = _is_many(photo)
        photos = list(photo) if many else [photo]
        parts = []
        for start in range(0, len(photos), PHOTOS_AT_ONCE):
            part = slice(start, start + PHOTOS_AT_ONCE)
            inputs = [tf.constant([photo_bytes(each) for each in photos[part]])]
            inputs += [tf.constant(sentences[part])] if sentences else []
            found = {name: value.numpy() for name, value in function(*inputs).items()}
            for each, status in zip(photos[part], found["status"], strict=True):
                if status != b"ok":
                    raise InputError(f"{photo_name(each)}: {status.decode()}")
            parts.append({name: _plain(value) for name, value in found.items()})
        values = {name: [row for part in parts for row in part[name]] for name in (parts[0] if parts else ())}
        return _Found(values, len(photos), many)


class _Found:
    """The plain values of several photos: name -> one entry for each photo."""

    def __init__(self, values, number, many):
        self.values, self.number, self.many = values, number, many

    def answer(self, make):
        """`make(row)` for each photo, where `row("boxes", ...)` gives its values; of one photo not in a list."""
        rows = [make(lambda *names, n=n: [self.values[name][n] for name in names]) for n in range(self.number)]
        return rows if self.many else rows[0]


def _is_many(photo):
    return isinstance(photo, list | tuple)


def _plain(values):
    """An array as nested lists of Python's numbers and strings."""
    if values.dtype == object:
        decode = np.frompyfunc(lambda text: text.decode("utf-8", "replace"), 1, 1)
        return decode(values).tolist()
    return values.tolist()
