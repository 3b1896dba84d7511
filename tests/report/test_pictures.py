"""Pictures: the boxes are where they should be, words wear their boxes' colours, SVG and PNG agree."""

import io
import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from keras_imagesent import serving
from keras_imagesent.errors import InputError
from keras_imagesent.report.pictures import PALETTE, _ink, draw_alignment, draw_regions

SVG = "{http://www.w3.org/2000/svg}"


def rgb(colour):
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


@pytest.fixture
def gray_photo():
    return Image.new("RGB", (200, 100), (128, 128, 128))


def test_a_box_is_drawn_where_it_is(gray_photo):
    picture = draw_regions(gray_photo, [[0.25, 0.5, 0.75, 0.9]], ["a dog"])
    pixels = np.asarray(picture.image())
    assert picture.width == 1000 and picture.photo.height == 500
    assert tuple(pixels[400, 251]) == rgb(PALETTE[0])  # left edge, x0 = 250
    assert tuple(pixels[449, 500]) == rgb(PALETTE[0])  # bottom edge, y1 = 450
    assert tuple(pixels[350, 500]) == (128, 128, 128)  # inside


def test_words_wear_the_colour_of_their_box(gray_photo):
    boxes = [[0, 0, 1, 1], [0.1, 0.3, 0.4, 0.9], [0.5, 0.3, 0.9, 0.9]]
    picture = draw_alignment(gray_photo, ["a", "dog", "sees", "zebra"], boxes, [2, 2, 1, -1], scores=[1, 2, 3, 0])
    root = ET.fromstring(picture.svg())
    outlines = [r.get("stroke") for r in root.iter(SVG + "rect") if r.get("fill") == "none"]
    assert outlines[1::2] == [PALETTE[0], PALETTE[1]]  # every other is the white halo; box 2 is the larger
    texts = [t.text for t in root.iter(SVG + "text")]
    assert texts == ["a dog", "sees", "a", "1.00", "dog", "2.00", "sees", "3.00", "zebra", "0.00"]


# How the colour-blind see linear RGB: Machado, Oliveira and Fernandes, 2009
BLINDNESS = {
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def linear(colour):
    shares = np.array(rgb(colour)) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(linear_rgb):
    """CIE L*a*b*, where 2.3 is the least difference that people see."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(xyz @ np.clip(linear_rgb, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", BLINDNESS)
def test_the_colour_blind_tell_the_colours_apart(kind):
    seen = [lab(BLINDNESS[kind] @ linear(colour)) for colour in PALETTE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


def test_words_can_be_read_on_every_colour():
    brightness = [0.2126, 0.7152, 0.0722]
    for colour in PALETTE:
        lights = sorted(linear(c) @ brightness + 0.05 for c in (colour, _ink(colour)))
        assert lights[1] / lights[0] >= 4.5  # WCAG's AA
    style = (Path(serving.__file__).parent / "live" / "style.css").read_text()
    assert [re.search(f"--c{i}: (#[0-9a-f]{{6}})", style)[1].upper() for i in range(7)] == list(PALETTE)


def test_low_scoring_words_draw_no_box(gray_photo):
    boxes = [[0, 0, 1, 1], [0.1, 0.3, 0.4, 0.9]]
    picture = draw_alignment(gray_photo, ["a", "dog"], boxes, [0, 1], scores=[0.1, 2.0], threshold=1.0)
    assert [s.colour for s in picture.shapes if getattr(s, "filled", None) is False] == [PALETTE[0]]


def test_labels_do_not_cover_each_other(gray_photo):
    picture = draw_regions(gray_photo, [[0.1, 0.3, 0.9, 0.95]] * 8, [f"caption {i}" for i in range(8)])
    tags = [s for s in picture.shapes if getattr(s, "filled", False) and s.y1 <= picture.photo.height]
    tags = [t for t in tags if t.y1 - t.y0 > 4]
    for i, a in enumerate(tags):
        for b in tags[:i]:
            assert a.x1 <= b.x0 or b.x1 <= a.x0 or a.y1 <= b.y0 or b.y1 <= a.y0


def test_png_and_svg_files(tmp_path, gray_photo):
    picture = draw_regions(gray_photo, [[0, 0, 1, 1]], ["<b> & co"], scores=[-1.25])
    picture.save(tmp_path / "picture.png")
    picture.save(tmp_path / "picture.svg")
    assert Image.open(tmp_path / "picture.png").size == (1000, picture.height)
    texts = [t.text for t in ET.parse(tmp_path / "picture.svg").iter(SVG + "text")]
    assert texts == ["0", "0", "<b> & co", "-1.25"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["picture.png", "picture.svg"]


def test_phone_photos_stand_upright():
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    Image.new("RGB", (200, 100)).save(file, "JPEG", exif=exif)
    picture = draw_regions(file, [], [])
    assert picture.photo.height == 2000


def test_wrong_files_are_named(tmp_path, gray_photo):
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        draw_regions(gray_photo, [], []).save(tmp_path / "x.bmp")
    (tmp_path / "text.jpg").write_text("no photo")
    with pytest.raises(InputError, match="not a photo"):
        draw_regions(tmp_path / "text.jpg", [], [])
