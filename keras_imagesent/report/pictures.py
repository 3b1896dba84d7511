"""Single pictures for papers and slides: boxes and words on a photo, as PNG or SVG."""

import base64
import io
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from keras_imagesent.data.atomic import write_whole
from keras_imagesent.data.photo_check import FORMATS
from keras_imagesent.errors import InputError

# Okabe and Ito's colours, told apart by the colour-blind; from the eighth box on they come again, dashed.
PALETTE = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#F0E442")
INK, FAINT, PAPER = "#161616", "#767676", "#ffffff"
TEXT = 22  # font size in a picture of WIDTH
WIDTH = 1000


@dataclass(frozen=True)
class Box:
    """A rectangle: filled, or outlined with a white halo so that it shows on any photo."""

    x0: float
    y0: float
    x1: float
    y1: float
    colour: str
    filled: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Text:
    """A line of text; x, y is the left end of its middle line."""

    x: float
    y: float
    text: str
    colour: str = INK
    size: int = TEXT


@dataclass
class Picture:
    """A photo with shapes on and below it, in pixels of the finished picture.

    Example:

    >>> draw_regions("dog.jpg", [[0.1, 0.2, 0.6, 0.9]], ["a dog"]).save("dog.svg")
    """

    photo: Image.Image
    height: int
    shapes: list

    @property
    def width(self):
        return self.photo.width

    def save(self, path):
        """Writes PNG or SVG, as the file's name ends."""
        path = Path(path)
        if path.suffix.lower() not in (".png", ".svg"):
            raise InputError(f"cannot draw {path}: a picture's name ends in .png or .svg")
        data = self.svg().encode() if path.suffix.lower() == ".svg" else self.png()
        write_whole(path, data)

    def png(self):
        """The picture as PNG bytes."""
        file = io.BytesIO()
        self.image().save(file, "PNG", dpi=(300, 300))
        return file.getvalue()

    def image(self):
        """The picture as a Pillow image."""
        image = Image.new("RGB", (self.width, self.height), PAPER)
        image.paste(self.photo, (0, 0))
        draw = ImageDraw.Draw(image)
        for shape in self.shapes:
            if isinstance(shape, Text):
                draw.text((shape.x, shape.y), shape.text, shape.colour, _font(shape.size), anchor="lm")
            elif shape.filled:
                draw.rectangle((shape.x0, shape.y0, shape.x1, shape.y1), shape.colour)
            else:
                corners = (shape.x0, shape.y0, shape.x1, shape.y1)
                draw.rectangle([c + d for c, d in zip(corners, (-1, -1, 1, 1), strict=True)], outline=PAPER, width=7)
                draw.rectangle(corners, outline=shape.colour, width=4)
                if shape.dashed:
                    _dash(draw, shape)
        return image

    def svg(self):
        """The picture as SVG text: the photo inside, words as text."""
        file = io.BytesIO()
        self.photo.save(file, "JPEG", quality=92, subsampling=0)
        photo = base64.b64encode(file.getvalue()).decode()
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="Aileron, Helvetica, Arial, sans-serif">',
            f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>',
            f'<image width="{self.width}" height="{self.photo.height}" href="data:image/jpeg;base64,{photo}"/>',
        ]
        for shape in self.shapes:
            if isinstance(shape, Text):
                # textLength: another font takes the same room, so that no word runs out of its box.
                parts.append(
                    f'<text x="{shape.x:g}" y="{shape.y:g}" font-size="{shape.size}" fill="{shape.colour}" '
                    f'dominant-baseline="central" textLength="{_width(shape.text, shape.size):g}" '
                    f'lengthAdjust="spacingAndGlyphs">{escape(shape.text)}</text>'
                )
                continue
            place = (
                f'x="{shape.x0:g}" y="{shape.y0:g}" width="{shape.x1 - shape.x0:g}" height="{shape.y1 - shape.y0:g}"'
            )
            if shape.filled:
                parts.append(f'<rect {place} fill="{shape.colour}"/>')
            else:
                dash = ' stroke-dasharray="14 9"' if shape.dashed else ""
                parts.append(f'<rect {place} fill="none" stroke="{PAPER}" stroke-width="7"/>')
                parts.append(f'<rect {place} fill="none" stroke="{shape.colour}" stroke-width="4"{dash}/>')
        return "\n".join([*parts, "</svg>\n"])


def draw_regions(photo, boxes, labels, scores=None, width=WIDTH):
    """Boxes with numbers from 0 on the photo, and below it each number's label (and score).

    Args:
        photo: a path, or a Pillow image.
        boxes: (N, 4), `x0, y0, x1, y1` in 0..1 of the upright photo.
        labels: N strings, such as the regions' captions.
        scores: N numbers shown behind the labels, such as log probabilities.

    Example:

    >>> draw_regions("dog.jpg", boxes, captions, log_probs).save("described.png")
    """
    photo = _open(photo, width)
    marks = [_colour(i) for i in range(len(labels))]
    shapes = _outlines(photo, boxes, marks)
    shapes += _tags(photo, boxes, [str(i) for i in range(len(labels))], marks)
    line, y = int(TEXT * 1.7), photo.height + int(TEXT * 1.2)
    for i, (label, (colour, dashed)) in enumerate(zip(labels, marks, strict=True)):
        x = _chip(shapes, 12, y, str(i), colour, dashed, least=44) + 14
        rows = _wrap(label, photo.width - x - 110)
        for row, text in enumerate(rows):
            shapes.append(Text(x, y + row * line, text))
        if scores is not None:
            shapes.append(Text(photo.width - 80, y, f"{scores[i]:.2f}", FAINT, 18))
        y += line * len(rows)
    return Picture(photo, y - line // 3 if len(labels) else photo.height, shapes)


def draw_alignment(photo, words, boxes, phrase_regions, scores=None, threshold=None, width=WIDTH):
    """A sentence below its photo, each word in the colour of its box (Eqs. 10-12).

    Args:
        photo: a path, or a Pillow image.
        words: T strings as typed.
        boxes: (R, 4), `x0, y0, x1, y1` in 0..1 of the upright photo.
        phrase_regions: T numbers of boxes; -1 for a word without one.
        scores: T similarities of each word with its box, shown under the words.
        threshold: words that score less are faded and draw no box.

    Example:

    >>> draw_alignment("dog.jpg", ["a", "dog"], boxes, [3, 3], scores=[0.2, 1.4]).save("aligned.svg")
    """
    photo = _open(photo, width)
    regions = [int(region) for region in phrase_regions]
    if scores is not None and threshold is not None:
        regions = [r if s >= threshold else -1 for r, s in zip(regions, scores, strict=True)]
    used = list(dict.fromkeys(r for r in regions if r >= 0))
    marks = {region: _colour(i) for i, region in enumerate(used)}
    phrases = {region: [] for region in used}
    for region, group in groupby(zip(regions, words, strict=True), key=lambda pair: pair[0]):
        if region >= 0:
            phrases[region].append(" ".join(word for _, word in group))
    used_boxes = [boxes[region] for region in used]
    shapes = _outlines(photo, used_boxes, list(marks.values()))
    shapes += _tags(photo, used_boxes, [" … ".join(phrases[r]) for r in used], list(marks.values()))
    line = int(TEXT * (1.8 if scores is None else 2.8))
    x, y = 14, photo.height + int(TEXT * 1.3)
    for t, (word, region) in enumerate(zip(words, regions, strict=True)):
        if x > 14 and x + _width(word) + 24 > photo.width:
            x, y = 14, y + line
        start = x
        if region >= 0:
            x = _chip(shapes, x, y, word, *marks[region])
        else:
            shapes.append(Text(x + 6, y, word, FAINT))
            x += int(_width(word)) + 12
        if scores is not None:
            number = f"{scores[t]:.2f}"
            shapes.append(Text((start + x - _width(number, 15)) / 2, y + TEXT * 1.2, number, FAINT, 15))
            x = max(x, start + int(_width(number, 15)) + 6)
        x += 8
    return Picture(photo, y + int(TEXT * (1.2 if scores is None else 2.0)), shapes)


def _open(photo, width):
    """The upright photo in RGB, brought to `width` pixels."""
    try:
        image = photo if isinstance(photo, Image.Image) else Image.open(photo, formats=FORMATS)
        image = ImageOps.exif_transpose(image)
    except OSError as error:
        raise InputError(f"cannot draw on {photo}: it is not a photo that can be read ({error})") from error
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, PAPER), image.convert("RGBA"))
    return image.convert("RGB").resize((width, max(1, round(image.height * width / image.width))), Image.LANCZOS)


def _colour(i):
    return PALETTE[i % len(PALETTE)], i >= len(PALETTE)


def _font(size):
    return ImageFont.load_default(size)


def _width(text, size=TEXT):
    return _font(size).getlength(text)


def _ink(colour):
    """Black or white, whichever reads better on the colour."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 100 else PAPER


def _place(photo, box):
    """A box in whole pixels, kept so far inside the photo that its outline shows."""
    x0, y0, x1, y1 = (float(c) for c in box)
    x0, x1 = (min(max(x * photo.width, 4), photo.width - 5) for x in (x0, x1))
    y0, y1 = (min(max(y * photo.height, 4), photo.height - 5) for y in (y0, y1))
    return round(x0), round(y0), round(max(x1, x0 + 1)), round(max(y1, y0 + 1))


def _outlines(photo, boxes, marks):
    """Outlines, large boxes first so that small ones lie on top."""
    outlines = [Box(*_place(photo, b), colour, dashed=dashed) for b, (colour, dashed) in zip(boxes, marks, strict=True)]
    return sorted(outlines, key=lambda b: -(b.x1 - b.x0) * (b.y1 - b.y0))


def _tags(photo, boxes, labels, marks):
    """A filled tag with text at a corner of each box, where it covers no other tag if it can."""
    shapes, taken = [], []
    for box, label, (colour, dashed) in zip(boxes, labels, marks, strict=True):
        x0, y0, x1, y1 = _place(photo, box)
        label = _shorten(label, photo.width - 30)
        w, h = int(_width(label)) + 14, int(TEXT * 1.4)
        corners = [(x0 - 2, y0 - h), (x0 + 2, y0 + 2), (x1 - w - 2, y0 + 2), (x0 + 2, y1 - h - 2), (x0 - 2, y1)]
        corners += [(x1 - w - 2, y1 - h - 2), *((x0 + 2, y0 + 2 + k * (h + 2)) for k in range(1, 8))]
        corners = [(min(max(x, 0), photo.width - w), min(max(y, 0), photo.height - h)) for x, y in corners]
        x, y = min(corners, key=lambda c: sum(_overlap((*c, c[0] + w, c[1] + h), other) for other in taken))
        taken.append((x, y, x + w, y + h))
        shapes.append(Box(x, y, x + w, y + h, colour, filled=True))
        shapes.append(Text(x + 7, y + h / 2, label, _ink(colour)))
        if dashed:
            shapes.append(Box(x, y + h - 3, x + w, y + h, INK, filled=True))
    return shapes


def _chip(shapes, x, y, text, colour, dashed, least=0):
    """Adds text on its colour at the line's middle y; returns the chip's right end."""
    w, h = max(int(_width(text)) + 12, least), int(TEXT * 1.4)
    shapes.append(Box(x, y - h // 2, x + w, y + h // 2, colour, filled=True))
    shapes.append(Text(x + (w - _width(text)) / 2, y, text, _ink(colour)))
    if dashed:
        shapes.append(Box(x, y + h // 2 - 3, x + w, y + h // 2, INK, filled=True))
    return x + w


def _overlap(a, b):
    return max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))


def _shorten(text, width):
    while _width(text) > width:
        text = text[:-2].rstrip(" …") + "…"
    return text


def _wrap(text, width):
    """The text in lines no wider than `width` (a single longer word is shortened)."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if _width(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(_shorten(word, width))
    return [line for line in lines if line] or [""]


def _dash(draw, box):
    """White gaps in an outline, which make it dashed."""
    for x in range(box.x0 + 14, box.x1 - 8, 23):
        draw.rectangle((x, box.y0, x + 8, box.y0 + 3), PAPER)
        draw.rectangle((x, box.y1 - 3, x + 8, box.y1), PAPER)
    for y in range(box.y0 + 14, box.y1 - 8, 23):
        draw.rectangle((box.x0, y, box.x0 + 3, y + 8), PAPER)
        draw.rectangle((box.x1 - 3, y, box.x1, y + 8), PAPER)
