import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.captioning.captioner import (
    build_captioner,
    inputs_and_targets,
    log_probs_of,
    set_feature_centring,
    set_output_bias,
)
from keras_imagesent.captioning.cells import CELLS

CELL_NAMES = sorted(CELLS)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loop(model, features, inputs):
    """Eqs. 13 to 15 word by word in NumPy, from the model's own weights: log probabilities (B, T, V+1)."""
    weights = {w.path.split("/", 1)[1] if w.path.startswith("captioner/") else w.path: w.numpy() for w in model.weights}
    find = lambda end: next(v for k, v in weights.items() if k.endswith(end))  # noqa: E731
    cell = model.get_layer("recurrence").cell
    kernel, bias, units = cell.kernel.numpy(), cell.bias.numpy(), cell.units
    image = ((features - find("centring/mean")) * find("centring/scale")) @ find("image_bias/kernel")
    h, c, out = np.zeros((len(features), units)), np.zeros((len(features), units)), []
    for t in range(inputs.shape[1]):
        z = find("word_vectors/embeddings")[inputs[:, t]] @ find("word_input/kernel") + (image if t == 0 else 0)
        z = z @ cell.input_kernel.numpy() if cell.name != "relu" else z
        if cell.name == "relu":
            h = np.maximum(0, z + h @ kernel + bias)
        elif cell.name == "lstm":
            i, f, o, g = np.split(z + h @ kernel + bias, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            zu, zr, zn = np.split(z, 3, axis=1)
            hu, hr, hn = np.split(h @ kernel + bias, 3, axis=1)
            update, reset = sigmoid(zu + hu), sigmoid(zr + hr)
            h = update * h + (1 - update) * np.tanh(zn + reset * hn)
        logits = h @ find("output/kernel") + find("output/bias")
        out.append(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
    return np.stack(out, axis=1)


def small(cell="lstm", **settings):
    keras.utils.set_random_seed(0)
    return build_captioner(6, vocabulary_size=7, cell=cell, **{"units": 5, "word_dim": 4, "max_words": 4, **settings})


def batch(rows=3, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 6)).astype("float32")
    return features, np.array([[3, 1, 0, 0], [2, 5, 7, 6], [0, 0, 0, 0]], "int32")[np.arange(rows) % 3]


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_the_model_equals_the_equations_in_a_loop(cell):
    model, (features, tokens) = small(cell), batch()
    set_feature_centring(model, np.arange(6) / 10, 0.5)
    inputs, _, _ = inputs_and_targets(tokens, 8)
    logits = model({"image_features": tf.constant(features), "token_ids": inputs})
    assert logits.shape == (3, 4, 8)
    np.testing.assert_allclose(tf.nn.log_softmax(logits), loop(model, features, inputs.numpy()), atol=1e-5)


def test_targets_count_end_once_and_padding_never():
    _, tokens = batch()
    inputs, targets, weights = inputs_and_targets(tokens, 8)
    np.testing.assert_array_equal(inputs, [[8, 3, 1, 0], [8, 2, 5, 7], [8, 0, 0, 0]])
    np.testing.assert_array_equal(targets, tokens)
    np.testing.assert_array_equal(weights, [[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]])


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_gradients_equal_finite_differences(cell):
    keras.backend.set_floatx("float64")
    try:
        model, (features, tokens) = small(cell), batch()
        with tf.GradientTape() as tape:
            loss = -tf.reduce_sum(log_probs_of(model, features.astype("float64"), tokens))
        gradients = tape.gradient(loss, model.trainable_weights)
        for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
            gradient = tf.convert_to_tensor(gradient).numpy().ravel()
            value = weight.numpy()
            for place in np.unique(np.linspace(0, value.size - 1, 3).astype(int)):
                moved = []
                for change in (1e-3, -1e-3):  # the output layer is float32: no smaller step
                    new = value.copy().ravel()
                    new[place] += change
                    weight.assign(new.reshape(value.shape))
                    moved.append(-float(tf.reduce_sum(log_probs_of(model, features.astype("float64"), tokens))))
                weight.assign(value)
                assert gradient[place] == pytest.approx((moved[0] - moved[1]) / 2e-3, abs=5e-3)
    finally:
        keras.backend.set_floatx("float32")


def test_output_bias_starts_near_the_unigram_entropy():
    frequencies = np.array([0.2, 0.3, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])
    model = small(units=64)
    set_output_bias(model, np.log(frequencies))
    rng = np.random.default_rng(0)
    words = rng.choice(8, size=(400, 4), p=frequencies).astype("int32")
    inputs = np.concatenate([np.full((400, 1), 8), words[:, :-1]], axis=1)
    logits = model({"image_features": rng.normal(size=(400, 6)).astype("float32"), "token_ids": inputs.astype("int32")})
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits))
    assert float(loss) == pytest.approx(-(frequencies * np.log(frequencies)).sum(), abs=0.05)


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_saved_and_loaded_it_gives_the_same_numbers(cell, tmp_path):
    model, (features, tokens) = small(cell, activate_image=True, activate_words=True), batch()
    set_feature_centring(model, np.ones(6), 2.0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(log_probs_of(loaded, features, tokens), log_probs_of(model, features, tokens))


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_it_can_learn_ten_sentences_by_heart(cell):
    keras.utils.set_random_seed(0)
    model = build_captioner(6, vocabulary_size=7, cell=cell, units=32, word_dim=8, max_words=4)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(10, 6)).astype("float32")
    tokens = rng.integers(1, 8, size=(10, 4)).astype("int32")
    tokens[np.arange(4) >= rng.integers(1, 5, size=(10, 1))] = 0
    model.compile(keras.optimizers.Adam(0.02))
    pairs = tf.data.Dataset.from_tensors({"image_features": features, "token_ids": tokens}).repeat()
    model.fit(pairs, steps_per_epoch=150, epochs=1, verbose=0)
    assert (np.exp(log_probs_of(model, features, tokens)) > 0.9).all()


@pytest.mark.parametrize("cell", CELL_NAMES)
def test_the_training_step_skips_padding_and_gives_the_same_losses(cell):
    model, (features, tokens) = small(cell), batch(rows=9)
    losses, rows = model.word_losses(tf.constant(features), tf.constant(tokens))
    assert len(losses) == (np.minimum((tokens > 0).sum(axis=1) + 1, 4)).sum()
    sums = np.zeros(9)
    np.add.at(sums, rows.numpy(), losses.numpy())
    np.testing.assert_allclose(-sums, log_probs_of(model, features, tokens), atol=1e-5)


def test_centring_is_part_of_the_model():
    model, (features, tokens) = small(), batch()
    mean = np.arange(6, dtype="float32")
    wanted = log_probs_of(model, (features - mean) * 0.5, tokens)
    set_feature_centring(model, mean, 0.5)
    np.testing.assert_allclose(log_probs_of(model, features, tokens), wanted, atol=1e-5)
    assert not np.allclose(log_probs_of(small(), features, tokens), wanted, atol=1e-3)


@pytest.mark.parametrize("weights", [[1.0, 0.0, 0.0], [0.5, 2.0, -1.0]])
def test_a_sentence_counts_as_much_as_its_weight(weights):
    features, tokens = batch()
    model, other = small(), small()
    with tf.GradientTape() as tape:
        loss = -tf.reduce_sum(tf.constant(weights) * log_probs_of(other, features, tokens)) / 3
    gradients = tape.gradient(loss, other.trainable_variables)
    model.compile(keras.optimizers.SGD(1.0))
    model.train_step({"image_features": features, "token_ids": tokens, "sentence_weights": tf.constant(weights)})
    for mine, theirs, gradient in zip(model.trainable_variables, other.trainable_variables, gradients, strict=True):
        np.testing.assert_allclose(mine, tf.convert_to_tensor(theirs) - gradient, atol=1e-5, err_msg=mine.path)


def test_activations_change_the_answer_and_dropout_only_training():
    features, tokens = batch()
    plain = log_probs_of(small("relu"), features, tokens)
    for option in ({"activate_image": True}, {"activate_words": True}):
        assert not np.allclose(log_probs_of(small("relu", **option), features, tokens), plain)
    model = small("relu", dropout=0.5)
    np.testing.assert_array_equal(log_probs_of(model, features, tokens), log_probs_of(model, features, tokens))


def test_an_unknown_cell_is_named():
    with pytest.raises(ValueError, match="Received: 'rnn'"):
        small("rnn")
