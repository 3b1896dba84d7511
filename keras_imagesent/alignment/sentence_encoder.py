"""Words in their context into the common space: a bidirectional recurrent network (Eqs. 2-6), or its rivals."""

import keras
from keras import ops

from keras_imagesent.alignment.edges import RelationDense, SplitEdges
from keras_imagesent.alignment.region_encoder import projection_start
from keras_imagesent.presets import SENTENCES

ABSENT = -1e9  # added to the input of padded steps: the ReLU then gives the zero state there, and no step needs a mask


@keras.saving.register_keras_serializable("keras_imagesent")
class AdditiveRNN(keras.layers.Layer):
    """`h[t] = relu(x[t] + W h[t-1] + b)`: the input is added, not projected (Eqs. 4, 5).

    Unrolled over the fixed length of its input, which is faster than a loop and keeps LiteRT to builtin operations.

    Args:
        backwards: whether the states run from the last word to the first (Eq. 5).

    Call arguments:
        x: `(B, T, units)`, with T known.

    Example:
        states = AdditiveRNN(name="forwards")(x) + AdditiveRNN(backwards=True, name="backwards")(x)
    """

    def __init__(self, backwards=False, **kwargs):
        super().__init__(**kwargs)
        self.backwards = backwards

    def build(self, input_shape):
        units = input_shape[-1]
        # Eq. 4 has no gates: an identity scaled down carries context a few words far and does not explode
        self.kernel = self.add_weight((units, units), keras.initializers.Orthogonal(gain=0.5), name="kernel")
        self.bias = self.add_weight((units,), "zeros", name="bias")

    def call(self, x):
        steps = ops.unstack(x + self.bias, axis=1)
        states = []
        for step in reversed(steps) if self.backwards else steps:
            states.append(ops.relu(step + ops.matmul(states[-1], self.kernel)) if states else ops.relu(step))
        return ops.stack(states[::-1] if self.backwards else states, axis=1)

    def get_config(self):
        return {**super().get_config(), "backwards": self.backwards}


@keras.saving.register_keras_serializable("keras_imagesent")
class MaskWords(keras.layers.Layer):
    """Sets the vectors of padded words (id 0) to `value`."""

    def __init__(self, value=0.0, **kwargs):
        super().__init__(**kwargs)
        self.value = value

    def call(self, x, token_ids):
        return ops.where(ops.expand_dims(token_ids > 0, -1), x, ops.cast(self.value, x.dtype))

    def get_config(self):
        return {**super().get_config(), "value": self.value}


@keras.saving.register_keras_serializable("keras_imagesent")
class BesideNext(keras.layers.Layer):
    """Each word's vector with that of the next word behind it: `(B,T,D) -> (B,T,2D)`; zeros behind the last."""

    def call(self, x):
        return ops.concatenate([x, ops.pad(x[:, 1:], [[0, 0], [0, 1], [0, 0]])], axis=-1)


@keras.saving.register_keras_serializable("keras_imagesent")
class AppendOne(keras.layers.Layer):
    """One more coordinate, always 1."""

    def call(self, x):
        return ops.concatenate([x, ops.ones_like(x[..., :1])], axis=-1)


def build_sentence_encoder(
    vocabulary_size,
    word_dim=300,
    units=512,
    dim=1000,
    dropout=0.0,
    similarity="dot",
    temperature=0.1,
    embeddings=None,
    train_words=True,
    max_words=20,
    with_prior=False,
    frame_dim=0,
    sentences="brnn",
):
    """The BRNN of Eqs. 2-6: a functional model `{"token_ids" (B,T)} -> words (B,T,D)`, zero at padding.

    D is `dim`, plus `frame_dim`, plus 1 with a prior.

    Args:
        vocabulary_size: V; ids 1..V are words, 0 is padding.
        word_dim: length of a word vector (Eq. 2).
        units: size of the recurrent states (300 to 600 in the paper).
        dim: D, the size of the common space.
        dropout: share of elements dropped in training, on every layer's input but the recurrent ones.
        similarity: "dot" (the paper), or "cosine": unit vectors divided by `temperature`, so that the dot product of a
            region and a word is their cosine / temperature.
        embeddings: `(V, word_dim)` from `read_word_vectors`, or None to start at random.
        train_words: whether word vectors are trained (the paper keeps word2vec's fixed).
        max_words: T, fixed.
        with_prior: whether each word's vector ends in a 1, which meets the prior at the end of each region's vector.
        frame_dim: length of a second vector of each word, which is compared with the whole frame's; 0 for none.
        sentences: "brnn"; or without any recurrence "words", each for itself, "bigrams", each with the next, or
            "trees", the edges of a dependency tree: `token_ids` are then those of an `EdgeVocabulary`.

    Example:
        encoder = build_sentence_encoder(vocabulary_size=2537, units=512, dim=1000)
        words = encoder({"token_ids": token_ids})  # (B, 20, 1000)
    """
    if sentences not in SENTENCES:
        raise ValueError(f"sentences must be one of {', '.join(SENTENCES)}. Received: {sentences}")
    token_ids = keras.Input((max_words,), dtype="int32", name="token_ids")
    embedding = keras.layers.Embedding(
        vocabulary_size + 1, word_dim, keras.initializers.RandomNormal(stddev=0.1), trainable=train_words, name="words"
    )
    if sentences == "trees":
        edges = SplitEdges(vocabulary_size, name="edges")(token_ids)
        x = keras.layers.Concatenate(name="both_ends")([embedding(edges["heads"]), embedding(edges["dependents"])])
    else:
        x = embedding(token_ids)  # Eq. 2
    if sentences == "bigrams":
        x = BesideNext(name="beside_next")(MaskWords(0.0, name="mask_bigrams")(x, token_ids))
    if dropout:
        x = keras.layers.Dropout(dropout, name="word_dropout")(x)
    if sentences == "trees":
        e = RelationDense(units, name="relation_projection")(x, edges["relations"])
    else:
        e = keras.layers.Dense(units, "relu", name="word_projection")(x)  # Eq. 3, shared by both streams
    if dropout:
        e = keras.layers.Dropout(dropout, name="input_dropout")(e)
    h = e
    if sentences == "brnn":
        e = MaskWords(ABSENT, name="mask_inputs")(e, token_ids)
        forwards = AdditiveRNN(name="forwards")(e)  # Eq. 4
        backwards = AdditiveRNN(backwards=True, name="backwards")(e)  # Eq. 5
        h = keras.layers.Add(name="both_streams")([forwards, backwards])
        if dropout:
            h = keras.layers.Dropout(dropout, name="state_dropout")(h)
    start = projection_start(similarity)
    s = keras.layers.Dense(dim, "relu", kernel_initializer=start, name="sentence_projection")(h)  # Eq. 6
    if similarity == "cosine":
        s = keras.layers.UnitNormalization(name="word_norm")(s)
    if frame_dim:
        of_frame = keras.layers.Dense(frame_dim, "relu", name="frame_words")(h)
        if similarity == "cosine":
            of_frame = keras.layers.UnitNormalization(name="frame_words_norm")(of_frame)
        s = keras.layers.Concatenate(name="beside_frame_words")([s, of_frame])
    if similarity == "cosine":
        s = keras.layers.Rescaling(1 / temperature, name="temperature")(s)
    if with_prior:
        s = AppendOne(name="append_one")(s)
    s = MaskWords(0.0, name="mask_words")(s, token_ids)
    model = keras.Model({"token_ids": token_ids}, s, name="sentence_encoder")
    if embeddings is not None:
        embedding.embeddings.assign(ops.concatenate([ops.zeros((1, word_dim)), embeddings]))
    return model
