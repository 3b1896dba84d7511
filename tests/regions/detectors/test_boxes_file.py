"""Boxes from COCO JSON and CSV, and every way such a file can be wrong."""

import json

import numpy as np
import pytest

from keras_imagesent.errors import InputError
from keras_imagesent.regions.detectors.boxes_file import read_boxes

IMAGE = {"id": 7, "file_name": "dog.jpg", "width": 200, "height": 100}


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_coco_boxes_become_shares_of_the_photo(tmp_path):
    annotations = [
        {"image_id": 7, "bbox": [50, 25, 100, 50], "score": 0.5},
        {"image_id": 7, "bbox": [-10, 0, 210, 200]},
    ]
    path = write(tmp_path / "boxes.json", {"images": [IMAGE], "annotations": annotations})
    boxes, scores = read_boxes(path)["dog.jpg"]
    np.testing.assert_allclose(boxes, [[0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1]])
    np.testing.assert_allclose(scores, [0.5, 1])


def test_csv_boxes_with_and_without_scores(tmp_path):
    path = write(tmp_path / "a.csv", "filename,phrase,x0,y0,x1,y1\na.jpg,a dog,0.1,0.2,0.3,0.4\nb.jpg,,0,0,1,1\n")
    found = read_boxes(path)
    assert list(found) == ["a.jpg", "b.jpg"]
    np.testing.assert_allclose(found["a.jpg"][0], [[0.1, 0.2, 0.3, 0.4]])
    path = write(tmp_path / "b.csv", "score,x0,y0,x1,y1,filename\n0.25,0,0,1,1,a.jpg\n")
    np.testing.assert_allclose(read_boxes(path)["a.jpg"][1], [0.25])


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "the first line lacks filename, x0"),
        ("filename,x0,y0,x1\n", r"the first line lacks y1\. Needed: filename,x0,y0,x1,y1"),
        ("filename,x0,y0,x1,y1\na.jpg,0,0,1,1\na.jpg,0,zero,1,1\n", "line 3: a number is missing or is no number"),
        ("filename,x0,y0,x1,y1\na.jpg,0,0,1\n", "line 2: a number is missing"),
        ("filename,x0,y0,x1,y1\na.jpg,0.5,0,0.5,1\n", "line 2: no box inside the photo"),
        ("filename,x0,y0,x1,y1\na.jpg,nan,0,0.5,1\n", "line 2: no box inside the photo"),
        ("filename,x0,y0,x1,y1\n", "no boxes in it"),
        ("filename,x0,y0,x1,y1\na.jpg,0,0,200,100\n", "line 2: pixels. Give shares of the photo's width and height"),
        ("{", "not COCO JSON"),
        ([{"image_id": 7, "bbox": [0, 0, 1, 1]}], "not COCO JSON with images and annotations"),
        ({"images": [IMAGE], "annotations": [{"image_id": 8, "bbox": [0, 0, 1, 1]}]}, "not COCO JSON.*8"),
        ({"images": [IMAGE], "annotations": [{"image_id": 7, "bbox": [0, 0, 0, 9]}]}, "annotation 0: no box inside"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_boxes(write(tmp_path / "boxes", content))


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read as text"):
        read_boxes(tmp_path / "absent.csv")
    (tmp_path / "photo.csv").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(InputError, match="cannot be read as text"):
        read_boxes(tmp_path / "photo.csv")
