"""The captioner: an image vector in, the words of its description out (Eqs. 13 to 15)."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from keras_imagesent.captioning.attention import RegionAttention
from keras_imagesent.captioning.cells import CELLS, Recurrence


@keras.saving.register_keras_serializable("keras_imagesent")
class FeatureCentring(layers.Layer):
    """`(features - mean) * scale`, with the training vectors' mean kept inside the model.

    Example:
        >>> centred = FeatureCentring(name="centring")(features)
    """

    def build(self, input_shape):
        self.mean = self.add_weight((input_shape[-1],), "zeros", trainable=False, name="mean")
        self.scale = self.add_weight((), "ones", trainable=False, name="scale")

    def call(self, features):
        return (features - self.mean) * self.scale


@keras.saving.register_keras_serializable("keras_imagesent")
class Captioner(keras.Model):
    """The functional captioner with a training step that spends nothing on padding.

    `fit` takes batches `{"image_features": (B, F), "token_ids": (B, T)}`, with whatever else the model looks at,
    sentences padded with 0, and, if they are to count differently, `"sentence_weights": (B,)`. Sentences are sorted by
    length, so that step t runs only those still going on and the vocabulary logits are one product over the words there
    are: half the work of padded ones.
    """

    @property
    def looks_at(self):
        """The names of the inputs that say what is in the photo: all but the words."""
        return [name for name in self.input if name != "token_ids"]

    def encode_image(self, inputs, training=False):
        """What the photo brings to the first step: b_v (B, units) (Eq. 13)."""
        encoder = self.get_layer("image_encoder")
        return encoder(_inputs_of(encoder, inputs), training=training)

    def encode_regions(self, inputs, training=False):
        """What every word may look at: the regions' vectors (B, R, A) and which are there; None without attention."""
        if "region_mask" not in self.input:
            return None
        encoder = self.get_layer("region_memory")
        return encoder(_inputs_of(encoder, inputs), training=training), inputs["region_mask"]

    def word_losses(self, image, token_ids, training=False):
        """Cross-entropy of every target word, END included (N,), and the row of the batch it belongs to (N,).

        `image` has the tensors of `looks_at` by name, or is the image vectors alone.
        """
        order = tf.argsort(tf.math.count_nonzero(token_ids, axis=1), direction="DESCENDING")
        inputs, targets, weights = inputs_and_targets(tf.gather(token_ids, order), self.get_layer("output").units)
        going_on = tf.cast(tf.reduce_sum(weights, axis=0), tf.int32)  # (T,) sentences at each step
        places = tf.where(tf.transpose(weights) > 0)  # (N, 2) step, sentence

        def pack(values):  # (B, T) -> (N,), step after step
            return tf.gather_nd(tf.transpose(values), places)

        recurrence = self.get_layer("recurrence")
        looked_at = {name: tf.gather(value, order) for name, value in image_inputs(image).items()}
        image = self.encode_image(looked_at, training)
        z = self.get_layer("word_encoder")(pack(inputs)[None], training=training)[0]  # (N, units)
        steps = tf.split(recurrence.cell.project(z), going_on, num=token_ids.shape[1])
        steps[0] = steps[0] + recurrence.cell.project(image)
        states, hidden = recurrence.initial_states(image), []
        for step in steps:
            h, states = recurrence.cell(step, [state[: tf.shape(step)[0]] for state in states])
            hidden.append(h)
        hidden, regions = tf.concat(hidden, axis=0), self.encode_regions(looked_at, training)
        if regions:
            padded = tf.scatter_nd(
                places[:, ::-1], hidden, [*tf.unstack(tf.shape(token_ids, tf.int64)), hidden.shape[-1]]
            )
            hidden = tf.gather_nd(self.get_layer("attention")(padded, *regions), places[:, ::-1])
        hidden = self.get_layer("output_dropout")(hidden, training=training)
        logits = self.get_layer("output")(hidden)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(pack(targets), logits)
        return losses, tf.gather(order, tf.cast(places[:, 1], tf.int32))

    def train_step(self, batch):
        with tf.GradientTape() as tape:
            image = {name: batch[name] for name in self.looks_at}
            losses, rows = self.word_losses(image, batch["token_ids"], training=True)
            weighted = losses
            if "sentence_weights" in batch:
                weighted = losses * tf.gather(batch["sentence_weights"], rows)
            # Sum over the words, mean over the sentences of the batch of all devices together.
            sentences = tf.cast(tf.shape(batch["token_ids"])[0], tf.float32)
            context = tf.distribute.get_replica_context()
            if context and context.num_replicas_in_sync > 1:
                sentences = context.all_reduce("sum", sentences)
            loss = tf.reduce_sum(weighted) / sentences
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.word_loss.update_state(losses)
        return {"loss": self.word_loss.result()}

    @property
    def metrics(self):
        return [self.word_loss]

    def compile(self, optimizer):
        """Takes the optimizer alone: the loss is the cross-entropy of the next word."""
        super().compile(optimizer, jit_compile=False)  # shapes follow the words there are, which XLA cannot have
        self.word_loss = keras.metrics.Mean(name="loss")


def build_captioner(
    feature_dim,
    vocabulary_size,
    cell="lstm",
    units=512,
    word_dim=256,
    max_words=20,
    dropout=0.0,
    activate_image=False,
    activate_words=False,
    classes=0,
    attention=0,
):
    """Builds the captioner as a functional model.

    Args:
        feature_dim: length of an image vector (twice a region's when the whole frame is given beside it).
        vocabulary_size: number of words V, without START and END.
        cell: "relu" (the paper's), "lstm" or "gru".
        units: size of the hidden state.
        word_dim: length of the learned word vectors.
        max_words: number of steps T; a sentence that fills them all has no END.
        dropout: share dropped of the image vector, the word vectors and the hidden state before the output.
        activate_image: b_v through the ReLU too (section 3.2: "it can help").
        activate_words: W_hx x_t through the ReLU too.
        classes: C, number of detector classes; the square roots of their scores stand beside the image vector. The
            model then takes `class_scores (B, R, C)` of the described photo's regions, of which each class's highest
            counts, or of the one described region (R = 1). 0 for none, as in the paper.
        attention: size A of the space in which every word looks for its regions (`RegionAttention`). The model then
            takes `region_features (B, R, F)` and `region_mask (B, R)` too. 0 for none, as in the paper.

    Returns:
        A `Captioner` from `image_features (B, F)` and `token_ids (B, T)`, which begin with START, to logits
        (B, T, V+1), where class 0 is END. Its parts are `image_encoder`, `word_encoder`, `recurrence` and `output`;
        with attention `region_memory` and `attention` too.

    Example:
        >>> from keras_imagesent.data.caption_pairs import CaptionPairs
        >>> prepared = ki.Prepared.open("prepared")  # what `ki.prepare` wrote
        >>> model = ki.build_captioner(prepared.feature_dim, len(prepared.vocabulary), cell="relu", units=16)
        >>> model.compile("adam")
        >>> pairs = CaptionPairs.of_photos(prepared.load("train"))
        >>> sorted(model.fit(pairs.batches(), verbose=0).history)
        ['loss']
    """
    if cell not in CELLS:
        raise ValueError(f"cell must be one of {', '.join(CELLS)}. Received: {cell!r}")
    recurrence = Recurrence(cell, units, name="recurrence")

    # --- what it looks at ---
    looks_at = {"image_features": keras.Input((feature_dim,), name="image_features")}
    if classes:
        looks_at["class_scores"] = keras.Input((None, classes), name="class_scores")
    if attention:
        looks_at["region_features"] = keras.Input((None, feature_dim), name="region_features")
        looks_at["region_mask"] = keras.Input((None,), dtype="bool", name="region_mask")

    # --- the image (Eq. 13) ---
    features = keras.Input((feature_dim,), name="image_features")
    x = FeatureCentring(name="centring")(features)
    if classes:
        scores = keras.Input((None, classes), name="class_scores")
        x = layers.Concatenate(name="named")([x, ops.sqrt(ops.max(scores, axis=1))])
    x = layers.Dropout(dropout, name="image_dropout")(x)
    x = layers.Dense(units, "relu" if activate_image else None, use_bias=False, name="image_bias")(x)
    inputs = {"image_features": features, "class_scores": scores} if classes else features
    image_encoder = keras.Model(inputs, x, name="image_encoder")

    # --- the words: W_hx x_t of every step in one product ---
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    x = layers.Embedding(vocabulary_size + 2, word_dim, name="word_vectors")(token_ids)
    x = layers.Dropout(dropout, name="word_dropout")(x)
    x = layers.Dense(units, "relu" if activate_words else None, use_bias=False, name="word_input")(x)
    word_encoder = keras.Model(token_ids, x, name="word_encoder")

    # --- the recurrence and the vocabulary (Eqs. 14, 15), one product for the logits of all steps ---
    token_ids = keras.Input((max_words,), dtype="int32", name="token_ids")
    hidden = recurrence(word_encoder(token_ids), image_encoder(_inputs_of(image_encoder, looks_at)))
    if attention:
        memory = build_region_memory(feature_dim, classes, attention, dropout)
        hidden = RegionAttention(name="attention")(
            hidden, memory(_inputs_of(memory, looks_at)), looks_at["region_mask"]
        )
    hidden = layers.Dropout(dropout, name="output_dropout")(hidden)
    logits = layers.Dense(vocabulary_size + 1, name="output", dtype="float32")(hidden)
    return Captioner({**looks_at, "token_ids": token_ids}, logits, name="captioner")


def build_region_memory(feature_dim, classes, size, dropout):
    """What the attention looks at: `region_features (B, R, F)` and `class_scores (B, R, C)` -> (B, R, size).

    The pooled vectors of small boxes are three times as long as the whole frame's: centered, each gets the same length.
    """
    inputs = {"region_features": keras.Input((None, feature_dim), name="region_features")}
    x = FeatureCentring(name="region_mean")(inputs["region_features"])
    x = layers.LayerNormalization(center=False, scale=False, name="region_length")(x)
    if classes:
        inputs["class_scores"] = keras.Input((None, classes), name="class_scores")
        x = layers.Concatenate(name="named")([x, ops.sqrt(inputs["class_scores"])])
    x = layers.SpatialDropout1D(dropout, name="region_dropout")(x)
    return keras.Model(inputs, layers.Dense(size, "relu", name="regions")(x), name="region_memory")


def set_output_bias(captioner, log_frequencies):
    """Starts the output bias at the log of each word's training frequency: the first loss is the unigram entropy.

    The output kernel shrinks tenfold too: "with small weights", as the supplement has it.

    Example:
        >>> set_output_bias(captioner, vocabulary.log_frequencies())
    """
    output = captioner.get_layer("output")
    output.kernel.assign(output.kernel * 0.1)
    output.bias.assign(np.asarray(log_frequencies, "float32"))


def set_feature_centring(captioner, mean, scale=1.0):
    """Puts the training vectors' mean (F,) and one scale into the captioner.

    Example:
        >>> set_feature_centring(captioner, features.mean(axis=0), 1 / features.std())
    """
    centring = captioner.get_layer("image_encoder").get_layer("centring")
    centring.mean.assign(np.asarray(mean, "float32"))
    centring.scale.assign(scale)


def set_region_mean(captioner, mean):
    """Puts the mean (F,) of the training regions' vectors into a captioner with attention.

    Example:
        >>> set_region_mean(captioner, pairs.region_mean())
    """
    captioner.get_layer("region_memory").get_layer("region_mean").mean.assign(np.asarray(mean, "float32"))


def image_inputs(image):
    """What a captioner looks at, as tensors by name; image vectors (B, F) alone are enough for most."""
    image = image if isinstance(image, dict) else {"image_features": image}
    return {name: tf.convert_to_tensor(value) for name, value in image.items()}


def _inputs_of(encoder, inputs):
    """The inputs of one part out of all; models of earlier versions have a part with a single input without a name."""
    return (
        {name: inputs[name] for name in encoder.input} if isinstance(encoder.input, dict) else inputs["image_features"]
    )


def inputs_and_targets(token_ids, start_id):
    """Sentences (B, T) padded with 0 -> inputs that begin with START, the same sentences as targets, weights (B, T).

    The first 0 of a sentence is its END and counts; the padding after it does not.

    Example:
        >>> inputs_and_targets(tf.constant([[5, 7, 0, 0]]), start_id=9)  # inputs [9, 5, 7, 0], weights [1, 1, 1, 0]
    """
    start = tf.fill([tf.shape(token_ids)[0], 1], tf.cast(start_id, token_ids.dtype))
    inputs = tf.concat([start, token_ids[:, :-1]], axis=1)
    return inputs, token_ids, tf.cast(inputs > 0, tf.float32)


class Decoder:
    """The captioner one word at a time about given photos, on the captioner's own layers.

    Args:
        captioner: the model.
        image: the tensors of `captioner.looks_at` by name, or image vectors (B, F) alone.

    Attributes:
        states: what the first step takes: h_0 = 0 and, for that step alone, b_v.
        start_id: the word that the first step reads.

    Example:
        >>> decoder = Decoder(captioner, features)
        >>> token_ids, log_probs = beam_search(decoder.step, decoder.states, decoder.start_id, beam=3)
    """

    def __init__(self, captioner, image):
        inputs = image_inputs(image)
        self.word_encoder = captioner.get_layer("word_encoder")
        self.recurrence = captioner.get_layer("recurrence")
        self.output = captioner.get_layer("output")
        self.start_id = self.output.units  # V + 1
        self.regions = captioner.encode_regions(inputs)
        self.attention = captioner.get_layer("attention") if self.regions else None
        image = captioner.encode_image(inputs)
        self.states = [*self.recurrence.initial_states(image), image]

    def step(self, token_ids, states):
        """The words just said (N,) and the states -> logits of the next word (N, V+1) and the new states.

        A photo may have several rows, one after the other: the sentences of its beam.
        """
        z = self.word_encoder(token_ids[:, None], training=False)[:, 0]
        if len(states) > self.recurrence.cell.states:  # the first step (Eq. 14)
            *states, image = states
            z = z + image
        h, states = self.recurrence.cell(self.recurrence.cell.project(z), states)
        return self.output(self._look(h)), states

    def _look(self, h):
        """What the output layer reads: h (N, units), with what it finds among its photo's regions."""
        if self.attention is None:
            return h
        units, photos = h.shape[-1], tf.shape(self.regions[0])[0]
        return tf.reshape(self.attention(tf.reshape(h, [photos, -1, units]), *self.regions), [-1, units])


def log_probs_of(captioner, image, token_ids):
    """Log probability (B,) of each sentence `token_ids (B, T)`, END included, by the training model."""
    inputs, targets, weights = inputs_and_targets(tf.convert_to_tensor(token_ids), captioner.get_layer("output").units)
    logits = captioner({**image_inputs(image), "token_ids": inputs}, training=False)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
    return -tf.reduce_sum(losses * weights, axis=1)
