"""The same groups of vectors in a Qdrant collection, for millions of photos.

Two named vectors a group: `pooled`, the mean of its vectors, quantized and in memory, finds the candidates; `each`, all
of them, float32 on disk, gives the candidates' max_sim. The exact scores are computed here.

From `pooled` the mean of the collection's first photos is taken, which changes all scores of a query by the same
number. Qdrant's graph joins vectors with large dot products; with what all photos have in common left in, these are the
same few for everybody: of 12,000 photos it found 70% of the best ten, without it all.
"""

import time
import uuid
import warnings

import numpy as np

from keras_imagesent.errors import InputError
from keras_imagesent.extras import require
from keras_imagesent.search.vector_store import Group, max_sim_scores
from keras_imagesent.search.where import folders_of

NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # names -> point ids that stay the same
BATCH = 64  # photos in one upload: 20 vectors of 1000 dimensions each, about 5 MB
CANDIDATES = 500  # groups whose max_sim is computed, found by their pooled vectors
OVERSAMPLING = 4.0  # of quantized vectors, before their float32 is looked at
LINKS, BUILD_LINKS = 32, 200  # of a vector in the graph (m), and candidates for them (ef_construct)
WAITS = (0.5, 1, 2, 4, 8)  # seconds before a call that failed is made again


def connect(address):
    """A client for `http://host:6333`, a folder, or ":memory:" (the last two are the client's local mode)."""
    qdrant = require("qdrant_client", extra="search")
    try:
        if "://" in address:
            client = qdrant.QdrantClient(url=address, check_compatibility=False, timeout=60)
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
    >>> store.candidates(words, top=10, where=Where(folder="/photos/2024"))
    """

    def __init__(self, client, collection, dim):
        self.client = client
        self.models = require("qdrant_client", extra="search").models
        self.collection, self.dim = collection, dim
        self._center = None  # not yet known
        if not self.client.collection_exists(collection):
            self._create()

    def _create(self):
        models, dot = self.models, self.models.Distance.DOT
        max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        self.client.create_collection(
            self.collection,
            vectors_config={
                "pooled": models.VectorParams(
                    size=self.dim,
                    distance=dot,
                    on_disk=True,
                    hnsw_config=models.HnswConfigDiff(m=LINKS, ef_construct=BUILD_LINKS),
                    quantization_config=models.ScalarQuantization(scalar=int8),
                ),
                "each": models.VectorParams(
                    size=self.dim,
                    distance=dot,
                    on_disk=True,
                    multivector_config=max_sim,
                    hnsw_config=models.HnswConfigDiff(m=0),  # only candidates are compared: no graph of them
                ),
            },
            on_disk_payload=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the client's local mode filters without an index
            for field, kind in (("folders", "KEYWORD"), ("split", "KEYWORD"), ("date", "DATETIME")):
                self.client.create_payload_index(self.collection, field, getattr(models.PayloadSchemaType, kind))

    def __len__(self):
        return self._call(self.client.count, self.collection).count

    def add(self, names, groups, boxes=None, details=None, about=None):
        """Adds or replaces groups by name; the same call twice leaves what one leaves."""
        names = list(names)
        boxes = boxes if boxes is not None else [np.zeros((len(group), 4)) for group in groups]
        details = details or [""] * len(names)
        about = about or [{}] * len(names)
        rows = list(zip(names, groups, boxes, details, about, strict=True))
        for first in range(0, len(rows), BATCH):
            batch = rows[first : first + BATCH]
            pooled = np.stack([_mean(group) for _, group, *_ in batch])
            pooled -= self._find_center(pooled)
            points = [self._point_of(*row, mean) for row, mean in zip(batch, pooled, strict=True)]
            self._call(self.client.upsert, self.collection, points)

    def _find_center(self, new):
        """What is taken from all pooled vectors (D,): the collection's if it has one, else the mean of the first BATCH.

        Until there are so many it is 0; those before are then moved.
        """
        if self._center is None:
            there, _ = self._call(
                self.client.scroll, self.collection, limit=BATCH, with_payload=False, with_vectors=["pooled", "each"]
            )
            pooled = np.array([point.vector["pooled"] for point in there], np.float32).reshape(-1, self.dim)
            center = _mean(there[0].vector["each"]) - pooled[0] if there else np.zeros(self.dim, np.float32)
            if len(there) < BATCH and np.allclose(center, 0, atol=1e-5):
                if len(there) + len(new) < BATCH:
                    return center
                center = _mean(np.concatenate([pooled, new]))
                moved = [
                    self.models.PointVectors(id=point.id, vector={"pooled": (vector - center).tolist()})
                    for point, vector in zip(there, pooled, strict=True)
                ]
                if moved:
                    self._call(self.client.update_vectors, self.collection, moved)
            self._center = center
        return self._center

    def _point_of(self, name, group, boxes, detail, about, pooled):
        payload = {"name": name, "boxes": np.asarray(boxes).tolist(), "detail": detail, **about}
        return self.models.PointStruct(
            id=self._point(name),
            vector={"pooled": pooled.tolist(), "each": np.asarray(group, np.float32).tolist()},
            payload={**payload, "folders": folders_of(detail)},
        )

    def remove(self, names):
        """Removes groups by name; returns how many were there."""
        points = [self._point(name) for name in set(names)]
        there = len(self._call(self.client.retrieve, self.collection, points, with_payload=False))
        self._call(self.client.delete, self.collection, points_selector=self.models.PointIdsList(points=points))
        return there

    def names(self):
        """The names of all groups."""
        names, offset = [], None
        while True:
            points, offset = self._call(
                self.client.scroll, self.collection, limit=1000, offset=offset, with_payload=["name"]
            )
            names += [point.payload["name"] for point in points]
            if offset is None:
                return names

    def versions(self, names):
        """Name -> version of those that are there: what need not be added again."""
        points = self._call(
            self.client.retrieve,
            self.collection,
            [self._point(name) for name in names],
            with_payload=["name", "version"],
        )
        return {point.payload["name"]: point.payload.get("version") for point in points}

    def candidates(self, query, top, scores=max_sim_scores, where=None):
        """Qdrant's best groups for a query (Q, D), of those that `where` lets through.

        The query's sum against the pooled vectors finds candidates; Qdrant's max_sim of these is Eq. 8 itself. The
        score seen from the photo is not, so ten times as many are fetched for that one: of 1,200 sentences of Flickr8k
        they held 99% of a photo's true best ten. Whoever asks computes the exact scores and keeps the best.
        """
        models, query = self.models, np.asarray(query, np.float32)
        limit = top if scores is max_sim_scores else 10 * top
        quantization = models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)
        found = self._call(
            self.client.query_points,
            self.collection,
            prefetch=models.Prefetch(
                query=query.sum(axis=0).tolist(),
                using="pooled",
                limit=max(CANDIDATES, 5 * limit),
                filter=self._filter(where),
                params=models.SearchParams(quantization=quantization),
            ),
            query=query.tolist(),
            using="each",
            limit=limit,
            with_payload=["name", "boxes", "detail"],
            with_vectors=["each"],  # of the best alone
        )
        return [
            Group(
                point.payload["name"],
                np.asarray(point.vector["each"], np.float32),
                np.asarray(point.payload["boxes"], np.float32),
                point.payload["detail"],
            )
            for point in found.points
        ]

    def _filter(self, where):
        if where is None:
            return None
        models, must = self.models, []
        if where.folder:
            must.append(models.FieldCondition(key="folders", match=models.MatchValue(value=where.folder)))
        if where.split:
            must.append(models.FieldCondition(key="split", match=models.MatchValue(value=where.split)))
        if where.after or where.before:
            dates = models.DatetimeRange(gte=where.after, lt=where.before)
            must.append(models.FieldCondition(key="date", range=dates))
        return models.Filter(must=must)

    def _call(self, function, *args, **options):
        """Calls Qdrant, again after a while when the line or the server fails; every call may safely be repeated."""
        exceptions = require("qdrant_client", extra="search").http.exceptions
        for wait in (*WAITS, None):
            try:
                return function(*args, **options)
            except exceptions.UnexpectedResponse as error:
                reason = error
                if error.status_code < 500 and error.status_code != 429:
                    raise
            except (exceptions.ResponseHandlingException, ConnectionError) as error:
                reason = error
            if wait is not None:
                time.sleep(wait)
        raise InputError(
            f"Qdrant does not answer ({reason}). What was stored stays: start it and run the same command again."
        )

    def _point(self, name):
        return str(uuid.uuid5(NAMESPACE, name))


def _mean(vectors):
    return np.mean(vectors, axis=0, dtype=np.float32)
