"""Ray: photos per second of extraction in two Ray workers of one core each beside one process with two threads.

Both take turns on the same photos, so that both see the same machine; the rates begin after the first batches, when
the networks are up. Photos are those of the section `extraction`.

  PHOTOS=640 TURNS=2 scripts/benchmark ray_workers
"""

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from keras_imagesent.regions import prepare as pipeline
from keras_imagesent.regions.networks import choose_networks
from keras_imagesent.regions.ray_prepare import RayWorkers

sys.path.insert(0, str(Path(__file__).parent))
from extraction import Clock, load_photos

TURNS = int(os.environ.get("TURNS", 2))


def run():
    """Prints the rates of each turn."""
    make = partial(choose_networks, "efficientnet-lite2", "yolov4-tiny")
    networks = make()
    start = time.perf_counter()
    workers = RayWorkers(make, number=2)
    print(f"Ray's cluster was up after {time.perf_counter() - start:.0f} s; {workers.cpus} CPUs a worker")
    with tempfile.TemporaryDirectory() as folder:
        dataset = load_photos(Path(folder))
        for turn in range(TURNS):
            for name, elsewhere in (("one process", None), ("two Ray workers", workers)):
                clock, start = Clock(), time.perf_counter()
                pipeline.tqdm = lambda clock=clock, **_: clock
                out = Path(folder) / f"{name} {turn}"
                pipeline.prepare(dataset, out, networks.extractor, {}, threshold=1, elsewhere=elsewhere)
                seconds, photos = time.perf_counter() - start, len(dataset.photos)
                print(
                    f"  {name:<16}{clock.rate:8.1f} photos/s, {1000 * clock.cpu:.2f} ms of this process's CPU a photo; "
                    f"{photos} photos in {seconds:.0f} s in all",
                    flush=True,
                )
