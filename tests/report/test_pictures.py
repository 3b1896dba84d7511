"""Pictures: the boxes are where they should be, words wear their boxes' colours, SVG and PNG agree."""

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from keras_imagesent.errors import InputError
from keras_imagesent.report.pictures import PALETTE, draw_alignment, draw_regions

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
    assert texts == ["1", "1", "<b> & co", "-1.25"]
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
