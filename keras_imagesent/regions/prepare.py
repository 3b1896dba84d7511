"""Photos and sentences in, shards of region vectors out: decoding runs beside the networks, batch by batch."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_imagesent.data import shards
from keras_imagesent.data.atomic import remove_leftovers, write_json
from keras_imagesent.data.dataset_check import TooManyBroken
from keras_imagesent.data.entries import Problem
from keras_imagesent.data.graph_tokenizer import SentenceToIds
from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.data.prepared import Prepared
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.regions import photo as photos_in_graph
from keras_imagesent.regions.claim_folder import claim, data_digest, give_back, only_run, photos_digest, weights_digest

PHOTOS_PER_SHARD = 500
BATCH_SIZE = 16


def prepare(
    dataset,
    out,
    extractor,
    made_with,
    boxes_of=None,
    photos_at_once=BATCH_SIZE,
    threshold=5,
    machine=(1, 1),
    max_broken=0.01,
    progress=True,
    vocabulary=None,
    elsewhere=None,
):
    """Writes the prepared folder; called again after a kill it goes on, and the bytes come out the same.

    The networks always see the same 16 photos together (a short batch is filled with black ones), so that a vector
    does not depend on where a run was cut.

    Args:
        dataset: the checked data set, splits as they are to be.
        extractor: model of `build_extractor`, pixels -> boxes, box_scores, region_mask, region_features, perhaps
            class_scores; with inputs `boxes` and `box_scores` as well if `boxes_of` is given.
        made_with: dict of the settings that decide the vectors, kept in `prepared.json`.
        boxes_of: filename -> boxes (n,4) and scores (n,), for boxes that come from a file.
        photos_at_once: how many photos the networks see together; fewer when each is cut into crops.
        machine: (i, n) does the i-th of n shares of the work, i from 1.
        max_broken: share of photos that may fail to decode before the run stops.
        vocabulary: of a trained model, for photos to be measured only; None takes the words of the split train.
        elsewhere: runs the jobs in other processes instead of this one, as `ray_prepare.RayWorkers` does: jobs,
            settings, vocabulary -> (job, records, broken photos) of each, in any order.

    Example:
        extractor = build_extractor(build_backbone(), build_detector())
        prepare(dataset, "prepared", extractor, {"backbone": "efficientnet-lite2", "detector": "yolov4-tiny"})
    """
    out = Path(out)
    training = [caption for photo in dataset.photos if photo.split == "train" for caption in photo.captions]
    if vocabulary is None and not training:
        raise InputError(
            f"no training photos, only {', '.join(dataset.splits)}: the vocabulary comes from a split called train, or "
            "from a trained model"
        )
    vocabulary = vocabulary or Vocabulary.from_captions(training, threshold)
    if boxes_of is not None and not any(len(boxes_of(photo.filename)[1]) for photo in dataset.photos):
        raise InputError(
            f"the file of boxes has none of the photos, such as {dataset.photos[0].filename}. "
            "Write their names as in the data set."
        )
    plan = plan_shards(dataset.photos)
    starts = np.cumsum([0] + [len(photo.captions) for photo in dataset.photos]).tolist()
    sentence_numbers = {photo.photo_id: start for photo, start in zip(dataset.photos, starts, strict=False)}
    settings = {
        "format": shards.FORMAT,
        **made_with,
        "extractor": weights_digest(extractor),
        "image_size": next(each.shape[1] for each in extractor.inputs if each.name == "pixels"),
        "number_of_regions": extractor.output["region_features"].shape[1],
        "feature_dim": extractor.output["region_features"].shape[2],
        "classes": extractor.output["class_scores"].shape[2] if "class_scores" in extractor.output else 0,
        "data": data_digest(dataset.photos),
        "photos": photos_digest(dataset.photos),
        "threshold": threshold,
        "vocabulary": vocabulary.digest,
        "splits": {split: {"photos": sum(map(len, parts)), "shards": len(parts)} for split, parts in plan.items()},
    }
    out.mkdir(parents=True, exist_ok=True)
    with only_run(out, alone=machine[1] == 1) as wait_for_others:
        claim(out, settings, vocabulary)
        jobs, done = unfinished_jobs(out, plan, machine, settings, sentence_numbers)
        total = done + sum(len(job.photos) for job in jobs)
        with tqdm(total=total, initial=done, unit="photo", desc="regions", disable=not progress) as bar:
            if elsewhere is None:
                extract = extraction(extractor, boxes_of, photos_at_once)
                results = run_jobs(jobs, extract, SentenceToIds(vocabulary), settings)
            else:
                results = elsewhere(jobs, settings, vocabulary)
            try:
                write_results(results, settings, max_broken, bar)
            except InputError as error:
                if machine[1] == 1:  # else the folder is not ours alone
                    give_back(out)
                if isinstance(error, TooManyBroken):
                    shards.list_problems(out, [*dataset.problems, *error.problems], dataset.oddities)
                raise
        if all(path.is_file() for _, path, _ in all_shards(out, plan)):
            wait_for_others()
            write_problems(out, dataset, settings, vocabulary)


@dataclass
class Job:
    """One batch of photos: one part of one shard."""

    writer: shards.ShardWriter
    part: int
    parts: int  # of the whole shard
    photos: list
    first_sentences: list = None  # the running number of each photo's first sentence


def plan_shards(photos):
    """Split -> lists of the photos of each shard, in the data set's order."""
    of_split = defaultdict(list)
    for photo in photos:
        of_split[photo.split].append(photo)
    return {
        split: [members[start : start + PHOTOS_PER_SHARD] for start in range(0, len(members), PHOTOS_PER_SHARD)]
        for split, members in of_split.items()
    }


def all_shards(out, plan):
    """(running number, path, photos) of every shard of a plan."""
    number = 0
    for split, parts in plan.items():
        for index, members in enumerate(parts):
            yield number, out / shards.shard_name(split, index, len(parts)), members
            number += 1


def unfinished_jobs(out, plan, machine, settings, sentence_numbers):
    """The batches that this machine has still to do, and the number of photos that it has done."""
    jobs, done = [], 0
    for number, path, members in all_shards(out, plan):
        if number % machine[1] != machine[0] - 1:
            continue
        writer = shards.ShardWriter(path)
        if path.is_file():
            shards.refuse_foreign(path, settings)
            writer.clear()  # killed after the joining
            done += len(members)
            continue
        batches = [members[start : start + BATCH_SIZE] for start in range(0, len(members), BATCH_SIZE)]
        missing = [part for part in range(len(batches)) if not writer.has(part)]
        done += sum(len(batch) for part, batch in enumerate(batches) if part not in missing)
        if not missing:
            writer.finish(len(batches))  # killed between the last part and the joining
        for part in missing:
            firsts = [sentence_numbers[photo.photo_id] for photo in batches[part]]
            jobs.append(Job(writer, part, len(batches), batches[part], firsts))
    return jobs, done


def extraction(extractor, boxes_of, photos_at_once):
    """The function that `run_jobs` calls for each batch: pixels, photos -> the extractor's outputs as arrays."""
    run = tf.function(lambda inputs: extractor(inputs, training=False), autograph=False)

    def extract(pixels, photos):
        inputs = {"pixels": pixels}
        if boxes_of is not None:
            number = extractor.output["boxes"].shape[1] - 1
            inputs |= given_boxes([boxes_of(photo.filename) for photo in photos], number)
        parts = []
        for start in range(0, len(photos), photos_at_once):
            rows = {name: value[start : start + photos_at_once] for name, value in inputs.items()}
            parts.append(run(rows if boxes_of is not None else rows["pixels"]))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    return extract


def run_jobs(jobs, extract, sentence_to_ids, settings):
    """(job, records, broken photos) of each job, in this process; decoding runs ahead of the networks."""
    if not jobs:
        return
    made_by = shards.digest(settings)
    for job, (pixels, sizes, status) in zip(jobs, decoded_batches(jobs, settings["image_size"]), strict=True):
        found = extract(pixels, job.photos)
        yield job, *encode_batch(job.photos, job.first_sentences, found, sizes, status, sentence_to_ids, made_by)


def encode_batch(photos, first_sentences, found, sizes, status, sentence_to_ids, made_by):
    """The records of a batch, and the photos that cannot be decoded: they get no record."""
    records, broken = [], []
    for row, (photo, first) in enumerate(zip(photos, first_sentences, strict=True)):
        if status[row].numpy().decode() != photos_in_graph.OK:
            broken.append(photo)
            continue
        regions = {name: value[row] for name, value in found.items()}
        token_ids = known_words(sentence_to_ids, photo.captions)
        records.append(encode_photo(photo, regions, sizes[row].numpy(), token_ids, first, made_by))
    return records, broken


def write_results(results, settings, max_broken, bar):
    """Writes the parts as they come, and joins each shard when its last part is there."""
    allowed = max_broken * sum(split["photos"] for split in settings["splits"].values())
    broken = []
    for job, records, lost in results:
        broken += lost
        if len(broken) > allowed:
            raise TooManyBroken(
                f"{len(broken)} photos cannot be decoded, the last {broken[-1].path}; a share of {max_broken:g} is "
                "allowed. Look at these photos, or allow more with --max-broken.",
                [Problem(photo.filename, photos_in_graph.BROKEN, photo.where) for photo in broken],
            )
        job.writer.write(job.part, records)
        if all(map(job.writer.has, range(job.parts))):
            job.writer.finish(job.parts)
        bar.update(len(job.photos))


def decoded_batches(jobs, image_size):
    """Pixels, sizes and status of each job's photos, always BATCH_SIZE rows, decoded ahead of the networks."""

    def contents():
        for job in jobs:
            yield from read_photos(job.photos)

    def decode(content):
        return photos_in_graph.decode_row(content, image_size)

    dataset = tf.data.Dataset.from_generator(contents, output_signature=tf.TensorSpec((), tf.string))
    return dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH_SIZE, drop_remainder=True).prefetch(2)


def read_photos(photos):
    """The encoded photos, always BATCH_SIZE; nothing for one that cannot be read, and behind the last."""
    for photo in photos:
        yield read_or_nothing(photo)
    yield from [b""] * (BATCH_SIZE - len(photos))


def read_or_nothing(photo):
    if isinstance(photo.path, Path) and not photo.path.is_file():
        return b""  # a pipe among the photos would be waited for without end
    try:
        return to_decodable(photo.path.read_bytes())
    except (OSError, InputError):
        return b""


def given_boxes(rows, number):
    """Boxes from a file as `boxes (BATCH_SIZE,number,4)` and `box_scores (BATCH_SIZE,number)`, the best first."""
    boxes = np.zeros((BATCH_SIZE, number, 4), np.float32)
    scores = np.zeros((BATCH_SIZE, number), np.float32)
    for row, (of_photo, of_score) in enumerate(rows):
        best = np.argsort(-np.asarray(of_score), kind="stable")[:number]
        boxes[row, : len(best)] = np.asarray(of_photo).reshape(-1, 4)[best]
        scores[row, : len(best)] = np.asarray(of_score)[best]
    return {"boxes": boxes, "box_scores": scores}


def known_words(sentence_to_ids, captions):
    """The ids of each caption's words, found inside the graph as serving does; words outside the vocabulary go."""
    _, ids = sentence_to_ids(tf.constant(captions))
    return [[number for number in row if number >= 0] for row in ids.to_list()]


def encode_photo(photo, regions, size, token_ids, first_sentence, made_by):
    """One photo's record; present regions first, absent ones all zero. Its sentences are numbered from the first."""
    mask = regions["region_mask"]
    order = np.argsort(~mask, kind="stable")
    present = mask[order]
    classes = regions.get("class_scores", np.zeros((len(mask), 0)))
    with np.errstate(over="ignore"):  # said below, with the photo's name
        features = np.where(present[:, None], regions["region_features"][order], 0).astype("<f2")
    if not np.isfinite(features).all():
        raise InputError(
            f"{photo.path}: the backbone gave vectors that are not finite in float16. Are its weights right?"
        )
    return shards.encode_record(
        {
            "photo_id": photo.photo_id,
            "filename": photo.filename,
            "split": photo.split,
            "data_set": photo.data_set,
            "width": int(size[0]),
            "height": int(size[1]),
            "number_of_regions": int(present.sum()),
            "region_features": features,
            "boxes": np.where(present[:, None], regions["boxes"][order], 0).astype("<f4"),
            "box_scores": np.where(present, regions["box_scores"][order], 0).astype("<f4"),
            "class_scores": np.where(present[:, None], classes[order], 0).astype("<f2"),
            "captions": list(photo.captions),
            "token_ids": [number for sentence in token_ids for number in sentence],
            "lengths": [len(sentence) for sentence in token_ids],
            "sentence_ids": list(range(first_sentence, first_sentence + len(token_ids))),
            "made_by": made_by,
        }
    )


# --- one folder, one set of settings ---


def write_problems(out, dataset, settings, vocabulary):
    """Lists what was set aside before the run, and the photos without a record."""
    prepared = Prepared(out, settings, vocabulary, shards.read_counts(out))
    in_shard = {path: prepared.photo_ids_in(path) for split in prepared.splits for path in prepared.shards(split)}
    written = set(chain.from_iterable(in_shard.values()))
    for path, numbers in in_shard.items():
        if len(set(numbers)) < len(numbers):
            raise InputError(f"{path}: damaged, a photo stands in it twice. Delete it and run this again.")
    lost = [photo for photo in dataset.photos if photo.photo_id not in written]
    problems = list(dataset.problems)
    for photo in lost:
        status = photos_in_graph.decode_row(read_or_nothing(photo), settings["image_size"])[2].numpy().decode()
        problems.append(Problem(photo.filename, status, photo.where))
    shards.list_problems(out, problems, dataset.oddities)
    write_json(out / shards.COUNTS_FILE, {path.name: len(numbers) for path, numbers in in_shard.items()})
    remove_leftovers(out)
