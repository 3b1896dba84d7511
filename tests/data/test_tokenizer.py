"""The tokenizer, and its twin inside the graph: equal on every caption, every character, and on noise."""

import json
import random

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_imagesent.data.graph_tokenizer import SentenceToIds, tokenize_in_graph, typed_words_in_graph
from keras_imagesent.data.tokenizer import tokenize, typed_words
from keras_imagesent.data.vocabulary import Vocabulary
from tests.conftest import SHARED, needs_shared

in_graph = tf.function(tokenize_in_graph, input_signature=[tf.TensorSpec([None], tf.string)])


def graph_words(sentences):
    rows = in_graph(tf.constant([sentence.encode() for sentence in sentences])).to_list()
    return [[word.decode() for word in row] for row in rows]


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("A black dog is running after a white dog .", "a black dog is running after a white dog"),
        ("A red-haired girl's T-shirt ( #23 )", "a redhaired girls tshirt 23"),
        ("ΟΔΥΣΣΕΥΣ Straße ﬁsh", "οδυσσευσ strasse fish"),  # final sigma, sharp s, ligature
        ("Ｔｗｏ　ｄｏｇｓ", "two dogs"),  # full-width letters and blank
        ("कुत्ता दौड़ रहा है।", "कुत्ता दौड़ रहा है"),  # vowel signs are marks and stay
        ("cafe\u0301 CAFÉ", "café café"),  # composed and not
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("tab\tnew\nline\u00a0hard", "tab new line hard"),
        (" ... !? ", ""),
        ("", ""),
    ],
)
def test_the_rule(sentence, words):
    assert tokenize(sentence) == words.split()
    assert graph_words([sentence]) == [words.split()]


def test_on_english_it_is_the_papers_rule():
    sentence = "The boy's 3 dogs -- ALL of them -- can't swim."
    kept = "".join(c for c in sentence.lower() if c in "abcdefghijklmnopqrstuvwxyz0123456789 ")
    assert tokenize(sentence) == kept.split()


def test_every_character_gives_the_same_words_in_both():
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    sentences = [" ".join(characters[start : start + 512]) for start in range(0, len(characters), 512)]
    assert graph_words(sentences) == [tokenize(sentence) for sentence in sentences]


def test_noise_gives_the_same_words_in_both():
    random_ = random.Random(0)
    tricky = "\t\n\v\f\r \u00a0\u3000\u0345\u0301\u0130ßﬁΣςΐ\u1e9e\u00ad\u200d\ufe0f\x00\x1c\ufdfa"

    def character():
        low, high = random_.choice(
            [(32, 127), (0x80, 0x3000), (0x3000, 0xD800), (0xE000, 0x11000), (0x10000, 0x110000)]
        )
        return random_.choice(tricky) if random_.random() < 0.2 else chr(random_.randrange(low, high))

    sentences = ["".join(character() for _ in range(random_.randrange(1, 25))) for _ in range(10_000)]
    assert graph_words(sentences) == [tokenize(sentence) for sentence in sentences]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=20))
def test_whatever_hypothesis_finds_gives_the_same_words_in_both(sentences):
    assert graph_words(sentences) == [tokenize(sentence) for sentence in sentences]


def test_tokenizing_words_again_changes_nothing():
    words = tokenize("Ǆ ﬃ 23½ Straße ℌ İstanbul")
    assert tokenize(" ".join(words)) == words


def test_bytes_that_are_no_utf8_do_not_stop_the_graph():
    assert in_graph(tf.constant([b"a \xff\xfe dog \xc3("])).to_list() == [[b"a", b"dog"]]


@needs_shared
def test_every_caption_of_flickr8k_gives_the_same_words_in_both():
    images = json.loads((SHARED / "flickr8k/dataset.json").read_text())["images"]
    sentences = [sentence for image in images for sentence in image["sentences"]]
    assert len(sentences) == 35_000
    words = [tokenize(sentence["raw"]) for sentence in sentences]
    assert graph_words([sentence["raw"] for sentence in sentences]) == words
    assert words == [sentence["tokens"] for sentence in sentences]  # Karpathy's own


def test_words_as_typed():
    pairs = [("A", "a"), ("red-haired", "redhaired"), ("MAN!", "man")]
    assert typed_words("A red-haired  MAN!  --") == pairs
    typed, words = typed_words_in_graph(tf.constant(["A red-haired  MAN!  --", ""]))
    assert [word.decode() for word in typed.to_list()[0]] == [pair[0] for pair in pairs]
    assert [word.decode() for word in words.to_list()[0]] == [pair[1] for pair in pairs]
    assert typed.to_list()[1] == words.to_list()[1] == []


def test_ids_in_graph_are_those_of_the_vocabulary_and_survive_saving(tmp_path):
    vocabulary = Vocabulary(["a", "dog", "schön"], [9, 5, 5])
    lookup = SentenceToIds(vocabulary)
    sentences = ["A purple dog .", "SCHÖN", ""]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")])
    def serve(sentences):
        typed, ids = lookup(sentences)
        return {"words": typed.to_tensor(), "token_ids": ids.to_tensor(default_value=0)}

    lookup.serve = serve
    expected = [[1, -1, 2], [3, 0, 0], [0, 0, 0]]
    assert [[number for _, number in vocabulary.positions(sentence)] for sentence in sentences] == [[1, -1, 2], [3], []]
    assert serve(tf.constant(sentences))["token_ids"].numpy().tolist() == expected
    tf.saved_model.save(lookup, tmp_path / "lookup")
    served = tf.saved_model.load(tmp_path / "lookup").serve(tf.constant(sentences))
    assert served["token_ids"].numpy().tolist() == expected
    assert served["words"].numpy().tolist()[0] == [b"A", b"purple", b"dog"]  # the lone full stop is no word
