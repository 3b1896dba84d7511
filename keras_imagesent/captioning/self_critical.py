"""Learning from the CIDEr of the captioner's own samples, after the cross-entropy has taught it to speak.

Each photo is captioned several times by sampling; a caption that scores above the photo's other ones becomes more
probable, one that scores below less (REINFORCE with the other samples' mean as baseline; Rennie et al., 2017, took
the greedy caption's score).
"""

import numpy as np
import tensorflow as tf

from keras_imagesent.captioning.beam_search import sample
from keras_imagesent.captioning.captioner import Decoder

SAMPLES = 5  # captions drawn for each photo
END = "<end>"  # the end of a sentence, as a word


class SelfCritical:
    """Batches of sampled captions, weighted by how much better than their photo's other samples they are.

    Args:
        captioner: the model in training; every batch is drawn with its weights of the moment.
        pairs: the `CaptionPairs` of the training photos.
        vocabulary: of the captioner.
        score: function (lists of words, the photo's row of each) -> scores, such as `Cider.scores`. A caption that ends
            ends in the word `END`, and so must its references, so that ending is rewarded like any other word.
        batch_size: captions in a batch; `batch_size // 5` photos.
        seed: decides the order and the samples.

    Example:
        >>> critic = SelfCritical(captioner, CaptionPairs.of_photos(photos), vocabulary, cider.scores)
        >>> captioner.fit(critic.batches(epoch=0), steps_per_epoch=critic.steps)
    """

    def __init__(self, captioner, pairs, vocabulary, score, batch_size=100, seed=0):
        self.vocabulary, self.score, self.seed = vocabulary, score, seed
        self.pairs, self.items, self.length = pairs, pairs.items()[0], pairs.token_ids.shape[1]
        self.photos = max(1, batch_size // SAMPLES)

        @tf.function(reduce_retracing=True, autograph=False)
        def draw(image, seed):
            decoder = Decoder(captioner, image)
            return sample(decoder.step, decoder.states, decoder.start_id, self.length, seed)[0]

        self.draw = draw

    @property
    def steps(self):
        return -(-len(self.items) // self.photos)

    def batches(self, epoch=0, start_step=0):
        """A dataset of one epoch, every photo once; nothing is drawn ahead, so that the weights are the newest."""

        def generate():
            order = np.random.default_rng([self.seed, epoch]).permutation(len(self.items))
            for step in range(start_step, self.steps):
                rows = order[step * self.photos : (step + 1) * self.photos]
                yield self.weigh(rows, seed=epoch * self.steps + step)

        signature = {
            **self.pairs.signature(tf.float32),
            "token_ids": tf.TensorSpec((None, self.length), tf.int32),
            "sentence_weights": tf.TensorSpec((None,), tf.float32),
        }
        return tf.data.Dataset.from_generator(generate, output_signature=signature)

    def weigh(self, rows, seed):
        """One batch: samples of the photos in `rows` and the CIDEr by which each beats the other samples' mean."""
        image = {name: np.repeat(x, SAMPLES, axis=0) for name, x in self.pairs.inputs(self.items[rows]).items()}
        image = {name: x if x.dtype == bool else np.float32(x) for name, x in image.items()}
        token_ids = self.draw(image, tf.constant(seed)).numpy()
        captions = [self.vocabulary.decode(ids).split() + [END] * (0 in ids) for ids in token_ids]
        rewards = np.array(self.score(captions, np.repeat(rows, SAMPLES))).reshape(-1, SAMPLES)
        others = (rewards.sum(axis=1, keepdims=True) - rewards) / (SAMPLES - 1)
        return {
            **image,
            "token_ids": token_ids,
            "sentence_weights": (rewards - others).reshape(-1).astype(np.float32),
        }
