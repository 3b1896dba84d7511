"""Extraction: photos per second of the whole pipeline beside backbone and detector alone on ready tensors.

The pipeline reads, decodes, resizes, detects, pools, encodes and writes; the bare networks get pixels that lie in
memory. Real photos of ../shared/flickr8k where they are, else generated scenes.
"""

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.scenes import make_scenes
from keras_imagesent.errors import InputError
from keras_imagesent.regions import prepare as pipeline
from keras_imagesent.regions.backbone import build_backbone
from keras_imagesent.regions.detector import build_detector
from keras_imagesent.regions.extractor import build_extractor
from keras_imagesent.regions.squash import IMAGE_SIZE

PHOTOS = int(os.environ.get("PHOTOS", 320))
FLICKR8K = Path(os.environ.get("FLICKR8K", Path(__file__).resolve().parents[3] / "shared" / "flickr8k"))
BARE_BATCHES = 8
CROPPED_PHOTOS, CROP_SIZE = 48, 224


def run():
    """Prints photos per second and CPU time of each, the ratio that should be at least 0.7, and the memory.

    Then how regions pooled from one look at the photo agree with regions cropped and looked at one by one.
    """
    backbone, detector = load_networks()
    with tempfile.TemporaryDirectory() as folder:
        dataset = load_photos(Path(folder))
        pixels = next(iter(pipeline.decoded_batches([pipeline.Job(None, 0, 1, dataset.photos[:16])], IMAGE_SIZE)))[0]
        bare = {
            "backbone alone": tf.function(backbone, autograph=False),
            "backbone and detector": tf.function(lambda x: (backbone(x), detector(x)), autograph=False),
        }
        for networks in bare.values():
            networks(pixels)
        before = {name: rate_of(networks, pixels) for name, networks in bare.items()}
        clock = Clock()
        pipeline.tqdm = lambda **_: clock
        pipeline.prepare(dataset, Path(folder) / "out", build_extractor(backbone, detector), {}, threshold=1)
        after = {name: rate_of(networks, pixels) for name, networks in bare.items()}
        agreement = compare_regions(backbone, detector, dataset.photos[:CROPPED_PHOTOS])
        size = sum(path.stat().st_size for path in (Path(folder) / "out").iterdir())
    print(f"{len(dataset.photos)} photos, batches of 16, {IMAGE_SIZE} pixels, float32, {os.cpu_count()} cores")
    for name in bare:
        rate, cpu = (before[name] + after[name]) / 2
        print(
            f"  {name:<24}{rate:8.1f} photos/s  pipeline / this = {clock.rate / rate:.2f}"
            f"   {1000 * cpu:6.0f} ms of CPU a photo, this / pipeline = {cpu / clock.cpu:.2f}"
        )
    kilobytes = size / len(dataset.photos) / 1024
    print(f"  {'whole pipeline':<24}{clock.rate:8.1f} photos/s  {kilobytes:.0f} KB a photo on disk")
    memory = clock.memory
    print(
        f"  memory: {memory[len(memory) // 4]:.0f} MB after a quarter, {memory[len(memory) // 2]:.0f} MB at half, "
        f"{memory[-1]:.0f} MB at the end, {max(memory):.0f} MB at most"
    )
    print(agreement)


def compare_regions(backbone, detector, photos):
    """Pooled region vectors beside those of crops, in words."""
    extractors = {
        "pool": build_extractor(backbone, detector),
        "crop": build_extractor(load_backbone(CROP_SIZE), detector, crop_from=IMAGE_SIZE),
    }
    jobs = [pipeline.Job(None, 0, 1, photos[start : start + 16]) for start in range(0, len(photos), 16)]
    batches = [
        (pixels, job.photos) for job, (pixels, *_) in zip(jobs, pipeline.decoded_batches(jobs, IMAGE_SIZE), strict=True)
    ]
    vectors, seconds = {}, {}
    for name, extractor in extractors.items():
        extract = pipeline.extraction(extractor, None, photos_at_once=1 if name == "crop" else 16)
        extract(batches[0][0], batches[0][1][:1])  # traces the graph
        start = time.perf_counter()
        found = [extract(pixels, members) for pixels, members in batches]
        seconds[name] = time.perf_counter() - start
        rows = [(part, row) for part, (_, members) in zip(found, batches, strict=True) for row in range(len(members))]
        vectors[name] = np.stack([part["region_features"][row] for part, row in rows])  # (N,20,F)
    mask = np.stack([part["region_mask"][row] for part, row in rows])
    centred = {name: unit(values - values[mask].mean(axis=0)) for name, values in vectors.items()}
    cosine = (unit(vectors["pool"]) * unit(vectors["crop"])).sum(-1)
    centred_cosine = (centred["pool"] * centred["crop"]).sum(-1)
    similarity = np.where(mask[:, None], centred["pool"] @ centred["crop"].transpose(0, 2, 1), -2)  # (N,20,20)
    own = (similarity.argmax(-1) == np.arange(mask.shape[1]))[mask].mean()
    return (
        f"{len(photos)} photos, {mask.sum()} regions, pooled from one map beside crops of {CROP_SIZE} pixels\n"
        f"  cosine: whole frame {cosine[:, 0].mean():.2f}, boxes {cosine[:, 1:][mask[:, 1:]].mean():.2f}; "
        f"after centring {centred_cosine[:, 0].mean():.2f}, {centred_cosine[:, 1:][mask[:, 1:]].mean():.2f}\n"
        f"  a pooled vector is nearest to its own crop among its photo's regions: {own:.0%}\n"
        f"  {len(photos) / seconds['pool']:.1f} photos/s pooled, {len(photos) / seconds['crop']:.2f} cropped: "
        f"{seconds['crop'] / seconds['pool']:.1f} times as long"
    )


def unit(vectors):
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


class Clock:
    """In the place of the progress bar: when batches were done, and the memory in use then."""

    def __init__(self):
        self.marks, self.memory = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, photos):
        self.marks.append((time.perf_counter(), time.process_time(), photos))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)

    @property
    def photos(self):
        """Those after the second batch: the first ones wait for the graphs to be traced."""
        return sum(photos for *_, photos in self.marks[2:])

    @property
    def rate(self):
        """Photos per second."""
        return self.photos / (self.marks[-1][0] - self.marks[1][0])

    @property
    def cpu(self):
        """Seconds of CPU for a photo, which other programs on the machine disturb less."""
        return (self.marks[-1][1] - self.marks[1][1]) / self.photos


def rate_of(networks, pixels):
    """Photos per second, and seconds of CPU for a photo."""
    photos = BARE_BATCHES * len(pixels)
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(BARE_BATCHES):
        networks(pixels)
    return np.array([photos / (time.perf_counter() - start), (time.process_time() - cpu) / photos])


def load_networks():
    """The shipped networks; random weights where there are none, which are as fast."""
    try:
        return load_backbone(IMAGE_SIZE), build_detector()
    except InputError as error:
        print(f"random weights: {error}")
        return build_backbone(weights=None), build_detector(weights=None)


def load_backbone(image_size):
    try:
        return build_backbone(image_size=image_size)
    except InputError:
        return build_backbone(image_size=image_size, weights=None)


def load_photos(folder):
    if FLICKR8K.is_dir():
        dataset = read_dataset(FLICKR8K / "dataset.json", FLICKR8K / "images")
    else:
        make_scenes(folder / "scenes", PHOTOS)
        dataset = read_dataset(folder / "scenes" / "dataset.json", folder / "scenes" / "images")
    return replace(dataset, photos=[photo for photo in dataset.photos if photo.split == "train"][:PHOTOS])
