"""A searchable collection: the regions of photos, the words of sentences, and the model that made both."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_imagesent.data.checksum import file_checksum, read_sealed, write_sealed
from keras_imagesent.errors import InputError
from keras_imagesent.search.qdrant_store import QdrantStore, connect
from keras_imagesent.search.vector_store import VectorStore, reversed_max_sim_scores, reversed_mean_scores


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

    >>> collection = Collection("index", dim=1000)
    >>> collection.photos.add(filenames, regions, boxes, paths)
    >>> collection.search_photos(words, top=5)[0].filename
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
            name = self.folder.resolve().name
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

    @property
    def _mean(self):
        return self.settings["score"] == "mean_max_sim"

    def search_photos(self, words, top=10):
        """The photos with the highest score for a snippet's word vectors (T, D)."""
        hits = []
        for group in self.photos.candidates(words, top):
            similarity = np.asarray(words, np.float32) @ group.vectors.T  # (T, R)
            regions, best = similarity.argmax(axis=1), similarity.max(axis=1)
            boxes = group.boxes[regions].tolist()
            score = float(best.mean() if self._mean else best.sum())
            hits.append(PhotoHit(group.name, group.detail, score, regions.tolist(), boxes, best.tolist()))
        return _best(hits, top)

    def search_regions(self, words, top=10):
        """The regions with the highest sum over a snippet's words (T, D): Eq. 8 with a single region."""
        words = np.asarray(words, np.float32)
        snippet = words.mean(axis=0) if self._mean else words.sum(axis=0)
        # The best `top` regions lie in the `top` photos with the best single regions.
        hits = [
            RegionHit(group.name, group.detail, float(score), region, box)
            for group in self.photos.candidates(snippet[None], top)
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


def _best(hits, top):
    return sorted(hits, key=lambda hit: -hit.score)[:top]
