"""The tables of the captioners: whole photos, beams and novelty, re-ranking, regions; with baselines and the paper."""

import numpy as np

from keras_imagesent.evaluation.baselines import best_snippets, human_agreement, nearest_captions
from keras_imagesent.evaluation.caption_scores import MEASURES, CaptionScorer
from keras_imagesent.evaluation.novelty import novelty
from keras_imagesent.evaluation.paper_rows import CAPTIONS, REGIONS, paper_set
from keras_imagesent.evaluation.tables import Table
from keras_imagesent.model.caption_search import CaptionSearch
from keras_imagesent.model.rerank import RERANK_WEIGHTS, choose, n_best


def frames_of(photos):
    """Whole-frame vectors (N, F) float32 of `Prepared.load`'s photos."""
    return photos.region_features[:, 0].astype(np.float32)


def caption_table(runs, photos, train, split, paper="", average=False, command=""):
    """Whole photos: each run of `{name: Run}` with its own beam, beside the baselines and the paper's row, if any.

    `train` are the training photos (their frames are enough), or None: then the nearest one's caption is left out.
    With `average`, every run has a second row: the mean of its best epochs with the standard deviation.

    Example:
        >>> runs = {"best": Run("runs/captioner", "captioner")}
        >>> caption_table(runs, prepared.load("dev"), prepared.load("train"), "dev").to_markdown()
    """
    scorer, rows = CaptionScorer(photos.captions), []
    for name, run in runs.items():
        model = CaptionSearch(run)
        label = f"{name}, beam {model.beam}, length penalty {model.length_penalty:g}"
        vectors = model.vectors(photos)
        rows.append([label, *scorer.score(model.captions(vectors)).values()])
        if average:
            rows.append(average_row(name, run, scorer, vectors))
    if train:
        nearest = nearest_captions(frames_of(photos), frames_of(train), train.captions)
        rows.append(["nearest photo's caption", *scorer.score(nearest).values()])
    _, candidates, references = human_agreement(photos.captions)
    if candidates:
        rows.append(["people: one against the rest", *CaptionScorer(references).score(candidates).values()])
    if known := paper_set(paper):
        rows.append([f"the paper, {known} test", *CAPTIONS[known]])
    note = f"{len(photos.filenames)} photos. {scorer.note}"
    return Table("captions", "Captions of whole photos", ["captions by", *MEASURES], rows, note, command, split)


def average_row(name, run, scorer, vectors):
    """The mean and standard deviation of a run's best epochs, each captioning alone."""
    epochs = run.best_epochs
    results = [scorer.score(CaptionSearch(epoch).captions(vectors)) for epoch in epochs]
    spread = [[result[measure] for result in results] for measure in MEASURES]
    cells = [None if values[0] is None else (float(np.mean(values)), float(np.std(values))) for values in spread]
    return [f"{name}, its {len(epochs)} best epochs", *cells]


def beam_table(run, photos, train, split, beams=(1, 3, 7), name="best", paper="", command=""):
    """What the beam does: scores, and how many captions stand in the training sentences (None: nobody knows them).

    Example:
        >>> beam_table(Run("runs/captioner"), dev, train, "dev").to_markdown()
    """
    model, scorer = CaptionSearch(run), CaptionScorer(photos.captions)
    vectors = model.vectors(photos)
    taught = [text for group in train.captions for text in group] if train else []
    rows = []
    for beam in beams:
        for penalty in sorted({0.0, model.length_penalty}) if beam > 1 else [model.length_penalty]:
            captions = model.captions(vectors, beam=beam, length_penalty=penalty)
            scores, new = scorer.score(captions), novelty(captions, taught, model.vocabulary)
            values = [scores[measure] for measure in ("BLEU-1", "BLEU-4", "METEOR", "CIDEr")]
            values += [100 * new["in_training"] if train else None, new["distinct"], new["words"]]
            label = f"{name}, beam {beam}" + (f", length penalty {penalty:g}" if beam > 1 else "")
            rows.append([label, *values])
    if paper_set(paper):
        rows += [
            ["the paper, COCO, beam 1", None, None, None, 61.0, 25.0, None, None],
            ["the paper, COCO, beam 7", None, None, None, 66.0, 60.0, None, None],
        ]
    columns = ["captions by", "BLEU-1", "BLEU-4", "METEOR", "CIDEr", "in training, %", "distinct", "words"]
    note = f"`in training`: captions found among the training sentences. {scorer.note}"
    return Table("beams", "Beam size and novelty", columns, rows, note, command, split)


def truth_table(runs, photos, scenes, split, alignment=None, chooser=None, captions=160, command=""):
    """Generated scenes: how many captions are true of their scene, of each run of `{name: Run}`.

    With a run of train-alignment and a `chooser`, the n best captions are ranked anew too, as `rerank_table` does; the
    weight is the one with most true captions on the chooser's scenes.

    Example:
        >>> truth_table({"best": Run("demo/captioner")}, prepared.load("val"), "demo/scenes", "val").to_markdown()
    """
    from keras_imagesent.data.scenes import caption_is_true, read_scenes

    known, rows = read_scenes(scenes), []

    def row(label, texts):
        return [label, share_true(texts, photos), len(set(texts))]

    def share_true(texts, some):
        true = [caption_is_true(text, known[file]) for text, file in zip(texts, some.filenames, strict=True)]
        return 100 * float(np.mean(true))

    for name, run in runs.items():
        model = CaptionSearch(run)
        for beam in sorted({model.beam, captions}):
            rows.append(row(f"{name}, beam {beam}", model.captions(model.vectors(photos), beam=beam)))
        if alignment and chooser:
            options = n_best(model, alignment, chooser, captions)
            weight = max(RERANK_WEIGHTS, key=lambda weight: share_true(choose(options, weight), chooser))
            label = f"{name}, the {captions} best ranked anew by the alignment with weight {weight:g}"
            rows.append(row(label, choose(n_best(model, alignment, photos, captions), weight)))
    note = f"{len(photos.filenames)} scenes; every object, colour, size and ground that a caption names must be there."
    if alignment and chooser:
        note += f" The weight was chosen on {len(chooser.filenames)} other scenes."
    return Table("truth", "True captions of scenes", ["captions by", "true, %", "distinct"], rows, note, command, split)


def rerank_weights(run, alignment, chooser, numbers=(5, 40, 100)):
    """The alignment's weight among the n best captions of `chooser`'s photos: `{n: (the best, {weight: CIDEr})}`.

    Example:
        >>> rerank_weights(Run("runs/captioner"), Run("runs/alignment"), prepared.load("tune"), [5])[5][0]
        0.2
    """
    model, scorer, chosen = CaptionSearch(run), CaptionScorer(chooser.captions), {}
    for number in numbers:
        options = n_best(model, alignment, chooser, number)
        found = {w: scorer.score(choose(options, w), meteor=False)["CIDEr"] for w in RERANK_WEIGHTS}
        chosen[number] = max(found, key=found.get), found
    return chosen


def rerank_table(run, alignment, photos, weights, split, name="best", command=""):
    """The n best captions ordered anew with the alignment's score (Eq. 8), by the `rerank_weights` of other photos.

    Example:
        >>> rerank_table(Run("runs/captioner"), Run("runs/alignment"), dev, weights, "dev").to_markdown()
    """
    model, rows, tried = CaptionSearch(run), [], []
    scorer = CaptionScorer(photos.captions)
    for number, (weight, found) in weights.items():
        tried.append(f"{number} best: " + ", ".join(f"{w:g}: {cider:.1f}" for w, cider in found.items()))
        options = n_best(model, alignment, photos, number)
        rows.append([f"{name}, beam {number}", *scorer.score(choose(options, 0.0)).values()])
        rows.append(
            [f"all {number} ranked anew with weight {weight:g}", *scorer.score(choose(options, weight)).values()]
        )
    note = f"Weights chosen by CIDEr on photos set aside ({'; '.join(tried)}); 0 would mean that it does not help. "
    note += scorer.note
    return Table("reranking", "Re-ranking by the alignment", ["captions by", *MEASURES], rows, note, command, split)


def region_table(
    region_run,
    frame_run,
    regions,
    vectors,
    frames,
    split,
    alignment=None,
    snippets=None,
    paper="",
    command="",
    classes=None,
):
    """Human boxes described by the region model, the whole-frame model, the best training snippet, and by people.

    Args:
        regions: `DescribedRegion`s; `vectors`, `frames`: their `box_vectors`.
        alignment: the `Run` of an alignment, and `snippets` of training sentences, for the ranking baseline.
        classes: their `box_classes`, for captioners that know classes.

    Example:
        >>> region_table(Run("runs/regions"), Run("runs/captioner"), regions, *box_vectors(...), "dev").to_markdown()
    """
    scorer = CaptionScorer([region.references for region in regions])
    rows = []
    for name, run in (("region model", region_run), ("whole-frame model fed regions", frame_run)):
        if run:
            model = CaptionSearch(run)
            image = model.regions(vectors, frames, classes)
            rows.append([f"{name}, beam {model.beam}", *scorer.score(model.captions(image)).values()])
    if alignment and snippets:
        found = best_snippets(alignment.model, alignment.vocabulary, vectors, frames, snippets)
        rows.append(["best training snippet by the alignment", *scorer.score(found).values()])
    if all(region.snippet for region in regions):
        rows.append(["people", *scorer.score([region.snippet for region in regions]).values()])
    rows += REGIONS if paper_set(paper) else []
    note = (
        f"{len(regions)} boxes drawn by people, {sum(len(r.references) for r in regions)} references, most of them "
        f"under four words: BLEU-3 and 4 say little. {scorer.note}"
    )
    return Table("regions", "Captions of regions", ["captions by", *MEASURES], rows, note, command, split)
