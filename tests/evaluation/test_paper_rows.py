import pytest

from keras_imagesent.evaluation.paper_rows import RETRIEVAL, remark, retrieval_row


@pytest.mark.parametrize(
    ("name", "photos", "row"),
    [
        ("coco", 894, "MSCOCO 1K"),
        ("COCO", 2999, "MSCOCO 1K"),
        ("mscoco", 5000, "MSCOCO 5K"),
        ("flickr8k", 1000, "Flickr8K"),
        ("Flickr30K", 5000, "Flickr30K"),
    ],
)
def test_the_sets_name_and_the_number_of_photos_choose_the_row(name, photos, row):
    assert retrieval_row(name, photos) == (row, RETRIEVAL[row])


@pytest.mark.parametrize("name", ["", "scenes", "coco_large", "mine"])
def test_other_sets_have_none(name):
    assert retrieval_row(name, 1000) is None and remark(name, 894, "yolov4-tiny") == ""


def test_what_differs_from_the_paper_is_said():
    assert remark("flickr8k", 1000) == ""
    assert remark("coco", 894, "grid") == "894 photos are not the paper's 1,000."
    assert remark("coco", 1000, "yolov4-tiny").endswith("has most likely seen these photos with their boxes.")
