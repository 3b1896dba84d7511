"""Hiding the whole frame in training."""

import keras
import numpy as np

from keras_imagesent.alignment.hide_frame import HideFrame

REGIONS = np.arange(200 * 3 * 2, dtype="float32").reshape(200, 3, 2)
MASK = np.ones((200, 3), bool)


def test_the_best_detection_takes_the_frames_place_in_its_share_of_the_photos():
    keras.utils.set_random_seed(0)
    hidden = np.array(HideFrame(0.4)(REGIONS, MASK, training=True))
    np.testing.assert_array_equal(hidden[:, 1:], REGIONS[:, 1:])
    replaced = (hidden[:, 0] == REGIONS[:, 1]).all(axis=1)
    np.testing.assert_array_equal(hidden[~replaced, 0], REGIONS[~replaced, 0])
    assert 0.3 < replaced.mean() < 0.5


def test_nothing_is_hidden_outside_training_or_without_a_detection():
    layer = HideFrame.from_config(HideFrame(1.0).get_config())
    np.testing.assert_array_equal(layer(REGIONS, MASK), REGIONS)
    alone = MASK & (np.arange(3) == 0)
    np.testing.assert_array_equal(layer(REGIONS, alone, training=True), REGIONS)
