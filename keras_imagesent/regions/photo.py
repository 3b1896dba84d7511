"""Encoded photos to upright pixels, inside the graph: the same bytes give the same pixels in training and serving.

JPEG, PNG, BMP and the first frame of GIF. JPEG is decoded accurately (equal to Pillow), EXIF orientation is applied
(JPEG and PNG), transparency lies over white, gray becomes RGB, CMYK is converted, 16-bit PNG keeps its upper 8 bits.
Walks over headers and memory are bounded: a photo of more than `MAX_PARTS` parts is refused, a large JPEG is reduced
while it is decoded, transparency is removed strip by strip, of a GIF only the first frame is read.
"""

import functools

import numpy as np
import tensorflow as tf

from keras_imagesent.data.photo_check import (
    FULL_SIZE_PIXELS,
    MAX_FRAME_PIECES,
    MAX_PARTS,
    MAX_PIXELS,
    MAX_SCANS,
    TOO_LARGE,
)

OK = "ok"
BROKEN = "not a whole JPEG, PNG, GIF or BMP photo"

_ONE = np.int64(1)
_MAGIC = {"jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n", "gif": b"GIF8", "bmp": b"BM"}


def decode_photo(image_bytes):
    """The upright photo of one encoded string: () -> uint8 (H,W,3). What cannot be decoded is TensorFlow's error.

    Example:
        decode_photo(tf.io.read_file("phone.jpg")).shape  # (4032, 3024, 3), whichever way the phone was held
    """
    return _decode_upright(image_bytes, orientation(image_bytes))


def _decode_upright(image_bytes, way):
    image_bytes = tf.where(way > 0, image_bytes, b"")  # 0: too many parts
    photo = tf.case(
        [
            (_is(image_bytes, "jpeg"), lambda: _decode_jpeg(image_bytes)),
            (_is(image_bytes, "png"), lambda: _decode_png(image_bytes)),
            (_is(image_bytes, "gif"), lambda: _decode_gif(image_bytes)),
        ],
        default=lambda: _decode_bmp(image_bytes),  # complains about anything else
    )
    photo.set_shape((None, None, 3))
    return _turn_upright(photo, way)


def resize_photo(photo, size):
    """Squash uint8 (H,W,3) to float32 (size,size,3) as Pillow's BILINEAR does, in whole numbers."""
    pixels = tf.image.resize(photo, (size, size), "bilinear", antialias=True)
    return tf.ensure_shape(tf.round(tf.clip_by_value(pixels, 0.0, 255.0)), (size, size, 3))


def decode_row(image_bytes, size, max_pixels=MAX_PIXELS):
    """One photo that may be broken: () -> pixels (size,size,3), upright width and height, status "ok" or the reason.

    A broken photo gives zeros and does not fail: TensorFlow's decoders raise, so the decoding runs as a data set of
    one element whose error is dropped, with the zeros behind it.
    """
    attempt = tf.data.Dataset.from_tensors(image_bytes).map(_whole_or_too_large(size, max_pixels)).ignore_errors()
    fallback = tf.data.Dataset.from_tensors((*_blank(size), BROKEN))
    return attempt.concatenate(fallback).take(1).get_single_element()


@functools.cache  # one tracing serves every data set and signature
def _whole_or_too_large(size, max_pixels):
    @tf.function(input_signature=[tf.TensorSpec((), tf.string)], autograph=False)
    def decode(row):
        def whole():
            way = orientation(row)
            photo = _decode_upright(row, way)
            stored = tf.cast(stored_size(row), tf.int32)  # the photo itself may be reduced
            upright = tf.where(way > 4, stored[::-1], stored)
            return resize_photo(photo, size), upright, tf.constant(OK)

        return tf.cond(number_of_pixels(row) <= max_pixels, whole, lambda: (*_blank(size), tf.constant(TOO_LARGE)))

    return decode


def _blank(size):
    return tf.zeros((size, size, 3)), tf.zeros((2,), tf.int32)


def decode_pixels(image_bytes, size, max_pixels=MAX_PIXELS):
    """A batch of encoded photos: (B,) -> `pixels (B,size,size,3)` in 0..255 and `status (B,)`, "ok" or the reason.

    A photo that cannot be decoded is black with its own status; the others are answered.

    Example:
        pixels, status = decode_pixels(tf.constant([jpeg, b"junk"]), 320)
        status  # [b"ok", b"not a whole JPEG, PNG, GIF or BMP photo"]
    """
    pixels, _, status = decode_rows(image_bytes, size, max_pixels)
    return pixels, status


def decode_rows(image_bytes, size, max_pixels=MAX_PIXELS):
    """`decode_row` of a batch: (B,) -> pixels (B,size,size,3), upright width and height (B,2), status (B,)."""
    return tf.map_fn(
        lambda row: decode_row(row, size, max_pixels),
        image_bytes,
        fn_output_signature=(
            tf.TensorSpec((size, size, 3), tf.float32),
            tf.TensorSpec((2,), tf.int32),
            tf.TensorSpec((), tf.string),
        ),
        parallel_iterations=8,
    )


def number_of_pixels(image_bytes):
    """How many pixels the header declares, read without decoding: () -> int64."""
    known = tf.reduce_any([_is(image_bytes, kind) for kind in _MAGIC])
    return tf.where(known, tf.reduce_prod(tf.minimum(stored_size(image_bytes), 2**31)), _ONE - 1)


def stored_size(image_bytes):
    """Width and height in the header, before the photo is turned upright: () -> int64 (2,)."""
    head = _head(image_bytes, 32)

    def jpeg():
        return tf.cast(tf.image.extract_jpeg_shape(image_bytes), tf.int64)[1::-1]

    def png():
        return tf.stack([_number(head, 16, 4), _number(head, 20, 4)])

    def gif():
        return tf.stack([_number(head, 6, 2, big=False), _number(head, 8, 2, big=False)])

    def bmp():  # the height is signed: negative means top row first
        height = _number(head, 22, 4, big=False)
        return tf.stack([_number(head, 18, 4, big=False), tf.minimum(height, 2**32 - height)])

    size = tf.case(
        [(_is(image_bytes, "jpeg"), jpeg), (_is(image_bytes, "png"), png), (_is(image_bytes, "gif"), gif)], default=bmp
    )
    return tf.ensure_shape(size, (2,))


def orientation(image_bytes):
    """EXIF orientation, 1 to 8, of a JPEG's APP1 or a PNG's eXIf; 1 where there is none: () -> int64.

    0 when the header has more than `MAX_PARTS` parts, or a JPEG more than `MAX_SCANS` scans.
    """
    return tf.case(
        [
            (_is(image_bytes, "jpeg"), lambda: _jpeg_orientation(_head(image_bytes, 2**18))),
            (_is(image_bytes, "png"), lambda: _png_orientation(_head(image_bytes, -1))),
        ],
        default=lambda: tf.constant(_ONE),
    )


# --- formats ---


def _is(image_bytes, kind):
    return tf.strings.substr(image_bytes, 0, len(_MAGIC[kind])) == _MAGIC[kind]


def _decode_jpeg(image_bytes):
    def decode(ratio):
        return lambda: tf.io.decode_jpeg(image_bytes, channels=3, ratio=ratio, dct_method="INTEGER_ACCURATE")

    pixels = number_of_pixels(image_bytes)
    scans = _count(_head(image_bytes, -1), b"\xff\xda")
    image_bytes = tf.where(scans <= MAX_SCANS, image_bytes, b"")
    return tf.case(
        [(pixels <= FULL_SIZE_PIXELS, decode(1)), (pixels <= 4 * FULL_SIZE_PIXELS, decode(2))], default=decode(4)
    )


def _decode_png(image_bytes):
    data = _head(image_bytes, -1)
    clear = (_number(data, 25, 1) >= 4) | (_count(data, b"tRNS") > 0)  # has, or may have, an alpha channel
    # gray of 1, 2 or 4 bits is either clear or not, and TensorFlow's full alpha is then 1, 3 or 15
    few_bits = (_number(data, 25, 1) == 0) & (_number(data, 24, 1) < 8)
    return tf.cond(
        clear,
        lambda: _over_white(tf.io.decode_png(image_bytes, channels=4), few_bits),
        lambda: tf.io.decode_png(image_bytes, channels=3),
    )


def _over_white(rgba, few_bits):
    """uint8 (H,W,4) -> (H,W,3) over white. A strip at a time: the sums need 16 bytes a pixel and more."""
    height, width = tf.unstack(tf.shape(rgba)[:2])
    rows = tf.maximum(1, 2**20 // tf.maximum(width, 1))
    strips = (height + rows - 1) // rows

    def add(number, done):
        strip = tf.cast(rgba[number * rows : (number + 1) * rows], tf.int32)
        colour, alpha = strip[..., :3], strip[..., 3:]
        alpha = tf.where(few_bits & (alpha > 0), 255, alpha)
        white = tf.cast((colour * alpha + 255 * (255 - alpha) + 127) // 255, tf.uint8)
        return number + 1, done.write(number, white)

    done = tf.TensorArray(tf.uint8, strips, infer_shape=False, element_shape=(None, None, 3))
    start = tf.constant(0), done
    return tf.while_loop(lambda number, _: number < strips, add, start, parallel_iterations=1)[1].concat()


def _decode_gif(image_bytes):
    """The first frame, which must fill the picture; its transparent colour becomes white, where TensorFlow has black.

    Before the frame (0x2C) stand the palette and blocks (0x21, kind, pieces that begin with their length, 0); the block
    of kind 0xF9 says in its fourth byte whether there is a transparent colour and in its seventh which. The frame has a
    palette of its own or not, a byte, and such pieces. What follows it is cut off: TensorFlow would read it all.
    """
    data = _head(image_bytes, -1)

    def at(place):
        return _number(data, place, 1)

    def palette_length(flags):
        return tf.where(flags >= 128, 3 * 2 ** (flags % 8 + 1), 0)

    def goes_on(place, control, inside):
        return inside | (at(place) == 0x21)

    def step(place, control, inside):
        length = at(place)
        control = tf.where(~inside & (at(place + 1) == 0xF9), place, control)
        return tf.where(inside, place + 1 + length, place + 2), control, ~inside | (length > 0)

    start = 13 + palette_length(at(10)), tf.constant(0, tf.int64), tf.constant(False)
    frame, control, inside = tf.while_loop(goes_on, step, start, maximum_iterations=MAX_PARTS)
    first = frame + 11 + palette_length(at(frame + 9))
    last = tf.size(data, tf.int64) - 1  # a zero: there are zeros behind the file
    lengths = tf.cast(data, tf.int64)
    end = tf.while_loop(
        lambda piece: lengths[piece] > 0,
        lambda piece: (tf.minimum(piece + 1 + lengths[piece], last),),
        (tf.minimum(first, last),),
        maximum_iterations=MAX_FRAME_PIECES,
    )[0]
    walked = ~goes_on(frame, control, inside) & (at(end) == 0)
    palette = tf.where(at(frame + 9) >= 128, frame + 10, 13)
    clear = (control > 0) & (at(control + 3) % 2 == 1)
    alone = tf.strings.substr(image_bytes, 0, tf.cast(tf.minimum(end, 2**31 - 2), tf.int32) + 1) + b";"

    def whiten():
        return _replace(_replace(alone, palette + 3 * at(control + 6), b"\xff" * 3), control + 3, b"\0")

    opaque = tf.cond(clear, whiten, lambda: alone)
    fills = (_number(data, frame + 1, 4) == 0) & (_number(data, frame + 5, 4) == _number(data, 6, 4))
    return tf.io.decode_image(tf.where(walked & fills, opaque, b""), channels=3, expand_animations=False)


def _replace(text, place, new):
    place = tf.cast(place, tf.int32)
    return tf.strings.substr(text, 0, place) + new + tf.strings.substr(text, place + len(new), -1)


def _decode_bmp(image_bytes):
    plain = _is(image_bytes, "bmp") & (_number(_head(image_bytes, 32), 30, 4, big=False) % 3 == 0)  # not compressed
    photo = tf.io.decode_bmp(tf.where(plain, image_bytes, b""), channels=0)

    def colours():  # TensorFlow gives the numbers of the palette's colours, which are stored as BGR0
        start = tf.cast(14 + _number(_head(image_bytes, 32), 14, 4, big=False), tf.int32)
        palette = _head(tf.strings.substr(image_bytes, start, 1024) + b"\0" * 1024, 1024)[:1024]
        return tf.gather(tf.reverse(tf.reshape(palette, (256, 4))[:, :3], (1,)), tf.cast(photo[..., 0], tf.int32))

    return tf.cond(tf.shape(photo)[-1] == 1, colours, lambda: photo[..., :3])


# --- EXIF ---


def _turn_upright(photo, way):
    def when(ways, photo, turn):
        return tf.cond(tf.reduce_any(way == tf.constant(ways, tf.int64)), lambda: turn(photo), lambda: photo)

    photo = when([5, 6, 7, 8], photo, lambda x: tf.transpose(x, (1, 0, 2)))
    photo = when([2, 3, 6, 7], photo, lambda x: tf.reverse(x, (1,)))
    return when([3, 4, 7, 8], photo, lambda x: tf.reverse(x, (0,)))


def _head(image_bytes, length):
    """The first bytes as uint8, with zeros behind so that a short file cannot be overrun."""
    return tf.io.decode_raw(tf.strings.substr(image_bytes, 0, length) + b"\0" * 32, tf.uint8)


def _number(data, at, width, big=True):
    """The unsigned number in `width` bytes; 0 outside the data."""
    last = tf.size(data, tf.int64) - width
    at = tf.cast(at, tf.int64)
    digits = tf.cast(tf.slice(data, [tf.clip_by_value(at, 0, last)], [width]), tf.int64)  # copies no more than these
    weights = 256 ** np.arange(width, dtype=np.int64)
    value = tf.reduce_sum(digits * tf.where(big, weights[::-1].copy(), weights))
    return tf.where((at >= 0) & (at <= last), value, _ONE - 1)


def _count(data, pattern):
    """How often the bytes of `pattern` stand in the data: uint8 (N,) -> int64."""
    found = [data[i : tf.size(data) - len(pattern) + 1 + i] == byte for i, byte in enumerate(pattern)]
    return tf.math.count_nonzero(tf.reduce_all(tf.stack(found), axis=0))


def _jpeg_orientation(data):
    """Walk the segments up to the picture itself, looking for an `Exif` APP1."""

    def step(at):
        return at + tf.where(_number(data, at + 1, 1) == 0xFF, _ONE, 2 + _number(data, at + 2, 2))  # 0xFF: filling

    def is_exif(at):
        return (_number(data, at, 2) == 0xFFE1) & (_number(data, at + 4, 6) == int.from_bytes(b"Exif\0\0"))

    def goes_on(at):
        marker = _number(data, at, 2)
        return (marker >= 0xFFC0) & (marker != 0xFFDA) & ~is_exif(at)

    start = (tf.constant(2, tf.int64),)
    at = tf.while_loop(goes_on, lambda at: (step(at),), start, maximum_iterations=MAX_PARTS)[0]
    unknown = tf.where(goes_on(at), _ONE - 1, _ONE)
    return tf.cond(is_exif(at), lambda: _tiff_orientation(data[at + 10 :]), lambda: unknown)


def _png_orientation(data):
    """Walk the chunks, looking for `eXIf`."""

    def is_exif(at):
        return _number(data, at + 4, 4) == int.from_bytes(b"eXIf")

    def goes_on(at):
        return (_number(data, at + 4, 4) > 0) & ~is_exif(at)

    start = (tf.constant(8, tf.int64),)
    at = tf.while_loop(goes_on, lambda at: (at + 12 + _number(data, at, 4),), start, maximum_iterations=MAX_PARTS)[0]
    unknown = tf.where(goes_on(at), _ONE - 1, _ONE)
    return tf.cond(is_exif(at), lambda: _tiff_orientation(data[at + 8 :]), lambda: unknown)


def _tiff_orientation(data):
    """The orientation in the first directory of a TIFF header: entries of 12 bytes, the tag first, the value at 8."""
    big = _number(data, 0, 2) == int.from_bytes(b"MM")
    directory = _number(data, 4, 4, big)
    entries = tf.minimum(_number(data, directory, 2, big), 512)

    def goes_on(entry):
        return (entry < entries) & (_number(data, directory + 2 + 12 * entry, 2, big) != 0x0112)

    entry = tf.while_loop(goes_on, lambda entry: (entry + 1,), (tf.constant(0, tf.int64),))[0]
    way = _number(data, directory + 2 + 12 * entry + 8, 2, big)
    return tf.where((entry < entries) & (way >= 1) & (way <= 8), way, _ONE)
