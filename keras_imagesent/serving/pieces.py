"""The pieces that run without TensorFlow: from pixels, features and ids, not from files and sentences."""

import keras
import tensorflow as tf


def pieces(photo_model):
    """Piece name -> (function, input specifications), for the parts that the model has. Every function returns a dict.

    The pieces share one image encoder and one detector; what one gives under a name, another takes under that name.

    - `image_encoder`: `pixels (B,S,S,3)` -> `feature_map (B,h,w,F)`, `image_features (B,F)`, the whole frame's vector
    - `detector`: `pixels` -> `boxes (B,R,4)`, `box_scores`, `region_mask (B,R)` and, if it names things, `class_scores`
    - `region_encoder`: `feature_map`, `boxes`, ... -> `region_features (B,R,F)`, `regions (B,R,D)` with an alignment
    - `captioner`: `image_features` -> `token_ids (B,N,T)`, `log_probs (B,N)`: the whole beam search; a captioner with
      attention takes `region_features` and `region_mask` too, one that knows classes `class_scores`
    - `region_captioner`: `region_features`, and `class_scores` if it knows classes -> `token_ids (B,R,T)`,
      `log_probs (B,R)`
    - `sentence_encoder`: `token_ids (B,T)` -> `word_vectors (B,T,D)`
    - `alignment`: `token_ids`, `word_vectors`, `regions`, `region_mask` -> `similarity (B,T,R)`, each word's region
      `phrase_regions (B,T)`, and the `score (B,)` of photo and sentence
    - `caption_pixels`: image encoder, captioner and what lies between in one file, for programs that only write
      captions

    Example:
        >>> function, specifications = pieces(photo_model)["captioner"]
        >>> function(image_features)["token_ids"]
    """
    size, dim = photo_model.image_size, photo_model.feature_dim
    pixels = tf.TensorSpec([None, size, size, 3], tf.float32, "pixels")
    feature_map = tf.TensorSpec([None, *photo_model.backbone.output_shape[1:]], tf.float32, "feature_map")

    def encode_image(pixels):
        feature_map = photo_model.backbone(pixels, training=False)
        return {"feature_map": feature_map, "image_features": photo_model.frame_of(feature_map)}

    found = {"image_encoder": (encode_image, [pixels])}
    if photo_model.captioner:
        found_out = {"image_features", *(photo_model.extractor.output if photo_model.extractor else ())}
        looked_at = [each for each in photo_model.caption_inputs(dim) if each.name in found_out]

        def caption(*values):
            names = [specification.name for specification in looked_at]
            return _said(photo_model.captions_of(dict(zip(names, values, strict=True))))

        found["captioner"] = caption, looked_at
        found["caption_pixels"] = lambda pixels: _said(photo_model.captions_of(photo_model.look(pixels))), [pixels]
    if photo_model.extractor:
        extractor = photo_model.extractor
        outputs = {name: output for name, output in extractor.output.items() if name != "region_features"}
        detector = keras.Model(extractor.input, outputs, name="detector")  # without the backbone
        found["detector"] = lambda pixels: detector(pixels, training=False), [pixels]
        number = extractor.output["boxes"].shape[1]
        known = {"boxes": (number, 4)}
        if photo_model.alignment:
            known |= {
                name: (number, *outputs[name].shape[2:]) for name in photo_model.region_encoder.input if name in outputs
            }

        def encode_regions(feature_map, *found):
            found = dict(zip(known, found, strict=True))
            found["region_features"] = photo_model.features_of(feature_map, found["boxes"])
            answer = {"region_features": found["region_features"]}
            if photo_model.alignment:
                regions = photo_model.regions_of(found)
                answer["regions"] = tf.ensure_shape(regions, [None, number, regions.shape[-1]])
            return answer

        specifications = [tf.TensorSpec([None, *shape], tf.float32, name) for name, shape in known.items()]
        found["region_encoder"] = encode_regions, [feature_map, *specifications]
        if photo_model.region_captioner:
            described = [tf.TensorSpec([None, number, dim], tf.float32, "region_features")]
            if "class_scores" in photo_model.region_captioner.model.input and "class_scores" in outputs:
                described.append(
                    tf.TensorSpec([None, number, outputs["class_scores"].shape[-1]], tf.float32, "class_scores")
                )

            def describe(*values):
                names = [specification.name for specification in described]
                return _said(photo_model.region_captions_of(dict(zip(names, values, strict=True))))

            found["region_captioner"] = describe, described
    if photo_model.alignment:
        token_ids = tf.TensorSpec([None, photo_model.max_words], tf.int32, "token_ids")
        found["sentence_encoder"] = (
            lambda token_ids: {"word_vectors": photo_model.sentence_encoder({"token_ids": token_ids})},
            [token_ids],
        )
        if photo_model.extractor:
            space = photo_model.sentence_encoder.output.shape[-1]
            found["alignment"] = (
                photo_model.align_vectors,
                [
                    token_ids,
                    tf.TensorSpec([None, photo_model.max_words, space], tf.float32, "word_vectors"),
                    tf.TensorSpec([None, number, space], tf.float32, "regions"),
                    tf.TensorSpec([None, number], tf.bool, "region_mask"),
                ],
            )
    return found


WHOLE = "caption_pixels"  # the one piece that is made of others; the rest share the image encoder


def chosen_pieces(photo_model, names=None):
    """The pieces of these names; None takes all that share the image encoder, none of which holds another."""
    return {name: piece for name, piece in pieces(photo_model).items() if (name in names if names else name != WHOLE)}


def piece_part(photo_model, name):
    """The part whose vocabulary a piece speaks; None for those without words."""
    return {
        "captioner": photo_model.captioner,
        "caption_pixels": photo_model.captioner,
        "region_captioner": photo_model.region_captioner,
        "sentence_encoder": photo_model.alignment,
    }.get(name)


def _said(found):
    token_ids, log_probs = found
    return {"token_ids": token_ids, "log_probs": log_probs}
