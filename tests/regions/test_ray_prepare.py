"""`prepare` on a real local Ray cluster: the shards of one process, also when a worker is killed under way."""

import json
import os
import shutil
import signal
import time
from functools import partial

import numpy as np
import pytest

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.errors import InputError
from keras_imagesent.regions import prepare as module
from keras_imagesent.regions.networks import Networks
from keras_imagesent.regions.prepare import prepare
from keras_imagesent.regions.ray_prepare import Looks, RayWorkers
from tests.data.test_stored_photos import write_parquet, write_tars
from tests.regions.object_store import object_store, upload
from tests.regions.tiny_photos import tiny_extractor, write_photos

ray = pytest.importorskip("ray", reason="needs ray: pip install 'keras_imagesent[ray]'")


@pytest.fixture(scope="module")
def bucket(source, tmp_path_factory):
    """The photos of `source` as files, tars and Parquet, in a folder and in s3://bucket of a real server."""
    folder = tmp_path_factory.mktemp("stored")
    shutil.copytree(source / "images", folder / "images")
    write_tars(source, folder / "tars")
    write_parquet(source, folder / "parquet")
    with object_store() as store:
        upload(store, folder, "bucket")
        yield folder


@pytest.fixture(scope="module")
def cluster(bucket):
    """Two workers on this machine, which find the object store; nothing of it is left afterwards."""
    for tries_left in (2, 1, 0):
        try:
            ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
            break
        except Exception as error:  # of a machine so busy that the node is not up within Ray's half minute
            ray.shutdown()
            if not tries_left or "timed out during startup" not in str(error):
                raise
    yield
    ray.shutdown()


@pytest.fixture(scope="module", autouse=True)
def small_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PHOTOS_PER_SHARD", 20)
        patch.setattr(module, "BATCH_SIZE", 4)
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"), 90)


def read(source, **options):
    is_folder = (source / "dataset.json").exists()
    place = (source / "dataset.json", source / "images") if is_folder else (source,)
    return check_dataset(read_dataset(*place), max_broken=0.1, **options)


def tiny_networks(pids):
    """Made in each actor, which leaves its process number."""
    (pids / str(os.getpid())).touch()
    return Networks(tiny_extractor(), None, 16, {})


def run(dataset, out, **options):
    prepare(dataset, out, tiny_extractor(), {}, threshold=2, max_broken=0.1, progress=False, **options)
    return Prepared.open(out)


def assert_same(one, other):
    """The same shards, rows and order; vectors within 1e-3."""
    names = [sorted(path.name for path in each.folder.iterdir() if path.suffix) for each in (one, other)]
    assert names[0] == names[1] and one.settings == other.settings
    assert (one.folder / "problems.json").read_text() == (other.folder / "problems.json").read_text()
    for split in one.splits:
        for shard, twin in zip(one.shards(split), other.shards(split), strict=True):
            a, b = one.read([shard]), other.read([twin])
            for name in ("filenames", "captions"):
                assert getattr(a, name) == getattr(b, name)
            for name in ("photo_ids", "widths", "heights", "region_mask", "boxes"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            np.testing.assert_array_equal(np.concatenate(a.sentence_ids), np.concatenate(b.sentence_ids))
            for name in ("region_features", "class_scores", "box_scores"):
                np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-3)


def test_a_killed_worker_costs_its_batches_and_the_shards_are_those_of_one_process(cluster, source, tmp_path):
    broken = shutil.copytree(source, tmp_path / "photos")
    dataset = read(broken)
    (broken / "images" / "007.png").write_bytes(b"broken after the check")
    (broken / "images" / "050.png").unlink()
    one = run(dataset, tmp_path / "one")
    lost = [each["item"] for each in json.loads((tmp_path / "one" / "problems.json").read_text()) if "used" not in each]
    assert lost == ["007.png", "050.png"]
    pids = tmp_path / "pids"
    pids.mkdir()
    workers, given, done = RayWorkers(partial(tiny_networks, pids), number=2), [], []

    def kill_one(jobs, settings, vocabulary):
        given.extend(jobs)
        for result in workers(jobs, settings, vocabulary):
            done.append(result[0])
            if len(done) == 3:
                os.kill(int(next(pids.iterdir()).name), signal.SIGKILL)
            until = time.monotonic() + 300
            while workers.lost and len(list(pids.iterdir())) < 3 and time.monotonic() < until:
                time.sleep(0.2)  # on a busy machine the others would be done before the new worker is up
            yield result

    many = run(dataset, tmp_path / "many", elsewhere=kill_one)
    assert workers.lost == 1 and len(list(pids.iterdir())) == 3
    batches = 3 * 5 + 5 + 3  # of 4 photos: 60 training photos in shards of 20, 30 validation photos in 20 and 10
    assert len(done) == len(given) == batches
    assert_same(one, many)

    # a second start does only what is missing
    next(path for path in many.folder.glob("val-00001*")).unlink()
    done.clear()
    run(dataset, tmp_path / "many", elsewhere=lambda *given: (done.append(r[0]) or r for r in workers(*given)))
    assert {job.writer.path.name for job in done} == {"val-00001-of-00002.tfrecord"}
    assert_same(one, Prepared.open(tmp_path / "many"))


def test_what_was_found_whole_is_not_read_again(cluster, source, tmp_path):
    photos = shutil.copytree(source, tmp_path / "photos")
    (photos / "images" / "003.png").write_bytes(b"broken")
    problems = read(photos, each=Looks(tmp_path / "checked")).problems
    assert [problem.item for problem in problems] == ["003.png"]
    shutil.copy(photos / "images" / "004.png", photos / "images" / "003.png")  # mended
    (photos / "images" / "005.png").unlink()  # was whole: not looked at again, the extraction will say so
    assert read(photos, each=Looks(tmp_path / "checked")).problems == []


@pytest.mark.parametrize("form", ["tars", "parquet"])
def test_tars_and_parquet_in_a_folder_give_the_shards_of_one_process(cluster, bucket, tmp_path, form):
    dataset = check_dataset(read_dataset(bucket / form))
    one = run(dataset, tmp_path / "one")
    (tmp_path / "pids").mkdir()
    many = run(dataset, tmp_path / "many", elsewhere=RayWorkers(partial(tiny_networks, tmp_path / "pids"), number=2))
    assert {path.name for path in (tmp_path / "pids").iterdir()} - {str(os.getpid())}  # extracted elsewhere
    assert sum(len(many.photo_ids(split)) for split in many.splits) == 90
    assert_same(one, many)


@pytest.mark.parametrize("form", ["tars", "parquet"])
def test_an_object_store_gives_what_a_folder_gives(cluster, bucket, source, tmp_path, form):
    stored, local = read_dataset(f"s3://bucket/{form}/"), read_dataset(bucket / form)
    contents = {path.read_bytes() for path in (source / "images").iterdir()}
    assert len(stored.photos) == len(local.photos) == len(contents) and stored.problems == []
    for photo, twin in zip(stored.photos, local.photos, strict=True):
        assert (photo.filename, photo.split, photo.captions) == (twin.filename, twin.split, twin.captions)
        assert str(photo.path).startswith("s3://bucket/")
        assert photo.path.read_bytes() == twin.path.read_bytes() and twin.path.read_bytes() in contents
    (tmp_path / "pids").mkdir()
    workers = RayWorkers(partial(tiny_networks, tmp_path / "pids"), number=2)
    many = run(check_dataset(stored, each=Looks(tmp_path / "checked")), tmp_path / "many", elsewhere=workers)
    assert_same(run(check_dataset(local), tmp_path / "one"), many)


def test_photos_of_their_own_in_an_object_store(bucket, source):
    dataset = read_dataset(source / "dataset.json", "s3://bucket/images")
    assert check_dataset(dataset).problems == []
    photo = dataset.photos[7]
    assert photo.path.read_bytes() == (source / "images" / photo.filename).read_bytes()


@pytest.mark.parametrize("address", ["s3://bucket/nothing/", "s3://nobody/tars/", "s3://bucket/tars/00009.tar"])
def test_what_an_object_store_does_not_hold_is_said_in_a_line(bucket, address):
    with pytest.raises(InputError, match=address.rstrip("/")):
        read_dataset(address)


def test_more_workers_than_the_cluster_has(cluster):
    with pytest.raises(InputError, match="--ray 64: the cluster has 2 CPUs"):
        RayWorkers(None, number=64)


@pytest.mark.parametrize(
    "make, complaint",
    [
        (lambda folder: (folder / "a.tar").write_bytes(b"no tar" * 200), "no whole tar"),
        (lambda folder: (folder / "a.parquet").write_bytes(b"none"), "no Parquet file"),
        (lambda folder: None, "is a folder: name the file in it"),
    ],
)
def test_what_holds_no_photos_is_named(tmp_path, make, complaint):
    make(tmp_path)
    with pytest.raises(InputError, match=complaint):
        read_dataset(tmp_path)
