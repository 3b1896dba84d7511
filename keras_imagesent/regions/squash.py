"""A photo squashed to a square in NumPy: the numbers of `tf.image.resize(antialias=True)`, to the last bit.

Pillow's own resizing is as good, but differs by a level here and there: enough to send the beam search another way and
to change some captions (5 of 200 photos of Flickr8k). Programs without TensorFlow use this one.
"""

import numpy as np

IMAGE_SIZE = 320  # side of the square that the shipped models look at, whatever size the photo has
ONE, HALF = np.float32(1), np.float32(0.5)


def squash(photo: np.ndarray, size: int) -> np.ndarray:
    """uint8 (H,W,3) -> float32 (size,size,3) of whole numbers: bilinear, antialiased.

    Example:
        >>> squash(np.zeros((480, 640, 3), np.uint8), 320).shape
        (320, 320, 3)
    """
    columns = _gather(photo, size)  # rows first, as TensorFlow does
    square = _gather(columns.transpose(1, 0, 2), size).transpose(1, 0, 2)
    return np.round(np.clip(square, 0, 255))


def _gather(photo, size):
    """Resizes the first axis: each new row is a weighted sum of old ones, added up in float32 in their order."""
    starts, weights = resize_weights(len(photo), size)
    rows = np.zeros((size, *photo.shape[1:]), np.float32)
    for tap in range(weights.shape[1]):
        used = np.flatnonzero(weights[:, tap])
        rows[used] += weights[used, tap, None, None] * photo[starts[used] + tap].astype(np.float32)
    return rows


def resize_weights(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of `size` new rows the first old row that counts, and the weights (size, taps) from there on.

    A triangle filter whose half width is one old row, or one new row where the photo is made smaller; every step is
    rounded to float32 as in TensorFlow's ScaleAndTranslate.
    """
    step = ONE / (np.float32(size) / np.float32(length))  # old rows for each new one
    width = max(step, ONE)
    center = (np.arange(size, dtype=np.float32) + HALF) * step
    first = np.clip(np.ceil(center - width - HALF).astype(int), 0, length - 1)
    last = np.clip(np.floor(center + width - HALF).astype(int), 0, length - 1)
    rows = first[:, None] + np.arange((last - first).max() + 1)
    weights = np.maximum(
        ONE - np.abs((rows.astype(np.float32) + HALF - center[:, None]) * (ONE / width)), np.float32(0)
    )
    weights[rows > last[:, None]] = 0
    total = np.zeros(size, np.float32)
    for tap in weights.T:  # one after the other, as TensorFlow adds them
        total += tap
    return first, weights * (ONE / total)[:, None]
