"""Photos looked at before the model sees them: refused, cut or made smaller, so that no photo takes the server down.

The graph has bounds of its own, but older exports have not: a header of half a million parts kept their decoder busy
for minutes, and a PNG of 120 megapixels took 7 GB.
"""

import io
import threading

import numpy as np

from keras_imagesent.data.photo_check import TOO_LARGE
from keras_imagesent.data.photo_header import read_header
from keras_imagesent.errors import InputError
from keras_imagesent.regions.pillow_photo import read_photo

INPUT = "image_bytes"  # the inputs and the output that our signatures use for photos
STATUS = "status"
OK = b"ok"
MOST_DECODING_BYTES = 512 * 2**20  # a photo that needs more is made smaller first
SMALLER_PIXELS = 4_000_000

_one_at_a_time = threading.Lock()  # making a photo smaller takes up to half a gigabyte


def check_photos(inputs):
    """Looks at the photos of a request: the inputs for the model, each row's decoding bytes, {row: why it is refused}.

    A refused photo becomes an empty one, which every export answers with a blank row.
    """
    photos = inputs.get(INPUT)
    if photos is None or photos.ndim != 1 or photos.dtype != object:
        return inputs, None, {}
    checked, weights, refused = photos.copy(), [0] * len(photos), {}
    for row, image_bytes in enumerate(photos):
        header = read_header(image_bytes)
        if header.refusal:
            checked[row], refused[row] = b"", header.refusal
        elif header.decoding_bytes > MOST_DECODING_BYTES:
            checked[row] = smaller_photo(image_bytes)
            weights[row] = 0 if not checked[row] else 16 * SMALLER_PIXELS
        else:
            weights[row] = header.decoding_bytes
            if header.end < len(image_bytes):
                checked[row] = image_bytes[: header.end] + b";"  # a GIF behind its first frame
    return {**inputs, INPUT: checked}, weights, refused


def smaller_photo(image_bytes):
    """The same photo as a BMP of fewer pixels, upright; empty when it cannot be decoded."""
    with _one_at_a_time:
        try:
            photo = read_photo(image_bytes, SMALLER_PIXELS)
        except InputError:
            return b""
    file = io.BytesIO()
    photo.save(file, "BMP")
    return file.getvalue()


def tell_refusals(outputs, refused):
    """Writes the reasons into the answer's `status`."""
    if not refused or STATUS not in outputs:
        return outputs
    status = np.array(outputs[STATUS], object)
    for row, reason in refused.items():
        status[row] = reason.encode()
    return {**outputs, STATUS: status}


def unreadable(outputs):
    """The reasons of the photos that were not read, as short names for a counter."""
    status = outputs.get(STATUS)
    if status is None or status.dtype != object:
        return []
    names = {TOO_LARGE: "too large", "too many parts": "too many parts"}
    return [names.get(reason.decode("utf-8", "replace"), "broken") for reason in status.ravel() if reason != OK]
