"""Hiding the whole frame and detections: in training only, only where there is something to stand in."""

import numpy as np

from keras_imagesent.alignment.hide_regions import HideRegions

REGIONS = np.arange(12, dtype="float32").reshape(2, 3, 2)
MASK = np.array([[True, True, False], [True, False, False]])


def test_the_best_detection_takes_the_frames_place_in_training():
    layer = HideRegions.from_config(HideRegions(1.0, name="hide_regions").get_config())
    hidden = layer(REGIONS, MASK, training=True).numpy()
    np.testing.assert_array_equal(hidden[0], REGIONS[0][[1, 1, 1]])  # the absent region repeats the first
    np.testing.assert_array_equal(hidden[1], REGIONS[1][[0, 0, 0]])  # nothing was detected here
    np.testing.assert_array_equal(layer(REGIONS, MASK, training=False), REGIONS)
    np.testing.assert_array_equal(HideRegions(0.0)(REGIONS, np.ones_like(MASK), training=True), REGIONS)


def test_hides_the_given_shares():
    regions, mask = np.zeros((2000, 3, 1), "float32"), np.ones((2000, 3), bool)
    regions[:, 1:] = 1
    hidden = HideRegions(0.3)(regions, mask, training=True).numpy()[..., 0]
    assert abs(hidden[:, 0].mean() - 0.3) < 0.05 and (hidden[:, 1:] == 1).all()
    shown = HideRegions(0.0, 0.4)(regions, mask, training=True).numpy()[..., 0]
    assert (shown[:, 0] == 0).all() and abs(shown[:, 1:].mean() - 0.6) < 0.05


def test_a_hidden_frame_is_replaced_by_a_detection_that_is_shown():
    regions, mask = np.arange(3, dtype="float32").reshape(1, 3, 1).repeat(2000, axis=0), np.ones((2000, 3), bool)
    hidden = HideRegions(1.0, 0.5)(regions, mask, training=True).numpy()[..., 0]
    one_hidden = {(1, 1, 1), (2, 2, 2), (1, 1, 2)}  # the second, the first, none; with both hidden the first stands in
    assert set(map(tuple, hidden.astype(int))) == one_hidden
    assert abs((hidden == [1, 1, 2]).all(axis=1).mean() - 0.25) < 0.05
