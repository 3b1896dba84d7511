"""Region vectors into the common space (Eq. 1)."""

import keras
import numpy as np


@keras.saving.register_keras_serializable("keras_imagesent")
class Centre(keras.layers.Layer):
    """Subtracts the mean vector of the training regions and divides by one number, so that their lengths are about 1.

    CNN activations are all positive and share a large mean, which would swamp the dot products. Both are weights (not
    trained), so that they travel with the model; `measure` sets them.
    """

    def build(self, input_shape):
        self.mean = self.add_weight((input_shape[-1],), "zeros", trainable=False, name="mean")
        self.length = self.add_weight((), "ones", trainable=False, name="length")

    def call(self, x):
        return (x - self.mean) / self.length

    def measure(self, features):
        """Takes the mean vector and the root mean square length from `features (N, F)`."""
        features = np.asarray(features)
        mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
        squares = sum(
            float(np.square(features[start : start + 1000].astype(np.float32) - mean).sum())
            for start in range(0, len(features), 1000)
        )
        self.mean.assign(mean)
        self.length.assign(max((squares / len(features)) ** 0.5, 1e-6))


def build_region_encoder(feature_dim, dim=1000, dropout=0.0, similarity="dot"):
    """`v = W_m CNN(I_b) + b_m` (Eq. 1): a functional model `{"region_features" (B,R,F)} -> regions (B,R,D)`.

    Args:
        feature_dim: F, the length of a CNN vector.
        dim: D, the size of the common space (h in the paper).
        dropout: share of the CNN vector's elements dropped in training.
        similarity: "dot" (the paper), or "cosine": the vectors get unit length.

    Example:
        encoder = build_region_encoder(1280, dim=1000)
        encoder.get_layer("centre").measure(training_features)  # (N, 1280)
        regions = encoder({"region_features": features})  # (B, 20, 1000)
    """
    features = keras.Input((None, feature_dim), name="region_features")
    x = Centre(name="centre")(features)
    if dropout:
        x = keras.layers.Dropout(dropout, name="feature_dropout")(x)
    x = keras.layers.Dense(dim, name="region_projection")(x)
    if similarity == "cosine":
        x = keras.layers.UnitNormalization(name="region_norm")(x)
    return keras.Model({"region_features": features}, x, name="region_encoder")
