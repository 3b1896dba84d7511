"""Regions that people drew and described: the references of the region captioner."""

from dataclasses import dataclass

import numpy as np

from keras_imagesent.data.box_table import read_box_table
from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation.grounding import overlaps


@dataclass
class DescribedRegion:
    """One box of one photo, `(4,)` in 0..1, with what people say of it; `snippet` is another person's, to compare."""

    filename: str
    box: np.ndarray
    references: list
    snippet: str | None = None


def regions_of_phrases(items):
    """Each human box once, with all phrases drawn for it as its references.

    `items` are those of `read_phrase_boxes` or `read_entities`.

    Example:
        >>> regions_of_phrases(read_phrase_boxes("phrase_boxes_dev.csv"))[0].references
        ['A black dog', 'a dog']
    """
    regions = {}
    for item in items:
        for box in item.boxes:
            key = item.filename, tuple(np.round(box, 4))
            regions.setdefault(key, DescribedRegion(item.filename, np.asarray(box, np.float32), []))
            regions[key].references.append(item.phrase)
    return list(regions.values())


def read_region_snippets(path, overlap=0.5):
    """Described regions from several annotators' boxes: a CSV with filename, annotator, snippet, x0, y0, x1, y1.

    The references of a box are the snippets of OTHER annotators whose boxes overlap it (IoU >= `overlap`); its own
    snippet is what a person says, so that people and models are measured against the same references. A box that
    nobody else drew is left out.

    Example:
        >>> read_region_snippets("regions.csv")[0].snippet
        'chocolate cake'
    """
    photos = {}
    for _, row, box in read_box_table(path, ("filename", "annotator", "snippet")):
        photos.setdefault(row["filename"], []).append((row["annotator"], row["snippet"], box.astype(np.float32)))
    regions = []
    for filename, drawn in photos.items():
        boxes = np.stack([box for _, _, box in drawn])
        near = overlaps(boxes, boxes) >= overlap
        for (annotator, snippet, box), row in zip(drawn, near, strict=True):
            others = [drawn[n][1] for n in np.flatnonzero(row) if drawn[n][0] != annotator]
            if others:
                regions.append(DescribedRegion(filename, box, others, snippet))
    return regions


def box_vectors(regions, photos_dir, backbone, batch_size=16, progress=lambda items, **_: items):
    """Vectors of human boxes, pooled under them from one look at each photo: `(M, F)`, and the whole frames' `(M, F)`.

    Example:
        >>> boxes, frames = box_vectors(regions, "images", build_backbone())
    """
    import keras
    import tensorflow as tf

    from keras_imagesent.regions.photo import OK, decode_pixels
    from keras_imagesent.regions.pool_regions import PoolRegions

    size, dim = backbone.input_shape[1], backbone.output_shape[-1]
    of_photo = {}
    for row, region in enumerate(regions):
        of_photo.setdefault(region.filename, []).append(row)
    most = 1 + max(len(rows) for rows in of_photo.values())
    pixels, boxes = keras.Input((size, size, 3)), keras.Input((most, 4))
    pool = keras.Model([pixels, boxes], PoolRegions(name="pool")([backbone(pixels), boxes]))
    look = tf.function(lambda pixels, boxes: pool([pixels, boxes], training=False), reduce_retracing=True)
    decode = tf.function(lambda photos: decode_pixels(photos, size), input_signature=[tf.TensorSpec([None], tf.string)])
    vectors, frames = np.zeros((2, len(regions), dim), np.float32)
    names = list(of_photo)
    for start in progress(range(0, len(names), batch_size), desc="human boxes"):
        part = names[start : start + batch_size]
        image_bytes = [_read(photos_dir / name) for name in part]
        looked, status = decode(tf.constant(image_bytes))
        wrong = [name for name, state in zip(part, status.numpy(), strict=True) if state.decode() != OK]
        if wrong:
            raise InputError(f"{photos_dir / wrong[0]}: cannot be read as a photo")
        drawn = np.zeros((len(part), most, 4), np.float32)
        drawn[:, 0] = [0, 0, 1, 1]
        for row, name in zip(drawn, part, strict=True):
            row[1 : 1 + len(of_photo[name])] = [regions[n].box for n in of_photo[name]]
        found = look(looked, tf.constant(drawn)).numpy()
        for row, name in zip(found, part, strict=True):
            vectors[of_photo[name]] = row[1 : 1 + len(of_photo[name])]
            frames[of_photo[name]] = row[0]
    return vectors, frames


def box_classes(regions, photos, overlap=0.5):
    """What the detector takes human boxes for: the class scores `(M, C)` of the region that overlaps each most, by at
    least `overlap`; zeros where there is none.

    Example:
        >>> box_classes(regions, prepared.load("dev")).shape
        (5213, 80)
    """
    row_of = {filename: row for row, filename in enumerate(photos.filenames)}
    found = np.zeros((len(regions), photos.class_scores.shape[-1]), np.float32)
    for scores, region in zip(found, regions, strict=True):
        row = row_of[region.filename]
        near = overlaps(region.box[None], photos.boxes[row])[0] * photos.region_mask[row]
        if near[1:].max(initial=0) >= overlap:
            scores[:] = photos.class_scores[row, 1 + near[1:].argmax()]
    return found


def _read(path):
    try:
        return to_decodable(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; --photos names the folder of the photos") from None
