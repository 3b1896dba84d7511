"""Hides regions in training, so that the model does not rely on the whole frame or on one region of a photo."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_imagesent")
class HideRegions(keras.layers.Layer):
    """In training, replaces some whole frames and some detected regions by the first visible region of the photo.

    Without it most words would choose the whole frame, which shows a little of everything, and would not learn where
    their thing is. And one of 20 regions is enough to memorize a photo. The first visible region is the whole frame
    or, where that is hidden, the best detection that is not.

    Args:
        frame: share of the photos whose frame is hidden; those without a detection keep it.
        detections: share of the detections hidden.

    Call arguments:
        regions `(K,R,D)`, region 0 the whole frame; region_mask `(K,R)`.

    Example:
        regions = HideRegions(0.8, 0.5, name="hide_regions")(regions, region_mask, training=True)
    """

    def __init__(self, frame, detections=0.0, **kwargs):
        super().__init__(**kwargs)
        self.frame, self.detections = frame, detections
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, regions, region_mask, training=False):
        if not training or regions.shape[1] == 1:
            return regions
        coins = keras.random.uniform(tf.shape(region_mask), seed=self.seed_generator)  # (K,R)
        shown = region_mask[:, 1:] & (coins[:, 1:] >= self.detections)
        best = tf.gather(regions, 1 + tf.argmax(tf.cast(shown, tf.int32), axis=1), batch_dims=1)  # (K,D)
        hidden = (coins[:, 0] < self.frame) & region_mask[:, 1]
        first = tf.where(hidden[:, None], best, regions[:, 0])[:, None]  # (K,1,D)
        return tf.concat([first, tf.where(shown[..., None], regions[:, 1:], first)], axis=1)

    def compute_output_shape(self, regions_shape, region_mask_shape=None):
        return regions_shape

    def get_config(self):
        return {**super().get_config(), "frame": self.frame, "detections": self.detections}
