"""All caption metrics of raw sentences at once."""

from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.evaluation import coco_extra
from keras_imagesent.evaluation.bleu import bleu
from keras_imagesent.evaluation.cider import Cider
from keras_imagesent.evaluation.rouge import rouge_l

MEASURES = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "CIDEr", "ROUGE-L"]


class CaptionScorer:
    """Scores captions against raw references, rare words and all, in percent.

    With Java and pycocoevalcap the sentences are tokenized by coco-caption's PTB tokenizer and METEOR is measured;
    without them our own tokenizer is used, METEOR is None and `note` says why.

    Args:
        references: for each photo a list of raw sentences; photos may differ in number of them.

    Example:
        >>> CaptionScorer(photos.captions).score(captions)["CIDEr"]
        50.3
    """

    def __init__(self, references):
        self.missing = coco_extra.missing()
        sizes = [len(group) for group in references]
        words = iter(self._words([text for group in references for text in group]))
        self.references = [[next(words) for _ in range(size)] for size in sizes]
        self.cider = Cider(self.references)

    @property
    def note(self):
        if self.missing:
            return f"Words by our own tokenizer; no METEOR and no PTB tokenizer here: {self.missing}."
        return "Words by coco-caption's PTB tokenizer."

    def score(self, captions, meteor=True):
        """The measures of one caption a photo: a dict in the order of `MEASURES`, in percent."""
        words = self._words(captions)
        with_meteor = meteor and not self.missing
        values = [
            *bleu(words, self.references),
            coco_extra.meteor(words, self.references) if with_meteor else None,
            self.cider.score(words),
            rouge_l(words, self.references),
        ]
        return {name: value if value is None else 100 * value for name, value in zip(MEASURES, values, strict=True)}

    def _words(self, sentences):
        return [tokenize(text) for text in sentences] if self.missing else coco_extra.ptb_tokenize(sentences)
