"""What a captioner is measured by after each epoch of its training."""

import numpy as np

from keras_imagesent.captioning.alarms import find_alarms
from keras_imagesent.captioning.caption_photos import Perplexity, Searcher
from keras_imagesent.data.tokenizer import tokenize
from keras_imagesent.evaluation.bleu import bleu
from keras_imagesent.evaluation.cider import Cider


class Validator:
    """After each epoch: perplexity, the same with shuffled photos, BLEU-4 and CIDEr; alarms are printed."""

    def __init__(self, pairs, vocabulary, settings):
        self.pairs, self.vocabulary, self.settings = pairs, vocabulary, settings
        self.first, self.item = pairs.items()
        self.references = [[] for _ in self.first]
        for text, item in zip(pairs.texts, self.item, strict=True):
            self.references[item].append(tokenize(text))
        self.cider = Cider(self.references)
        self.tools, self.history = None, []

    def set_frames(self, frames):
        """Other vectors (N, F) for the same photos, from a backbone that has changed."""
        self.pairs.region_features = frames[:, None]

    def __call__(self, model):
        if self.tools is None:
            search = Searcher(model, self.settings["beam"], length_penalty=self.settings["length_penalty"])
            self.tools = Perplexity(model), search
        perplexity, search = self.tools
        image = self.pairs.inputs(self.first)
        token_ids, _ = search(image)
        captions = [self.vocabulary.decode(ids[0]).split() for ids in token_ids]
        some = slice(None, None, max(1, len(self.pairs) // 1000))  # shuffled: a thousand sentences will do
        shuffled = np.random.default_rng(0).permutation(len(self.first))[self.item[some]]
        row = {
            "perplexity": perplexity(image, self.pairs.token_ids, self.item),
            "perplexity_shuffled": perplexity(image, self.pairs.token_ids[some], shuffled),
            "bleu4": bleu(captions, self.references)[3],
            "cider": self.cider.score(captions),
            "distinct_captions": len({" ".join(words) for words in captions}),
            "words": float(np.mean([len(words) for words in captions])),
            "photos": len(captions),
        }
        self.history.append({"loss": float(model.word_loss.result()), **row})
        for alarm in find_alarms(self.history):
            print(f"warning: {alarm}")
        return row
