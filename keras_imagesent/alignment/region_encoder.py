"""Region vectors into the common space (Eq. 1)."""

import keras
import numpy as np
from keras import ops

from keras_imagesent.errors import InputError


@keras.saving.register_keras_serializable("keras_imagesent")
class Centre(keras.layers.Layer):
    """Subtracts the mean vector of the training regions, and brings their lengths to about 1 or to exactly 1.

    CNN activations are all positive and share a large mean, which would swamp the dot products. Both are weights (not
    trained), so that they travel with the model; `measure` sets them.

    Args:
        root: whether the square root of each activation is taken first, so that a few large activations do not
            dominate; a negative one becomes minus the square root of its absolute value.
        unit: whether each centred vector is divided by its own length; otherwise all are divided by one number. The
            pooled vectors of small boxes are three times as long as the whole frame's, and in a dot product the longest
            vector wins: without this, words choose specks.
    """

    def __init__(self, root=False, unit=False, **kwargs):
        super().__init__(**kwargs)
        self.root, self.unit = root, unit

    def build(self, input_shape):
        self.mean = self.add_weight((input_shape[-1],), "zeros", trainable=False, name="mean")
        self.length = self.add_weight((), "ones", trainable=False, name="length")

    def call(self, x):
        x = ops.sign(x) * ops.sqrt(ops.abs(x)) if self.root else x
        centred = x - self.mean
        return ops.normalize(centred, axis=-1) if self.unit else centred / self.length

    def get_config(self):
        return {**super().get_config(), "root": self.root, "unit": self.unit}

    def measure(self, features):
        """Takes the mean vector and the root mean square length from `features (N, F)`."""

        def parts():
            for start in range(0, len(features), 1000):
                part = np.asarray(features[start : start + 1000], np.float32)
                yield np.sign(part) * np.sqrt(np.abs(part)) if self.root else part

        mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts()) / len(features)
        squares = sum(float(np.square(part - mean.astype(np.float32)).sum()) for part in parts())
        self.mean.assign(mean)
        self.length.assign(max((squares / len(features)) ** 0.5, 1e-6))


@keras.saving.register_keras_serializable("keras_imagesent")
class DetectorPrior(keras.layers.Layer):
    """Appends `weight * log(score)` to each region's vector, relative to the photo's best detection.

    Against a word vector that ends in 1, the dot product is then the similarity plus the prior: what the paper calls an
    unnormalized log probability meets the detector's own opinion of where there is something to speak of. The whole
    frame is no detection: it counts as one whose score is `frame_score` times the best.

    Args:
        weight: of the prior.
        frame_score: the whole frame's share of the best detection's score.

    Call arguments:
        regions `(B,R,D)`, region 0 the whole frame; box_scores `(B,R)`, 0 for absent regions.

    Example:
        regions = DetectorPrior(1.0, name="detector_prior")(regions, box_scores)  # (B, R, D + 1)
    """

    def __init__(self, weight, frame_score=0.1, **kwargs):
        super().__init__(**kwargs)
        self.weight, self.frame_score = weight, frame_score

    def call(self, regions, box_scores):
        detected = ops.maximum(box_scores[:, 1:], 1e-4)
        best = ops.max(ops.pad(detected, [[0, 0], [0, 1]], constant_values=1e-4), axis=1, keepdims=True)
        frame = ops.full_like(best, self.frame_score)
        prior = self.weight * ops.log(ops.concatenate([frame, detected / best], axis=1))
        return ops.concatenate([regions, ops.expand_dims(prior, -1)], axis=-1)

    def compute_output_shape(self, regions_shape, box_scores_shape=None):
        return (*regions_shape[:-1], regions_shape[-1] + 1)

    def get_config(self):
        return {**super().get_config(), "weight": self.weight, "frame_score": self.frame_score}


@keras.saving.register_keras_serializable("keras_imagesent")
class BesideFrame(keras.layers.Layer):
    """Puts the frame's vector `(B,1,E)`, times `weight`, behind each region's `(B,R,D)`: `(B,R,D+E)`.

    The weight of the frame's score beside the regions' is chosen after each epoch on validation photos
    (`measure_frame_weights`) and saved with the model. In training it is 1.
    """

    def build(self, regions_shape, frame_shape=None):
        self.weight = self.add_weight((), "ones", trainable=False, name="weight")

    def call(self, regions, frame, training=False):
        frame = frame if training else frame * self.weight
        return ops.concatenate([regions, ops.tile(frame, (1, ops.shape(regions)[1], 1))], axis=-1)

    def compute_output_shape(self, regions_shape, frame_shape):
        return (*regions_shape[:-1], regions_shape[-1] + frame_shape[-1])


def projection_start(similarity):
    """How a projection into the common space starts: for dot products at 0.3 of Glorot's spread, else at Glorot's.

    Scores are sums of about ten dot products. At Glorot's spread they begin so far apart that the first ranking loss is
    four times that of equal scores, and the first steps spoil the rectified units. A cosine has no such scale.
    """
    if similarity == "dot":
        return keras.initializers.VarianceScaling(0.3**2, mode="fan_avg", distribution="uniform")
    return keras.initializers.GlorotUniform()


def build_region_encoder(
    feature_dim, dim=1000, dropout=0.0, similarity="dot", prior=0.0, frame_dim=0, root=False, classes=0, unit=False
):
    """`v = W_m CNN(I_b) + b_m` (Eq. 1), a functional model.

    `{"region_features" (B,R,F), "box_scores" (B,R)} -> regions (B,R,D)`; D is `dim`, plus `frame_dim`, plus 1 with a
    prior. Region 0 is the whole frame. With `classes`, `"class_scores" (B,R,C)` is an input too.

    Args:
        feature_dim: F, the length of a CNN vector.
        dim: the size of the common space (h in the paper).
        dropout: share of the CNN vector's elements dropped in training.
        similarity: "dot" (the paper), or "cosine": the vectors get unit length.
        prior: weight of the detector's scores (`DetectorPrior`); the paper's 0 leaves them out.
        frame_dim: length of a vector of the whole frame, in a space of its own, behind each region's; the paper has
            none.
        root: whether the projection takes the square roots of the CNN's activations (`Centre`).
        classes: C, number of detector classes; the square roots of their scores are concatenated to the CNN vector
            (the paper's CNN was trained on the detector's classes and needs none). 0 for none.
        unit: whether each centered CNN vector gets unit length (`Centre`).

    Example:
        encoder = build_region_encoder(1280, dim=1000)
        encoder.get_layer("centre").measure(training_features)  # (N, 1280)
        regions = encoder({"region_features": features, "box_scores": box_scores})  # (B, 20, 1000)
    """
    features = keras.Input((None, feature_dim), name="region_features")
    box_scores = keras.Input((None,), name="box_scores")
    inputs = {"region_features": features, "box_scores": box_scores}
    known = Centre(root, unit, name="centre")(features)
    if classes:
        inputs["class_scores"] = keras.Input((None, classes), name="class_scores")
        known = keras.layers.Concatenate(name="named")([known, ops.sqrt(inputs["class_scores"])])
    if dropout:
        known = keras.layers.Dropout(dropout, name="feature_dropout")(known)
    x = keras.layers.Dense(dim, kernel_initializer=projection_start(similarity), name="region_projection")(known)
    if similarity == "cosine":
        x = keras.layers.UnitNormalization(name="region_norm")(x)
    if frame_dim:
        frame = keras.layers.Dense(frame_dim, name="frame_projection")(known[:, :1, :feature_dim])
        if similarity == "cosine":
            frame = keras.layers.UnitNormalization(name="frame_norm")(frame)
        x = BesideFrame(name="beside_frame")(x, frame)
    if prior:
        x = DetectorPrior(prior, name="detector_prior")(x, box_scores)
    return keras.Model(inputs, x, name="region_encoder")


def region_inputs(encoder, regions):
    """The inputs of a region encoder out of `regions`, a dict of arrays or tensors that may hold more.

    Missing class scores become zeros.
    """
    inputs = {name: regions[name] for name in encoder.input if name in regions}
    if "class_scores" not in encoder.input:
        return inputs
    classes = encoder.input["class_scores"].shape[-1]
    given = regions["class_scores"].shape[-1] if "class_scores" in regions else 0
    if given == 0:
        inputs["class_scores"] = inputs["region_features"][..., :1] * np.zeros(classes, "float32")
    elif given != classes:
        raise InputError(
            f"the alignment was trained with a detector of {classes} classes, this one has {given}: "
            "take the detector it was trained with"
        )
    return inputs
