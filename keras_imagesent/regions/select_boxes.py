"""The best boxes of many, by operations that every runtime has."""

import keras
import numpy as np
from keras import layers, ops

PROPOSALS = 19  # boxes of a photo; with the whole frame 20 regions, as in the paper
CANDIDATES = 128


@keras.saving.register_keras_serializable("keras_imagesent")
class SelectBoxes(layers.Layer):
    """Greedy non-maximum suppression: take the best box, drop what overlaps it, `number` times.

    Written with top_k, products, comparisons and one small loop, batched: TensorFlow's own suppression does not convert
    to LiteRT's builtin operations, and unrolled steps take ONNX Runtime long to load.

    Args:
        number: how many boxes to keep; rows that run out of candidates get zero boxes with score 0.
        overlap: a box with a larger intersection over union with a better one is dropped.

    Call arguments:
        inputs: boxes (B,N,4) as x0, y0, x1, y1, scores (B,N), above 0, and class scores (B,N,C), which only follow.
    """

    def __init__(self, number, overlap=0.5, **kwargs):
        super().__init__(**kwargs)
        self.number, self.overlap = number, overlap

    def call(self, inputs):
        boxes, scores, classes = inputs
        missing = max(self.number - scores.shape[1], 0)
        boxes, scores, classes = (_lengthen(values, missing) for values in (boxes, scores, classes))
        scores, best = ops.top_k(scores, max(self.number, min(CANDIDATES, scores.shape[1])))  # (B,K), the best first
        candidates = _pick(best, boxes)  # (B,K,4)
        worse = np.triu(np.ones((best.shape[1], best.shape[1]), bool), 1)  # (K,K): k comes after j
        drops = ops.cast((_iou(candidates) > self.overlap) & worse, boxes.dtype)  # (B,j,k): j, if kept, drops k

        # Kept is what no kept box drops. A round makes right whatever depends only on what is right, so that all is
        # right, as the greedy loop has it, when a round changes nothing; that takes as many as the longest chain.
        def drop(kept, _):
            return 1.0 - ops.minimum(ops.matmul(kept, drops), 1.0), kept  # (B,1,K)

        first = ops.ones_like(scores)[:, None]
        kept, _ = ops.while_loop(lambda kept, before: ops.any(kept != before), drop, drop(first, None))
        scores, chosen = ops.top_k(kept[:, 0] * scores, self.number)  # (B,number)
        there = ops.cast(scores > 0, boxes.dtype)[..., None]
        chosen_boxes = _pick(chosen, candidates) * there
        return chosen_boxes, scores, _pick(chosen, _pick(best, classes)) * there

    def compute_output_shape(self, input_shape):
        (batch, *_), _, (*_, classes) = input_shape
        return (batch, self.number, 4), (batch, self.number), (batch, self.number, classes)

    def get_config(self):
        return {**super().get_config(), "number": self.number, "overlap": self.overlap}


def _lengthen(values, rows):
    """(B,N,...) -> (B,N+rows,...), zeros at the end."""
    return ops.pad(values, [[0, 0], [0, rows], *[[0, 0]] * (len(values.shape) - 2)]) if rows else values


def _pick(places, values):
    """Places (B,K) in values (B,N,C) -> (B,K,C), by a product: a gather by rows would not survive ONNX."""
    return ops.matmul(ops.one_hot(places, values.shape[1], dtype=values.dtype), values)


def _iou(boxes):
    """Boxes (B,K,4) -> intersection over union of each two (B,K,K)."""
    mine, theirs = boxes[:, :, None], boxes[:, None]
    shared = _area(ops.maximum(mine[..., :2], theirs[..., :2]), ops.minimum(mine[..., 2:], theirs[..., 2:]))
    areas = _area(mine[..., :2], mine[..., 2:]) + _area(theirs[..., :2], theirs[..., 2:])
    return shared / ops.maximum(areas - shared, 1e-9)


def _area(low, high):
    sides = ops.maximum(high - low, 0.0)
    return sides[..., 0] * sides[..., 1]
