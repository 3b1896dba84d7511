"""What the answers hold, on tiny models: masks, statuses, unknown words, scores, re-ranking."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.max_sim import max_sim
from keras_imagesent.alignment.phrases import decode_phrases
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.model.photo_model import PhotoModel, load_photo_model
from keras_imagesent.model.rerank import is_broken
from keras_imagesent.model.run import Run
from tests.serving.photos import draw, encode, odd_photos
from tests.serving.tiny import CLASSES, FEATURES, SIZE, VOCABULARY, WORDS, tiny_backbone, tiny_photo_model

JPEG = encode(draw(90, 60, 1))


@pytest.fixture(scope="module")
def model():
    return tiny_photo_model()


def numpy(answer):
    return {name: value.numpy() for name, value in answer.items()}


def test_a_broken_photo_leaves_the_others_alone(model):
    alone = numpy(model.caption(tf.constant([JPEG])))
    mixed = numpy(model.caption(tf.constant([b"junk", JPEG, b"", JPEG[:300]])))
    assert mixed["status"][1] == b"ok"
    assert all(status.startswith(b"not a whole") for status in mixed["status"][[0, 2, 3]])
    assert mixed["captions"][1].tolist() == alone["captions"][0].tolist()
    np.testing.assert_allclose(mixed["log_probs"][1], alone["log_probs"][0], atol=1e-5)
    assert mixed["captions"][0].tolist() == [b"", b"", b""]
    assert mixed["log_probs"][0].tolist() == [0, 0, 0]
    described = numpy(model.describe(tf.constant([b"junk", JPEG])))
    assert described["number_of_regions"].tolist() == [0, 20]
    assert set(described["captions"][0]) == {b""}
    assert not described["boxes"][0].any()
    assert described["boxes"][1, 0].tolist() == [0, 0, 1, 1]


def test_no_answer_is_ever_nan_or_infinite(model):
    images = [*odd_photos().values(), b"junk"]
    sentences = ["", "a dog", "purple", "a " * 50, "\x00\xff", "日本 dog!"] * 4
    answers = [
        model.describe(tf.constant(images)),
        model.align(tf.constant(images), tf.constant(sentences[: len(images)])),
        model.caption_features(tf.constant([[np.nan] * FEATURES, [np.inf] * FEATURES, [1e30] * FEATURES])),
    ]
    for answer in map(numpy, answers):
        for name, value in answer.items():
            if value.dtype == np.float32:
                assert np.isfinite(value).all(), name
        assert {len(value) for value in answer.values()} == {len(answer["status"])}
    assert all(b"NaN" in status for status in numpy(answers[2])["status"])


def test_align_gives_the_models_own_numbers(model):
    sentence = "A purple dog: RUNS with (water)"
    answer = numpy(model.align(tf.constant([JPEG]), tf.constant([sentence])))
    assert [word.decode() for word in answer["words"][0] if word] == ["A", "purple", "dog:", "RUNS", "with", "(water)"]
    known = [0, 2, 3, 4, 5]
    assert np.flatnonzero(answer["word_mask"][0]).tolist() == known
    assert answer["phrase_regions"][0, 1] == -1
    assert (answer["phrase_regions"][0, 6:] == -1).all()

    ids = np.zeros((1, 12), np.int32)
    ids[0, :5] = VOCABULARY.encode(sentence)
    pixels, _ = model._decode(tf.constant([JPEG]))
    found = model.extractor(pixels)
    regions = model.region_encoder({name: found[name] for name in ("region_features", "box_scores", "class_scores")})
    words = model.sentence_encoder({"token_ids": ids})
    similarity = np.einsum("td,rd->tr", words[0], regions[0])[:5]
    np.testing.assert_allclose(answer["similarity"][0, known], similarity, atol=1e-5)
    assert not answer["similarity"][0, 1].any()
    score = max_sim(regions, words, found["region_mask"], tf.constant(ids > 0))
    np.testing.assert_allclose(answer["score"], score[0], atol=1e-5)
    wanted = decode_phrases(similarity[None], beta=0.5)[0]
    assert answer["phrase_regions"][0, known].tolist() == list(wanted)


def test_embeddings_are_what_align_uses(model):
    images, sentences = tf.constant([JPEG, b"junk"]), tf.constant(["a big dog", "nothing known here: xyzzy"])
    image, sentence = numpy(model.embed_image(images)), numpy(model.embed_sentence(sentences))
    aligned = numpy(model.align(images, sentences))
    np.testing.assert_allclose(
        np.einsum("td,rd->tr", sentence["word_vectors"][0, :3], image["regions"][0]),
        aligned["similarity"][0, :3],
        atol=1e-5,
    )
    assert sentence["word_mask"].sum(axis=1).tolist() == [3, 0]
    assert sentence["token_ids"][0, :4].tolist() == [*VOCABULARY.encode("a big dog"), 0]
    assert not image["region_mask"][1].any()
    assert not image["regions"][1].any()
    assert aligned["score"][1] == 0


def test_words_look_for_their_regions_with_the_detectors_prior_in_full_and_score_as_trained(model):
    alignment = build_alignment(
        FEATURES, len(WORDS), dim=12, units=10, word_dim=8, dropout=0.0, prior=0.25, classes=CLASSES, max_words=12
    )
    parts = {"captioner": model.captioner, "alignment": Run.of(alignment, VOCABULARY)}
    placed = PhotoModel(model.backbone, model.extractor.get_layer("tiny_detector"), **parts, beta=0.0)
    answer = numpy(placed.align(tf.constant([JPEG]), tf.constant(["a dog runs"])))
    image = numpy(placed.embed_image(tf.constant([JPEG])))
    words = numpy(placed.embed_sentence(tf.constant(["a dog runs"])))["word_vectors"][0, :3]
    mask = image["region_mask"][0]
    trained = (words @ image["regions"][0].T)[:, mask]
    scores = image["box_scores"][0][mask]
    prior = np.log(np.concatenate([[0.1], scores[1:] / scores[1:].max()]))
    np.testing.assert_allclose(answer["similarity"][0, :3][:, mask], trained + 0.75 * prior, atol=1e-4)
    np.testing.assert_array_equal(answer["phrase_regions"][0, :3], (trained + 0.75 * prior).argmax(axis=1))
    assert answer["score"][0] == pytest.approx(trained.max(axis=1).sum(), abs=1e-4)


def set_back(captions, most=10):
    """1,000 for captions that do not end, or end in a word that no caption ends in."""
    words = [caption.decode().split() for caption in captions]
    return 1000 * np.array([len(said) in (0, most) or said[-1] in ("a", "on", "the", "in", "with") for said in words])


def test_a_broken_caption_ranks_below_all_others():
    sentences = ["a man is", "a dog on the grass", "a dog on the", "", "a a a a a a a a a dog", "two children"]
    ids = np.zeros((2, 6, 10), np.int32)
    for row, sentence in enumerate(sentences):
        known = VOCABULARY.encode(sentence)
        ids[:, row, : len(known)] = known
    broken = [False, False, True, True, True, False]  # the tiny vocabulary has no "is": the first is "a man"
    assert is_broken(ids, VOCABULARY).numpy().tolist() == [broken] * 2
    assert not is_broken(ids[:, [0, 5]], Vocabulary(["zebra", *WORDS[1:]], [1] * len(WORDS))).numpy().any()


def test_rerank_orders_by_log_probability_plus_score(model):
    plain = numpy(model.caption(tf.constant([JPEG])))
    parts = {name: getattr(model, name) for name in ("captioner", "region_captioner", "alignment")}
    detector = model.extractor.get_layer("tiny_detector")
    weight = 5.0
    reranked = PhotoModel(model.backbone, detector, **parts, beam=3, captions=3, max_length=10, rerank=weight)
    found = numpy(reranked.caption(tf.constant([JPEG])))
    assert sorted(found["captions"][0]) == sorted(plain["captions"][0])
    scores = [
        model.align(tf.constant([JPEG]), tf.constant([caption]))["score"].numpy()[0] for caption in found["captions"][0]
    ]
    lengths = np.array([min(len(caption.split()) + 1, 10) for caption in found["captions"][0]])
    totals = found["log_probs"][0] / lengths**0.7 + weight * np.array(scores) - set_back(found["captions"][0])
    assert (np.diff(totals) <= 1e-4).all()
    best = PhotoModel(model.backbone, detector, **parts, beam=3, captions=1, max_length=10, rerank=weight)
    assert numpy(best.caption(tf.constant([JPEG])))["captions"][0] == found["captions"][0][:1]  # of the whole beam
    assert PhotoModel(model.backbone, detector, **parts, rerank=weight).beam == 20


def test_rerank_divides_by_the_length_and_speaks_the_alignments_own_words():
    """The alignment numbers its words otherwise and lacks one; both terms of the sum decide the order."""
    images = tf.constant([encode(draw(90, 60, seed)) for seed in range(3)])
    model = tiny_photo_model()
    other = Vocabulary(["zebra", *WORDS[:0:-1]], [1] * len(WORDS))  # the other way round, without the first word
    parts = {"captioner": model.captioner, "alignment": Run.of(model.alignment.model, other)}
    settings = {**parts, "beam": 20, "captions": 20, "max_length": 10, "length_penalty": 0.7}
    detector = model.extractor.get_layer("tiny_detector")
    found = numpy(PhotoModel(model.backbone, detector, **settings, rerank=0.05).caption(images))
    scorer = PhotoModel(model.backbone, detector, **parts)
    orders = {}
    for photo in range(3):
        texts, log_probs = found["captions"][photo], found["log_probs"][photo]
        scores = numpy(scorer.align(tf.repeat(images[photo : photo + 1], 20, axis=0), tf.constant(texts)))["score"]
        plain = numpy(model.align(tf.repeat(images[photo : photo + 1], 20, axis=0), tf.constant(texts)))["score"]
        lengths = np.array([min(len(text.split()) + 1, 10) for text in texts])
        totals = {
            "right": log_probs / lengths**0.7 + 0.05 * scores,
            "no length": log_probs + 0.05 * scores,
            "the captioner's ids": log_probs / lengths**0.7 + 0.05 * plain,
        }
        totals = {name: total - set_back(texts) for name, total in totals.items()}
        for name, total in totals.items():
            orders.setdefault(name, []).append((np.diff(total) <= 1e-5).all())
    assert all(orders.pop("right"))
    assert not any(all(order) for order in orders.values()), "the other ways would give the same order here"


def test_each_photo_is_described_with_its_own_frame_beside_its_regions(model):
    images = tf.constant([encode(draw(90, 60, seed)) for seed in (1, 2, 3)])
    together = numpy(model.describe(images))
    for photo in range(3):
        alone = numpy(model.describe(images[photo : photo + 1]))
        np.testing.assert_array_equal(together["captions"][photo], alone["captions"][0])
        np.testing.assert_allclose(together["log_probs"][photo], alone["log_probs"][0], atol=1e-4)
    assert len({tuple(row) for row in together["log_probs"].round(3)}) == 3  # they are not all alike


def test_more_captions_than_the_beam_holds():
    with pytest.raises(InputError, match="4 captions need a beam"):
        PhotoModel(tiny_backbone(), beam=3, captions=4)


def test_run_folders_and_what_is_wrong_with_them(model, tmp_path):
    run = tmp_path / "captioner"
    run.mkdir()
    model.captioner.model.save(run / "model.keras")
    with pytest.raises(InputError, match="no vocabulary"):
        Run(run, "captioner").vocabulary  # noqa: B018
    VOCABULARY.save(run / "vocabulary.json")
    part = Run(run, "captioner")
    assert part.vocabulary.words == WORDS
    assert part.metrics == {}
    (run / "best").mkdir()
    (run / "best" / "scores.json").write_text('{"best": [{"scores": {"cider": 50.0}}, {"scores": {"cider": 49.0}}]}')
    assert Run(run, "captioner").metrics == {"cider": 50.0}
    assert Run(run / "model.keras", "captioner").vocabulary.words == WORDS
    (tmp_path / "junk.keras").write_bytes(b"junk")
    with pytest.raises(InputError, match="junk.keras"):
        load_photo_model(backbone=tmp_path / "junk.keras")
    with pytest.raises(InputError, match="none"):
        Run(tmp_path / "none", "captioner").model  # noqa: B018

    backbone = tmp_path / "backbone.keras"
    model.backbone.save(backbone)
    again = load_photo_model(
        backbone, False, False, run, False, beam=3, captions=3, max_length=10, length_penalty=model.length_penalty
    )
    assert again.image_size == SIZE
    wanted = numpy(model.caption(tf.constant([JPEG])))
    assert numpy(again.caption(tf.constant([JPEG])))["captions"].tolist() == wanted["captions"].tolist()


def test_alignment_run_folder(model, tmp_path):
    model.alignment.model.save(tmp_path / "model.keras")
    VOCABULARY.save(tmp_path / "vocabulary.json")
    part = Run(tmp_path, "alignment")
    assert isinstance(part.model.get_layer("region_encoder"), keras.Model)
