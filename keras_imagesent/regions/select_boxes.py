"""The best boxes of many, by operations that every runtime has."""

import keras
from keras import layers, ops

PROPOSALS = 19  # boxes of a photo; with the whole frame 20 regions, as in the paper
CANDIDATES = 128


@keras.saving.register_keras_serializable("keras_imagesent")
class SelectBoxes(layers.Layer):
    """Greedy non-maximum suppression: take the best box, drop what overlaps it, `number` times.

    Written with top_k, one-hot products and comparisons only, batched and unrolled: TensorFlow's own suppression does
    not convert to LiteRT's builtin operations.

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
        alive, best = ops.top_k(scores, min(CANDIDATES, scores.shape[1]))  # (B,K)
        candidates = ops.one_hot(best, scores.shape[1], dtype=boxes.dtype)  # (B,K,N)
        boxes, classes = ops.matmul(candidates, boxes), ops.matmul(candidates, classes)  # (B,K,4), (B,K,C)
        area = _area(boxes)
        picks, chosen_boxes, chosen_scores = [], [], []
        for _ in range(self.number):
            # top_k, since Keras's argmax looks at the sign of zeros by operations that ONNX and LiteRT do not have
            score, first = ops.top_k(alive, 1)  # (B,1)
            score = score[:, 0]
            pick = ops.one_hot(first[:, 0], alive.shape[-1], dtype=boxes.dtype)  # (B,K)
            box = ops.sum(pick[..., None] * boxes, axis=1, keepdims=True)  # (B,1,4)
            chosen_boxes.append(ops.where(score[:, None, None] > 0, box, 0.0))
            chosen_scores.append(score[:, None])
            picks.append(ops.where(score[:, None] > 0, pick, 0.0)[:, None])
            shared = ops.concatenate(
                [ops.maximum(boxes[..., :2], box[..., :2]), ops.minimum(boxes[..., 2:], box[..., 2:])], axis=-1
            )
            intersection = _area(shared)
            iou = intersection / ops.maximum(area + _area(box) - intersection, 1e-9)
            alive = ops.where((iou > self.overlap) | (pick > 0), 0.0, alive)
        chosen_classes = ops.matmul(ops.concatenate(picks, axis=1), classes)  # (B,number,C)
        return ops.concatenate(chosen_boxes, axis=1), ops.concatenate(chosen_scores, axis=1), chosen_classes

    def compute_output_shape(self, input_shape):
        (batch, *_), _, (*_, classes) = input_shape
        return (batch, self.number, 4), (batch, self.number), (batch, self.number, classes)

    def get_config(self):
        return {**super().get_config(), "number": self.number, "overlap": self.overlap}


def _area(boxes):
    sides = ops.maximum(boxes[..., 2:] - boxes[..., :2], 0.0)
    return sides[..., 0] * sides[..., 1]
