"""Stages: what a photo costs in each stage around the extraction, in processor time, memory and bytes (docs/scale.md).

Photos are those of ../shared/flickr8k where they are, else generated scenes, put into tars as img2dataset writes them.
The extraction itself is the section `extraction`, the stores are `stores`.

  PHOTOS=2000 scripts/benchmark stages
"""

import io
import os
import sys
import tarfile
import tempfile
import time
import tracemalloc
from pathlib import Path

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.photo_check import look_at
from keras_imagesent.data.shards import ShardWriter

sys.path.insert(0, str(Path(__file__).parent))
from extraction import load_photos

BATCH, RECORD = 16, 20 * 1280 * 2 + 20 * 80 * 2  # photos in a part; bytes of a photo's vectors and class scores


def run():
    """Prints core-seconds and bytes a photo."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        photos = load_photos(folder).photos
        tars = write_tar(photos, folder / "tars")
        size = sum(photo.path.stat().st_size for photo in photos) / len(photos)
        print(f"{len(photos)} photos of {size / 1000:.1f} KB")
        show("listing a tar", len(photos), lambda: read_dataset(tars))
        tracemalloc.start()
        listed = read_dataset(tars)
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"  its list in memory: {kept / len(photos):.0f} bytes a photo, {peak / len(photos):.0f} at its peak")
        show("check", len(photos), lambda: [look_at(photo.path) for photo in listed.photos])
        show("writing a shard", len(photos), lambda: write_shard(folder / "train-00000-of-00001.tfrecord", len(photos)))


def show(name, photos, function):
    """Runs a stage and prints its processor time and its pace on the clock."""
    start, cpu = time.perf_counter(), time.process_time()
    function()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(
        f"  {name:<18}{cpu / photos:.6f} core-seconds a photo, {photos / seconds:.0f} photos/s on the clock", flush=True
    )


def write_shard(path, photos):
    """What the driver does with the records that come to it: parts, then the shard; and down to the disk."""
    writer, parts = ShardWriter(path), -(-photos // BATCH)
    for part in range(parts):
        writer.write(part, [os.urandom(16) * (RECORD // 16)] * min(BATCH, photos - part * BATCH))
    writer.finish(parts)
    os.sync()


def write_tar(photos, folder):
    folder.mkdir()
    with tarfile.open(folder / "00000.tar", "w") as tar:
        for number, photo in enumerate(photos):
            contents = {"jpg": photo.path.read_bytes(), "txt": "\n".join(photo.captions).encode()}
            for ending, content in contents.items():
                member = tarfile.TarInfo(f"{number:09d}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return folder
