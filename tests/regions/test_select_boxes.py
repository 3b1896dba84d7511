import numpy as np

from keras_imagesent.regions.select_boxes import SelectBoxes


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (area - width * height)


def suppress(boxes, scores, number, limit):
    """The textbook's loop."""
    left = sorted(range(len(scores)), key=lambda i: -scores[i])
    kept = []
    while left and len(kept) < number:
        best = left.pop(0)
        kept.append(best)
        left = [i for i in left if overlap(boxes[best], boxes[i]) <= limit]
    return kept


def test_equals_the_textbook_loop_for_each_photo_of_a_batch():
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(size=(3, 60, 2, 2)), axis=2)
    boxes = corners.reshape(3, 60, 4).astype("float32")  # x0, y0, x1, y1
    scores = rng.uniform(0.1, 1, size=(3, 60)).astype("float32")
    classes = rng.uniform(size=(3, 60, 5)).astype("float32")
    found, found_scores, found_classes = SelectBoxes(8, overlap=0.3)([boxes, scores, classes])
    for row in range(3):
        kept = suppress(boxes[row], scores[row], 8, 0.3)
        np.testing.assert_array_equal(found[row], boxes[row][kept])
        np.testing.assert_array_equal(found_scores[row], scores[row][kept])
        np.testing.assert_allclose(found_classes[row], classes[row][kept], rtol=1e-6)


def test_rows_that_run_out_of_boxes_end_in_zeros():
    box = [0.1, 0.1, 0.5, 0.5]
    inputs = np.array([[box, box]], "float32"), np.array([[0.9, 0.8]], "float32"), np.array([[[0.7], [0.1]]], "float32")
    boxes, scores, classes = SelectBoxes(3)(inputs)
    np.testing.assert_array_equal(boxes[0], np.array([box, [0] * 4, [0] * 4], "float32"))
    np.testing.assert_array_equal(scores[0], np.array([0.9, 0, 0], "float32"))
    np.testing.assert_allclose(classes[0, :, 0], [0.7, 0, 0])


def test_a_long_chain_of_overlaps_is_followed_to_its_end():
    """Each box overlaps only its neighbors: the greedy loop keeps every second one."""
    left = np.linspace(0, 0.8, 30)
    boxes = np.stack([left, left * 0, left + 0.05, left * 0 + 1], axis=1)[None].astype("float32")
    scores = np.linspace(1, 0.1, 30, dtype="float32")[None]
    found, *_ = SelectBoxes(15, overlap=0.2)([boxes, scores, scores[..., None]])
    np.testing.assert_array_equal(found[0], boxes[0, ::2])
