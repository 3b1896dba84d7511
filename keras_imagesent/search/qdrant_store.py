"""The same groups of vectors in a Qdrant collection: multivectors, max_sim, dot product."""

import uuid

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require
from keras_imagesent.search.vector_store import Group, max_sim_scores

NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # names -> point ids that stay the same
BATCH = 64  # photos in one upload: 20 vectors of 1000 dimensions each, about 5 MB


def connect(address):
    """A client for `http://host:6333`, a folder, or ":memory:" (the last two are the client's local mode)."""
    qdrant = require("qdrant_client", extra="search")
    try:
        if "://" in address:
            client = qdrant.QdrantClient(url=address, check_compatibility=False)
        elif address == ":memory:":
            client = qdrant.QdrantClient(":memory:")
        else:
            client = qdrant.QdrantClient(path=address)
        client.get_collections()
    except (qdrant.http.exceptions.ApiException, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"no Qdrant at {address}: {error}") from error
    return client


class QdrantStore:
    """Stands in for `VectorStore`: Qdrant finds the first candidates, the exact scores are computed here.

    Args:
        client: from `connect`.
        collection: its name; made when it is not there.
        dim: length of a vector.

    Example:

    >>> store = QdrantStore(connect("http://localhost:6333"), "photos", dim=1000)
    >>> store.candidates(words, top=10)
    """

    def __init__(self, client, collection, dim):
        self.client = client
        self.models = require("qdrant_client", extra="search").models
        self.collection, self.dim = collection, dim
        if not self.client.collection_exists(collection):
            self.client.create_collection(
                collection,
                vectors_config=self.models.VectorParams(
                    size=dim,
                    distance=self.models.Distance.DOT,
                    multivector_config=self.models.MultiVectorConfig(
                        comparator=self.models.MultiVectorComparator.MAX_SIM
                    ),
                ),
            )

    def __len__(self):
        return self.client.count(self.collection).count

    def add(self, names, groups, boxes=None, details=None):
        """Adds or replaces groups by name."""
        names = list(names)
        boxes = boxes if boxes is not None else [np.zeros((len(group), 4)) for group in groups]
        details = details or [""] * len(names)
        rows = list(zip(names, groups, boxes, details, strict=True))
        for first in range(0, len(rows), BATCH):
            self.client.upsert(
                self.collection,
                [
                    self.models.PointStruct(
                        id=self._point(name),
                        vector=np.asarray(group, np.float32).tolist(),
                        payload={"name": name, "boxes": np.asarray(box).tolist(), "detail": detail},
                    )
                    for name, group, box, detail in rows[first : first + BATCH]
                ],
            )

    def remove(self, names):
        """Removes groups by name; returns how many were there."""
        points = [self._point(name) for name in set(names)]
        there = len(self.client.retrieve(self.collection, points, with_payload=False))
        self.client.delete(self.collection, points_selector=self.models.PointIdsList(points=points))
        return there

    def names(self):
        """The names of all groups."""
        names, offset = [], None
        while True:
            points, offset = self.client.scroll(self.collection, limit=1000, offset=offset)
            names += [point.payload["name"] for point in points]
            if offset is None:
                return names

    def candidates(self, query, top, scores=max_sim_scores):
        """Qdrant's best groups for a query (Q, D).

        Its max_sim is Eq. 8 itself; the score seen from the photo is not, so ten times as many candidates are
        fetched for that one: of 1,200 sentences of Flickr8k they held 99% of a photo's true best ten. Whoever asks
        computes the exact scores and keeps the best.
        """
        found = self.client.query_points(
            self.collection,
            query=np.asarray(query, np.float32).tolist(),
            limit=top if scores is max_sim_scores else 10 * top,
            with_payload=True,
            with_vectors=True,
        )
        return [
            Group(
                point.payload["name"],
                np.asarray(point.vector, np.float32),
                np.asarray(point.payload["boxes"], np.float32),
                point.payload["detail"],
            )
            for point in found.points
        ]

    def _point(self, name):
        return str(uuid.uuid5(NAMESPACE, name))
