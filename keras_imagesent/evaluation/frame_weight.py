"""The weight of the whole frame's score beside the regions' score, chosen by retrieval on validation photos."""

from keras_imagesent.evaluation.retrieval import measure_scores, own_sentences, score_split

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)


def measure_frame_weights(model, photos):
    """Grid-searches the frame weight by the sum of recalls on `photos`; returns the metrics of the best weight, and
    the weight itself as `frame_weight`.

    The score is that of the regions plus the weight times that of the frame, so two passes over the photos are enough
    for all weights. The model is left as it was. A model without `frame_dim` has no such weight and is only measured.

    Example:
        metrics = measure_frame_weights(model, prepared.load("tune"))
        set_frame_weight(model, metrics["frame_weight"])
    """
    sentences, photo_of_sentence = own_sentences(photos)
    weight = _weight(model)
    if weight is None:
        return measure_scores(score_split(model, photos, sentences), photo_of_sentence)
    before = float(weight.value.numpy())  # the weight may have a copy on each device
    try:
        weight.assign(0.0)
        of_regions = score_split(model, photos, sentences)
        weight.assign(1.0)
        of_frame = score_split(model, photos, sentences) - of_regions
    finally:
        weight.assign(before)
    measured = {w: measure_scores(of_regions + w * of_frame, photo_of_sentence) for w in WEIGHTS}
    best = max(measured, key=lambda w: measured[w]["recall_sum"])
    return {**measured[best], "frame_weight": best}


def set_frame_weight(model, value):
    """Stores the frame weight in an alignment model, which is then used in all its answers."""
    _weight(model).assign(value)


def _weight(model):
    encoder = model.get_layer("region_encoder")
    layer = next((layer for layer in encoder.layers if layer.name == "beside_frame"), None)
    return layer and layer.weight
