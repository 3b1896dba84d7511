"""A photo described in full: its caption, the regions of the caption's phrases, and a caption for every region."""

from keras_imagesent.alignment.phrases import group_phrases
from keras_imagesent.errors import InputError
from keras_imagesent.records import MIN_SCORE


def describe_photos(model, photos, most_regions=20, min_score=MIN_SCORE):
    """The description of each photo as plain JSON, or an `InputError` (not raised) that says why there is none.

    Args:
        model: an `ExportedModel`, or any other with its `describe_whole`.
        photos: encoded photos.
        most_regions: at most so many regions of each, best detector score first.
        min_score: regions that the detector gives less are left out; 0 describes all of them.

    Returns:
        One entry a photo: `{"caption", "phrases": [{"words", "region", "box", "score"}, ...], "regions": [{"region",
        "box", "box_score", "label", "caption", "log_prob"}, ...]}`; `region` is a number among all
        regions of the photo.

    Example:
        >>> describe_photos(ExportedModel("exported/onnx"), [jpeg])[0]["caption"]
        'a dog runs through the grass'
    """
    found = model.describe_whole(photos)
    statuses = found["describe"]["status"]
    return [
        InputError(status) if status != "ok" else _description(found, row, most_regions, min_score)
        for row, status in enumerate(statuses)
    ]


def _description(found, row, most_regions, min_score):
    described, aligned = found["describe"], found["align"]
    regions = [
        {
            "region": region,
            "box": _box(described["boxes"][row][region]),
            "box_score": round(float(described["box_scores"][row][region]), 4),
            "label": described["labels"][row][region] or None,
            "caption": described["captions"][row][region],
            "log_prob": round(float(described["log_probs"][row][region]), 4),
        }
        for region in range(min(most_regions, int(described["number_of_regions"][row])))
        if described["box_scores"][row][region] >= min_score
    ]
    words = [word for word in aligned["words"][row] if word]
    phrases = [
        {
            "words": phrase.text(words),
            "region": phrase.region,
            "box": _box(aligned["boxes"][row][phrase.region]),
            "score": round(phrase.score, 4),
        }
        for phrase in group_phrases(aligned["phrase_regions"][row][: len(words)], aligned["similarity"][row])
    ]
    return {"caption": found["caption"]["captions"][row][0], "phrases": phrases, "regions": regions}


def _box(corners):
    return [round(float(corner), 4) for corner in corners]
