"""tf.data batches of (photo, sentence) pairs from the shards, in an order that a seed decides."""

import hashlib
from collections import deque

import numpy as np

MAX_WORDS = 20
SHUFFLE_PHOTOS = 8192  # photos in memory at a time (about 50 KB each); a smaller split is read once and kept


def pair_batches(
    prepared, split, batch_size=100, seed=0, epoch=0, start_step=0, max_words=MAX_WORDS, shuffle=True, share=None
):
    """One epoch: every (photo, sentence) pair once, no photo twice in a batch.

    The order is a function of `seed` and `epoch` alone. Shards are read whole, in shuffled order, and pairs are
    shuffled among the photos in memory: a photo's five sentences are spread evenly over their batches, a photo with one
    sentence may come at any time. Only the last batch is smaller, unless the split is hardly larger than a batch.
    Photos with the same captions, such as one photo at two sizes, have the same number in `photo_ids`, so that a
    ranking loss does not take them for each other's negatives.

    Args:
        start_step: how many batches to leave out at the beginning (to resume); they are not read.
        max_words: sentences are cut or padded with 0 to this many ids.
        share: a `training.workers.Share` gives only this worker's parts of each batch, one after the other. A batch's
            pairs are then sorted by their shards, so that a worker reads little more than its part of the shards.

    Example:
        for batch in pair_batches(Prepared.open("prepared"), "train"):
            batch["region_features"]  # (100, 20, 1280) float32
            batch["region_mask"]      # (100, 20) bool
            batch["box_scores"]       # (100, 20) float32
            batch["class_scores"]     # (100, 20, 80) float32, if the detector says what it found
            batch["token_ids"]        # (100, 20) int32
            batch["photo_ids"]        # (100,) int64
    """
    import tensorflow as tf

    counts = prepared.sentence_counts(split)
    plan = _plan_epoch(counts, batch_size, seed, epoch, shuffle)
    alone = share is None or share.of == 1

    def batches():
        held = {}  # of each part of a batch, the pairs of the shards before
        for shards, chunk in plan:
            chunk = [entry for entry in chunk if entry[0] >= start_step]
            if not chunk:
                continue
            if alone:
                chunk = [(step, [rows], [sentences], complete) for step, rows, sentences, complete in chunk]
            else:
                shards, chunk = _our_share(counts, shards, chunk, share)
            photos = _read(prepared, split, shards)
            for _, rows, sentences, complete in chunk:
                for number, part in enumerate(zip(rows, sentences, strict=True)):
                    pairs = _gather(photos, *part, max_words)
                    before = held.get(number)
                    held[number] = (
                        pairs if before is None else {key: np.concatenate([before[key], pairs[key]]) for key in pairs}
                    )
                if complete:
                    yield from held.values()
                    held = {}

    regions, features = prepared.number_of_regions, prepared.feature_dim
    signature = {
        "region_features": tf.TensorSpec((None, regions, features), tf.float16),
        "region_mask": tf.TensorSpec((None, regions), tf.bool),
        "box_scores": tf.TensorSpec((None, regions), tf.float32),
        "class_scores": tf.TensorSpec((None, regions, prepared.classes), tf.float16),
        "token_ids": tf.TensorSpec((None, max_words), tf.int32),
        "photo_ids": tf.TensorSpec((None,), tf.int64),
    }
    return _finish(tf.data.Dataset.from_generator(batches, output_signature=signature))


def pad_sentences(sentences, max_words):
    """Lists of ids -> `(L, max_words)` int32, 0 at padding; longer sentences are cut."""
    token_ids = np.zeros((len(sentences), max_words), np.int32)
    for row, ids in zip(token_ids, sentences, strict=True):
        row[: min(len(ids), max_words)] = ids[:max_words]
    return token_ids


def _our_share(counts, shards, chunk, share):
    """The shards that hold a worker's parts of some batches, and the parts: [(step, the rows of each part in these
    shards, the sentences of each part, complete)]."""
    sizes = [len(counts[shard]) for shard in shards]
    shard_of_row = np.repeat(np.arange(len(shards)), sizes)
    ours = []
    for step, rows, sentences, complete in chunk:
        order = np.argsort(shard_of_row[rows], kind="stable")
        parts = share.parts(order)
        ours.append((step, [rows[part] for part in parts], [sentences[part] for part in parts], complete))
    read = np.unique(shard_of_row[np.concatenate([rows for _, parts, *_ in ours for rows in parts])])
    kept = np.isin(shard_of_row, read)
    place = np.cumsum(kept) - 1  # of a row among those that are read
    return [shards[number] for number in read], [
        (step, [place[rows] for rows in parts], sentences, complete) for step, parts, sentences, complete in ours
    ]


def steps_per_epoch(prepared, split, batch_size=100, seed=0, epoch=0):
    """How many batches `pair_batches` gives.

    Example:
        steps_per_epoch(prepared, "train", 100)  # 275
    """
    plan = _plan_epoch(prepared.sentence_counts(split), batch_size, seed, epoch, shuffle=True)
    return sum(complete for _, chunk in plan for *_, complete in chunk)


def photo_batches(prepared, split, batch_size=100):
    """Photos without their sentences, in the data set's order.

    Example:
        for batch in photo_batches(prepared, "dev"):
            batch["region_features"], batch["class_scores"], batch["region_mask"], batch["boxes"], batch["box_scores"]
    """
    import tensorflow as tf

    names = ("region_features", "class_scores", "region_mask", "boxes", "box_scores", "photo_ids")

    def photos():
        for path in prepared.shards(split):
            shard = prepared.read([path])
            for row in range(len(shard.photo_ids)):
                yield {name: getattr(shard, name)[row] for name in names}

    regions, features = prepared.number_of_regions, prepared.feature_dim
    signature = {
        "region_features": tf.TensorSpec((regions, features), tf.float16),
        "class_scores": tf.TensorSpec((regions, prepared.classes), tf.float16),
        "region_mask": tf.TensorSpec((regions,), tf.bool),
        "boxes": tf.TensorSpec((regions, 4), tf.float32),
        "box_scores": tf.TensorSpec((regions,), tf.float32),
        "photo_ids": tf.TensorSpec((), tf.int64),
    }
    return _finish(tf.data.Dataset.from_generator(photos, output_signature=signature).batch(batch_size))


def _finish(dataset):
    import tensorflow as tf

    def widen(batch):
        if batch["class_scores"].shape[-1] == 0:
            del batch["class_scores"]
        return {name: tf.cast(x, tf.float32) if x.dtype == tf.float16 else x for name, x in batch.items()}

    return dataset.map(widen).prefetch(2)


def _read(prepared, split, shards):
    """The photos of some shards; where a split is read in one go, they stay in memory for the next epoch."""
    paths = [prepared.shards(split)[shard] for shard in shards]
    small = sum(map(len, prepared.sentence_counts(split))) <= SHUFFLE_PHOTOS
    return prepared.read_once(paths) if small else prepared.read(paths)


def _gather(photos, rows, sentences, max_words):
    words = [photos.token_ids[row][sentence] for row, sentence in zip(rows, sentences, strict=True)]
    return {
        "region_features": photos.region_features[rows],
        "region_mask": photos.region_mask[rows],
        "box_scores": photos.box_scores[rows],
        "class_scores": photos.class_scores[rows],
        "token_ids": pad_sentences(words, max_words),
        "photo_ids": np.array([_number_of(photos.captions[row]) for row in rows], np.int64),
    }


def _number_of(captions):
    """A number that photos share if, and only if, they have the same captions."""
    return int.from_bytes(hashlib.blake2b("\n".join(captions).encode(), digest_size=8).digest(), "little", signed=True)


def _plan_epoch(counts, batch_size, seed, epoch, shuffle):
    """[(shards to read, [(step, rows in them, sentence of each row, does this complete the batch)])]."""
    plan, step, room = [], 0, batch_size
    groups = _group_shards(counts, np.random.default_rng([seed, epoch]), shuffle)
    for number, shards in enumerate(groups):
        of_photo = np.concatenate([counts[shard] for shard in shards])
        rows, sentences = _pairs(of_photo, np.random.default_rng([seed, epoch, number]), shuffle)
        batches = _pack(rows, batch_size, room)
        chunk = []
        for pairs in batches:
            # an unfinished batch waits for the next group's photos, which are all different from these
            waits = pairs is batches[-1] and len(pairs) < room and number < len(groups) - 1
            chunk.append((step, rows[pairs], sentences[pairs], not waits))
            room = room - len(pairs) if waits else batch_size
            step += not waits
        plan.append((shards, chunk))
    return plan


def _group_shards(counts, random, shuffle):
    """Shards that are in memory together. All of them, in order, if they fit."""
    if sum(map(len, counts)) <= SHUFFLE_PHOTOS:
        return [list(range(len(counts)))]
    groups, photos = [[]], 0
    for shard in random.permutation(len(counts)) if shuffle else range(len(counts)):
        if groups[-1] and photos + len(counts[shard]) > SHUFFLE_PHOTOS:
            groups.append([])
            photos = 0
        groups[-1].append(int(shard))
        photos += len(counts[shard])
    return groups


def _pairs(of_photo, random, shuffle):
    """Every (row, sentence) once; the n sentences of a photo stand one in each n-th part of the order."""
    rounds = int(of_photo.max(initial=0))
    keys = random.random((len(of_photo), rounds)) if shuffle else np.tile(np.arange(rounds), (len(of_photo), 1))
    absent = np.arange(rounds) >= of_photo[:, None]
    order = np.argsort(np.where(absent, np.inf, keys), axis=1)  # (photos, rounds): sentence to take in each round
    rows, sentences, places = [], [], []
    for number in reversed(range(rounds)) if shuffle else range(rounds):
        photos = np.flatnonzero(of_photo > number)
        photos = random.permutation(photos) if shuffle else photos
        part = of_photo[photos] - 1 - number if shuffle else number
        rows.append(photos)
        sentences.append(order[photos, number])
        places.append((part + np.arange(len(photos)) / len(photos)) / (of_photo[photos] if shuffle else 1))
    if not rows:
        return np.zeros(0, int), np.zeros(0, int)
    order = np.argsort(np.concatenate(places), kind="stable")
    return np.concatenate(rows)[order], np.concatenate(sentences)[order]


def _pack(rows, batch_size, room):
    """Cuts pairs into batches without the same row twice; a pair that clashes waits for the next batch."""
    batches, queue = [], deque(range(len(rows)))
    while queue:
        batch, seen, waiting = [], set(), []
        while queue and len(batch) < room:
            pair = queue.popleft()
            if rows[pair] in seen:
                waiting.append(pair)
            else:
                seen.add(rows[pair])
                batch.append(pair)
        queue.extendleft(reversed(waiting))
        batches.append(batch)
        room = batch_size
    return batches
