"""The alignment model: both encoders, the score and the loss, trained with `model.fit`."""

import keras
import tensorflow as tf
from keras import ops

from keras_imagesent.alignment.hide_regions import HideRegions
from keras_imagesent.alignment.max_sim import MaxSim
from keras_imagesent.alignment.ranking_loss import RankingLoss
from keras_imagesent.alignment.region_encoder import build_region_encoder
from keras_imagesent.alignment.sentence_encoder import build_sentence_encoder
from keras_imagesent.alignment.vector_parts import frame_part, region_part


@keras.saving.register_keras_serializable("keras_imagesent")
class Alignment(keras.Model):
    """A functional model whose training loss is the sum of its output `losses` (Eq. 9), or their mean for a softmax.

    With the sum, clipping at 5 acts as the paper means it; at the scale of the mean it hardly ever does.

    Every replica computes the loss of the global batch, so each stands for its share of it. (`add_loss` would count
    some losses twice under a strategy.)
    """

    def call(self, inputs, training=None, mask=None):
        """Takes the inputs that the model has out of a batch, which may hold more (`class_scores`, say)."""
        return super().call({name: inputs[name] for name in self.input}, training=training, mask=mask)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        losses = y_pred["losses"]
        softmax = self.get_layer("losses").negatives == "softmax"
        loss = tf.reduce_mean(losses) if softmax else tf.reduce_sum(losses)
        return loss / tf.distribute.get_strategy().num_replicas_in_sync

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds the optimizer: all that is left to build. Keras would average the replicas' first batch to trace the
        model, which fails for masks and for parts of unequal size."""
        if not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)


def build_alignment(
    feature_dim,
    vocabulary_size,
    dim=1000,
    units=512,
    word_dim=300,
    score="max_sim",
    whole_frame=False,
    negatives="sum",
    margin=1.0,
    similarity="dot",
    temperature=0.1,
    dropout=0.5,
    hide_frame=0.0,
    hide_regions=0.0,
    prior=0.0,
    frame_dim=0,
    root=False,
    unit=False,
    classes=0,
    embeddings=None,
    train_words=True,
    max_words=20,
    number_of_regions=20,
    sentences="brnn",
):
    """The alignment model of section 3.1, ready for `compile` and `fit`.

    Inputs: `region_features (B,R,F)`, `region_mask (B,R)`, `box_scores (B,R)`, `token_ids (B,T)`, `photo_ids (B,)` and,
    with `classes`, `class_scores (B,R,C)`: the batches of `keras_imagesent.data.batches.pair_batches`. Outputs: `scores
    (B,B)` and `losses (B,)`. The encoders alone are `model.get_layer("region_encoder")` and
    `model.get_layer("sentence_encoder")`.

    Args:
        feature_dim: F, the length of a region's CNN vector.
        vocabulary_size: V, the number of words.
        dim: D, the size of the common space (h in the paper: 1000 to 1600).
        units: size of the recurrent states.
        word_dim: length of a word vector.
        score: "max_sim" (Eq. 8), "mean_max_sim" (divided by the number of words) or "defrag" (Eq. 7).
        whole_frame: whether words see region 0 alone, the whole frame: the paper's ablation.
        negatives: "sum" (the paper), "hardest", or "softmax": cross entropy instead of a margin.
        margin: the loss's margin.
        similarity: "dot" (the paper) or "cosine" with `temperature`.
        dropout: share of elements dropped, everywhere but in the recurrence.
        hide_frame: share of the photos whose whole frame is hidden in training, so that words learn the other regions.
        hide_regions: share of the other regions that are hidden in training (`HideRegions` says why).
        prior: weight of the detector's scores in the choice of a word's region (`DetectorPrior`); the paper has none.
        frame_dim: size of an extra embedding that compares each word with the whole frame; 0 for none. Its score is
            added to Eq. 8, and the sum and both parts each get a loss: with a loss of the sum alone the frame, which
            learns faster, would leave the regions nothing to learn.
        root: whether the projection of Eq. 1 takes the square roots of the CNN's activations.
        unit: whether each CNN vector, once centered, gets unit length (`Centre` says why).
        classes: C, number of detector classes whose scores are given beside the CNN vector; 0 for none.
        embeddings: `(V, word_dim)`, the word vectors to start from (`read_word_vectors`); None starts at random.
        train_words: whether word vectors are trained.
        max_words: T, the fixed number of words.
        number_of_regions: R.
        sentences: "brnn" (the paper); "words", "bigrams" or "trees" for the ablations (`build_sentence_encoder`).

    Example:
        >>> from keras_imagesent.data.batches import pair_batches
        >>> prepared = ki.Prepared.open("prepared")  # what `ki.prepare` wrote
        >>> model = ki.build_alignment(prepared.feature_dim, len(prepared.vocabulary), dim=32, units=16)
        >>> model.compile(optimizer="adam")
        >>> history = model.fit(pair_batches(prepared, "train"), verbose=0)
        >>> sorted(history.history)
        ['loss']
    """
    if similarity not in ("dot", "cosine"):
        raise ValueError(f"similarity must be 'dot' or 'cosine'. Received: {similarity}")
    if frame_dim and score == "defrag":
        raise ValueError("frame_dim goes with a score in which a word takes one region, not with 'defrag'")
    region_encoder = build_region_encoder(feature_dim, dim, dropout, similarity, prior, frame_dim, root, classes, unit)
    sentence_encoder = build_sentence_encoder(
        vocabulary_size,
        word_dim,
        units,
        dim,
        dropout,
        similarity,
        temperature,
        embeddings,
        train_words,
        max_words,
        with_prior=bool(prior),
        frame_dim=frame_dim,
        sentences=sentences,
    )
    inputs = {
        "region_features": keras.Input((number_of_regions, feature_dim), name="region_features"),
        "region_mask": keras.Input((number_of_regions,), dtype="bool", name="region_mask"),
        "box_scores": keras.Input((number_of_regions,), name="box_scores"),
        "token_ids": keras.Input((max_words,), dtype="int32", name="token_ids"),
        "photo_ids": keras.Input((), dtype="int64", name="photo_ids"),
    }
    if classes:
        inputs["class_scores"] = keras.Input((number_of_regions, classes), name="class_scores")
    there = {name: inputs[name] for name in region_encoder.input}
    if whole_frame:
        there = {name: x[:, :1] for name, x in there.items()}
    region_vectors = region_encoder(there)
    if hide_frame or hide_regions:
        hide = HideRegions(hide_frame, hide_regions, name="hide_regions")
        region_vectors = hide(region_vectors, inputs["region_mask"])
    word_vectors = sentence_encoder({"token_ids": inputs["token_ids"]})
    masks = inputs["region_mask"], inputs["token_ids"]
    max_sim = MaxSim(score, whole_frame=whole_frame, name="scores")
    ranking_loss = RankingLoss(margin, negatives, name="losses")
    if frame_dim:
        of_regions, of_frame = zip(*(_apart(x, dim, frame_dim) for x in (region_vectors, word_vectors)), strict=True)
        alone = [max_sim(*of_regions, *masks), MaxSim(score, whole_frame=True, name="frame_scores")(*of_frame, *masks)]
        scores = keras.layers.Add(name="both_scores")(alone)
        losses = [ranking_loss(each, inputs["photo_ids"]) for each in (scores, *alone)]
        losses = keras.layers.Add(name="all_losses")(losses)
    else:
        scores = max_sim(region_vectors, word_vectors, *masks)
        losses = ranking_loss(scores, inputs["photo_ids"])
    return Alignment(inputs, {"scores": scores, "losses": losses}, name="alignment")


def _apart(vectors, dim, frame_dim):
    """Vectors of all parts (`vector_parts`) -> those of the regions, with a prior if there is one, and the frame's."""
    frame = frame_part(dim, frame_dim)
    of_regions = [vectors[..., region_part(dim)], vectors[..., frame.stop :]]
    return ops.concatenate(of_regions, axis=-1), vectors[..., frame]
