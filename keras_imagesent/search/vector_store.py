"""Vectors in groups (a photo's regions, a sentence's words) on disk, memory-mapped, in segments."""

import io
import json
import re
import shutil
import uuid
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from keras_imagesent.data.atomic import only_writer, whole_folder
from keras_imagesent.data.checksum import checksum, read_sealed, write_sealed
from keras_imagesent.errors import InputError

CHUNK_BYTES = 64 << 20  # what one matrix product takes of memory beside the mapped vectors


@dataclass
class Group:
    """What is stored of one photo or one sentence."""

    name: str
    vectors: np.ndarray  # (n, D)
    boxes: np.ndarray  # (n, 4), zeros for the words of a sentence
    detail: str  # the photo's path, or the photo a sentence belongs to
    about: dict = field(default_factory=dict)  # a photo's `split` and `date` (to search in), its file's `version`


def max_sim_scores(similarity, starts):
    """Every query vector takes its best vector of the group (Eq. 8). (m, Q), (N,) -> (N,)."""
    return np.maximum.reduceat(similarity, starts, axis=0).sum(axis=1)


def reversed_max_sim_scores(similarity, starts):
    """Every vector of the group takes its best query vector: Eq. 8 seen from the photo. (m, Q), (N,) -> (N,)."""
    return np.add.reduceat(similarity.max(axis=1), starts)


def reversed_mean_scores(similarity, starts):
    """`reversed_max_sim_scores` divided by the group's size, for models trained so. (m, Q), (N,) -> (N,)."""
    return reversed_max_sim_scores(similarity, starts) / np.diff([*starts, len(similarity)])


class VectorStore:
    """Groups of vectors in a folder; adding writes a new segment, removing a mark.

    A new segment takes in the ones before it that are no larger: ten thousand photos added one by one are a dozen
    segments, each vector written a dozen times. `state.json` names the segments and the removed groups, and is
    replaced whole: a reader sees the store before or after a change, never between. Writers wait for each other, and
    each begins with what the others wrote. Every file's checksum stands in the state: a damaged segment is refused.

    Args:
        folder: where the store lives; made when it is not there.
        dim: length of a vector; needed to make a store.
        dtype: "float32", or "float16" for half the space (scores of the rounded vectors, and slower).

    Example:

    >>> store = VectorStore("photos", dim=1000)
    >>> store.add(["a.jpg"], [regions], boxes=[boxes], details=["/photos/a.jpg"])
    >>> [group.name for group in store.candidates(words, top=10)]
    """

    def __init__(self, folder, dim=None, dtype="float32"):
        self.folder = Path(folder)
        self._open = {}  # segment name -> its arrays
        if (self.folder / "state.json").exists():
            self._read_state()
        elif dim is None:
            raise InputError(f"{folder} is not an index: make one with `imagesent index`")
        else:
            with only_writer(self.folder):
                if (self.folder / "state.json").exists():  # another process was faster
                    self._read_state()
                else:
                    self._write_state({"dim": int(dim), "dtype": dtype, "segments": []})

    def __len__(self):
        return sum(map(_size, self.state["segments"]))

    @property
    def dim(self):
        return self.state["dim"]

    def add(self, names, groups, boxes=None, details=None, about=None):
        """Adds groups as one segment; a group whose name is there already replaces the old one.

        Args:
            names: N strings.
            groups: N arrays (n, D), none empty.
            boxes: N arrays (n, 4).
            details: N strings kept beside the names.
            about: N dicts of `split`, `date` and `version`, as far as they are known.
        """
        names = list(names)
        if not names:
            return
        groups = [np.asarray(group, self.state["dtype"]) for group in groups]
        for name, group in zip(names, groups, strict=True):
            if group.ndim != 2 or group.shape[1] != self.dim or len(group) == 0:
                raise InputError(f"{name}: vectors of shape {group.shape} do not fit a store of {self.dim} dimensions")
        boxes = [np.zeros((len(group), 4)) for group in groups] if boxes is None else boxes
        for name, group, corners in zip(names, groups, boxes, strict=True):
            if np.shape(corners) != (len(group), 4):
                raise InputError(f"{name}: boxes of shape {np.shape(corners)} for {len(group)} vectors")
        details = details or [""] * len(names)
        last = {name: position for position, name in enumerate(names)}  # of a name given twice the last counts
        about = about or [{}] * len(names)
        new = [Group(*row) for row in zip(names, groups, boxes, details, about, strict=True)]
        new = [group for position, group in enumerate(new) if last[group.name] == position]
        with only_writer(self.folder):
            self._catch_up()
            kept, _ = self._without(set(names))
            absorbed, number = [], len(new)
            while kept and _size(kept[-1]) <= number:
                absorbed.insert(0, kept.pop())
                number += _size(absorbed[0])
            segment = self._write_segment([*chain.from_iterable(map(self._groups, absorbed)), *new])
            self._write_state({**self.state, "segments": [*kept, segment]})
            self._delete(absorbed)

    def remove(self, names):
        """Removes groups by name; returns how many were there. Nothing is rewritten; an empty segment is deleted."""
        with only_writer(self.folder):
            self._catch_up()
            segments, removed = self._without(set(names))
            self._write_state({**self.state, "segments": [segment for segment in segments if _size(segment)]})
            self._delete([segment for segment in segments if not _size(segment)])
        return removed

    def names(self):
        """The names of all groups, in the order they were added."""
        return [self._names(s)[n] for s in self.state["segments"] for n in _present(s)]

    def versions(self, names):
        """Name -> version of those that are there: what need not be added again."""
        names, found = set(names), {}
        for segment in self.state["segments"]:
            arrays = self._open_segment(segment)
            for number in _present(segment):
                if arrays["names"][number] in names:
                    found[arrays["names"][number]] = arrays["about"][number].get("version")
        return found

    def candidates(self, query, top, scores=max_sim_scores, where=None):
        """The `top` best groups for a query (Q, D), best first: a matrix product with every segment's vectors.

        With `where` (a `Where`) only of the groups that it matches.
        """
        query = np.asarray(query, np.float32).T  # (D, Q)
        found, places = [], []
        for segment in self.state["segments"]:
            arrays = self._arrays(segment)
            result = np.concatenate([scores(v @ query, s) for v, s in self._chunks(segment, query.shape[1])])
            result[segment["removed"]] = -np.inf
            if where is not None:
                meant = map(where.matches, arrays["details"], arrays["about"])
                result[~np.fromiter(meant, bool, len(result))] = -np.inf
            found.append(result)
            places.append((segment, len(result)))
        if not found:
            return []
        found = np.concatenate(found)
        top = min(top, np.isfinite(found).sum())
        best = np.argpartition(-found, top - 1)[:top] if 0 < top < len(found) else np.arange(len(found))
        best = best[np.lexsort((best, -found[best]))][:top]
        return [self._best_group(places, number) for number in best]

    def _chunks(self, segment, queries):
        """Vectors (m, D) in float32 and where the groups among them start, in runs of whole groups.

        A run is as long as memory allows, since many short products run slower than a long one: mapped vectors take
        none, only their similarities (m, Q) do; float16 is copied.
        """
        arrays = self._arrays(segment)
        vectors, starts = arrays["vectors"], arrays["starts"]
        rows = max(1, CHUNK_BYTES // (4 * (queries if vectors.dtype == np.float32 else self.dim)))
        first = 0
        while first < len(starts) - 1:
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + rows, side="right")) - 1)
            yield np.asarray(vectors[starts[first] : starts[last]], np.float32), starts[first:last] - starts[first]
            first = last

    def _best_group(self, places, number):
        for segment, groups in places:
            if number < groups:
                group = self._group(segment, number)
                return replace(group, vectors=np.asarray(group.vectors, np.float32), boxes=np.asarray(group.boxes))
            number -= groups

    def _group(self, segment, number):
        """A group whose vectors and boxes are still on disk."""
        arrays = self._arrays(segment)
        rows = slice(arrays["starts"][number], arrays["starts"][number + 1])
        name, detail, about = (arrays[key][number] for key in ("names", "details", "about"))
        return Group(name, arrays["vectors"][rows], arrays["boxes"][rows], detail, about)

    def _groups(self, segment):
        return (self._group(segment, number) for number in _present(segment))

    def _names(self, segment):
        return self._open_segment(segment)["names"]

    def _arrays(self, segment):
        """The segment's vectors, boxes, starts, names, details and about, all of them compared with their checksums."""
        arrays = self._open_segment(segment)
        if not arrays["checked"]:
            for name in ("vectors", "boxes"):
                self._check(segment, f"{name}.npy", arrays[name])
            arrays["checked"] = True
        return arrays

    def _open_segment(self, segment):
        """The segment's files: vectors and boxes stay on disk, unread until they are needed; the others are read."""
        name = segment["name"]
        if name not in self._open:
            self._open[name] = {
                "vectors": self._map(segment, "vectors.npy", self.state["dtype"], self.dim),
                "boxes": self._map(segment, "boxes.npy", "float32", 4),
                "starts": np.load(io.BytesIO(self._read(segment, "starts.npy"))),
                "names": json.loads(self._read(segment, "names.json")),
                "details": json.loads(self._read(segment, "details.json")),
                "about": json.loads(self._read(segment, "about.json")),
                "checked": False,
            }
        return self._open[name]

    def _map(self, segment, file, dtype, width):
        """A file's array (rows, width); it takes the file's end, so that the header need not be right."""
        path, shape = self.folder / segment["name"] / file, (segment["rows"], width)
        size = path.stat().st_size
        data = np.dtype(dtype).itemsize * shape[0] * shape[1]
        if not data < size < data + 1024:
            raise InputError(f"{path} is damaged ({size} bytes): make the index anew")
        return np.memmap(path, dtype, "r", size - data, shape)

    def _read(self, segment, file):
        content = (self.folder / segment["name"] / file).read_bytes()
        self._check(segment, file, content)
        return content

    def _check(self, segment, file, content):
        if checksum(content) != segment["checksums"][file]:
            path = self.folder / segment["name"] / file
            raise InputError(f"{path} is damaged (its checksum is wrong): make the index anew")

    def _write_segment(self, groups):
        """Writes groups into a new folder, one after the other; returns what the state says of it."""
        segment, checksums = uuid.uuid4().hex[:12], {}
        starts = np.cumsum([0, *(len(group.vectors) for group in groups)])
        starts_file = io.BytesIO()
        np.save(starts_file, starts)
        with whole_folder(self.folder / segment) as unfinished:
            for name, dtype, width in (("vectors", self.state["dtype"], self.dim), ("boxes", "float32", 4)):
                checksums[f"{name}.npy"] = _write_array(
                    unfinished / f"{name}.npy", (getattr(group, name) for group in groups), dtype, (starts[-1], width)
                )
            rest = {
                "starts.npy": starts_file.getvalue(),
                "names.json": json.dumps([group.name for group in groups]).encode(),
                "details.json": json.dumps([group.detail for group in groups]).encode(),
                "about.json": json.dumps([group.about for group in groups]).encode(),
            }
            for name, content in rest.items():
                (unfinished / name).write_bytes(content)
                checksums[name] = checksum(content)
        rows = int(starts[-1])
        return {"name": segment, "groups": len(groups), "rows": rows, "removed": [], "checksums": checksums}

    def _delete(self, segments):
        """Deletes segments that the state no longer names, also those of a writer that was killed before it could."""
        for segment in segments:
            self._open.pop(segment["name"], None)
        named = {segment["name"] for segment in self.state["segments"]}
        for path in self.folder.iterdir():
            if path.name not in named and re.fullmatch("[0-9a-f]{12}", path.name):
                shutil.rmtree(path, ignore_errors=True)

    def _without(self, names):
        """The state's segments with these names marked as removed, and how many groups that were."""
        segments, count = [], 0
        for segment in self.state["segments"]:
            here = {position for position, name in enumerate(self._names(segment)) if name in names}
            here -= set(segment["removed"])
            segments.append({**segment, "removed": sorted({*segment["removed"], *here})})
            count += len(here)
        return segments, count

    def _catch_up(self):
        """Takes over what other writers have done since; for the writer alone."""
        self._read_state()
        self._open = {segment["name"]: self._open[segment["name"]] for segment in self.state["segments"]}

    def _read_state(self):
        """Reads the state and opens its segments; again if a writer has merged one of them in between."""
        file, seen = self.folder / "state.json", None
        while True:
            self.state = read_sealed(file)
            try:
                for segment in self.state["segments"]:
                    self._open_segment(segment)
                return
            except FileNotFoundError as error:
                if self.state == seen:
                    raise InputError(f"{error.filename} is missing: make the index anew") from error
            seen = self.state

    def _write_state(self, state):
        write_sealed(self.folder / "state.json", state)
        self.state = state


def _write_array(path, parts, dtype, shape):
    """Writes parts (n, width) one after the other as one .npy file; returns the checksum of its numbers."""
    value = 0
    with open(path, "wb") as file:
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": tuple(map(int, shape))}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            part = np.ascontiguousarray(part, dtype)
            value = checksum(part, value)
            file.write(part)
    return value


def _present(segment):
    """Positions of a segment's groups that are not removed."""
    removed = set(segment["removed"])
    return [number for number in range(segment["groups"]) if number not in removed]


def _size(segment):
    return segment["groups"] - len(segment["removed"])
