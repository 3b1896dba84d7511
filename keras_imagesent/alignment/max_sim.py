"""The image-sentence score: every word takes its best region (Eq. 8), or all of them (Eq. 7)."""

import keras
import tensorflow as tf

from keras_imagesent.alignment.global_batch import gather_rows


def max_sim(regions, words, region_mask, word_mask):
    """`S_kl = sum_t max_i v_i . s_t` (Eq. 8). `(K,R,D), (L,T,D), (K,R), (L,T) -> scores (K,L)`.

    One matrix product of all regions with all words; padded words are left out before it, absent regions never win.

    Example:
        scores = max_sim(regions, words, region_mask, word_mask)  # best image of sentence l: argmax of scores[:, l]
    """
    regions = tf.where(region_mask[..., None], regions, regions[:, :1])  # an absent region repeats the whole frame
    packed, sentence = _pack(words, word_mask)
    best = _best_region(tf.reshape(regions, (-1, regions.shape[-1])), packed, tf.shape(regions)[1])  # (K, P)
    return _sum_by_sentence(best, sentence, words)


def mean_max_sim(regions, words, region_mask, word_mask):
    """`max_sim` divided by the number of words: long sentences score no higher for their length."""
    lengths = tf.reduce_sum(tf.cast(word_mask, words.dtype), axis=1)
    return max_sim(regions, words, region_mask, word_mask) / tf.maximum(lengths, 1)


def defrag(regions, words, region_mask, word_mask):
    """DeFrag's `S_kl = sum_t sum_i max(0, v_i . s_t)` (Eq. 7), with the arguments of `max_sim`."""
    regions = tf.where(region_mask[..., None], regions, tf.zeros_like(regions))
    packed, sentence = _pack(words, word_mask)
    similarity = tf.matmul(tf.reshape(regions, (-1, regions.shape[-1])), packed, transpose_b=True)
    positive = tf.reshape(tf.nn.relu(similarity), (-1, tf.shape(regions)[1], tf.shape(packed)[0]))
    return _sum_by_sentence(tf.reduce_sum(positive, axis=1), sentence, words)


def own_scores(similarity, word_mask, region_mask, score="max_sim", whole_frame=False):
    """Each photo with its own sentence (Eqs. 7, 8): `(B,T,R), (B,T), (B,R) -> scores (B,)`, as `MaxSim` has them.

    Example:
        scores = own_scores(tf.einsum("btd,brd->btr", words, regions), word_mask, region_mask, "mean_max_sim")
    """
    if whole_frame:
        similarity, region_mask = similarity[:, :, :1], region_mask[:, :1]
    present = region_mask[:, None, :]
    if score == "defrag":
        words = tf.reduce_sum(tf.where(present, tf.nn.relu(similarity), 0.0), axis=2)
    else:
        words = tf.reduce_max(tf.where(present, similarity, similarity.dtype.min), axis=2)
    total = tf.reduce_sum(tf.where(word_mask, words, 0.0), axis=1)
    if score != "mean_max_sim":
        return total
    return total / tf.maximum(tf.reduce_sum(tf.cast(word_mask, tf.float32), axis=1), 1.0)


def _pack(words, word_mask):
    """The P real words as rows `(P, D)`, and the sentence of each `(P,)`: no product is spent on padding."""
    where = tf.cast(tf.where(word_mask), tf.int32)  # (P, 2)
    flat = tf.reshape(words, (-1, words.shape[-1]))
    return tf.gather(flat, where[:, 0] * tf.shape(words)[1] + where[:, 1]), where[:, 0]


def _sum_by_sentence(best, sentence, words):
    indicator = tf.one_hot(sentence, tf.shape(words)[0], dtype=best.dtype)  # (P, L)
    return tf.matmul(best, indicator)


@tf.custom_gradient
def _best_region(regions, words, number_of_regions):
    """max_i v_i . s_t for every photo and word, `(K*R, D), (P, D) -> (K, P)`; ties share the gradient."""
    similarity = tf.matmul(regions, words, transpose_b=True)
    similarity = tf.reshape(similarity, (-1, number_of_regions, tf.shape(words)[0]))  # (K, R, P)
    best = tf.reduce_max(similarity, axis=1)

    def gradient(upstream):
        winners = tf.cast(tf.equal(similarity, best[:, None]), upstream.dtype)
        winners *= (upstream / tf.reduce_sum(winners, axis=1))[:, None]
        winners = tf.reshape(winners, (-1, tf.shape(words)[0]))  # (K*R, P)
        return tf.matmul(winners, words), tf.matmul(winners, regions, transpose_a=True), None

    return best, gradient


SCORES = {"max_sim": max_sim, "mean_max_sim": mean_max_sim, "defrag": defrag}


@keras.saving.register_keras_serializable("keras_imagesent")
class MaxSim(keras.layers.Layer):
    """Scores of the batch's photos with the batch's sentences, a row a photo (Eqs. 7, 8).

    With several replicas a row holds the sentences of all of them: the global batch.

    Args:
        score: "max_sim" (Eq. 8), "mean_max_sim" (Eq. 8 divided by the number of words) or "defrag" (Eq. 7).
        whole_frame: use region 0 alone, for the ablation.

    Call arguments:
        regions `(K,R,D)`, words `(K,T,D)`, region_mask `(K,R)`, token_ids `(K,T)`, 0 at padding.

    Example:
        scores = MaxSim(name="scores")(regions, words, region_mask, token_ids)
    """

    def __init__(self, score="max_sim", whole_frame=False, **kwargs):
        super().__init__(**kwargs)
        if score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(SCORES)}. Received: {score}")
        self.score, self.whole_frame = score, whole_frame
        self.supports_jit = False  # real words are packed, so shapes vary, which XLA cannot have

    def call(self, regions, words, region_mask, token_ids):
        if self.whole_frame:
            regions, region_mask = regions[:, :1], region_mask[:, :1]
        words, token_ids = gather_rows(words), gather_rows(token_ids)
        return SCORES[self.score](regions, words, region_mask, token_ids > 0)

    def compute_output_spec(self, regions, words, region_mask, token_ids):
        return keras.KerasTensor((None, None), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "score": self.score, "whole_frame": self.whole_frame}
