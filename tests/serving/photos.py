"""Drawn photos of every odd kind, as encoded bytes by name."""

import io

import numpy as np
from PIL import Image


def draw(width, height, seed):
    """Coloured rectangles and a gradient."""
    rng = np.random.default_rng(seed)
    across, down = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    photo = (np.stack([across, down, 1 - across], -1) * rng.uniform(60, 255, 3)).astype(np.uint8)
    for _ in range(4):
        x, y = rng.integers(0, width), rng.integers(0, height)
        photo[y : y + height // 3 + 1, x : x + width // 3 + 1] = rng.integers(0, 256, 3)
    return Image.fromarray(photo)


def encode(image, kind="JPEG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def rotated(image, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(image, exif=exif.tobytes())


def odd_photos():
    """Name -> bytes: gray, CMYK, EXIF-rotated, 1x1, huge, animated, transparent, 16 bit, palette, odd sizes."""
    photo = draw(90, 60, 1)
    frames = [draw(50, 40, seed) for seed in (2, 3)]
    gray16 = Image.fromarray(np.linspace(0, 65535, 60 * 40).reshape(40, 60).astype(np.uint16))
    clear = draw(64, 48, 4).convert("RGBA")
    clear.putalpha(Image.fromarray(np.tile(np.arange(0, 256, 4, dtype=np.uint8), (48, 1))))
    found = {
        "gray.jpg": encode(photo.convert("L")),
        "cmyk.jpg": encode(photo.convert("CMYK")),
        "1x1.png": encode(Image.new("RGB", (1, 1), (200, 30, 60)), "PNG"),
        "1x1.jpg": encode(Image.new("RGB", (1, 1), (20, 130, 60))),
        "huge.jpg": encode(draw(4000, 3000, 5), quality=60),
        "animated.gif": encode(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "clear.png": encode(clear, "PNG"),
        "gray16.png": encode(gray16, "PNG"),
        "palette.png": encode(photo.quantize(16), "PNG"),
        "thin.jpg": encode(draw(301, 5, 6)),
        "tall.png": encode(draw(3, 97, 7), "PNG"),
        "bitmap.bmp": encode(draw(31, 17, 8), "BMP"),
        "progressive.jpg": encode(draw(77, 55, 9), progressive=True),
    }
    found |= {f"exif{way}.jpg": rotated(draw(80, 50, 10), way) for way in range(2, 9)}
    return found


def photos():
    """50 photos and more: the odd ones and plain ones of many sizes."""
    plain = {f"plain{i}.jpg": encode(draw(40 + 7 * i, 120 - 2 * i, 100 + i)) for i in range(32)}
    return odd_photos() | plain
