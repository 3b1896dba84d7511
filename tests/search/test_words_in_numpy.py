"""The words' vectors without TensorFlow are the model's."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.encode import encode_sentences
from keras_imagesent.search.words_in_numpy import NumpySentenceEncoder, save_sentence_encoder


@pytest.mark.parametrize(
    "options", [{}, {"similarity": "cosine", "temperature": 0.05, "frame_dim": 6, "prior": 0.3}, {"frame_dim": 5}]
)
def test_the_vectors_are_the_models(tmp_path, options):
    keras.utils.set_random_seed(0)
    model = build_alignment(12, 30, dim=16, units=10, word_dim=8, number_of_regions=3, **options)
    encoder = model.get_layer("sentence_encoder")
    for weight in encoder.weights:  # biases too
        weight.assign(np.random.default_rng(len(weight.shape)).normal(scale=0.5, size=weight.shape))
    save_sentence_encoder(encoder, tmp_path / "encoder.npz")
    words = NumpySentenceEncoder(tmp_path / "encoder.npz")
    for ids in ([3], [5, 1, 30, 7], list(range(1, 28))):  # the last is cut to 20 words
        np.testing.assert_allclose(words(ids), encode_sentences(model, [ids]).of(0), rtol=1e-4, atol=1e-5)


def test_a_search_does_not_import_tensorflow():
    script = "import sys, keras_imagesent.search.collection, keras_imagesent.search.words_in_numpy as w\n"
    script += "from keras_imagesent.data.vocabulary import Vocabulary\nimport keras_imagesent.cli.search\n"
    script += "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
