"""The captioner that looks at regions and classes: its formula, its training step, its beam search."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.captioning.attention import RegionAttention
from keras_imagesent.captioning.beam_search import beam_search
from keras_imagesent.captioning.caption_photos import Searcher
from keras_imagesent.captioning.captioner import Decoder, build_captioner, log_probs_of, set_region_mean

LENGTH, WORDS, FEATURES, CLASSES = 4, 5, 6, 3
KINDS = {"classes": {"classes": CLASSES}, "attention": {"attention": 4}}
KINDS["both"] = KINDS["classes"] | KINDS["attention"]


def build(units=5, **settings):
    keras.utils.set_random_seed(0)
    return build_captioner(FEATURES, WORDS, units=units, word_dim=4, max_words=LENGTH, **settings)


def look(model, photos=3, seed=0):
    """What the model takes of some photos; the last region of each photo but the first is absent."""
    rng = np.random.default_rng(seed)
    mask = np.ones((photos, 4), bool)
    mask[1:, -1] = False
    known = {
        "image_features": rng.normal(size=(photos, FEATURES)).astype("f"),
        "class_scores": rng.random((photos, 4, CLASSES), np.float32),
        "region_features": rng.normal(size=(photos, 4, FEATURES)).astype("f"),
        "region_mask": mask,
    }
    return {name: known[name] for name in model.looks_at}


@pytest.fixture(params=KINDS)
def model(request):
    return build(**KINDS[request.param])


def test_attention_equals_nested_loops():
    rng = np.random.default_rng(0)
    hidden, memory, present = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 4, 6)), rng.random((2, 4)) < 0.6
    present[:, 0] = True
    layer = RegionAttention()
    found = layer(*(tf.constant(x, tf.bool if x.dtype == bool else tf.float32) for x in (hidden, memory, present)))
    query, value = layer.query.numpy(), layer.value.numpy()
    for photo, word in itertools.product(range(2), range(3)):
        h, context, total = hidden[photo, word], np.zeros(6), 0.0
        for region in np.flatnonzero(present[photo]):
            share = np.exp(sum((h @ query)[a] * memory[photo, region, a] for a in range(6)) / 6**0.5)
            context, total = context + share * memory[photo, region], total + share
        np.testing.assert_allclose(found[photo, word], h + context / total @ value, atol=1e-5)


def test_gradients_of_attention_equal_finite_differences():
    rng = np.random.default_rng(0)
    hidden, memory = tf.Variable(rng.normal(size=(2, 3, 5))), tf.Variable(rng.normal(size=(2, 4, 6)))
    present, layer = tf.constant([[True] * 4, [True, False, True, False]]), RegionAttention(dtype="float64")
    weight = tf.constant(rng.normal(size=(2, 3, 5)))

    def loss():
        return tf.reduce_sum(weight * layer(hidden, memory, present))

    with tf.GradientTape() as tape:
        value = loss()
    variables = [hidden, memory, layer.query.value, layer.value.value]
    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
        before = variable.numpy()
        for place in (0, before.size // 2, before.size - 1):
            change = np.zeros(before.size)
            change[place] = 1e-5
            moved = []
            for sign in (1, -1):
                variable.assign(before + sign * change.reshape(before.shape))
                moved.append(float(loss()))
            variable.assign(before)
            assert gradient.numpy().ravel()[place] == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-6)


def test_absent_regions_have_no_influence_and_present_ones_have():
    model = build(attention=4)
    image, tokens = look(model), np.array([[1, 2, 3, 0]] * 3, "int32")
    before = log_probs_of(model, image, tokens).numpy()
    image["region_features"][1:, -1] = 100.0
    np.testing.assert_array_equal(log_probs_of(model, image, tokens), before)
    image["region_features"][0, -1] *= -1
    changed = log_probs_of(model, image, tokens).numpy() != before
    assert changed.tolist() == [True, False, False]


def test_the_class_that_counts_is_each_ones_highest_of_all_regions():
    model = build(classes=CLASSES)
    image, tokens = look(model), np.array([[1, 2, 3, 0]] * 3, "int32")
    before = log_probs_of(model, image, tokens)
    alone = {**image, "class_scores": image["class_scores"].max(axis=1, keepdims=True)}
    np.testing.assert_allclose(log_probs_of(model, alone, tokens), before, atol=1e-6)
    assert (
        np.abs(log_probs_of(model, {**image, "class_scores": 0 * image["class_scores"]}, tokens) - before).max() > 1e-4
    )


def test_the_training_step_gives_the_losses_of_the_whole_model(model):
    tokens = np.array([[3, 1, 0, 0], [2, 5, 4, 1], [0, 0, 0, 0], [1, 0, 0, 0]], "int32")
    image = look(model, photos=4)
    losses, rows = model.word_losses({name: tf.constant(x) for name, x in image.items()}, tf.constant(tokens))
    sums = np.bincount(rows, losses, minlength=4)
    np.testing.assert_allclose(-sums, log_probs_of(model, image, tokens), atol=1e-5)


def test_a_wide_beam_finds_the_best_of_all_sentences_alone_and_in_a_batch(model):
    sentences = np.array(
        [
            (*words, *[0] * (LENGTH - n))
            for n in range(LENGTH + 1)
            for words in itertools.product(range(1, WORDS + 1), repeat=n)
        ],
        "int32",
    )
    image = look(model)
    tokens, log_probs = Searcher(model, beam=128, captions=5, max_length=LENGTH)(image)
    narrow = Searcher(model, beam=3, captions=2, max_length=LENGTH, length_penalty=0.7)
    together = narrow(image)
    for photo in range(3):
        one = {name: values[photo : photo + 1] for name, values in image.items()}
        scores = log_probs_of(model, {k: v.repeat(len(sentences), axis=0) for k, v in one.items()}, sentences).numpy()
        best = np.argsort(-scores)[:5]
        np.testing.assert_array_equal(tokens[photo], sentences[best])
        np.testing.assert_allclose(log_probs[photo], scores[best], atol=1e-5)
        np.testing.assert_array_equal(narrow(one)[0][0], together[0][photo])


def test_saved_and_loaded_it_gives_the_same_numbers(model, tmp_path):
    if "region_mask" in model.looks_at:
        set_region_mean(model, np.arange(FEATURES))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    image, tokens = look(model), np.array([[1, 2, 3, 0]] * 3, "int32")
    np.testing.assert_array_equal(log_probs_of(loaded, image, tokens), log_probs_of(model, image, tokens))


def test_it_learns_ten_sentences_that_only_the_regions_tell_apart():
    model = build(units=32, attention=16)
    rng = np.random.default_rng(0)
    image = look(model, photos=10)
    image["image_features"][:] = 1.0
    tokens = rng.integers(1, WORDS + 1, size=(10, LENGTH)).astype("int32")
    tokens[np.arange(LENGTH) >= rng.integers(1, LENGTH + 1, size=(10, 1))] = 0
    model.compile(keras.optimizers.Adam(0.02))
    pairs = tf.data.Dataset.from_tensors({**image, "token_ids": tokens}).repeat()
    model.fit(pairs, steps_per_epoch=200, epochs=1, verbose=0)
    assert (np.exp(log_probs_of(model, image, tokens)) > 0.9).all()


def test_without_both_the_model_is_that_of_before():
    plain, same = build(), build(classes=0, attention=0)
    assert [w.path for w in plain.weights] == [w.path for w in same.weights] and len(plain.weights) == 10
    assert plain.looks_at == ["image_features"] and plain.encode_regions({}) is None


def test_a_beam_needs_no_copies_of_its_regions():
    """The decoder looks at (B, R, A) with B * beam sentences, so that the search carries no regions along."""
    model = build(attention=4)
    decoder = Decoder(model, look(model))
    assert len(decoder.states) == 3  # hidden state, memory, image
    tokens, _ = beam_search(decoder.step, decoder.states, decoder.start_id, beam=2, max_length=LENGTH)
    assert tokens.shape == (3, 1, LENGTH)
