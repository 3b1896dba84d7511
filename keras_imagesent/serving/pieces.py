"""The pieces that run without TensorFlow: from pixels, features and ids, not from files and sentences."""

import json

import tensorflow as tf

from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.serving.saved_model import describe_model


def pieces(photo_model):
    """Piece name -> (function, input specifications), for the parts that the model has. Every function returns a dict.

    - `image_encoder`: `pixels (B,S,S,3)` -> `image_features (B,F)`, the whole frame's vector
    - `caption_features`: `image_features` -> `token_ids (B,N,T)`, `log_probs (B,N)`: the whole beam search
    - `caption_pixels`: both in one: `pixels` -> `token_ids`, `log_probs`
    - `region_encoder`: `pixels` -> `boxes`, `box_scores`, `region_mask`, `region_features`, and the vectors `regions`
    - `caption_regions`: `region_features (B,R,F)` -> `token_ids (B,R,T)`, `log_probs (B,R)`
    - `sentence_encoder`: `token_ids (B,T)` -> `word_vectors (B,T,D)`

    Example:
        >>> function, specifications = pieces(photo_model)["caption_pixels"]
        >>> function(pixels)["token_ids"]
    """
    size, dim = photo_model.image_size, photo_model.feature_dim
    pixels = tf.TensorSpec([None, size, size, 3], tf.float32, "pixels")
    found = {"image_encoder": (lambda pixels: {"image_features": photo_model.frame_features(pixels)}, [pixels])}
    if photo_model.captioner:
        features = photo_model.caption_features.input_signature[0]
        found["caption_features"] = (
            lambda image_features: _said(photo_model.captions_of(image_features, True)),
            [features],
        )
        found["caption_pixels"] = (
            lambda pixels: _said(photo_model.captions_of(photo_model.frame_features(pixels))),
            [pixels],
        )
    if photo_model.extractor:
        found["region_encoder"] = photo_model.regions_of, [pixels]
    if photo_model.region_captioner:
        regions = tf.TensorSpec([None, 20, dim], tf.float32, "region_features")
        found["caption_regions"] = (
            lambda region_features: _said(photo_model.region_captions_of(region_features)),
            [regions],
        )
    if photo_model.alignment:
        token_ids = tf.TensorSpec([None, photo_model.max_words], tf.int32, "token_ids")
        found["sentence_encoder"] = (
            lambda token_ids: {"word_vectors": photo_model.sentence_encoder({"token_ids": token_ids})},
            [token_ids],
        )
    return found


def piece_part(photo_model, name):
    """The part whose vocabulary a piece speaks; None for those without words."""
    return {
        "caption_features": photo_model.captioner,
        "caption_pixels": photo_model.captioner,
        "caption_regions": photo_model.region_captioner,
        "sentence_encoder": photo_model.alignment,
    }.get(name)


def write_side_files(photo_model, folder):
    """`model.json` and the vocabularies beside the pieces."""
    for name, text in describe_model(photo_model).items():
        (folder / name).write_text(text, encoding="utf-8")


def words_json(vocabulary: Vocabulary):
    """The words by id as JSON: entry 0 is END, an empty word."""
    return json.dumps(["", *vocabulary.words], ensure_ascii=False)


def _said(found):
    token_ids, log_probs = found
    return {"token_ids": token_ids, "log_probs": log_probs}
