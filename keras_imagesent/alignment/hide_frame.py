"""Training that does not lean on the whole frame."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_imagesent")
class HideFrame(keras.layers.Layer):
    """In training, puts the best detection in the whole frame's place for a share of the photos.

    The whole frame knows a little of everything, so that most words would take it and none would learn where its thing
    is. Photos without a detection keep their frame.

    Args:
        rate: share of the photos whose frame is hidden.

    Call arguments:
        regions `(K,R,D)`, region 0 the whole frame; region_mask `(K,R)`.

    Example:
        regions = HideFrame(0.5, name="hide_frame")(regions, region_mask, training=True)
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, regions, region_mask, training=False):
        if not training or regions.shape[1] == 1:
            return regions
        coin = keras.random.uniform(tf.shape(regions)[:1], seed=self.seed_generator)
        hidden = (coin < self.rate) & region_mask[:, 1]  # (K,)
        frame = tf.where(hidden[:, None], regions[:, 1], regions[:, 0])  # (K,D)
        return tf.concat([frame[:, None], regions[:, 1:]], axis=1)

    def compute_output_shape(self, regions_shape, region_mask_shape=None):
        return regions_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate}
