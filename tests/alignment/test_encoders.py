"""Both encoders against the paper's equations in plain NumPy."""

import gc
import weakref

import keras
import numpy as np
import pytest

from keras_imagesent.alignment import encode
from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.encode import encode_photos, encode_sentences, word_similarities
from keras_imagesent.alignment.region_encoder import build_region_encoder, region_inputs
from keras_imagesent.alignment.sentence_encoder import build_sentence_encoder
from keras_imagesent.data.dependency_edges import RELATIONS, EdgeVocabulary
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError

RNG = np.random.default_rng(0)


def small_sentence_encoder(**options):
    encoder = build_sentence_encoder(9, word_dim=4, units=5, dim=6, max_words=7, **options)
    for weight in encoder.weights:  # biases too
        weight.assign(RNG.normal(size=weight.shape) * 0.5)
    return encoder


def brnn(w, ids):
    """Eqs. 2-6 for one sentence."""
    relu = lambda x: np.maximum(x, 0)  # noqa: E731
    e = [relu(w["words/embeddings"][i] @ w["word_projection/kernel"] + w["word_projection/bias"]) for i in ids]
    forwards, h = [], np.zeros(5)
    for x in e:
        h = relu(x + h @ w["forwards/kernel"] + w["forwards/bias"])
        forwards.append(h)
    backwards, h = [], np.zeros(5)
    for x in reversed(e):
        h = relu(x + h @ w["backwards/kernel"] + w["backwards/bias"])
        backwards.insert(0, h)
    both = np.array(forwards) + np.array(backwards)
    return relu(both @ w["sentence_projection/kernel"] + w["sentence_projection/bias"])


def test_sentence_encoder_is_the_brnn_and_padding_is_zero():
    encoder = small_sentence_encoder()
    token_ids = np.array([[3, 1, 9, 0, 0, 0, 0], [2, 2, 5, 6, 7, 8, 1], [0] * 7])
    words = encoder({"token_ids": token_ids}).numpy()
    names = {"/".join(weight.path.split("/")[-2:]): np.asarray(weight) for weight in encoder.weights}
    np.testing.assert_allclose(words[0, :3], brnn(names, [3, 1, 9]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(words[1], brnn(names, token_ids[1]), rtol=1e-5, atol=1e-6)
    assert not words[0, 3:].any() and not words[2].any()


def relu(x):
    return np.maximum(x, 0)


def test_words_and_bigrams_have_no_other_context():
    ids = [3, 1, 9]
    for sentences in ("words", "bigrams"):
        encoder = small_sentence_encoder(sentences=sentences)
        w = {"/".join(weight.path.split("/")[-2:]): np.asarray(weight) for weight in encoder.weights}
        x = w["words/embeddings"][ids]
        if sentences == "bigrams":
            x = np.concatenate([x, [*x[1:], np.zeros(4)]], axis=1)
        e = relu(x @ w["word_projection/kernel"] + w["word_projection/bias"])
        wanted = relu(e @ w["sentence_projection/kernel"] + w["sentence_projection/bias"])
        words = encoder({"token_ids": np.array([[*ids, 0, 0, 0, 0]])}).numpy()[0]
        np.testing.assert_allclose(words[:3], wanted, rtol=1e-5, atol=1e-6)
        assert not words[3:].any()


def test_an_edge_has_its_relations_own_weights():
    words = Vocabulary([f"w{n}" for n in range(1, 10)], [1] * 9)
    parsed = [("w3", "w7", "amod"), ("w7", "w2", "nsubj"), ("w9", "w2", "unheard of"), ("zzz", "w2", "det")]
    ids = EdgeVocabulary(words, lambda sentence: parsed).encode("any")
    assert len(ids) == 3
    encoder = small_sentence_encoder(sentences="trees")
    w = {"/".join(weight.path.split("/")[-2:]): np.asarray(weight) for weight in encoder.weights}
    e = []
    for dependent, head, relation in ((3, 7, "amod"), (7, 2, "nsubj"), (9, 2, "dep")):
        x = np.concatenate([w["words/embeddings"][head], w["words/embeddings"][dependent]])
        r = RELATIONS.index(relation)
        e.append(relu(x @ w["relation_projection/kernel"][r] + w["relation_projection/bias"][r]))
    wanted = relu(np.array(e) @ w["sentence_projection/kernel"] + w["sentence_projection/bias"])
    found = encoder({"token_ids": np.array([[*ids, 0, 0, 0, 0]])}).numpy()[0]
    np.testing.assert_allclose(found[:3], wanted, rtol=1e-5, atol=1e-6)
    assert not found[3:].any()


def test_cosine_gives_unit_vectors_over_the_temperature():
    words = small_sentence_encoder(similarity="cosine", temperature=0.25)(
        {"token_ids": np.array([[1, 2, 3, 0, 0, 0, 0]])}
    )
    lengths = np.linalg.norm(words[0], axis=1)
    np.testing.assert_allclose(lengths[3:], 0)
    assert set(np.round(lengths[:3], 4)) <= {0.0, 4.0}  # a word behind a dead ReLU stays zero
    encoder = build_region_encoder(8, dim=5, similarity="cosine")
    regions = encoder({"region_features": RNG.normal(size=(2, 3, 8)), "box_scores": np.ones((2, 3))})
    np.testing.assert_allclose(np.linalg.norm(regions, axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize("root", [False, True])
def test_region_encoder_centres_then_projects(root):
    given = RNG.normal(3, 2, (50, 8)).astype("float32")
    encoder = build_region_encoder(8, dim=5, root=root)
    encoder.get_layer("centre").measure(given)
    features = np.where(given < 0, -1, 1) * np.sqrt(np.abs(given)) if root else given
    mean = features.mean(axis=0)
    length = np.sqrt(np.square(features - mean).sum(axis=1).mean())
    kernel = np.asarray(encoder.get_layer("region_projection").kernel)
    regions = encoder({"region_features": given[None], "box_scores": np.ones((1, 50))})
    np.testing.assert_allclose(regions[0], (features - mean) / length @ kernel, atol=1e-5)


def test_the_prior_adds_the_log_of_the_detectors_score_to_every_similarity():
    features, scores = RNG.normal(size=(2, 4, 8)), np.array([[1, 0.8, 0.2, 0], [1, 0, 0, 0]])
    plain, weighed = (build_region_encoder(8, dim=6, prior=prior) for prior in (0.0, 0.5))
    weighed.set_weights(plain.get_weights())
    inputs = {"region_features": features, "box_scores": scores}
    sentences = small_sentence_encoder(with_prior=True)
    words = sentences({"token_ids": np.array([[1, 2, 3, 0, 0, 0, 0]])}).numpy()
    np.testing.assert_array_equal(words[0, :, -1], [1, 1, 1, 0, 0, 0, 0])
    added = weighed(inputs).numpy() @ words[0, 0] - plain(inputs).numpy() @ words[0, 0, :-1]
    # relative to the best detection; the frame counts a tenth of it; absent regions and photos without a detection too
    expected = 0.5 * np.log([[0.1, 1, 0.25, 1e-4 / 0.8], [0.1, 1, 1, 1]])
    np.testing.assert_allclose(added, expected, atol=1e-5)


def test_in_phrases_the_detectors_prior_counts_in_full():
    regions = {"region_features": RNG.normal(size=(1, 4, 8)), "box_scores": np.array([[1, 0.8, 0.2, 0.4]])}
    for prior in (0.25, 0.0):
        model = build_alignment(8, 9, dim=6, units=5, word_dim=4, prior=prior, number_of_regions=4)
        vectors, words = encode_photos(model, regions), encode_sentences(model, [[1, 2, 3]])
        similarity, _ = word_similarities(model, words, vectors, [0])
        added = (1 - prior) * np.log([0.1, 1, 0.25, 0.5]) if prior else 0
        np.testing.assert_allclose(similarity[0], words.vectors @ vectors[0].T + added, atol=1e-5)


def test_the_detectors_classes_stand_behind_the_cnns_vector():
    encoder = build_region_encoder(8, dim=5, classes=3)
    given = {"region_features": RNG.normal(size=(2, 4, 8)), "box_scores": np.ones((2, 4))}
    given["class_scores"] = RNG.uniform(size=(2, 4, 3))
    kernel = np.asarray(encoder.get_layer("region_projection").kernel)
    both = np.concatenate([given["region_features"], np.sqrt(given["class_scores"])], axis=-1)
    np.testing.assert_allclose(encoder(given), both @ kernel, atol=1e-5)
    without = {name: given[name] for name in ("region_features", "box_scores")}
    filled = region_inputs(encoder, without)
    np.testing.assert_allclose(encoder(filled), given["region_features"] @ kernel[:8], atol=1e-5)
    assert set(region_inputs(build_region_encoder(8, dim=5), given)) == set(without)
    with pytest.raises(InputError, match="trained with a detector of 3 classes, this one has 2"):
        region_inputs(encoder, {**given, "class_scores": given["class_scores"][..., :2]})


def test_word_vectors_are_taken_over_and_kept_fixed():
    vectors = RNG.normal(size=(9, 4)).astype("float32")
    encoder = build_sentence_encoder(9, word_dim=4, units=5, dim=6, embeddings=vectors, train_words=False)
    np.testing.assert_array_equal(np.asarray(encoder.get_layer("words").embeddings)[1:], vectors)
    assert all("words/embeddings" not in weight.path for weight in encoder.trainable_weights)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_is_everywhere_but_in_the_recurrence(dropout):
    encoder = small_sentence_encoder(dropout=dropout)
    layers = [layer.name for layer in encoder.layers if isinstance(layer, keras.layers.Dropout)]
    assert layers == (["word_dropout", "input_dropout", "state_dropout"] if dropout else [])


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_a_frame_beside_the_regions_adds_the_same_to_each(similarity):
    options = {"similarity": similarity, "frame_dim": 4}
    regions, words = (
        build_region_encoder(8, dim=6, prior=0.5, **options),
        small_sentence_encoder(with_prior=True, **options),
    )
    given = {"region_features": RNG.normal(size=(2, 3, 8)), "box_scores": np.ones((2, 3))}
    v, s = regions(given).numpy(), words({"token_ids": np.array([[3, 1, 9, 0, 0, 0, 0]])}).numpy()[0, :3]
    assert v.shape == (2, 3, 6 + 4 + 1) and s.shape == (3, 6 + 4 + 1)
    beside = v[..., 6:10] @ s[:, 6:10].T  # (B,R,T)
    np.testing.assert_allclose(beside, np.repeat(beside[:, :1], 3, axis=1), rtol=1e-5)
    kernel, bias = regions.get_layer("frame_projection").get_weights()
    frame = given["region_features"][:, 0] @ kernel + bias
    if similarity == "cosine":
        frame /= np.linalg.norm(frame, axis=1, keepdims=True)
    np.testing.assert_allclose(v[:, 2, 6:10], frame, rtol=1e-4, atol=1e-6)


def test_encoding_leaves_nothing_in_the_model_and_keeps_no_model_alive():
    model = build_alignment(6, 5, dim=4, units=3, word_dim=3, number_of_regions=2, max_words=4)
    encoder = model.get_layer("region_encoder")
    before = set(vars(encoder))
    regions = {"region_features": np.ones((3, 2, 6), np.float32), "box_scores": np.ones((3, 2), np.float32)}
    first = encode_photos(model, regions)
    assert len(encode._GRAPHS[encoder]) == 1
    encoder.get_layer("region_projection").bias.assign_add(np.ones(4))
    np.testing.assert_allclose(encode_photos(model, regions), first + 1, rtol=1e-5)  # the same graph reads new weights
    assert len(encode._GRAPHS[encoder]) == 1
    assert set(vars(encoder)) == before
    gone = weakref.ref(encoder)
    del model, encoder
    keras.utils.clear_session()
    gc.collect()
    assert gone() is None
