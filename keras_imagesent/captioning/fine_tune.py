"""Training the backbone together with the captioner, from photos instead of cached vectors."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from keras_imagesent.captioning.captioner import Captioner
from keras_imagesent.data.atomic import whole_file
from keras_imagesent.data.photo_formats import to_decodable
from keras_imagesent.errors import InputError
from keras_imagesent.regions.photo import OK, decode_pixels


def build_photo_captioner(backbone, captioner):
    """The captioner with the backbone before it: `image_features` are now pixels (B, S, S, 3).

    Both share their weights with the result. Batch normalization keeps the backbone's own statistics.

    Example:
        >>> model = build_photo_captioner(build_backbone(), captioner)
        >>> model.compile(build_optimizer("adam", 1e-4))
    """
    pixels = keras.Input(backbone.input_shape[1:], name="image_features")
    for layer in backbone._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.trainable = False  # fit would override training=False, but not this
    frame = layers.GlobalAveragePooling2D(name="whole_frame")(backbone(pixels))
    image_encoder = keras.Model(pixels, captioner.get_layer("image_encoder")(frame), name="image_encoder")
    pixels = keras.Input(backbone.input_shape[1:], name="image_features")
    token_ids = keras.Input(captioner.input["token_ids"].shape[1:], dtype="int32", name="token_ids")
    part = captioner.get_layer
    hidden = part("recurrence")(part("word_encoder")(token_ids), image_encoder(pixels))
    logits = part("output")(part("output_dropout")(hidden))
    return Captioner({"image_features": pixels, "token_ids": token_ids}, logits, name="photo_captioner")


class FineTuning:
    """What `imagesent train-captioner --fine-tune` trains: the model, its batches and its validation, from photos.

    Args:
        captioner: the captioner to start from.
        backbone: the backbone that made the vectors it learned from.
        pairs: the `CaptionPairs` of the training photos, and the photos' `filenames`.
        folder: where the photos are.
        batch_size, seed: of the training.
    """

    def __init__(self, captioner, backbone, pairs, filenames, folder, batch_size, seed):
        self.captioner, self.backbone, self.pairs = captioner, backbone, pairs
        self.filenames, self.folder, self.batch_size, self.seed = filenames, folder, batch_size, seed
        self.model = build_photo_captioner(backbone, captioner)
        self.frames = tf.function(
            lambda pixels: tf.reduce_mean(backbone(pixels, training=False), axis=[1, 2]), reduce_retracing=True
        )

    def read(self, filenames):
        """Pixels (n, S, S, 3) of photos by name."""
        try:
            contents = [to_decodable((self.folder / name).read_bytes()) for name in filenames]
        except OSError as error:
            raise InputError(
                f"{error.filename}: {error.strerror}; --fine-tune names the folder of the photos"
            ) from None
        pixels, status = decode_pixels(tf.constant(contents), self.backbone.input_shape[1])
        for name, state in zip(filenames, status.numpy(), strict=True):
            if state.decode() != OK:
                raise InputError(f"{self.folder / name}: {state.decode()}")
        return pixels

    def batches(self, epoch=0, start_step=0):
        """The same pairs in the same order as from cached vectors, with the photos' pixels."""

        def generate():
            for pairs in self.pairs.order(self.batch_size, self.seed, epoch)[start_step:]:
                pixels = self.read([self.filenames[row] for row in self.pairs.rows[pairs]])
                yield {"image_features": pixels, "token_ids": self.pairs.token_ids[pairs]}

        signature = {
            "image_features": tf.TensorSpec((None, *self.backbone.input_shape[1:]), tf.float32),
            "token_ids": tf.TensorSpec((None, self.pairs.token_ids.shape[1]), tf.int32),
        }
        return tf.data.Dataset.from_generator(generate, output_signature=signature).prefetch(1)

    def validate_with(self, validator, filenames):
        """A validation that looks at the photos anew with the backbone of the moment."""

        def validate(model):
            parts = [self.frames(self.read(filenames[n : n + 16])).numpy() for n in range(0, len(filenames), 16)]
            validator.set_frames(np.concatenate(parts))
            self.captioner.word_loss = model.word_loss
            return validator(self.captioner)

        return validate

    def split(self, run):
        """Writes the run's best model as two: `backbone.keras`, and `model.keras`, which takes vectors again."""
        best = keras.saving.load_model(run / "model.keras", compile=False)
        if len(best.input["image_features"].shape) == 2:
            return  # done before: the run was only continued
        self.model.set_weights(best.get_weights())
        for model, name in ((self.backbone, "backbone.keras"), (self.captioner, "model.keras")):
            with whole_file(run / name) as unfinished:
                model.save(unfinished)
