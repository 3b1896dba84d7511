"""Shards hold what the networks gave; a killed run goes on and writes the same bytes; settings are never mixed."""

import json
import os
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.data.dataset import read_dataset
from keras_imagesent.data.dataset_check import check_dataset
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.shards import ShardWriter
from keras_imagesent.errors import InputError
from keras_imagesent.regions import prepare as module
from keras_imagesent.regions.claim_folder import only_run
from keras_imagesent.regions.detectors.boxes_file import NO_BOXES
from keras_imagesent.regions.pillow_photo import read_pixels
from keras_imagesent.regions.prepare import prepare
from tests.regions.tiny_photos import FEATURES, REGIONS, SIZE, tiny_extractor, write_photos


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(module, "PHOTOS_PER_SHARD", 10)
    monkeypatch.setattr(module, "BATCH_SIZE", 4)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"), 45)


@pytest.fixture(scope="module")
def extractor():
    return tiny_extractor()


def read(source):
    return check_dataset(read_dataset(source / "dataset.json", source / "images"))


def run(source, out, extractor, **options):
    prepare(read(source), out, extractor, {"backbone": "tiny"}, threshold=2, progress=False, **options)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def unbroken(source, extractor, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PHOTOS_PER_SHARD", 10)
        patch.setattr(module, "BATCH_SIZE", 4)
        out = tmp_path_factory.mktemp("work") / "unbroken"
        run(source, out, extractor)
    return out


def test_records_hold_what_the_networks_gave(source, unbroken, extractor):
    prepared, photos = Prepared.open(unbroken), read(source).photos
    assert prepared.splits == ["train", "val"]
    assert sorted(path.name for path in unbroken.iterdir()) == [
        "prepared.json",
        "problems.json",
        "shards.json",
        *[f"train-{n:05d}-of-00003.tfrecord" for n in range(3)],
        *[f"val-{n:05d}-of-00002.tfrecord" for n in range(2)],
        "vocabulary.json",
    ]
    for split in prepared.splits:
        found, expected = prepared.load(split), [photo for photo in photos if photo.split == split]
        outputs = extractor.predict(np.stack([read_pixels(photo.path, SIZE) for photo in expected]), verbose=0)
        mask = outputs["region_mask"]
        assert 0 < mask.sum() < mask.size
        assert found.filenames == [photo.filename for photo in expected]
        assert found.photo_ids.tolist() == [photo.photo_id for photo in expected]
        assert found.captions == [photo.captions for photo in expected]
        assert [[ids.tolist() for ids in row] for row in found.token_ids] == [
            [prepared.vocabulary.encode(caption) for caption in photo.captions] for photo in expected
        ]
        assert set(found.widths) == {40} and set(found.heights) == {30}
        assert found.region_features.dtype == np.float16 and found.region_features.shape[1:] == (REGIONS, FEATURES)
        # the graph's pixels differ from Pillow's by up to one level
        np.testing.assert_allclose(found.region_features[mask], outputs["region_features"][mask], atol=0.02)
        np.testing.assert_allclose(found.class_scores[mask], outputs["class_scores"][mask], atol=0.001)
        np.testing.assert_array_equal(found.region_mask, mask)
        assert not found.region_features[~mask].any() and not found.boxes[~mask].any()
        assert not found.class_scores[~mask].any()
    numbers = np.concatenate([*prepared.load("train").sentence_ids, *prepared.load("val").sentence_ids])
    assert sorted(numbers) == list(range(sum(len(photo.captions) for photo in photos)))


def test_killed_at_every_part_it_ends_with_the_same_bytes(source, unbroken, extractor, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    write, writes = ShardWriter.write, []

    def write_once(self, part, records):
        write(self, part, records)
        writes.append(part)
        raise Killed

    monkeypatch.setattr(ShardWriter, "write", write_once)
    for _ in range(2):
        with pytest.raises(Killed):
            run(source, tmp_path / "out", extractor)
    assert len(writes) == 2
    # killed while a part and while a shard was being written
    (tmp_path / "out" / ".unfinished-train-00001-of-00003.tfrecord").write_bytes(b"half")
    (tmp_path / "out" / ".train-00000-of-00003.tfrecord.parts" / ".unfinished-00002").write_bytes(b"half")
    monkeypatch.setattr(ShardWriter, "write", write)
    run(source, tmp_path / "out", extractor)
    assert content(tmp_path / "out") == content(unbroken)


def test_killed_after_the_joining_the_parts_go(source, unbroken, extractor, tmp_path):
    out = shutil.copytree(unbroken, tmp_path / "out")
    (out / "problems.json").unlink()
    parts = out / ".train-00001-of-00003.tfrecord.parts"
    parts.mkdir()
    (parts / "00001").write_bytes(b"one of three was left")
    run(source, out, extractor)
    assert content(out) == content(unbroken) and not parts.exists()


def test_a_finished_folder_is_left_as_it_is(source, unbroken, extractor, monkeypatch):
    before = content(unbroken)
    monkeypatch.setattr(module, "decoded_batches", None)  # would fail if anything were extracted again
    run(source, unbroken, extractor)
    assert content(unbroken) == before


def test_two_machines_write_what_one_writes(source, unbroken, extractor, tmp_path):
    for index in (2, 1):
        folder = tmp_path / f"machine{index}"
        run(source, folder, extractor, machine=(index, 2))
        with pytest.raises(InputError, match="not complete, [23] shards are missing"):
            Prepared.open(folder)
        shutil.copytree(folder, tmp_path / "all", dirs_exist_ok=True)
    run(source, tmp_path / "all", extractor)
    assert content(tmp_path / "all") == content(unbroken)


def test_vectors_do_not_depend_on_the_photos_beside_them(source, unbroken, extractor, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PHOTOS_PER_SHARD", 7)
    run(source, tmp_path / "out", extractor)
    one, other = Prepared.open(unbroken).load("train"), Prepared.open(tmp_path / "out").load("train")
    np.testing.assert_allclose(one.region_features, other.region_features, rtol=1e-3)


def test_other_settings_are_refused(source, unbroken, extractor, tmp_path):
    with pytest.raises(InputError, match=r"other settings \(extractor '[0-9a-f]+', now"):
        run(source, unbroken, tiny_extractor(seed=1))
    with pytest.raises(InputError, match=r"other settings \(backbone 'tiny', now 'other'\)"):
        prepare(read(source), unbroken, extractor, {"backbone": "other"}, threshold=2, progress=False)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and not a prepared folder"):
        run(source, tmp_path, extractor)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_shard_of_other_settings_is_not_mixed_in(source, unbroken, extractor, tmp_path):
    mixed = shutil.copytree(unbroken, tmp_path / "mixed")
    settings = json.loads((mixed / "prepared.json").read_text())
    (mixed / "prepared.json").write_text(json.dumps(settings | {"backbone": "other"}))
    with pytest.raises(InputError, match=r"train-00000-of-00003\.tfrecord: made with other settings"):
        Prepared.open(mixed).load("train")
    for path in mixed.glob("*-of-*"):
        path.unlink()
    shutil.copy(unbroken / "val-00001-of-00002.tfrecord", mixed)  # a stray one among shards still to be made
    with pytest.raises(InputError, match=r"val-00001-of-00002\.tfrecord: made with other settings"):
        prepare(read(source), mixed, extractor, {"backbone": "other"}, threshold=2, progress=False)


def test_a_second_run_is_kept_out(source, unbroken, extractor):
    with only_run(unbroken, alone=True), pytest.raises(InputError, match="another `imagesent prepare`"):
        run(source, unbroken, extractor)


def test_frames_alone_and_a_sample_are_parts_of_the_whole(unbroken):
    prepared = Prepared.open(unbroken)
    whole, frames = prepared.load("train"), prepared.load("train", frames_only=True)
    np.testing.assert_array_equal(frames.region_features, whole.region_features[:, :1])
    for name in ("boxes", "box_scores", "class_scores", "region_mask"):
        np.testing.assert_array_equal(getattr(frames, name), getattr(whole, name))
    assert frames.captions == whole.captions and frames.filenames == whole.filenames
    assert prepared.sample("train").filenames == whole.filenames
    some = prepared.sample("train", photos=10).filenames  # one of the three shards of ten photos
    assert len(some) == 10 and set(some) < set(whole.filenames)


def test_photos_that_break_after_the_check_are_listed(source, extractor, tmp_path):
    broken = shutil.copytree(source, tmp_path / "photos")
    dataset = read(broken)
    (broken / "images" / "007.png").write_bytes(b"not a photo any more")
    (broken / "images" / "008.png").unlink()
    options = {"threshold": 2, "progress": False}
    prepare(dataset, tmp_path / "out", extractor, {}, max_broken=0.1, **options)
    problems = json.loads((tmp_path / "out" / "problems.json").read_text())
    assert [problem for problem in problems if not problem.get("used")] == [
        {"item": f"{name}.png", "reason": "not a whole JPEG, PNG, GIF or BMP photo"} for name in ("007", "008")
    ]
    prepared = Prepared.open(tmp_path / "out")
    names = [name for split in prepared.splits for name in prepared.load(split).filenames]
    assert len(names) == 43 and not {"007.png", "008.png"} & set(names)
    with pytest.raises(InputError, match=r"2 photos cannot be decoded, the last .*008\.png"):
        prepare(dataset, tmp_path / "strict", extractor, {}, max_broken=0.03, **options)


def test_vectors_that_are_not_finite_stop_the_run_and_leave_nothing(source, tmp_path):
    extractor = tiny_extractor()
    extractor.get_layer("dense").bias.assign(np.full(REGIONS * FEATURES, 1e6))
    with pytest.raises(InputError, match="not finite in float16"):
        run(source, tmp_path / "out", extractor)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".notes").write_text("mine")
    with pytest.raises(InputError, match="not finite in float16"):
        run(source, tmp_path / "mine", extractor)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [".notes"]


def test_a_full_disk_is_said_in_a_line(source, extractor, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # a part of four photos is larger
    try:
        with pytest.raises(InputError, match=r"parts/00000: cannot be written \(.*\)\. Is the disk full\?"):
            run(source, tmp_path / "out", extractor)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "out").exists()


def test_machines_that_start_and_end_together_do_not_disturb_each_other(source, unbroken, extractor, tmp_path):
    with ThreadPoolExecutor(3) as machines:
        done = [machines.submit(run, source, tmp_path / "out", extractor, machine=(n, 3)) for n in (1, 2, 3)]
    assert [each.result() for each in done] == [None] * 3
    assert content(tmp_path / "out") == content(unbroken)


def test_boxes_of_a_file_reach_the_networks(source, tmp_path):
    boxes = [[0, 0, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0.5], [0.5, 0.5, 1, 1]]
    given = module.given_boxes([(boxes, [0.2, 0.9, 0.1, 0.5]), ([], [])], REGIONS - 1)
    np.testing.assert_allclose(given["box_scores"][:2], [[0.9, 0.5, 0.2], [0, 0, 0]])
    np.testing.assert_allclose(given["boxes"][0], np.array(boxes, np.float32)[[1, 3, 0]])


def test_boxes_of_other_photos_are_refused(source, extractor, tmp_path):
    with pytest.raises(InputError, match=r"has none of the photos, such as 000\.png"):
        run(source, tmp_path / "out", extractor, boxes_of=lambda filename: NO_BOXES)
    assert not (tmp_path / "out").exists()


def test_a_damaged_shard_is_named(unbroken, tmp_path):
    damaged = shutil.copytree(unbroken, tmp_path / "damaged")
    path = damaged / "val-00000-of-00002.tfrecord"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"val-00000-of-00002\.tfrecord: damaged"):
        Prepared.open(damaged).load("val")
    with pytest.raises(InputError, match=r"no split 'test'\. There are: train, val"):
        Prepared.open(damaged).load("test")
    (damaged / "prepared.json").write_text("{")
    with pytest.raises(InputError, match=r"prepared\.json: damaged"):
        Prepared.open(damaged)
    with pytest.raises(InputError, match=r"not a prepared folder"):
        Prepared.open(tmp_path)


def test_exif_turns_width_and_height(source, extractor, tmp_path):
    turned = write_photos(tmp_path / "photos", 2, splits=("train",))
    tags = Image.Exif()
    tags[0x0112] = 6
    Image.open(turned / "images" / "001.png").save(turned / "images" / "001.png", exif=tags)
    run(turned, tmp_path / "out", extractor)
    photos = Prepared.open(tmp_path / "out").load("train")
    assert list(zip(photos.widths, photos.heights, strict=True)) == [(40, 30), (30, 40)]


def test_photos_exchanged_between_a_kill_and_the_restart_are_noticed(source, extractor, tmp_path, monkeypatch):
    mine, write = shutil.copytree(source, tmp_path / "mine"), ShardWriter.write

    def write_once(self, part, records):
        write(self, part, records)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ShardWriter, "write", write_once)
        run(mine, tmp_path / "out", extractor)
    photo, other = sorted((mine / "images").iterdir())[:2]
    first, second = photo.read_bytes(), other.read_bytes()
    photo.write_bytes(second), other.write_bytes(first)
    with pytest.raises(InputError, match="begun with other photos of the same names"):
        run(mine, tmp_path / "out", extractor)
    photo.write_bytes(first), other.write_bytes(second)
    run(mine, tmp_path / "out", extractor)


def test_a_pipe_among_the_photos_is_not_waited_for(source, extractor, tmp_path):
    mine = shutil.copytree(source, tmp_path / "mine")
    photo = sorted((mine / "images").iterdir())[0]
    photo.unlink()
    os.mkfifo(photo)
    dataset = check_dataset(read_dataset(mine / "dataset.json", mine / "images"), max_broken=0.1)
    assert [str(problem) for problem in dataset.problems] == [f"{photo.name}: a pipe or a device, not a file"]
    dataset = read_dataset(mine / "dataset.json", mine / "images")  # not looked at
    prepare(dataset, tmp_path / "out", extractor, {}, threshold=2, progress=False, max_broken=0.1)
    assert photo.name in (tmp_path / "out/problems.json").read_text()


@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: 2 * content])
def test_an_empty_or_doubled_shard_is_named(source, unbroken, extractor, tmp_path, damage):
    damaged = shutil.copytree(unbroken, tmp_path / "out")
    shard = damaged / "train-00001-of-00003.tfrecord"
    shard.write_bytes(damage(shard.read_bytes()))
    for read_it in (Prepared.load, Prepared.sentence_counts):
        with pytest.raises(InputError, match=r"train-00001-of-00003.tfrecord: damaged, (0|20) photos instead of 10"):
            read_it(Prepared.open(damaged), "train")
    with pytest.raises(InputError, match="train-00001-of-00003.tfrecord: damaged"):
        run(source, damaged, extractor)
    shard.unlink()
    run(source, damaged, extractor)
    assert content(damaged) == content(unbroken)


def test_a_vocabulary_of_another_folder_is_refused(unbroken, tmp_path):
    mixed = shutil.copytree(unbroken, tmp_path / "out")
    (mixed / "vocabulary.json").write_text('{"sentences":4,"words":["a","dog"],"counts":[3,2]}')
    with pytest.raises(InputError, match="not the vocabulary of this folder"):
        Prepared.open(mixed)
