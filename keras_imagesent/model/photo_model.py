"""Photos in, captions, descriptions and alignments out: one truth for the command line and every exported model."""

import copy

import tensorflow as tf

from keras_imagesent.alignment.encode import phrase_words
from keras_imagesent.alignment.max_sim import own_scores
from keras_imagesent.alignment.phrases import decode_phrases_in_graph
from keras_imagesent.alignment.region_encoder import region_inputs
from keras_imagesent.captioning.beam_search import beam_search
from keras_imagesent.captioning.captioner import Decoder
from keras_imagesent.data.graph_tokenizer import SentenceToIds, close_gaps
from keras_imagesent.errors import InputError
from keras_imagesent.model.caption_search import search_settings
from keras_imagesent.model.rerank import caption_ranks, combine, is_broken
from keras_imagesent.model.run import BETA, find_run, load_keras
from keras_imagesent.regions.coco_labels import COCO_LABELS
from keras_imagesent.regions.extractor import build_extractor
from keras_imagesent.regions.photo import OK, decode_pixels
from keras_imagesent.regions.pool_regions import PoolRegions
from keras_imagesent.shipped import shipped

IMAGE_BYTES = tf.TensorSpec([None], tf.string, "image_bytes")
SENTENCES = tf.TensorSpec([None], tf.string, "sentences")
BOX = tf.TensorSpec([None, 4], tf.float32, "box")
MOST_TYPED_WORDS = 40  # longer sentences are cut: every answer has the same shape
RERANK_BEAM = 20  # on photos set aside CIDEr rose with the number ranked anew: 5, 10, 20, 40 gave 49, 52, 54, 57
LARGEST_FEATURE = 1e4  # what a client may send as a feature; beyond it the sums may overflow


def load_photo_model(
    backbone=None,
    detector=None,
    alignment=None,
    captioner=None,
    region_captioner=None,
    **search,
):
    """Loads the models from their run folders or `.keras` files; None takes the shipped one, False leaves it out.

    A captioner that looks at regions brings the detector with it, even where that is False.

    `search` holds `beam`, `captions`, `max_length`, `length_penalty`, `beta` and `rerank` of `PhotoModel`.

    Example:
        >>> model = load_photo_model(captioner="runs/captioner")
        >>> model.caption(tf.constant([jpeg]))["captions"]
    """
    captioner = find_run(captioner, "captioner")
    with_detector = detector is not False or looks_at_regions(captioner)
    return PhotoModel(
        load_keras(backbone or shipped("backbone.keras"), "backbone"),
        load_keras(detector or shipped("detector.keras"), "detector") if with_detector else None,
        captioner=captioner,
        region_captioner=find_run(region_captioner, "region_captioner"),
        alignment=find_run(alignment, "alignment"),
        **search,
    )


def looks_at_regions(captioner):
    """Whether the captioner of a `Run` looks at more than the whole frame."""
    return captioner is not None and captioner.model.looks_at != ["image_features"]


class PhotoModel(tf.Module):
    """Every answer of the product as a `tf.function` from encoded photos.

    A photo that cannot be decoded gets empty captions, zeros, and the reason in its own row of `status`. Every output
    has one row a photo, of a shape that does not depend on the batch, and no number is ever NaN or infinite.

    Args:
        backbone: pixels (B,S,S,3) -> feature map.
        detector: pixels -> boxes and scores; None if only whole photos are captioned, by their frames.
        captioner, region_captioner, alignment: `Run`s; None leaves the functions out that need them.
        beam, length_penalty: of the beam search; None takes what each captioner's settings say, else 3 and 0.7; with
            `rerank`, a beam of 20, all of which are ranked anew.
        captions: how many for a photo; None is 3, or the beam if that is smaller.
        max_length: most words of a caption.
        beta: strength of the MRF's ties between neighbouring words (Eq. 12); None takes the alignment's own, else 1.
        rerank: weight of the alignment's score of a caption beside its normalized log probability.
    """

    def __init__(
        self,
        backbone,
        detector=None,
        captioner=None,
        region_captioner=None,
        alignment=None,
        beam=None,
        captions=None,
        max_length=20,
        length_penalty=None,
        beta=None,
        rerank=0.0,
    ):
        super().__init__(name="photo_model")
        own_beam, self.length_penalty = search_settings(captioner, beam, length_penalty)
        self.beam = RERANK_BEAM if rerank and beam is None else own_beam
        self._region_search = search_settings(region_captioner, beam, length_penalty)
        self.n_captions = min(3, self.beam) if captions is None else captions
        if not 1 <= self.n_captions <= self.beam:
            raise InputError(f"{captions} captions need a beam of as many, and at least 1; the beam is {self.beam}")
        self.backbone = backbone
        self.image_size = backbone.input_shape[1]
        self.feature_dim = backbone.output_shape[-1]
        for part in (captioner, region_captioner, alignment):
            self._check_size(part)
        if detector is None and looks_at_regions(captioner):
            raise InputError("the captioner looks at the photo's regions: it needs a detector")
        self.extractor = build_extractor(backbone, detector) if detector is not None else None
        for part in (captioner, region_captioner):
            self._check_classes(part)
        named = detector is not None and detector.name == "yolov4_tiny"
        self.labels = list(COCO_LABELS) if named else []
        self.captioner, self.region_captioner, self.alignment = captioner, region_captioner, alignment
        self.max_length, self.rerank = max_length, rerank
        self.beta = (alignment.beta if alignment else BETA) if beta is None else beta
        self._pool = PoolRegions(name="pool_frame")
        self._prepare_tracing()
        if alignment:
            self._sentence_to_ids = SentenceToIds(alignment.vocabulary)
            self.word_table = self._sentence_to_ids.table
            self.region_encoder = alignment.model.get_layer("region_encoder")
            self.sentence_encoder = alignment.model.get_layer("sentence_encoder")
            self.max_words = self.sentence_encoder.input["token_ids"].shape[-1]

    def _prepare_tracing(self):
        """Functions that are traced once and called by every answer: the graphs stay small and the export quick."""
        pixels = tf.TensorSpec([None, self.image_size, self.image_size, 3], name="pixels")
        self._decode = tf.function(self._decode_photos, input_signature=[IMAGE_BYTES], autograph=False)
        self._extract = tf.function(self._extract_regions, input_signature=[pixels], autograph=False)
        if self.captioner:
            dim = self.captioner.model.input["image_features"].shape[-1]
            self.caption_features = tf.function(
                self._caption_features, input_signature=self.caption_inputs(dim), autograph=False
            )

    def untraced(self):
        """The same models and settings with no graph traced yet, to trace under other conditions."""
        twin = copy.copy(self)
        twin._prepare_tracing()
        return twin

    def _check_size(self, part):
        """A part that learned from another backbone's vectors is refused."""
        if part is None:
            return
        if part.settings.get("sentences") == "trees":
            raise InputError("an alignment of dependency edges cannot answer: its sentences need a parser")
        if (part.settings.get("vectors") or {}).get("region_vectors") == "crop":
            raise InputError(
                f"the {part.model.name} has learned from cropped regions, and photos are answered with pooled ones: "
                "measure it with `imagesent evaluate` on a folder that was prepared with --region-vectors crop"
            )
        name = "image_features" if "image_features" in part.model.input else "region_features"
        takes = part.model.input[name].shape[-1]
        if takes not in (self.feature_dim, 2 * self.feature_dim):
            raise InputError(
                f"the {part.model.name} takes vectors of {takes} numbers, the backbone gives {self.feature_dim}: "
                "name the backbone that it was trained with"
            )

    def _check_classes(self, part):
        """A captioner that knows the classes of another detector is refused; one that names nothing is not."""
        if part is None or "class_scores" not in part.model.input or self.extractor is None:
            return
        takes = part.model.input["class_scores"].shape[-1]
        given = self.extractor.output["class_scores"].shape[-1] if "class_scores" in self.extractor.output else 0
        if given not in (0, takes):
            raise InputError(
                f"the captioner was trained with a detector of {takes} classes, this one has {given}: "
                "take the detector it was trained with"
            )

    # --- the answers ---

    @tf.function(input_signature=[IMAGE_BYTES], autograph=False)
    def caption(self, image_bytes):
        """Photos (B,) -> the n best `captions`, their `log_probs` (B,N), `status` (B,)."""
        pixels, status = self._decode(image_bytes)
        return self._caption(status, self.look(pixels))

    @tf.function(input_signature=[IMAGE_BYTES], autograph=False)
    def describe(self, image_bytes):
        """Photos (B,) -> `boxes` (B,R,4), and for each region (B,R) `box_scores`, the detector's `labels`, a caption
        and its log probability."""
        pixels, status = self._decode(image_bytes)
        return self._describe(status, self._extract(pixels))

    @tf.function(input_signature=[IMAGE_BYTES, BOX], autograph=False)
    def describe_box(self, image_bytes, box):
        """Photos (B,) and a box in each (B,4), chosen by the caller, in 0..1 -> `captions` and `log_probs` (B,)."""
        found = self.describe_boxes(image_bytes, box[:, None])
        return {name: found[name][:, 0] for name in ("captions", "log_probs", "status")}

    @tf.function(autograph=False)  # no signature: one graph for each number of boxes
    def describe_boxes(self, image_bytes, boxes):
        """Photos (B,) and N boxes in each (B,N,4), chosen by the caller -> `captions`, `log_probs`, `status` (B,N).

        No detector has named what is in the boxes: their class scores are 0.
        """
        pixels, status = self._decode(image_bytes)
        corners = tf.clip_by_value(boxes, 0.0, 1.0)
        status = tf.broadcast_to(status[:, None], tf.shape(corners)[:2])
        good = tf.reduce_all(corners[..., :2] < corners[..., 2:], axis=2) & (status == OK)  # NaN is no box either
        frame = tf.constant([0.0, 0.0, 1.0, 1.0])
        own = tf.where(good[..., None], corners, frame)
        own = tf.concat([tf.broadcast_to(frame, tf.shape(own[:, :1])), own], axis=1)  # the frame first: (B,1+N,4)
        vectors = self._pool([self.backbone(pixels, training=False), own])
        token_ids, log_probs = self.region_captions_of({"region_features": vectors})
        words = join_words(token_ids, self.region_captioner.vocabulary)
        nothing = "a box has x0 < x1 and y0 < y1, all from 0 to 1"
        return {
            "captions": tf.where(good, words[:, 1:], ""),
            "log_probs": tf.where(good, log_probs[:, 1:], 0.0),
            "status": tf.where(good | (status != OK), status, nothing),
        }

    @tf.function(input_signature=[IMAGE_BYTES, SENTENCES], autograph=False)
    def align(self, image_bytes, sentences):
        """Photos and sentences (B,) -> each word's region by the MRF, the similarities that decide it, with the
        detector's prior in full (`phrase_words`), and the score as trained (Eq. 8)."""
        pixels, status = self._decode(image_bytes)
        return self._align(status, self._extract(pixels), sentences)

    @tf.function(input_signature=[IMAGE_BYTES], autograph=False)
    def describe_whole(self, image_bytes):
        """Photos (B,) -> what `caption`, `describe` and `align` (of the best caption) say of them, by these names;
        each photo is decoded and looked at once."""
        pixels, status = self._decode(image_bytes)
        found = self._extract(pixels)
        captions = self._caption(status, found)
        return {
            "caption": captions,
            "describe": self._describe(status, found),
            "align": self._align(status, found, captions["captions"][:, 0]),
        }

    @tf.function(input_signature=[IMAGE_BYTES], autograph=False)
    def embed_image(self, image_bytes):
        """Photos (B,) -> the region vectors `regions` (B,R,D) (Eq. 1), `region_mask`, `boxes`, `box_scores`."""
        pixels, status = self._decode(image_bytes)
        return self._embed_image(status, self._extract(pixels))

    @tf.function(input_signature=[SENTENCES], autograph=False)
    def embed_sentence(self, sentences):
        """Sentences (B,) -> the word vectors `word_vectors` (B,T,D) (Eq. 6), `token_ids` and `word_mask` (B,T)."""
        _, token_ids, _ = self._tokenize(sentences)
        mask = token_ids > 0
        vectors = self.sentence_encoder({"token_ids": token_ids})
        vectors = tf.where(mask[:, :, None], vectors, 0.0)
        return {"word_vectors": vectors, "token_ids": token_ids, "word_mask": mask}

    # --- the answers, from what the detector found ---

    def _caption(self, status, found):
        """The answer of `caption` from what `look` found."""
        if self.rerank:
            token_ids, log_probs = self._rerank(*self.captions_of(found, captions=self.beam), found)
        else:
            token_ids, log_probs = self.captions_of(found)
        decoded = status == OK
        return {
            "captions": tf.where(decoded[:, None], join_words(token_ids, self.captioner.vocabulary), ""),
            "log_probs": tf.where(decoded[:, None], log_probs, 0.0),
            "status": status,
        }

    def _describe(self, status, found):
        mask = found["region_mask"] & (status == OK)[:, None]
        token_ids, log_probs = self.region_captions_of(found)
        words = join_words(token_ids, self.region_captioner.vocabulary)
        return {
            "boxes": tf.where(mask[:, :, None], found["boxes"], 0.0),
            "box_scores": tf.where(mask, found["box_scores"], 0.0),
            "labels": tf.where(mask, self._labels(found), ""),
            "captions": tf.where(mask, words, ""),
            "log_probs": tf.where(mask, log_probs, 0.0),
            "number_of_regions": tf.reduce_sum(tf.cast(mask, tf.int32), axis=1),
            "status": status,
        }

    def _align(self, status, found, sentences):
        images = self._embed_image(status, found)
        typed, token_ids, place = self._tokenize(sentences)
        mask = images["region_mask"]
        word_mask = (token_ids > 0) & tf.reduce_any(mask, axis=1)[:, None]
        vectors = self.sentence_encoder({"token_ids": token_ids})
        aligned = self.align_vectors(token_ids, vectors, images["regions"], mask)
        similarity, regions = aligned["similarity"], aligned["phrase_regions"]
        known = (place >= 0) & tf.gather(word_mask, tf.maximum(place, 0), batch_dims=1)  # (B,W): typed, in vocabulary
        slots = tf.maximum(place, 0)
        return {
            "words": typed,
            "word_mask": known,
            "boxes": images["boxes"],
            "box_scores": images["box_scores"],
            "region_mask": mask,
            "similarity": tf.where(known[:, :, None], tf.gather(similarity, slots, batch_dims=1), 0.0),
            "phrase_regions": tf.where(known, tf.gather(regions, slots, batch_dims=1), -1),
            "score": aligned["score"],
            "status": images["status"],
        }

    def _caption_features(self, *values):
        """What the captioner looks at, by its own inputs: the image vectors and, if it wants them, the regions too."""
        found, finite = dict(zip(self.captioner.model.looks_at, values, strict=True)), True
        for name, value in found.items():
            if value.dtype == tf.bool:
                continue
            good = tf.abs(value) <= LARGEST_FEATURE  # False for NaN as well
            finite = finite & tf.reduce_all(good, axis=list(range(1, len(value.shape))))
            found[name] = tf.where(good, tf.maximum(value, 0.0) if name == "class_scores" else value, 0.0)
        token_ids, log_probs = self.captions_of(found, joined=True)
        return {
            "captions": tf.where(finite[:, None], join_words(token_ids, self.captioner.vocabulary), ""),
            "log_probs": tf.where(finite[:, None], log_probs, 0.0),
            "status": tf.where(finite, OK, "a feature is NaN, infinite or beyond 10,000"),
        }

    def _labels(self, found):
        """What the detector calls each region (B,R); empty where it has no name for it."""
        if not self.labels:
            return tf.zeros_like(found["box_scores"], tf.string)
        scores = found["class_scores"]
        names = tf.gather(tf.constant(self.labels), tf.argmax(scores, axis=2))
        return tf.where(tf.reduce_max(scores, axis=2) > 0, names, "")

    def _decode_photos(self, image_bytes):
        return decode_pixels(image_bytes, self.image_size)

    def _extract_regions(self, pixels):
        return self.extractor(pixels, training=False)

    # --- from pixels and features: what ONNX and LiteRT take ---

    def frame_features(self, pixels):
        """Pixels (B,S,S,3) -> the whole frame's vector (B,F): the mean of the feature map."""
        return self.frame_of(self.backbone(pixels, training=False))

    def frame_of(self, feature_map):
        """Feature map (B,h,w,F) -> the whole frame's vector (B,F)."""
        frame = tf.tile([[[0.0, 0.0, 1.0, 1.0]]], [tf.shape(feature_map)[0], 1, 1])
        return self.features_of(feature_map, frame)[:, 0]

    def features_of(self, feature_map, boxes):
        """Feature map and boxes (B,R,4) -> the boxes' vectors (B,R,F)."""
        return self._pool([feature_map, boxes])

    def look(self, pixels):
        """Pixels (B,S,S,3) -> what the captioner looks at: the frame's `image_features` or, if need be, the regions."""
        if self.rerank or looks_at_regions(self.captioner):
            return self._extract(pixels)
        return {"image_features": self.frame_features(pixels)}

    def caption_inputs(self, dim):
        """The `tf.TensorSpec`s of what the captioner looks at, with image vectors of `dim` numbers."""
        inputs = self.captioner.model.input
        regions = self.extractor.output["boxes"].shape[1] if self.extractor is not None else None
        return [
            tf.TensorSpec([None, dim] if name == "image_features" else [None, regions, *inputs[name].shape[2:]],
                          inputs[name].dtype, name)
            for name in self.captioner.model.looks_at
        ]  # fmt: skip

    def captions_of(self, found, joined=False, captions=None):
        """What is known of photos (`look`) -> `token_ids (B,N,T)`, `log_probs (B,N)` by beam search."""
        image = {name: found[name] for name in self.captioner.model.looks_at if name in found}
        if "image_features" not in image:
            image["image_features"] = found["region_features"][:, 0]
        if not joined:
            image["image_features"] = self._widen(image["image_features"], image["image_features"], self.captioner)
        if "class_scores" in self.captioner.model.input and "class_scores" not in found:
            image["class_scores"] = self._no_classes(image["image_features"][:, :1], self.captioner)
        return self._search(image, self.captioner, captions or self.n_captions, self.beam, self.length_penalty)

    def region_captions_of(self, found):
        """Region vectors `region_features (B,R,F)` and, if the captioner knows classes, `class_scores (B,R,C)` -> the
        best caption of each: `token_ids (B,R,T)`, `log_probs (B,R)`."""
        regions, dim = found["region_features"].shape[1:]
        frame = tf.repeat(found["region_features"][:, 0], regions, axis=0)
        vectors = tf.reshape(found["region_features"], [-1, dim])
        image = {"image_features": self._widen(vectors, frame, self.region_captioner)}
        if "class_scores" in self.region_captioner.model.input:
            classes = found.get("class_scores")
            if classes is None:
                classes = self._no_classes(found["region_features"][..., 0], self.region_captioner)
            image["class_scores"] = tf.reshape(classes, [-1, 1, classes.shape[-1]])
        token_ids, log_probs = self._search(image, self.region_captioner, 1, *self._region_search)
        return tf.reshape(token_ids, [-1, regions, self.max_length]), tf.reshape(log_probs, [-1, regions])

    def _widen(self, features, frame, part):
        """Region + whole frame side by side, for a captioner that was trained so."""
        wanted = part.model.input["image_features"].shape[-1]
        return tf.concat([features, frame], axis=-1) if wanted == 2 * self.feature_dim else features

    def _no_classes(self, like, part):
        """Class scores (B,R,C) of a detector that names nothing; `like` is any (B,R)."""
        classes = part.model.input["class_scores"].shape[-1]
        return tf.zeros([tf.shape(like)[0], like.shape[1], classes])

    def _search(self, image, part, captions, beam, length_penalty):
        decoder, longest = Decoder(part.model, image), self.max_length
        return beam_search(decoder.step, decoder.states, decoder.start_id, beam, longest, captions, length_penalty)

    # --- alignment ---

    def align_vectors(self, token_ids, word_vectors, regions, region_mask):
        """Words (B,T), their vectors (B,T,D) and regions (B,R,D) -> `similarity (B,T,R)` with the detector's prior in
        full (`phrase_words`), each word's region `phrase_regions (B,T)` by the MRF, and the `score (B,)` as trained."""
        word_mask = (token_ids > 0) & tf.reduce_any(region_mask, axis=1)[:, None]
        there = word_mask[:, :, None] & region_mask[:, None, :]
        trained, similarity = (
            tf.where(there, tf.matmul(words, regions, transpose_b=True), 0.0)  # (B,T,R)
            for words in (word_vectors, phrase_words(self.alignment.model, word_vectors))
        )
        return {
            "similarity": similarity,
            "phrase_regions": decode_phrases_in_graph(similarity, word_mask, region_mask, self.beta),
            "score": self._score(trained, word_mask, region_mask),
        }

    def regions_of(self, found):
        """A dict with `region_features`, `box_scores` and perhaps `class_scores` -> region vectors (B,R,D) (Eq. 1)."""
        return self.region_encoder(region_inputs(self.region_encoder, found))

    def _embed_image(self, status, found):
        mask = found["region_mask"] & (status == OK)[:, None]
        regions = self.regions_of(found)
        return {
            "regions": tf.where(mask[:, :, None], regions, 0.0),
            "region_mask": mask,
            "boxes": tf.where(mask[:, :, None], found["boxes"], 0.0),
            "box_scores": tf.where(mask, found["box_scores"], 0.0),
            "status": status,
        }

    def _score(self, similarity, word_mask, region_mask):
        """Similarities (B,T,R) of photos with their own sentences -> scores (B,), as trained (Eqs. 7, 8)."""
        scores = self.alignment.model.get_layer("scores")
        return own_scores(similarity, word_mask, region_mask, scores.score, scores.whole_frame)

    def _tokenize(self, sentences):
        """Sentences (B,) -> typed words (B,W), known words' ids (B,T), each typed word's place among them or -1."""
        most = self.max_words
        typed, ids = self._sentence_to_ids(sentences)
        known = tf.ragged.boolean_mask(ids, ids > 0).to_tensor(0, shape=[None, most])
        ids = ids.to_tensor(0, shape=[None, MOST_TYPED_WORDS])
        order = tf.cumsum(tf.cast(ids > 0, tf.int32), axis=1) - 1
        place = tf.where((ids > 0) & (order < most), order, -1)
        return typed.to_tensor("", shape=[None, MOST_TYPED_WORDS]), known, place

    def _rerank(self, token_ids, log_probs, found):
        """The best of all captions in the beam by normalized log probability + rerank * the alignment's score; broken
        ones come last."""
        mine, theirs = self.captioner.vocabulary, self.alignment.vocabulary
        other_id = [0, *((theirs.encode(word) or [0])[0] for word in mine.words)]
        ids = tf.gather(tf.constant(other_id, tf.int32), tf.reshape(token_ids, [-1, self.max_length]))
        ids = tf.ragged.boolean_mask(ids, ids > 0).to_tensor(0, shape=[None, self.max_words])  # (B*N,T)
        vectors = self.sentence_encoder({"token_ids": ids})
        regions = self.regions_of(found)
        regions = tf.repeat(regions, self.beam, axis=0)
        mask = tf.repeat(found["region_mask"], self.beam, axis=0)
        similarity = tf.einsum("btd,brd->btr", vectors, regions)
        score = tf.reshape(self._score(similarity, ids > 0, mask), [-1, self.beam])
        ranks = combine(caption_ranks(token_ids, log_probs, self.length_penalty), score, self.rerank)
        order = tf.argsort(ranks, direction="DESCENDING", stable=True)
        broken = tf.gather(is_broken(token_ids, mine), order, batch_dims=1)
        order = tf.gather(order, tf.argsort(tf.cast(broken, tf.int32), stable=True), batch_dims=1)
        order = order[:, : self.n_captions]
        return tf.gather(token_ids, order, batch_dims=1), tf.gather(log_probs, order, batch_dims=1)


def join_words(token_ids, vocabulary):
    """Ids (..., T), 0 from END on -> sentences (...)."""
    words = tf.gather(tf.constant(["", *vocabulary.words]), token_ids)
    sentences = tf.strings.strip(tf.strings.reduce_join(words, axis=-1, separator=" "))
    return sentences if all(map(str.isascii, vocabulary.words)) else close_gaps(sentences)
