"""What a captioner learns from: (image vector, sentence) pairs of whole photos, of regions, or of both."""

import copy
import json

import numpy as np

from keras_imagesent.data.batches import MAX_WORDS, pad_sentences
from keras_imagesent.errors import InputError


class CaptionPairs:
    """Pairs of a region and its sentence, with the region vectors in memory as float16.

    Args:
        region_features: (N, R, F); region 0 is the whole frame.
        rows, regions: (P,) the photo and the region of each pair.
        sentences: list of P lists of word ids, and `texts` the same as people wrote them.
        frame: whether the whole frame's vector stands beside the region's (2 F numbers).
        looks_at: what a captioner of whole photos looks at beside, by name: arrays (N, R, ...), such as `class_scores`.
        region_classes: class scores (N, R, C), of which a captioner of regions looks at the described region's.
        max_words: sentences are cut or padded with 0 to this many ids.

    Example:
        >>> pairs = CaptionPairs.of_photos(prepared.load("train"))
        >>> for batch in pairs.batches(batch_size=100, seed=0, epoch=3):
        ...     batch["image_features"], batch["token_ids"]  # (100, F) float32, (100, 20) int32
    """

    def __init__(
        self,
        region_features,
        rows,
        regions,
        sentences,
        texts,
        frame=False,
        looks_at=None,
        region_classes=None,
        max_words=MAX_WORDS,
    ):
        self.region_features, self.frame, self.texts = region_features, frame, texts
        self.looks_at, self.region_classes = looks_at or {}, region_classes
        self.rows, self.regions = np.asarray(rows), np.asarray(regions)
        self.token_ids = pad_sentences(sentences, max_words)

    @classmethod
    def as_regions(cls, photos, frame=False, classes=False):
        """Every photo with each of its sentences, for a captioner of regions: the frame is one, of no class."""
        pairs = cls.of_photos(photos, frame)
        pairs.region_classes = photos.class_scores if classes else None
        return pairs

    @classmethod
    def of_photos(cls, photos, frame=False, classes=False, attention=False, max_words=MAX_WORDS):
        """Every photo with each of its sentences.

        With `classes`, the detector's class scores of all regions are looked at, with `attention` their vectors too.
        """
        rows = np.repeat(np.arange(len(photos.token_ids)), [len(group) for group in photos.token_ids])
        sentences = [words for group in photos.token_ids for words in group]
        texts = [text for group in photos.captions for text in group]
        names = ["class_scores"] * bool(classes) + ["region_features", "region_mask"] * bool(attention)
        looks_at = {name: getattr(photos, name) for name in names}
        frames = photos.region_features[:, :1]
        return cls(frames, rows, np.zeros_like(rows), sentences, texts, frame, looks_at, None, max_words)

    @classmethod
    def of_regions(cls, path, photos, vocabulary, frame=False, whole_photos=False, classes=False, max_words=MAX_WORDS):
        """The (region, snippet) pairs that `imagesent align` wrote; with `whole_photos`, the whole sentences too.

        With `classes`, the detector's class scores of the described region are looked at.
        """
        row_of = {filename: row for row, filename in enumerate(photos.filenames)}
        rows, regions, sentences, texts = [], [], [], []
        for filename, region, snippet in read_pairs(path):
            words = vocabulary.encode(snippet)
            if filename in row_of and words:
                if region not in np.flatnonzero(photos.region_mask[row_of[filename]]):
                    raise InputError(f"{path}: {filename} has no region {region}; align the folder you train on")
                rows.append(row_of[filename])
                regions.append(region)
                sentences.append(words)
                texts.append(snippet)
        if not rows:
            raise InputError(f"{path}: none of its pairs is of a photo of this split: align the same folder and split")
        if whole_photos:
            whole = cls.of_photos(photos)
            rows, regions = [*rows, *whole.rows], [*regions, *whole.regions]
            sentences += [words for group in photos.token_ids for words in group]
            texts += whole.texts
        own = photos.class_scores if classes else None
        return cls(photos.region_features, rows, regions, sentences, texts, frame, {}, own, max_words)

    def __len__(self):
        return len(self.rows)

    @property
    def feature_dim(self):
        return self.region_features.shape[-1] * (1 + self.frame)

    @property
    def classes(self):
        """How many classes of the detector are looked at."""
        return self.inputs(np.arange(1)).get("class_scores", np.zeros((1, 1, 0))).shape[-1]

    def features(self, pairs):
        """Image vectors (n, F or 2F) float32 of some pairs."""
        rows = self.rows[pairs]
        parts = [self.region_features[rows, self.regions[pairs]]]
        parts += [self.region_features[rows, 0]] if self.frame else []
        return np.concatenate(parts, axis=1).astype(np.float32)

    def inputs(self, pairs):
        """What a captioner looks at for some pairs: `image_features (n, F)` and the rest by name, as in the shards."""
        rows = self.rows[pairs]
        inputs = {"image_features": self.features(pairs)} | {name: x[rows] for name, x in self.looks_at.items()}
        if self.region_classes is not None:
            inputs["class_scores"] = self.region_classes[rows, self.regions[pairs]][:, None]  # (n, 1, C)
        return inputs

    def items(self):
        """What is described: a pair of each distinct photo or region (M,), and the item of every pair (P,)."""
        keys = self.rows.astype(np.int64) * self.region_features.shape[1] + self.regions
        _, first, item = np.unique(keys, return_index=True, return_inverse=True)
        return first, item

    def hold_out(self, share, seed=0):
        """Two parts without a photo in common; the second has about `share` of the photos."""
        photos = np.unique(self.rows)
        held = np.random.default_rng(seed).permutation(photos)[: max(1, round(share * len(photos)))]
        mask = np.isin(self.rows, held)
        return self.part(np.flatnonzero(~mask)), self.part(np.flatnonzero(mask))

    def part(self, pairs):
        """Some of the pairs, the vectors shared."""
        part = copy.copy(self)
        part.rows, part.regions, part.token_ids = self.rows[pairs], self.regions[pairs], self.token_ids[pairs]
        part.texts = [self.texts[pair] for pair in pairs]
        return part

    def mean_and_scale(self):
        """What centres the vectors, and brings their mean spread to 1."""
        some = self.features(np.random.default_rng(0).permutation(len(self))[:20000])
        mean = some.mean(axis=0)
        return mean, float(1 / max(1e-6, (some - mean).std()))

    def region_mean(self):
        """The mean vector (F,) of the regions that attention looks at, of some of the photos."""
        some = np.random.default_rng(0).permutation(len(self.region_features))[:2000]
        present = self.looks_at["region_mask"][some]
        return self.looks_at["region_features"][some][present].mean(axis=0, dtype=np.float32)

    def log_frequencies(self, vocabulary_size):
        """Log of each output's share in the sentences, END counted once a sentence: float32 (V+1,)."""
        counts = np.bincount(self.token_ids.ravel(), minlength=vocabulary_size + 1).astype(np.float64)
        counts[0] = len(self)
        counts = np.maximum(counts, 1)  # a word that only the whole captions have
        return np.log(counts / counts.sum()).astype(np.float32)

    def steps(self, batch_size):
        return -(-len(self) // batch_size)

    def order(self, batch_size, seed, epoch):
        """Which pairs each batch of an epoch holds; a function of `seed` and `epoch` alone."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self))
        return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def batches(self, batch_size=100, seed=0, epoch=0, start_step=0, share=None):
        """A `tf.data.Dataset` of one epoch's batches from `start_step` on; with a `training.workers.Share`, this
        worker's parts of each batch, one after the other."""
        import tensorflow as tf

        def generate():
            batches = self.order(batch_size, seed, epoch)[start_step:]
            for pairs in batches if share is None else [part for batch in batches for part in share.parts(batch)]:
                yield {**self.inputs(pairs), "token_ids": self.token_ids[pairs]}

        signature = {**self.signature(), "token_ids": tf.TensorSpec((None, self.token_ids.shape[1]), tf.int32)}
        batches = tf.data.Dataset.from_generator(generate, output_signature=signature)

        def widen(batch):
            return {name: tf.cast(x, tf.float32) if x.dtype == tf.float16 else x for name, x in batch.items()}

        return batches.map(widen).prefetch(2)

    def signature(self, half=None):
        """The `tf.TensorSpec`s of `inputs`; `half` is what becomes of float16, None leaves it."""
        import tensorflow as tf

        one = self.inputs(np.arange(1)).items()
        return {
            name: tf.TensorSpec((None, *x.shape[1:]), half if half and x.dtype == np.float16 else x.dtype)
            for name, x in one
        }


def _is_region(number):
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1000


def write_pair(file, photo, phrase, snippet):
    """Writes one line of a file of (region, snippet) pairs, which `read_pairs` reads.

    Args:
        file: a text file open for writing.
        photo: dict with the photo's `filename` and `photo_id`.
        phrase: dict with the `region`, `box` and `score` of the phrase that the snippet was cut from.
        snippet: what is said of the region.
    """
    where = {"region": phrase["region"], "box": phrase["box"]}
    file.write(json.dumps({**photo, **where, "snippet": snippet, "score": phrase["score"]}, ensure_ascii=False) + "\n")


def read_pairs(path):
    """`(filename, region, snippet)` of every line of a JSON Lines file of `imagesent align --pairs`."""
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    pair = json.loads(line)
                    filename, region, snippet = pair["filename"], pair["region"], pair["snippet"]
                except (ValueError, KeyError, TypeError, RecursionError):
                    filename = region = snippet = None
                if not (isinstance(filename, str) and isinstance(snippet, str) and _is_region(region)):
                    raise InputError(
                        f"{path}, line {number}: not a pair with filename, region and snippet; "
                        "`imagesent align --pairs` writes such a file"
                    )
                yield filename, region, snippet
    except FileNotFoundError:
        raise InputError(f"no file {path}; `imagesent align PREPARED --pairs {path}` writes one") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no UTF-8 text") from None
