"""The classic failures of a captioner, told in plain words while it trains."""


def find_alarms(rows):
    """What is wrong with a run, judged by the log's rows so far: a list of sentences, empty if all is well.

    A row has `loss` and `perplexity`, `perplexity_shuffled` (every photo given another photo's vector),
    `distinct_captions` and `photos` of the validation split.

    Example:
        >>> find_alarms([{"loss": 3.1, "perplexity": 20.0, "perplexity_shuffled": 20.1, "distinct_captions": 1,
        ...               "photos": 500}])[0]
        'every photo gets the same caption: ...'
    """
    last, alarms = rows[-1], []
    if last["photos"] >= 10:
        if last["distinct_captions"] == 1:
            alarms.append(
                "every photo gets the same caption: the image does not reach the words. Train on, raise the learning "
                "rate, or check that the vectors differ from photo to photo"
            )
        elif last["distinct_captions"] < 0.02 * last["photos"]:
            alarms.append(
                f"only {last['distinct_captions']:.0f} different captions for {last['photos']:.0f} photos: "
                "the captioner has learned a few sentences by heart. Train on, or lower the dropout"
            )
        if last["perplexity_shuffled"] < 1.02 * last["perplexity"]:
            alarms.append(
                "the captions ignore the photo: with the photos shuffled the sentences are as probable "
                f"(perplexity {last['perplexity_shuffled']:.2f} against {last['perplexity']:.2f})"
            )
    lowest = min(row["loss"] for row in rows)
    if last["loss"] > 1.5 * lowest:
        alarms.append(
            f"the loss explodes: it was {lowest:.3g} and is {last['loss']:.3g}. "
            "Start again with a smaller learning rate, or clip gradients lower"
        )
    return alarms
