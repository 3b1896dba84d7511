"""METEOR and the PTB tokenizer: coco-caption's own, through pycocoevalcap and Java, where both are there."""

import contextlib
import functools
import io
import shutil
from importlib.util import find_spec

from keras_imagesent.silence import silenced


def missing():
    """Why METEOR and the PTB tokenizer are unavailable, or None.

    Example:
        >>> missing()
        'no Java on this machine'
    """
    if not find_spec("pycocoevalcap"):
        return "pycocoevalcap is not installed: pip install 'keras_imagesent[metrics]'"
    if not shutil.which("java"):
        return "no Java on this machine"
    return None


def ptb_tokenize(sentences):
    """The words of raw sentences by the PTB tokenizer, lower case, punctuation dropped: a list of lists.

    Example:
        >>> ptb_tokenize(["A man's dog."])
        [['a', 'man', "'s", 'dog']]
    """
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    captions = {number: [{"caption": " ".join(sentence.split())}] for number, sentence in enumerate(sentences)}
    with contextlib.redirect_stdout(io.StringIO()), silenced():  # Java tells how many tokens a second
        tokens = PTBTokenizer().tokenize(captions)
    return [tokens[number][0].split() for number in range(len(sentences))]


def meteor(candidates, references):
    """Corpus METEOR between 0 and 1; arguments as `bleu`'s."""
    given = {n: [" ".join(words)] for n, words in enumerate(candidates)}
    wanted = {n: [" ".join(words) for words in group] for n, group in enumerate(references)}
    score, _ = _meteor_process().compute_score(wanted, given)
    return score


@functools.cache
def _meteor_process():
    """One Java process for all calls: it takes ten seconds to start."""
    from pycocoevalcap.meteor.meteor import Meteor

    return Meteor()
