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
        >>> search = CaptionSearch(Run("runs/captioner"))
        >>> search.captions(search.vectors(photos), beam=3)
        ['a dog runs through the grass', ...]
    """

    def __init__(self, run):
        self.model, self.vocabulary, self.settings = run.model, run.vocabulary, run.settings
        self.beam, self.length_penalty = search_settings(run)
        self.searchers = {}

    def search(self, image, beam=None, captions=1, length_penalty=None):
        """What `vectors` or `regions` gives -> `token_ids (N, captions, T)`, `log_probs (N, captions)`."""
        key = beam or self.beam, captions, self.length_penalty if length_penalty is None else length_penalty
        if key not in self.searchers:  # tracing takes longer than a thousand captions
            self.searchers[key] = Searcher(self.model, key[0], captions, length_penalty=key[2])
        return self.searchers[key](image)

    def regions(self, vectors, frames=None, classes=None):
        """What this model takes for regions: arrays by name.

        Args:
            vectors: (N, F) of the regions.
            frames: (N, F) of their photos' frames, which stand beside if the model wants them.
            classes: (N, C) the detector's scores, if the model knows classes; None is a region of unknown class.
        """
        if self.settings.get("frame") and frames is not None:
            vectors = np.concatenate([vectors, frames], axis=1)
        known = {"image_features": vectors}
        if "class_scores" in self.model.input:
            size = len(vectors), self.model.input["class_scores"].shape[-1]
            known["class_scores"] = (np.zeros(size, np.float32) if classes is None else classes)[:, None]
        if "region_mask" in self.model.input:  # the region is all there is to look at
            known |= {"region_features": vectors[:, None], "region_mask": np.ones((len(vectors), 1), bool)}
        return known

    def vectors(self, photos):
        """What this model takes for whole photos: the frame's vector, and what else it looks at, by name."""
        classes, attention = (name in self.model.input for name in ("class_scores", "region_mask"))
        pairs = CaptionPairs.of_photos(photos, self.settings.get("frame", False), classes, attention)
        return pairs.inputs(pairs.items()[0])

    def captions(self, image, beam=None, length_penalty=None):
        """The best caption of each photo or region; `image` as for `search`."""
        token_ids, _ = self.search(image, beam, length_penalty=length_penalty)
        return [self.vocabulary.decode(ids[0]) for ids in token_ids]

    def region_captions(self, photos, rows, regions):
        """The best caption of some regions of `Prepared.load`'s photos: region `regions[n]` of photo `rows[n]`."""
        vectors, classes = (column[rows, regions] for column in (photos.region_features, photos.class_scores))
        known = vectors, photos.region_features[rows, 0], classes
        return self.captions(self.regions(*(column.astype(np.float32) for column in known)))

    def captions_and_log_probs(self, photos):
        """The best caption of each of `Prepared.load`'s photos, and its log probability."""
        token_ids, log_probs = self.search(self.vectors(photos))
        return [self.vocabulary.decode(ids[0]) for ids in token_ids], log_probs[:, 0].tolist()
