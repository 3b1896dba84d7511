"""Scripts without blanks: cut into characters by both tokenizers alike; a small data set in one trains and captions."""

import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from keras_imagesent.captioning.captioner import build_captioner, set_feature_centring
from keras_imagesent.data.graph_tokenizer import SentenceToIds, close_gaps, typed_words_in_graph
from keras_imagesent.data.tokenizer import join_words, tokenize, typed_words
from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.model.photo_model import PhotoModel
from keras_imagesent.model.run import Run
from tests.serving.tiny import FEATURES, tiny_backbone

SENTENCES = {
    "chinese": "两只狗在草地上跑。",
    "japanese": "猫がソファーで眠っている",
    "thai": "แมวนอนบนโซฟาและนำ้",
    "mixed": "A 狗dog とcat, 3匹!",
    "german": "Ein Hund läuft.",
}


def test_what_is_cut_and_what_is_not():
    assert tokenize(SENTENCES["chinese"]) == list("两只狗在草地上跑")
    assert tokenize(SENTENCES["mixed"]) == ["a", "狗", "dog", "と", "cat", "3", "匹"]
    assert tokenize(SENTENCES["german"]) == ["ein", "hund", "läuft"]


@pytest.mark.parametrize("name", SENTENCES)
def test_the_graph_cuts_and_joins_as_python_does(name):
    sentence = SENTENCES[name]
    typed, words = (ragged.to_list()[0] for ragged in typed_words_in_graph(tf.constant([sentence])))
    assert [(a.decode(), b.decode()) for a, b in zip(typed, words, strict=True)] == typed_words(sentence)
    blanks = " ".join(tokenize(sentence))
    assert close_gaps(tf.constant(blanks)).numpy().decode() == join_words(tokenize(sentence))
    assert tokenize(join_words(tokenize(sentence))) == tokenize(sentence)  # there and back


def photo(color):
    packed = io.BytesIO()
    Image.new("RGB", (64, 64), color).save(packed, "PNG")
    return packed.getvalue()


def test_a_data_set_in_chinese_trains_and_captions():
    captions = {"red": "一只红色的狗", "blue": "蓝天和大海", "green": "草地上有两个人", "white": "雪"}
    vocabulary = Vocabulary.from_captions(captions.values(), threshold=1)
    assert set(vocabulary.words) == set("".join(captions.values()))
    keras.utils.set_random_seed(0)
    captioner = build_captioner(FEATURES, len(vocabulary), cell="lstm", units=24, word_dim=12, max_words=10)
    model = PhotoModel(tiny_backbone(), captioner=Run.of(captioner, vocabulary), beam=2, captions=1, max_length=10)
    photos = tf.constant([photo(color) for color in captions])
    features = model.frame_features(model._decode(photos)[0]).numpy()
    set_feature_centring(captioner, features.mean(axis=0), 1 / features.std())
    _, ids = SentenceToIds(vocabulary)(tf.constant(list(captions.values())))
    pairs = {"image_features": features, "token_ids": ids.to_tensor(0, shape=[None, 10]).numpy().astype(np.int32)}
    captioner.compile(keras.optimizers.Adam(0.03))
    captioner.fit(tf.data.Dataset.from_tensor_slices(pairs).batch(4).repeat(120), verbose=0)
    said = [text.decode() for text in model.caption(photos)["captions"].numpy()[:, 0]]
    assert said == list(captions.values())
