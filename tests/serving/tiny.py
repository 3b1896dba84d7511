"""Tiny models with every part of the real ones, for quick tests."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.captioning.captioner import build_captioner, set_feature_centring
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.model.photo_model import PhotoModel
from keras_imagesent.model.run import Run
from keras_imagesent.regions.select_boxes import SelectBoxes
from keras_imagesent.regions.yolo import DecodeBoxes

SIZE, FEATURES, CLASSES = 64, 16, 6
TEXT = "a dog red blue ball on the grass man runs big small in with water two children play white black"
WORDS = TEXT.split()
VOCABULARY = Vocabulary(WORDS, list(range(len(WORDS), 0, -1)), sentences=10)


def tiny_backbone():
    pixels = keras.Input((SIZE, SIZE, 3), name="pixels")
    x = layers.Rescaling(1 / 127.5, -1, name="preprocess")(pixels)
    x = layers.Conv2D(8, 3, 4, "same", activation="relu", name="conv0")(x)
    x = layers.Conv2D(FEATURES, 3, 2, "same", activation="relu", name="conv1")(x)
    return keras.Model(pixels, x, name="tiny_backbone")


def tiny_detector():
    pixels = keras.Input((SIZE, SIZE, 3), name="pixels")
    x = layers.Rescaling(1 / 127.5, -1, name="preprocess")(pixels)
    fine = layers.Conv2D(8, 3, 16, "same", activation="relu", name="conv")(x)
    coarse = layers.AveragePooling2D(2, name="pool")(fine)
    heads = [layers.Conv2D(3 * (5 + CLASSES), 1, name=f"head{i}")(x) for i, x in enumerate((coarse, fine))]
    boxes, scores, classes = SelectBoxes(19, name="select_boxes")(DecodeBoxes(name="decode_boxes")(heads))
    return keras.Model(pixels, {"boxes": boxes, "box_scores": scores, "class_scores": classes}, name="tiny_detector")


def tiny_photo_model(cell="lstm", seed=0, whole=True, classes=False, attention=0, **settings):
    """A PhotoModel with random weights; `whole=False` leaves out regions and alignment.

    With `classes`, both captioners know the detector's classes; with `attention` the captioner looks at regions.
    """
    keras.utils.set_random_seed(seed)
    settings = {"beam": 3, "captions": 3, "max_length": 10, "beta": 0.5, **settings}
    backbone, detector = tiny_backbone(), tiny_detector()
    known = {"classes": CLASSES if classes else 0}
    shape = {"cell": cell, "units": 24, "word_dim": 12, "max_words": 10}
    captioner = build_captioner(FEATURES, len(WORDS), **shape, **known, attention=attention)
    if not whole:
        return PhotoModel(backbone, captioner=Run.of(captioner, VOCABULARY, {"cell": cell}), **settings)
    shape |= {"units": 12, "word_dim": 8}
    region_captioner = build_captioner(2 * FEATURES, len(WORDS), **shape, **known)
    alignment = build_alignment(
        FEATURES, len(WORDS), dim=12, units=10, word_dim=8, dropout=0.0, classes=CLASSES, max_words=12
    )
    return PhotoModel(
        backbone,
        detector,
        captioner=Run.of(captioner, VOCABULARY, {"cell": cell}, {"cider": 50.0}),
        region_captioner=Run.of(region_captioner, VOCABULARY),
        alignment=Run.of(alignment, VOCABULARY),
        **settings,
    )


def teach(photo_model, photos, epochs=60):
    """Trains the captioner on a made-up sentence for each photo, so that captions differ and ties are rare."""
    pixels, _ = photo_model._decode(tf.constant(photos))
    captioner = photo_model.captioner.model
    features = photo_model.frame_features(pixels).numpy()
    found = {**photo_model.look(pixels), "image_features": features}
    image = {name: np.asarray(found[name]) for name in captioner.looks_at}
    set_feature_centring(captioner, features.mean(axis=0), 1 / features.std())
    rng = np.random.default_rng(0)
    length = captioner.input["token_ids"].shape[1]
    sentences = np.zeros((len(photos), length), np.int32)
    for row in sentences:
        words = rng.integers(3, length)
        row[:words] = rng.integers(1, len(WORDS) + 1, words)
    captioner.compile(keras.optimizers.Adam(0.02))
    pairs = tf.data.Dataset.from_tensor_slices({**image, "token_ids": sentences})
    captioner.fit(pairs.batch(16), epochs=epochs, verbose=0)
