"""Draws the photos of the generated scenes: shaded objects with shadows on textured grounds."""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

COLOURS = {
    "red": (205, 25, 30),
    "orange": (245, 130, 10),
    "yellow": (250, 220, 25),
    "green": (25, 140, 45),
    "blue": (25, 70, 205),
    "purple": (125, 35, 150),
    "black": (28, 28, 30),
    "white": (245, 245, 245),
}
# ground -> two colours that its noise mixes, and how stretched the noise is across and down
GROUNDS = {
    "grass": ((70, 110, 40), (130, 160, 70), (1, 5)),
    "sand": ((205, 180, 130), (235, 215, 170), (2, 2)),
    "snow": ((205, 215, 228), (240, 244, 250), (24, 10)),
    "wood": ((120, 80, 50), (175, 125, 80), (60, 2)),
    "water": ((60, 120, 150), (140, 190, 205), (16, 3)),
    "stone": ((105, 105, 108), (160, 158, 155), (6, 6)),
    "brick": ((140, 72, 58), (190, 125, 105), (14, 6)),
    "tiles": ((196, 206, 200), (226, 232, 228), (20, 20)),
    "asphalt": ((52, 53, 58), (88, 88, 92), (1, 1)),
    "straw": ((165, 125, 35), (230, 195, 95), (2, 30)),
    "carpet": ((150, 85, 105), (190, 125, 140), (3, 3)),
    "chessboard": ((205, 190, 160), (225, 212, 185), (12, 12)),
}
# ground -> width and height of its bricks or tiles, and how far every other row is moved, in pixels
JOINTS = {"brick": (44, 18, 22), "tiles": (40, 40, 0)}
SHARPEN = 3  # objects are drawn this much larger, then made smaller: smooth edges


def draw_scene(scene, rng):
    """A scene's photo.

    Args:
        scene: width, height, ground, and objects with shape, colour and box in 0..1.
        rng: NumPy's random generator, for texture and small differences of colour.
    """
    width, height = scene["width"], scene["height"]
    photo = Image.fromarray(ground_texture(scene["ground"], width, height, rng))
    for thing in scene["objects"]:
        x0, y0, x1, y1 = (round(edge * side) for edge, side in zip(thing["box"], (width, height) * 2, strict=True))
        mask = shape_mask(thing["shape"], x1 - x0, y1 - y0)
        shadow = mask.filter(ImageFilter.GaussianBlur(4)).point(lambda value: value * 0.45)
        photo.paste((15, 15, 20), (x0 + 4, y0 + 5), shadow)
        photo.paste(Image.fromarray(shaded(COLOURS[thing["colour"]], mask, rng)), (x0, y0), mask)
    return photo


def ground_texture(ground, width, height, rng):
    """Noise between the ground's two colours: uint8 (height, width, 3)."""
    dark, light, (across, down) = GROUNDS[ground]
    coarse = rng.random((height // down + 2, width // across + 2), dtype=np.float32)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    amount = np.clip(0.75 * np.asarray(smooth) + 0.25 * rng.random((height, width), dtype=np.float32), 0, 1)[..., None]
    brightness = rng.uniform(0.9, 1.08)
    texture = (np.array(dark) * (1 - amount) + np.array(light) * amount) * brightness
    y, x = np.mgrid[0:height, 0:width] + rng.integers(0, 20, (2, 1, 1))
    if ground in JOINTS:
        across, down, moved = JOINTS[ground]
        texture[(y % down < 2) | ((x + moved * (y // down % 2)) % across < 2)] *= 0.62
    elif ground == "chessboard":
        texture[(x // 36 + y // 36) % 2 == 0] *= 0.4
    return np.clip(texture, 0, 255).astype(np.uint8)


def shaded(colour, mask, rng):
    """A body of one colour with light from the upper left and a darker rim: uint8 (h, w, 3)."""
    width, height = mask.size
    y, x = np.mgrid[0:height, 0:width] / np.array([height, width]).reshape(2, 1, 1)
    light = 1.12 - 0.45 * np.hypot(x - 0.3, y - 0.28)
    inner = np.asarray(mask.filter(ImageFilter.GaussianBlur(2.5)), np.float64) / 255
    light *= 0.55 + 0.45 * np.clip(2 * inner - 1, 0, 1)
    body = np.array(colour) * rng.uniform(0.94, 1.06) * rng.uniform(0.98, 1.02, size=3)
    gloss = 60 * np.exp(-((x - 0.32) ** 2 + (y - 0.27) ** 2) / 0.012)
    return np.clip(body * light[..., None] + gloss[..., None], 0, 255).astype(np.uint8)


def shape_mask(shape, width, height):
    """The silhouette of a shape that fills a box: an 8-bit mask."""
    big = Image.new("L", (width * SHARPEN, height * SHARPEN))
    SHAPES[shape](ImageDraw.Draw(big), big.width - 1, big.height - 1)
    return big.resize((width, height), Image.Resampling.BOX)


def _polygon(draw, width, height, points):
    draw.polygon([(x * width, y * height) for x, y in points], fill=255)


def _ball(draw, width, height):
    draw.ellipse((0, 0, width, height), fill=255)


def _box(draw, width, height):
    draw.rectangle((0, 0, width, height), fill=255)


def _cone(draw, width, height):
    _polygon(draw, width, height, [(0.5, 0), (1, 1), (0, 1)])


def _star(draw, width, height):
    turns = [(math.pi * k / 5, 0.5 if k % 2 == 0 else 0.2) for k in range(10)]
    points = [(0.5 + radius * math.sin(turn), 0.5 - radius * math.cos(turn)) for turn, radius in turns]
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    _polygon(draw, width, height, (np.array(points) - low) / (high - low))


def _heart(draw, width, height):
    turn = np.linspace(0, 2 * math.pi, 80)
    x = 16 * np.sin(turn) ** 3
    y = -(13 * np.cos(turn) - 5 * np.cos(2 * turn) - 2 * np.cos(3 * turn) - np.cos(4 * turn))
    _polygon(draw, width, height, np.stack([(x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)], axis=1))


def _ring(draw, width, height):
    draw.ellipse((0, 0, width, height), fill=255)
    draw.ellipse((0.27 * width, 0.27 * height, 0.73 * width, 0.73 * height), fill=0)


def _cross(draw, width, height):
    draw.rectangle((0.34 * width, 0, 0.66 * width, height), fill=255)
    draw.rectangle((0, 0.34 * height, width, 0.66 * height), fill=255)


def _moon(draw, width, height):
    turn = np.linspace(0, math.pi, 40)
    outer = np.stack([1 - np.sin(turn), 0.5 - 0.5 * np.cos(turn)], axis=1)
    inner = np.stack([1 - 0.5 * np.sin(turn), 0.5 + 0.5 * np.cos(turn)], axis=1)
    _polygon(draw, width, height, np.concatenate([outer, inner]))


def _arrow(draw, width, height):
    _polygon(draw, width, height, [(0, 0.3), (0.5, 0.3), (0.5, 0), (1, 0.5), (0.5, 1), (0.5, 0.7), (0, 0.7)])


def _flower(draw, width, height):
    turn = np.linspace(0, 2 * math.pi, 120)
    radius = 0.5 * (0.68 + 0.32 * np.cos(6 * turn))
    x, y = radius * np.sin(turn), radius * np.cos(turn)
    _polygon(draw, width, height, np.stack([(x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)], axis=1))


def _diamond(draw, width, height):
    _polygon(draw, width, height, [(0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5)])


def _house(draw, width, height):
    _polygon(draw, width, height, [(0.5, 0), (1, 0.45), (0.86, 0.45), (0.86, 1), (0.14, 1), (0.14, 0.45), (0, 0.45)])
    draw.rectangle((0.4 * width, 0.62 * height, 0.6 * width, height), fill=0)


def _tree(draw, width, height):
    _polygon(draw, width, height, [(0.5, 0), (0.8, 0.35), (0.65, 0.35), (1, 0.7), (0, 0.7), (0.35, 0.35), (0.2, 0.35)])
    draw.rectangle((0.4 * width, 0.7 * height, 0.6 * width, height), fill=255)


def _bolt(draw, width, height):
    _polygon(draw, width, height, [(0.55, 0), (0, 0.6), (0.4, 0.6), (0.25, 1), (1, 0.36), (0.58, 0.36), (0.95, 0)])


def _crown(draw, width, height):
    _polygon(draw, width, height, [(0, 0), (0.27, 0.45), (0.5, 0), (0.73, 0.45), (1, 0), (0.9, 1), (0.1, 1)])


def _ladder(draw, width, height):
    draw.rectangle((0, 0, 0.2 * width, height), fill=255)
    draw.rectangle((0.8 * width, 0, width, height), fill=255)
    for step in (0.1, 0.36, 0.62, 0.86):
        draw.rectangle((0, step * height, width, (step + 0.1) * height), fill=255)


SHAPES = {
    "ball": _ball,
    "box": _box,
    "cone": _cone,
    "star": _star,
    "heart": _heart,
    "ring": _ring,
    "cross": _cross,
    "moon": _moon,
    "arrow": _arrow,
    "flower": _flower,
    "diamond": _diamond,
    "house": _house,
    "tree": _tree,
    "bolt": _bolt,
    "crown": _crown,
    "ladder": _ladder,
}
