"""A trained captioner that captions many image vectors, with the beam that suits it."""

import numpy as np

from keras_imagesent.captioning.caption_photos import Searcher
from keras_imagesent.data.caption_pairs import CaptionPairs
from keras_imagesent.data.run_files import MOST_BEAM
from keras_imagesent.errors import InputError

BEAM, LENGTH_PENALTY = 3, 0.7  # of a captioner whose settings name none


def search_settings(run, beam=None, length_penalty=None):
    """The beam and the length penalty: those given, else the run's own."""
    own = run.settings if run else {}
    if beam is not None and not 1 <= beam <= MOST_BEAM:
        raise InputError(f"a beam of {beam}: it must be from 1 to {MOST_BEAM}")
    return (
        own.get("beam", BEAM) if beam is None else beam,
        own.get("length_penalty", LENGTH_PENALTY) if length_penalty is None else length_penalty,
    )


class CaptionSearch:
    """A trained captioner, ready to caption vectors.

    Args:
        run: the `Run` of a captioner.

    Example:
        >>> CaptionSearch(Run("runs/captioner")).captions(features, beam=3)
        ['a dog runs through the grass', ...]
    """

    def __init__(self, run):
        self.model, self.vocabulary, self.settings = run.model, run.vocabulary, run.settings
        self.beam, self.length_penalty = search_settings(run)
        self.searchers = {}

    def search(self, features, frames=None, beam=None, captions=1, length_penalty=None):
        """`token_ids (N, captions, T)`, `log_probs (N, captions)`; a model trained with the frame gets it too."""
        if self.settings.get("frame") and frames is not None:
            features = np.concatenate([features, frames], axis=1)
        key = beam or self.beam, captions, self.length_penalty if length_penalty is None else length_penalty
        if key not in self.searchers:  # tracing takes longer than a thousand captions
            self.searchers[key] = Searcher(self.model, key[0], captions, length_penalty=key[2])
        return self.searchers[key](features)

    def vectors(self, photos):
        """What this model takes for whole photos: the frame's vector, or two of them side by side (N, F or 2F)."""
        pairs = CaptionPairs.of_photos(photos, self.settings.get("frame", False))
        return pairs.features(pairs.items()[0])

    def captions(self, features, frames=None, beam=None, length_penalty=None):
        """The best caption of each vector."""
        token_ids, _ = self.search(features, frames, beam, length_penalty=length_penalty)
        return [self.vocabulary.decode(ids[0]) for ids in token_ids]

    def captions_and_log_probs(self, photos):
        """The best caption of each of `Prepared.load`'s photos, and its log probability."""
        token_ids, log_probs = self.search(self.vectors(photos))
        return [self.vocabulary.decode(ids[0]) for ids in token_ids], log_probs[:, 0].tolist()
