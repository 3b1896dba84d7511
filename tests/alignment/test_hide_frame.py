"""Hiding the whole frame: in training only, only where there is a detection to stand in."""

import numpy as np

from keras_imagesent.alignment.hide_frame import HideFrame

REGIONS = np.arange(12, dtype="float32").reshape(2, 3, 2)
MASK = np.array([[True, True, False], [True, False, False]])


def test_the_best_detection_takes_the_frames_place_in_training():
    layer = HideFrame.from_config(HideFrame(1.0, name="hide_frame").get_config())
    hidden = layer(REGIONS, MASK, training=True).numpy()
    np.testing.assert_array_equal(hidden[0], REGIONS[0][[1, 1, 2]])
    np.testing.assert_array_equal(hidden[1], REGIONS[1])  # nothing was detected here
    np.testing.assert_array_equal(layer(REGIONS, MASK, training=False), REGIONS)
    np.testing.assert_array_equal(HideFrame(0.0)(REGIONS, MASK, training=True), REGIONS)


def test_hides_the_given_share():
    regions, mask = np.zeros((2000, 2, 1), "float32"), np.ones((2000, 2), bool)
    regions[:, 1] = 1
    assert abs(HideFrame(0.3)(regions, mask, training=True)[:, 0].numpy().mean() - 0.3) < 0.05
