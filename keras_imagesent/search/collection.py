"""A searchable collection: the regions of photos, the words of sentences, and the model that made both."""

import filecmp
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from keras_imagesent.captioning.confidence import sigmoid
from keras_imagesent.data.checksum import file_checksum, read_sealed, write_sealed
from keras_imagesent.errors import InputError
from keras_imagesent.model.run import Run, find_run
from keras_imagesent.search.qdrant_store import QdrantStore, connect
from keras_imagesent.search.vector_store import VectorStore, reversed_max_sim_scores, reversed_mean_scores
from keras_imagesent.search.words_in_numpy import FILE, NumpySentenceEncoder, save_sentence_encoder
from keras_imagesent.shipped import shipped


@dataclass
class PhotoHit:
    """A photo, its score (Eq. 8), and for each word its region, that region's box and the similarity."""

    filename: str
    path: str
    score: float
    regions: list
    boxes: list
    word_scores: list


@dataclass
class RegionHit:
    """A region that the whole snippet describes, and the sum of its similarities with the words."""

    filename: str
    path: str
    score: float
    region: int
    box: list


@dataclass
class SentenceHit:
    """A sentence and its score with the photo (Eq. 8); `filename` is the photo it was written for, if known."""

    sentence: str
    filename: str
    score: float


class Collection:
    """Photos and sentences to search, in a folder of its own or in Qdrant.

    Args:
        folder: holds `collection.json` and, without Qdrant, the vectors.
        dim: length of the vectors; needed to make a collection.
        dtype: "float32" or "float16".
        score: the model's, "max_sim" (Eq. 8) or "mean_max_sim" (Eq. 8 divided by the number of words).
        qdrant: address of a Qdrant server; kept in `collection.json` for later.

    Example:
        >>> collection = ki.Collection("vectors", dim=3)
        >>> collection.photos.add(["dog.jpg"], [np.eye(3)], [np.zeros((3, 4))], ["photos/dog.jpg"])
        >>> collection.search_photos(np.eye(3)[:2])[0].score  # two words, each with a region of its own
        2.0
    """

    def __init__(self, folder, dim=None, dtype="float32", score="max_sim", qdrant=None):
        self.folder = Path(folder)
        file = self.folder / "collection.json"
        if file.exists():
            settings = read_sealed(file)
            self._check_model(settings["model"])
        elif dim is None:
            raise InputError(f"{folder} is not an index: make one with `imagesent index {folder} PHOTOS`")
        else:
            name = f"{self.folder.resolve().name}-{uuid.uuid4().hex[:8]}"  # other indexes may use the same server
            settings = {"dim": int(dim), "dtype": dtype, "score": score, "qdrant": qdrant, "name": name}
            settings["model"] = {path.name: file_checksum(path) for path in sorted(self.model_folder.glob("*"))}
        self.settings = settings
        if settings["qdrant"]:
            client = connect(settings["qdrant"])
            self.photos, self.sentences = (
                QdrantStore(client, f"{settings['name']}-{kind}", settings["dim"]) for kind in ("photos", "sentences")
            )
        else:
            new = {} if file.exists() else {"dim": settings["dim"], "dtype": settings["dtype"]}
            self.photos, self.sentences = (VectorStore(self.folder / kind, **new) for kind in ("photos", "sentences"))
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_sealed(file, settings)

    @property
    def model_folder(self):
        """Where the copy of the alignment model lies that made the vectors, put there before the collection is made."""
        return self.folder / "alignment"

    def _check_model(self, checksums):
        """Another model or vocabulary than the one that made the vectors would find something else."""
        for name, value in checksums.items():
            path = self.model_folder / name
            if not path.is_file() or file_checksum(path) != value:
                raise InputError(f"{path} is missing or damaged (its checksum is wrong): make the index anew")

    @classmethod
    def create(cls, folder, alignment=None, dtype="float32", qdrant=None):
        """Makes an empty collection that keeps a copy of the alignment model which is to make its vectors.

        Args:
            folder: where to make it.
            alignment: run folder of `train_alignment`; None is the shipped one.
            dtype, qdrant: as for the collection.

        Example:
            >>> collection = ki.Collection.create("index", alignment="alignment")
            >>> len(collection.photos), len(collection.sentences)
            (0, 0)
        """
        run = find_run(alignment, "alignment")
        dim = run.model.get_layer("region_encoder").output_shape[-1]
        score = run.model.get_layer("scores").score
        run.copy_to(Path(folder) / "alignment")
        save_sentence_encoder(run.model.get_layer("sentence_encoder"), Path(folder) / "alignment" / FILE)
        return cls(folder, dim=dim, dtype=dtype, score=score, qdrant=qdrant)

    @cached_property
    def alignment(self) -> Run:
        """The alignment model that makes the vectors, with its vocabulary."""
        return Run(self.model_folder, "alignment")

    @cached_property
    def _image_model(self):
        from keras_imagesent.model.image_sent import load

        return load(alignment=self.model_folder, captioner=False, region_captioner=False)

    def embed(self, text):
        """The words of a text that the model knows, and their vectors (T, D), without TensorFlow."""
        known = [(word, number) for word, number in self.alignment.vocabulary.positions(text) if number > 0]
        if not known:
            raise InputError(f"no word of {text!r} is in the model's vocabulary: try plainer words")
        vectors = NumpySentenceEncoder(self.model_folder / FILE)([number for _, number in known])
        return [word for word, _ in known][: len(vectors)], vectors

    def search(self, text, top=10, regions=False):
        """The photos that a word, a phrase or a sentence fits best, or with `regions` the single regions.

        Example:
            >>> ki.Collection("index").search("red ball", top=5)
            []
        """
        _, vectors = self.embed(text)
        return (self.search_regions if regions else self.search_photos)(vectors, top)

    def search_by_photo(self, photo, top=10):
        """The sentences that fit a photo best; a photo is whatever `ImageSent` takes."""
        return self.search_sentences(self._image_model.embed_image(photo), top)

    def add_photos(self, photos):
        """Adds photos by path; one of the same path is replaced, and left out if its file has not changed."""
        from keras_imagesent.search.fill_collection import add_photos

        add_photos(self, photos, lambda: self._image_model.tensors)

    def add_texts(self, texts):
        """Adds sentences of which the model knows at least one word, for `search_by_photo`."""
        self.add_sentences(list(texts), [self.embed(text)[1] for text in texts])

    @property
    def _mean(self):
        return self.settings["score"] == "mean_max_sim"

    def search_photos(self, words, top=10, where=None):
        """The photos with the highest score for a snippet's word vectors (T, D), of those that `where` means."""
        hits = []
        for group in self.photos.candidates(words, top, where=where):
            similarity = np.asarray(words, np.float32) @ group.vectors.T  # (T, R)
            regions, best = similarity.argmax(axis=1), similarity.max(axis=1)
            boxes = group.boxes[regions].tolist()
            score = float(best.mean() if self._mean else best.sum())
            hits.append(PhotoHit(group.name, group.detail, score, regions.tolist(), boxes, best.tolist()))
        return _best(hits, top)

    def search_regions(self, words, top=10, where=None):
        """The regions with the highest sum over a snippet's words (T, D): Eq. 8 with a single region."""
        words = np.asarray(words, np.float32)
        snippet = words.mean(axis=0) if self._mean else words.sum(axis=0)
        # The best `top` regions lie in the `top` photos with the best single regions.
        hits = [
            RegionHit(group.name, group.detail, float(score), region, box)
            for group in self.photos.candidates(snippet[None], top, where=where)
            for region, (score, box) in enumerate(zip(group.vectors @ snippet, group.boxes.tolist(), strict=True))
        ]
        return _best(hits, top)

    def search_sentences(self, regions, top=10):
        """The sentences with the highest score for a photo's region vectors (R, D)."""
        hits = []
        scores = reversed_mean_scores if self._mean else reversed_max_sim_scores
        for group in self.sentences.candidates(regions, top, scores):
            (score,) = scores(group.vectors @ np.asarray(regions, np.float32).T, [0])
            hits.append(SentenceHit(group.name.partition("\t")[2], group.detail, float(score)))
        return _best(hits, top)

    def add_sentences(self, sentences, words, filenames=None):
        """Adds sentences with their word vectors; the same words for another photo are another sentence."""
        filenames = filenames or [""] * len(sentences)
        names = [f"{filename}\t{sentence}" for filename, sentence in zip(filenames, sentences, strict=True)]
        self.sentences.add(names, words, details=filenames)

    def remove(self, filenames):
        """Removes photos and the sentences that belong to them; returns how many photos were there."""
        filenames = set(filenames)
        names = [name for name in self.sentences.names() if name.partition("\t")[0] in filenames]
        if names:
            self.sentences.remove(names)
        return self.photos.remove(filenames)

    def remove_named(self, names):
        """Removes photos by the name or path that they were added under: how many, and the names that are not there."""
        there = set(self.photos.names())
        known = {name: there & {name, str(Path(name).resolve())} for name in names}
        found = set().union(*known.values())
        return self.remove(found) if found else 0, [name for name in names if not known[name]]

    def how_sure(self, hits, words):
        """How sure the best hit shows what was searched, from 0 to 1; None if the model was not calibrated.

        Args:
            hits: what a search for photos or regions found.
            words: the known words of the text that was searched, from `embed`.
        """
        match = self.alignment.settings.get("match")
        if not hits or not words or not match:
            return None
        score = hits[0].score if self._mean else hits[0].score / len(words)
        return sigmoid(match["bias"] + match["score"] * score)

    def unknown_words(self, text):
        """The words of a text that the model does not know."""
        return [word for word, number in self.alignment.vocabulary.positions(text) if number <= 0]

    @property
    def made_with_shipped(self):
        """Whether the copy of the alignment model is the shipped one, which was exported too."""
        try:
            mine, theirs = self.model_folder / "model.keras", shipped("alignment") / "model.keras"
            return filecmp.cmp(mine, theirs, shallow=False)
        except (InputError, FileNotFoundError):
            return False


def _best(hits, top):
    return sorted(hits, key=lambda hit: -hit.score)[:top]
