"""The ranking loss: a photo and its sentence score higher than mixed pairs, by a margin (Eq. 9)."""

import keras
import tensorflow as tf

from keras_imagesent.alignment.global_batch import gather_rows


def ranking_losses(scores, photo_ids, margin=1.0, negatives="sum"):
    """Eq. 9 row by row: `scores (K,K), photo_ids (K,) -> losses (K,)`, whose sum is the paper's C.

    Row k holds the hinges of photo k against the other sentences and of sentence k against the other photos. The term
    l = k, a constant, is left out, and so is another sentence of the same photo.

    Args:
        negatives: "sum" over all of them (the paper), or the "hardest" alone; "softmax" is no margin but the cross
            entropy of finding sentence k for photo k and photo k for sentence k.

    Example:
        loss = tf.reduce_mean(ranking_losses(scores, photo_ids))
    """
    photo_ids = tf.convert_to_tensor(photo_ids)
    right = tf.linalg.diag_part(scores)  # (K,)
    other = photo_ids[:, None] != photo_ids[None, :]
    if negatives == "softmax":
        counted = tf.where(other | tf.eye(tf.shape(scores)[0], dtype=tf.bool), scores, -1e9)
        return tf.reduce_logsumexp(counted, axis=1) + tf.reduce_logsumexp(counted, axis=0) - 2 * right
    negative = tf.cast(other, scores.dtype)
    sentences = tf.nn.relu(scores - right[:, None] + margin) * negative  # photo k against sentence l
    photos = tf.nn.relu(scores - right[None, :] + margin) * negative  # photo l against sentence k
    if negatives == "hardest":
        return tf.reduce_max(sentences, axis=1) + tf.reduce_max(photos, axis=0)
    return tf.reduce_sum(sentences, axis=1) + tf.reduce_sum(photos, axis=0)


@keras.saving.register_keras_serializable("keras_imagesent")
class RankingLoss(keras.layers.Layer):
    """`ranking_losses` as a layer; with several replicas, over the global batch, the same losses on each.

    Args:
        margin: how much higher the right pair must score.
        negatives: "sum" (the paper), "hardest" or "softmax".

    Call arguments:
        scores `(K,L)`: this replica's photos with the sentences of the global batch; photo_ids `(K,)`.

    Example:
        losses = RankingLoss(name="losses")(scores, photo_ids)
    """

    def __init__(self, margin=1.0, negatives="sum", **kwargs):
        super().__init__(**kwargs)
        if negatives not in ("sum", "hardest", "softmax"):
            raise ValueError(f"negatives must be 'sum', 'hardest' or 'softmax'. Received: {negatives}")
        self.margin, self.negatives = margin, negatives

    def call(self, scores, photo_ids):
        return ranking_losses(gather_rows(scores), gather_rows(photo_ids), self.margin, self.negatives)

    def compute_output_spec(self, scores, photo_ids):
        return keras.KerasTensor((None,), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin, "negatives": self.negatives}
