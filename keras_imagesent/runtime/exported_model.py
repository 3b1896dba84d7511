"""A folder of exported ONNX or LiteRT files, and every answer of the product from it."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_imagesent.alignment.phrases import decode_phrases, group_phrases
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.records import MIN_SCORE, Caption, Phrase, Region
from keras_imagesent.regions.pillow_photo import read_pixels
from keras_imagesent.runtime.about import read_about
from keras_imagesent.runtime.network import ENDINGS, load_network

OK = "ok"
MOST_TYPED_WORDS = 40  # longer sentences are cut, as in the SavedModel: every answer has the same shape
PRECISIONS = ("float32", "float16", "int8")  # the most exact first
SHARED = ("image_encoder", "detector", "region_encoder", "sentence_encoder")  # what they give, other pieces take
NEEDED = {
    "caption": ("image_encoder", "captioner"),
    "describe": ("image_encoder", "detector", "region_encoder", "region_captioner"),
    "align": ("image_encoder", "detector", "region_encoder", "sentence_encoder", "alignment"),
    "embed_image": ("image_encoder", "detector", "region_encoder"),
    "embed_sentence": ("sentence_encoder",),
}
REGIONS = {"region_features", "class_scores", "region_mask"}  # a captioner that takes one of these looks at regions


def needed_pieces(signature: str, captioner_inputs: Sequence[str] = ()) -> tuple[str, ...]:
    """The pieces that answer a signature, in the order in which they run.

    Example:
        >>> needed_pieces("caption", ["image_features", "region_features", "region_mask"])
        ('image_encoder', 'detector', 'region_encoder', 'captioner')
    """
    if signature == "caption" and REGIONS & set(captioner_inputs):
        return (*NEEDED["embed_image"], "captioner")
    return NEEDED[signature]


Photo = str | os.PathLike | bytes


class Photos:
    """Photos that were read once for several answers; what the networks gave for them is kept here.

    Args:
        pixels: (B,S,S,3), zeros for a photo that could not be read.
        status: "ok" or the reason, for each photo.
    """

    def __init__(self, pixels: np.ndarray, status: Sequence[str]):
        self.values = {"pixels": pixels}
        self.status = list(status)

    @property
    def ok(self) -> np.ndarray:
        return np.array([status == OK for status in self.status])


class ExportedModel:
    """Captions, regions, alignments and vectors from what `imagesent export --format onnx` (or litert) wrote.

    A file is loaded when an answer first needs it: captions need two of the seven.

    Args:
        folder: the exported folder, with its `model.json`.
        threads: for each network; None lets the runtime choose.
        beta: how much neighboring words hold together (see `decode_phrases`); None takes the exported one.
        precision: which of LiteRT's files, "float32", "float16" or "int8"; None takes the most exact.

    Example:
        >>> model = ExportedModel("exported/onnx")
        >>> model.caption("dog.jpg")[0].text
        'a dog runs through the grass'
        >>> model.align("dog.jpg", "a brown dog on the grass")[0].box
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        threads: int | None = None,
        beta: float | None = None,
        precision: str | None = None,
    ):
        self.folder, self.beta = Path(folder), beta
        self.about = read_about(self.folder)
        self.image_size = self.about["preprocessing"]["image_size"]
        self._pieces = choose_files(self.about["files"], precision)
        self._maker = {name: piece for piece in SHARED if piece in self._pieces for name in self._outputs(piece)}
        self._threads, self._networks, self._vocabularies = threads, {}, {}

    def answers(self, signature: str) -> bool:
        """Whether the folder has every file that this signature needs."""
        return not self._missing(signature)

    @property
    def files(self) -> list[dict]:
        """What `model.json` says of each file that is used."""
        return list(self._pieces.values())

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that sentences may use."""
        return self._vocabulary("sentence_encoder")

    @property
    def max_words(self) -> int:
        """How many known words of a sentence count; the others are cut."""
        return self._pieces["sentence_encoder"]["inputs"]["token_ids"]["shape"][1]

    @property
    def confidence(self) -> dict | None:
        """The constants that make a confidence out of a caption (`captioning/confidence.py`); None if not measured."""
        return self.about.get("confidence")

    # --- plain records, for one photo ---

    def caption(self, photo: Photo) -> list[Caption]:
        """The photo's captions, the best first."""
        found = self.predict("caption", self._open(photo))
        rows = zip(found["captions"][0], found["log_probs"][0], strict=True)
        return [Caption(text, float(log_prob)) for text, log_prob in rows]

    def describe(self, photo: Photo, min_score: float = MIN_SCORE) -> list[Region]:
        """The photo's regions with a caption for each; the first is the whole frame.

        Regions that the detector gives less than `min_score` are left out; 0 describes all of them.
        """
        found = self.predict("describe", self._open(photo))
        return [
            Region(
                tuple(map(float, found["boxes"][0, region])),
                float(found["box_scores"][0, region]),
                found["labels"][0][region] or None,
                Caption(found["captions"][0][region], float(found["log_probs"][0, region])),
            )
            for region in range(int(found["number_of_regions"][0]))
            if found["box_scores"][0, region] >= min_score
        ]

    def align(self, photo: Photo, sentence: str) -> list[Phrase]:
        """The phrases of a sentence with the regions they belong to."""
        found = self.predict("align", self._open(photo), [sentence])
        words = [word for word in found["words"][0] if word]
        return [
            Phrase(phrase.text(words), tuple(map(float, found["boxes"][0, phrase.region])), phrase.score, phrase.region)
            for phrase in group_phrases(found["phrase_regions"][0][: len(words)], found["similarity"][0])
        ]

    def embed_image(self, photo: Photo) -> np.ndarray:
        """The vectors (R,D) of the photo's regions."""
        found = self.predict("embed_image", self._open(photo))
        return found["regions"][0][found["region_mask"][0]]

    def embed_sentence(self, sentence: str) -> np.ndarray:
        """The vectors (T,D) of the words that the model knows."""
        found = self.predict("embed_sentence", sentences=[sentence])
        return found["word_vectors"][0][found["word_mask"][0]]

    # --- the SavedModel's signatures, for many photos ---

    def read(self, photos: Sequence[Photo]) -> Photos:
        """Reads photos for several calls of `predict`, so that the networks look at them once."""
        pixels = np.zeros((len(photos), self.image_size, self.image_size, 3), np.float32)
        status = []
        for row, photo in enumerate(photos):
            try:
                pixels[row] = read_pixels(photo, self.image_size)
                status.append(OK)
            except InputError as error:
                name = photo if isinstance(photo, (str, os.PathLike)) else "the photo"
                status.append(str(error).removeprefix(f"{name}: ").removesuffix("."))
        return Photos(pixels, status)

    def predict(
        self,
        signature: str,
        photos: Photos | Sequence[Photo] = (),
        sentences: Sequence[str] = (),
    ) -> dict:
        """What the SavedModel's signature gives, as arrays of one row a photo; texts are `str`, in lists.

        Args:
            signature: `caption`, `describe`, `align`, `embed_image` or `embed_sentence`.
            photos: encoded photos or paths; or what `read` gave, which is then not looked at again.
            sentences: for `align` one for each photo.

        Example:
            >>> model.predict("describe", [jpeg])["boxes"].shape
            (1, 20, 4)
        """
        missing = self._missing(signature)
        if missing:
            raise InputError(f"{self.folder} cannot {signature}: it has no {' and no '.join(missing)}")
        if signature == "embed_sentence":
            return self._embed_sentence(sentences)
        photos = photos if isinstance(photos, Photos) else self.read(photos)
        if signature == "align":
            return self._align(photos, sentences)
        return {"caption": self._caption, "describe": self._describe, "embed_image": self._embed_image}[signature](
            photos
        )

    def describe_whole(self, photos: Sequence[Photo]) -> dict:
        """What `caption`, `describe` and `align` (of the best caption) say of photos that are read once.

        Example:
            >>> sorted(model.describe_whole([jpeg]))
            ['align', 'caption', 'describe']
        """
        seen = self.read(photos)
        captions = self.predict("caption", seen)
        best = [texts[0] for texts in captions["captions"]]
        return {
            "caption": captions,
            "describe": self.predict("describe", seen),
            "align": self.predict("align", seen, best),
        }

    def _caption(self, photos):
        said = self._run("captioner", photos.values)
        ok = np.broadcast_to(photos.ok[:, None], said["log_probs"].shape)
        return {
            "captions": self._texts("captioner", said["token_ids"], ok),
            "log_probs": np.where(ok, said["log_probs"], 0),
            "status": photos.status,
        }

    def _describe(self, photos):
        said = self._run("region_captioner", photos.values)
        found = self._regions(photos)
        mask = found["region_mask"]
        return {
            "boxes": found["boxes"],
            "box_scores": found["box_scores"],
            "labels": self._labels(photos, mask),
            "captions": self._texts("region_captioner", said["token_ids"], mask),
            "log_probs": np.where(mask, said["log_probs"], 0),
            "number_of_regions": mask.sum(axis=1),
            "status": photos.status,
        }

    def _align(self, photos, sentences):
        images = self._embed_image(photos)
        typed, token_ids, place = self._tokenize(sentences)
        values = {"token_ids": token_ids, "regions": images["regions"], "region_mask": images["region_mask"]}
        found = self._run("alignment", values)
        word_mask = (token_ids > 0) & images["region_mask"].any(axis=1)[:, None]
        regions = found["phrase_regions"]
        if self.beta is not None:
            regions = decode_phrases(found["similarity"], word_mask, images["region_mask"], self.beta)
        rows, slots = np.arange(len(typed))[:, None], np.maximum(place, 0)
        known = (place >= 0) & word_mask[rows, slots]
        return {
            "words": typed,
            "word_mask": known,
            "boxes": images["boxes"],
            "box_scores": images["box_scores"],
            "region_mask": images["region_mask"],
            "similarity": np.where(known[:, :, None], found["similarity"][rows, slots], 0),
            "phrase_regions": np.where(known, regions[rows, slots], -1),
            "score": found["score"],
            "status": photos.status,
        }

    def _embed_image(self, photos):
        found = self._regions(photos)
        regions = self._value("regions", photos.values)
        return {
            "regions": np.where(found["region_mask"][:, :, None], regions, 0),
            **found,
            "status": photos.status,
        }

    def _embed_sentence(self, sentences):
        _, token_ids, _ = self._tokenize(sentences)
        mask = token_ids > 0
        vectors = self._value("word_vectors", {"token_ids": token_ids})
        return {"word_vectors": np.where(mask[:, :, None], vectors, 0), "token_ids": token_ids, "word_mask": mask}

    # --- between files and arrays ---

    def _missing(self, signature):
        """The pieces that this signature needs and the folder does not have."""
        captioner = self._pieces.get("captioner", {"inputs": ()})
        return [piece for piece in needed_pieces(signature, captioner["inputs"]) if piece not in self._pieces]

    def _open(self, photo):
        photos = self.read([photo])
        if photos.status[0] != OK:
            raise InputError(f"{photo if not isinstance(photo, bytes) else 'the photo'}: {photos.status[0]}")
        return photos

    def _regions(self, photos):
        mask = self._value("region_mask", photos.values) & photos.ok[:, None]
        return {
            "region_mask": mask,
            "boxes": np.where(mask[:, :, None], self._value("boxes", photos.values), 0),
            "box_scores": np.where(mask, self._value("box_scores", photos.values), 0),
        }

    def _labels(self, photos, mask):
        """The detector's name for each region; empty for the whole frame and where it has no names."""
        names = self.about.get("labels")
        if not names:
            return [[""] * mask.shape[1]] * len(mask)
        scores = self._value("class_scores", photos.values)  # (B,R,C)
        named = mask & (scores.max(axis=2) > 0)
        rows = zip(scores.argmax(axis=2), named, strict=True)
        return [[names[n] if there else "" for n, there in zip(*row, strict=True)] for row in rows]

    def _texts(self, piece, token_ids, mask):
        vocabulary = self._vocabulary(piece)
        return [
            [vocabulary.decode(ids) if there else "" for ids, there in zip(row, row_mask, strict=True)]
            for row, row_mask in zip(token_ids, mask, strict=True)
        ]

    def _tokenize(self, sentences):
        """Typed words (B,W), known words' ids (B,T), each typed word's place among them or -1; as in the SavedModel."""
        vocabulary, most = self.vocabulary, self.max_words
        typed = [[""] * MOST_TYPED_WORDS for _ in sentences]
        token_ids = np.zeros((len(sentences), most), np.int32)
        place = np.full((len(sentences), MOST_TYPED_WORDS), -1)
        for row, sentence in enumerate(sentences):
            known = 0
            for slot, (word, number) in enumerate(vocabulary.positions(sentence)):
                if slot < MOST_TYPED_WORDS:
                    typed[row][slot] = word
                if number > 0 and known < most:
                    token_ids[row, known] = number
                    if slot < MOST_TYPED_WORDS:
                        place[row, slot] = known
                    known += 1
        return typed, token_ids, place

    def _vocabulary(self, piece):
        name = self._pieces[piece]["vocabulary"]
        if name not in self._vocabularies:
            self._vocabularies[name] = Vocabulary.load(self.folder / name)
        return self._vocabularies[name]

    def _value(self, name, values):
        """An input of some piece: what the caller gave, or what another piece makes of it, kept in `values`."""
        if name not in values:
            values |= self._run(self._maker[name], values)
        return values[name]

    def _run(self, piece, values):
        inputs = {name: self._value(name, values) for name in self._pieces[piece]["inputs"]}
        return self._network(piece)(inputs)

    def _outputs(self, piece):
        return self._pieces[piece]["outputs"]

    def _network(self, piece):
        if piece not in self._networks:
            path = self.folder / self._pieces[piece]["file"]
            if not path.is_file():
                raise InputError(f"{path} is missing, though {self.folder}/model.json names it: export again")
            self._networks[piece] = load_network(path, piece, self._outputs(piece), self._threads)
        return self._networks[piece]


def choose_files(files, precision=None):
    """Piece -> its file, of those that `model.json` lists; the most exact where there are several."""
    chosen = {}
    for file in sorted(files, key=lambda file: -PRECISIONS.index(file.get("precision", PRECISIONS[0]))):
        if file["file"].endswith(ENDINGS) and precision in (None, file["precision"]):
            chosen[file["piece"]] = file
    return chosen
