"""Boxes, phrases in captions, and both file forms of phrase boxes."""

import numpy as np
import pytest

from keras_imagesent.alignment.alignment_model import build_alignment
from keras_imagesent.alignment.encode import encode_photos, encode_sentences
from keras_imagesent.errors import InputError
from keras_imagesent.evaluation import grounding
from tests.conftest import SHARED, needs_shared
from tests.tiny_prepared import FEATURES, THINGS, write_tiny_prepared

BOX = [0.2, 0.2, 0.6, 0.6]


def test_overlap_hit_and_point():
    boxes = [BOX, [0.38, 0.2, 0.78, 0.6], [0.7, 0.7, 0.9, 0.9], [0.0, 0.0, 1.0, 1.0]]
    np.testing.assert_allclose(grounding.overlaps(boxes, [BOX])[:, 0], [1, 0.22 / 0.58, 0, 0.16])
    assert grounding.hits(boxes, [BOX]).tolist() == [True, False, False, False]
    assert grounding.hits(boxes, [BOX, boxes[2]]).tolist() == [True, False, True, False]
    assert grounding.points(boxes, [BOX]).tolist() == [True, True, False, True]


def test_half_covered_is_a_hit():
    half = [[0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 0.499, 1.0]]  # of the whole frame: exactly 0.5, and just below
    assert grounding.hits(half, [[0.0, 0.0, 1.0, 1.0]]).tolist() == [True, False]
    assert grounding.hits(half, [[0.0, 0.0, 1.0, 1.0]], threshold=0.4).tolist() == [True, True]


def test_the_box_around_several_is_the_reference_of_a_plural_phrase(tmp_path):
    photos = write_tiny_prepared(tmp_path / "prepared", {"train": 30, "val": 2}).load("val")
    np.testing.assert_allclose(grounding.around([BOX, [0.5, 0.1, 0.9, 0.3]]), [[0.2, 0.1, 0.9, 0.6]])
    left, right = photos.boxes[0, 1], photos.boxes[0, 2]  # each half of what is around both
    items = [grounding.Item("val_0.jpg", "two things", np.array([left, right]))]
    items += [grounding.Item("val_1.jpg", "a thing", np.array([left]))]
    similarity = np.array([[0.0, 1, 0, 0]])

    def similarities(*_):
        return [(item, row, similarity, np.array([True])) for row, item in enumerate(items)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grounding, "similarities", similarities)
        found = grounding.measure_grounding(None, photos, items, None)
    assert found["model"] == {"accuracy": 50.0, "any_box": 100.0, "pointing": 100.0}
    assert found["whole frame"] == {"accuracy": 50.0, "any_box": 0.0, "pointing": 0.0}
    assert (found["items"], found["plural"]) == (2, 1)


def test_all_words_of_a_phrase_choose_its_region(tmp_path):
    prepared = write_tiny_prepared(tmp_path / "prepared", {"train": 30, "val": 3})
    photos, vocabulary = prepared.load("val"), prepared.vocabulary
    model = build_alignment(FEATURES, len(vocabulary), dim=8, units=8, word_dim=8, number_of_regions=4)
    one, other = (word for word in photos.captions[1][0].split() if word in THINGS)
    phrases = [f"a {one}", f"{one} and a {other}", f"purple {one}"]  # the last is in no caption: it stands alone
    items = [grounding.Item("val_1.jpg", phrase, np.array([BOX])) for phrase in phrases]
    found = list(grounding.similarities(model, photos, items, vocabulary))
    # "a ONE and a OTHER zzz": zzz is not in the vocabulary, nor is purple
    assert [marks.tolist() for *_, marks in found] == [[True, True, False, False, False], [False, *[True] * 4], [True]]
    regions = encode_photos(model, photos.regions([1]))[0]
    words = encode_sentences(model, [vocabulary.encode(photos.captions[1][0]), vocabulary.encode(one)])
    for (item, row, similarity, _), sentence in zip(found, (0, 0, 1), strict=True):
        assert row == 1
        np.testing.assert_allclose(similarity, words.of(sentence) @ regions.T, rtol=1e-4, err_msg=item.phrase)


def test_finds_a_phrase_in_the_first_caption_that_has_it():
    captions = ["Two dogs run .", "A man, and a BROWN dog, run ."]
    assert grounding.find_phrase("a brown dog", captions) == (1, 3, 5)
    assert grounding.find_phrase("dog", captions) == (1, 5, 5)
    assert grounding.find_phrase("a cat", captions) is None
    assert grounding.find_phrase("...", captions) is None


def test_chosen_region_sums_the_words_of_the_phrase():
    similarity = np.array([[9.0, 0, 0, 0], [0, 1, 2, 0], [0, 4, 2, 9]])
    in_phrase, mask = np.array([False, True, True]), np.array([True, True, True, False])
    assert grounding.choose_region(similarity, in_phrase, mask) == 1
    assert grounding.choose_region(similarity, np.zeros(3, bool), mask) == 0
    assert grounding.choose_region(similarity, in_phrase, mask, beta=100.0) == 0  # one region for the whole sentence


def test_reads_the_csv(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(
        "filename,phrase,x0,y0,x1,y1\na.jpg,a dog,0,0,0.5,0.5\na.jpg,a cat,0,0,1,1\na.jpg,a dog,0.5,0.5,1,1\n"
    )
    dog, cat = grounding.read_phrase_boxes(path)
    assert (dog.filename, dog.phrase, dog.boxes.shape, cat.phrase) == ("a.jpg", "a dog", (2, 4), "a cat")
    path.write_text("filename,phrase,x0,y0,x1\na.jpg,a dog,0,0,0.5\n")
    with pytest.raises(InputError, match="the first line lacks y1"):
        grounding.read_phrase_boxes(path)
    path.write_text("filename,phrase,x0,y0,x1,y1\na.jpg,a dog,0,0,wide,1\n")
    with pytest.raises(InputError, match="line 2: a number is missing"):
        grounding.read_phrase_boxes(path)


XML = """<annotation><filename>36979.jpg</filename><size><width>200</width><height>100</height></size>
<object><name>1</name><bndbox><xmin>20</xmin><ymin>10</ymin><xmax>100</xmax><ymax>50</ymax></bndbox></object>
<object><name>1</name><name>2</name><bndbox><xmin>0</xmin><ymin>0</ymin><xmax>200</xmax><ymax>100</ymax></bndbox></object>
<object><name>3</name><scene>1</scene><nobndbox>1</nobndbox></object></annotation>"""


def test_reads_flickr30k_entities(tmp_path):
    annotations, sentences = tmp_path / "Annotations", tmp_path / "Sentences"
    annotations.mkdir()
    with pytest.raises(InputError, match="no .xml in"):
        grounding.read_entities(annotations, sentences)
    sentences.mkdir()
    (annotations / "36979.xml").write_text(XML)
    with pytest.raises(InputError, match="expected .*36979.txt"):
        grounding.read_entities(annotations, sentences)
    text = (
        "[/EN#1/people Two men] in [/EN#3/scene a yard] near [/EN#2/other/scene a wall] .\n[/EN#1/people Two men] .\n"
    )
    (sentences / "36979.txt").write_text(text)
    men, wall = grounding.read_entities(annotations, sentences)
    assert (men.phrase, wall.phrase, men.filename) == ("Two men", "a wall", "36979.jpg")
    np.testing.assert_allclose(men.boxes, [[0, 0, 1, 1], [0.1, 0.1, 0.5, 0.5]])
    (annotations / "36979.xml").write_text("<annotation>")
    with pytest.raises(InputError, match="not an annotation of Flickr30k Entities"):
        grounding.read_entities(annotations, sentences)


@needs_shared
def test_reads_the_real_csv():
    items = grounding.read_phrase_boxes(SHARED / "flickr8k" / "phrase_boxes_dev.csv")
    assert len(items) > 1000 and all(item.boxes.shape[1] == 4 for item in items)
    assert len({(item.filename, item.phrase) for item in items}) == len(items)
