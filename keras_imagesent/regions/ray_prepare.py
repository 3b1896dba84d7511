"""The jobs of `prepare` on a Ray cluster: actors hold the networks, this process hands out batches and writes shards.

A batch goes back into the queue when its actor is lost, and another actor takes the lost one's place.
"""

import hashlib
import json
from collections import Counter, deque
from pathlib import Path

from keras_imagesent.data.shards import digest, write_json
from keras_imagesent.errors import InputError
from keras_imagesent.extras import require

BATCHES_AHEAD = 2  # of each actor: one is decoded while the networks look at the other
LOSSES = 3  # a batch that has taken so many actors with it is not tried again
LOOKS_AT_ONCE = 1000  # photos that one task checks


class RayWorkers:
    """Extracts on a Ray cluster: `prepare(..., elsewhere=RayWorkers(make_networks))`.

    The cluster is the one of `RAY_ADDRESS`, else one started on this machine. Without a number there is an actor for
    each GPU, or each CPU where there is none.

    Args:
        make_networks: function without arguments, called in each actor, that gives the `Networks` of `choose_networks`.
        number: how many actors.

    Example:
        workers = RayWorkers(partial(choose_networks, "efficientnet-lite2", "yolov4-tiny"), number=8)
        networks = choose_networks("efficientnet-lite2", "yolov4-tiny")
        prepare(dataset, "prepared", networks.extractor, networks.made_with, elsewhere=workers)
    """

    def __init__(self, make_networks, number=None):
        self.ray = start_ray()
        self.make_networks = make_networks
        resources = self.ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 1)), int(resources.get("GPU", 0))
        self.number = number or gpus or cpus
        if self.number > max(gpus or cpus, 1):
            there = f"{gpus} GPUs" if gpus else f"{cpus} CPUs"
            raise InputError(f"--ray {self.number}: the cluster has {there}, and each worker needs one.")
        self.cpus = max(1, cpus // self.number)
        self.gpus = 1 if gpus else 0
        self.lost = 0  # actors, for whoever wants to know

    def __call__(self, jobs, settings, vocabulary):
        """(job, records, broken photos) of each job, as they are done."""
        ray, queue, losses = self.ray, deque(jobs), Counter()
        shared = ray.put((self.make_networks, settings, vocabulary))
        actors = [self._start_actor(shared) for _ in range(min(self.number, len(jobs)))]
        running = {}  # the promised result -> its actor and job
        try:
            while queue or running:
                for actor in actors:
                    ahead = sum(busy is actor for busy, _ in running.values())
                    for _ in range(min(BATCHES_AHEAD - ahead, len(queue))):
                        job = queue.popleft()
                        running[actor.extract.remote(job.photos, job.first_sentences)] = actor, job
                (done,), _ = ray.wait(list(running), num_returns=1)
                actor, job = running.pop(done)
                try:
                    records, broken = ray.get(done)
                except ray.exceptions.RayActorError as error:
                    if error.actor_init_failed:
                        raise InputError(f"a worker cannot start: {str(error).splitlines()[-1]}") from error
                    queue.appendleft(job)
                    losses[job.photos[0].photo_id] += 1
                    if losses[job.photos[0].photo_id] == LOSSES:
                        raise InputError(
                            f"{LOSSES} workers were lost over the photos from {job.photos[0].path} to "
                            f"{job.photos[-1].path}. Look at these photos and at the workers' memory. ({error})"
                        ) from None
                    if actor in actors:  # its other batch may have told already
                        actors[actors.index(actor)] = self._start_actor(shared)
                        self.lost += 1
                    continue
                except ray.exceptions.RayTaskError as error:
                    if isinstance(error.cause, InputError):
                        raise InputError(str(error.cause)) from None
                    raise
                yield job, records, broken
        finally:
            for actor in actors:
                ray.kill(actor)

    def _start_actor(self, shared):
        threads = {"TF_NUM_INTRAOP_THREADS": str(self.cpus), "TF_CPP_MIN_LOG_LEVEL": "3"}
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_concurrency": BATCHES_AHEAD}
        actor = self.ray.remote(BatchExtractor).options(**options, runtime_env={"env_vars": threads})
        return actor.remote(shared)


class BatchExtractor:
    """The networks in an actor: photos -> records."""

    def __init__(self, shared):
        import tensorflow as tf

        from keras_imagesent.data.graph_tokenizer import SentenceToIds
        from keras_imagesent.regions import prepare
        from keras_imagesent.regions.claim_folder import weights_digest
        from keras_imagesent.regions.photo import decode_rows

        make_networks, settings, vocabulary = shared
        networks = make_networks()
        if weights_digest(networks.extractor) != settings["extractor"]:
            raise InputError("a worker's networks have other weights: install the same version on every machine.")
        self.prepare, self.made_by = prepare, digest(settings)
        self.sentence_to_ids = SentenceToIds(vocabulary)
        self.run = prepare.extraction(networks.extractor, networks.boxes_of, networks.photos_at_once)
        self.decode = tf.function(lambda contents: decode_rows(contents, settings["image_size"]), autograph=False)

    def extract(self, photos, first_sentences):
        import tensorflow as tf

        contents = tf.constant(list(self.prepare.read_photos(photos)))
        pixels, sizes, status = self.decode(contents)
        found = self.run(pixels, photos)
        return self.prepare.encode_batch(
            photos, first_sentences, found, sizes, status, self.sentence_to_ids, self.made_by
        )


def ray_map(function, items):
    """`map` on the cluster, in order; a few items for each CPU are under way."""
    ray = start_ray()
    task = ray.remote(lambda item: function(item))  # Ray takes no partial
    ahead, promises = 4 * int(ray.cluster_resources().get("CPU", 1)), deque()
    for item in items:
        promises.append(task.remote(item))
        if len(promises) == ahead:
            yield ray.get(promises.popleft())
    while promises:
        yield ray.get(promises.popleft())


class Looks:
    """`map` for `check_dataset` on the cluster; what was found whole is kept in a folder and not read again.

    Example:
        check_dataset(dataset, each=Looks("prepared/.checked"))
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, look_at, places):
        self.folder.mkdir(parents=True, exist_ok=True)
        chunks = [places[start : start + LOOKS_AT_ONCE] for start in range(0, len(places), LOOKS_AT_ONCE)]
        files = [self.folder / hashlib.sha256("\n".join(map(str, c)).encode()).hexdigest()[:16] for c in chunks]
        known = [
            json.loads(f.read_text()) if f.is_file() else [None] * len(c) for f, c in zip(files, chunks, strict=True)
        ]
        todo = [[p for p, d in zip(c, k, strict=True) if d is None] for c, k in zip(chunks, known, strict=True)]
        work = [number for number, missing in enumerate(todo) if missing]
        found = ray_map(_look_at_all(look_at), [todo[number] for number in work])
        for number, file in enumerate(files):
            digests = known[number]
            if todo[number]:
                looks = iter(next(found))
                answers = [(bytes.fromhex(d), None) if d else next(looks) for d in digests]
                write_json(file, [None if reason else seen.hex() for seen, reason in answers])
            else:
                answers = [(bytes.fromhex(d), None) for d in digests]
            yield from answers


def _look_at_all(look_at):
    def look(places):
        return [look_at(place) for place in places]

    return look


def start_ray():
    """Ray, joined to the cluster of `RAY_ADDRESS` or with one of its own."""
    ray = require("ray", extra="ray")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="warning")
    return ray
