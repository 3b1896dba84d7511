"""How much the whole frame's word counts beside the regions', chosen by retrieval on validation photos."""

from keras_imagesent.evaluation.retrieval import measure_scores, own_sentences, score_split

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)


def choose_frame_weight(model, photos):
    """Gives an alignment model the frame weight with the largest sum of recalls on `photos`; what it then measures.

    The frame says the same whatever region a word takes, so that the score is the regions' plus the weight times the
    frame's: two passes over the photos tell all weights. A model without a frame beside its regions is only measured.

    Example:
        choose_frame_weight(model, prepared.load("tune"))["recall_sum"]
    """
    sentences, photo_of_sentence = own_sentences(photos)
    encoder = model.get_layer("region_encoder")
    if not any(layer.name == "beside_frame" for layer in encoder.layers):
        return measure_scores(score_split(model, photos, sentences), photo_of_sentence)
    weight = encoder.get_layer("beside_frame").weight
    weight.assign(0.0)
    of_regions = score_split(model, photos, sentences)
    weight.assign(1.0)
    of_frame = score_split(model, photos, sentences) - of_regions
    measured = {w: measure_scores(of_regions + w * of_frame, photo_of_sentence) for w in WEIGHTS}
    best = max(measured, key=lambda w: measured[w]["recall_sum"])
    weight.assign(best)
    return {**measured[best], "frame_weight": best}
