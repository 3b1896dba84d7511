import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.captioning.beam_search import NEVER, beam_search, greedy, sample
from keras_imagesent.captioning.captioner import Decoder, build_captioner, log_probs_of

WORDS, LENGTH = 3, 4


@pytest.fixture(scope="module", params=["relu", "lstm", "gru"])
def captioner(request):
    tf.keras.utils.set_random_seed(1)
    model = build_captioner(6, WORDS, cell=request.param, units=8, word_dim=5, max_words=LENGTH)
    for weight in model.trainable_weights:  # sharper than at random start, so that sentences differ
        weight.assign(weight * 2)
    return model


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(5, 6)).astype("float32") * 2


def search(captioner, features, **settings):
    return [answer.numpy() for answer in searcher(captioner, **settings)(features)]


def searcher(captioner, **settings):
    settings = {"max_length": LENGTH, **settings}

    @tf.function(input_signature=[tf.TensorSpec([None, 6])], autograph=False)
    def search(features):
        decoder = Decoder(captioner, features)
        return beam_search(decoder.step, decoder.states, decoder.start_id, **settings)

    return search


def all_sentences(min_length=0):
    """Every sentence of up to LENGTH words, padded with END."""
    return np.array(
        [
            (*words, *[0] * (LENGTH - n))
            for n in range(min_length, LENGTH + 1)
            for words in itertools.product(range(1, WORDS + 1), repeat=n)
        ],
        "int32",
    )


@pytest.mark.parametrize("length_penalty", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("min_length", [0, 2])
def test_a_wide_beam_finds_the_best_of_all_sentences(captioner, features, length_penalty, min_length):
    sentences = all_sentences(min_length)
    tokens, log_probs = search(
        captioner, features, beam=128, captions=10, length_penalty=length_penalty, min_length=min_length
    )
    lengths = np.minimum((sentences > 0).sum(axis=1) + 1, LENGTH)
    for photo, feature in enumerate(features):
        scores = log_probs_of(captioner, np.repeat(feature[None], len(sentences), axis=0), sentences).numpy()
        best = np.argsort(-scores / lengths**length_penalty)[:10]
        np.testing.assert_array_equal(tokens[photo], sentences[best])
        np.testing.assert_allclose(log_probs[photo], scores[best], atol=1e-5)


def test_greedy_is_beam_one_and_takes_the_likeliest_word_each_time(captioner, features):
    decoder = Decoder(captioner, features)
    tokens, log_probs = greedy(decoder.step, decoder.states, decoder.start_id, LENGTH)
    beam_tokens, beam_log_probs = search(captioner, features, beam=1)
    np.testing.assert_array_equal(tokens, beam_tokens[:, 0])
    np.testing.assert_allclose(log_probs, beam_log_probs[:, 0], atol=1e-6)
    for photo, feature in enumerate(features):
        decoder = Decoder(captioner, feature[None])
        said, states, word = [], decoder.states, decoder.start_id
        while len(said) < LENGTH and word != 0:
            logits, states = decoder.step(tf.constant([word]), states)
            word = int(np.argmax(logits))
            said.append(word)
        np.testing.assert_array_equal(tokens[photo], said + [0] * (LENGTH - len(said)))


@pytest.mark.parametrize("length_penalty", [0.0, 0.7])
def test_a_photo_is_captioned_alike_alone_and_in_any_batch(captioner, features, length_penalty):
    search = searcher(captioner, beam=3, captions=2, length_penalty=length_penalty)
    together, log_probs = search(features)
    for photo in range(len(features)):
        alone, alone_log_probs = search(features[photo : photo + 1])
        np.testing.assert_array_equal(alone[0], together[photo])
        np.testing.assert_allclose(alone_log_probs[0], log_probs[photo], atol=1e-5)


def test_training_greedy_beam_and_sampling_give_the_same_log_probabilities(captioner, features):
    decoder = Decoder(captioner, features)
    answers = [
        greedy(decoder.step, decoder.states, decoder.start_id, LENGTH),
        sample(decoder.step, decoder.states, decoder.start_id, LENGTH, seed=3),
    ]
    answers.append([answer[:, 0] for answer in search(captioner, features, beam=3)])
    for tokens, log_probs in answers:
        np.testing.assert_allclose(log_probs, log_probs_of(captioner, features, tokens), atol=1e-5)


def chain(after):
    """A `step` without states to speak of: the next word's log probabilities depend on the last word alone."""
    table = tf.constant(np.log(np.array(after, "float32") + 1e-12))
    return lambda token_ids, states: (tf.gather(table, token_ids), states)


def test_finished_sentences_stay_and_the_search_stops_when_nothing_can_improve():
    # START is row 3. "1" ends at once with 0.6; "2" goes on for ever with small probability.
    after = [[1, 0, 0], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8], [0, 0.6, 0.4]]
    steps = []

    def counted(token_ids, states):
        tf.py_function(lambda: steps.append(1), [], [])
        return chain(after)(token_ids, states)

    tokens, log_probs = beam_search(counted, [tf.zeros([1, 1])], 3, beam=2, max_length=30)
    np.testing.assert_array_equal(tokens[0, 0, :3], [1, 0, 0])
    assert float(log_probs[0, 0]) == pytest.approx(np.log(0.54), abs=1e-5)
    assert len(steps) < 5


def steps_and_best(after, **settings):
    """How often the model was asked, and the best sentence."""
    steps = []

    def counted(token_ids, states):
        tf.py_function(lambda: steps.append(1), [], [])
        return chain(after)(token_ids, states)

    tokens, _ = beam_search(counted, [tf.zeros([1, 1])], 3, beam=2, length_penalty=1.0, **settings)
    return len(steps), tokens[0, 0].numpy().tolist()


def test_under_a_length_penalty_the_search_waits_for_a_sentence_that_can_still_overtake():
    # "1 END" is finished with a mean of log(0.42) / 2 = -0.43. "2 2" has -0.60, but its words cost nothing from then
    # on: "2 2 2" has -0.40, and nothing shorter shows it.
    after = [[1, 0, 0], [0.6, 0.2, 0.2], [0, 0, 1], [0, 0.7, 0.3]]
    assert steps_and_best(after, max_length=4) == (4, [2, 2, 2, 2])


def test_under_a_length_penalty_the_search_ends_when_no_sentence_can_overtake():
    # "1 END" has log(0.81) / 2 = -0.11; "2 ..." has log(0.1) / 4 = -0.58 at the very best
    after = [[1, 0, 0], [0.9, 0.05, 0.05], [0, 0, 1], [0, 0.9, 0.1]]
    steps, best = steps_and_best(after, max_length=4)
    assert (steps, best) == (2, [1, 0, 0, 0])


def test_minimum_length_forbids_end_and_results_stay_finite():
    after = [[1, 0, 0], [0.9, 0.05, 0.05], [0.9, 0.05, 0.05], [0.8, 0.1, 0.1]]
    tokens, log_probs = beam_search(chain(after), [tf.zeros([2, 1])], 3, beam=4, captions=4, max_length=6, min_length=3)
    assert ((tokens.numpy() > 0).sum(axis=2) >= 3).all()
    assert np.isfinite(log_probs).all() and (log_probs > NEVER / 2).numpy().all()


def test_more_captions_than_the_beam_is_refused():
    with pytest.raises(ValueError, match="captions=3, beam=2"):
        beam_search(chain([[1.0]]), [tf.zeros([1, 1])], 0, beam=2, captions=3)


def test_sampling_follows_the_probabilities_the_seed_and_top_p():
    after = [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0.1, 0.6, 0.3]]
    states = [tf.zeros([4000, 1])]
    tokens, _ = sample(chain(after), states, 3, max_length=2, seed=1)
    shares = np.bincount(tokens[:, 0], minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3], atol=0.03)
    again, _ = sample(chain(after), states, 3, max_length=2, seed=1)
    np.testing.assert_array_equal(tokens, again)
    other, _ = sample(chain(after), states, 3, max_length=2, seed=2)
    assert (tokens != other).numpy().any()
    nucleus, _ = sample(chain(after), states, 3, max_length=2, top_p=0.8)
    assert set(nucleus[:, 0].numpy()) == {1, 2}
    cold, _ = sample(chain(after), states, 3, max_length=2, temperature=0.05)
    assert (cold[:, 0].numpy() == 1).mean() > 0.99
