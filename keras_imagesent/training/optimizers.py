"""Optimizers whose gradients are clipped element by element (section 3.3: "important")."""

import keras
import tensorflow as tf

from keras_imagesent.errors import InputError


class _ElementwiseClipping:
    """Clips the summed gradient of all replicas; Keras's own `clipvalue` clips each replica's before the sum."""

    def __init__(self, *args, clip=5.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.clip, self.shares = clip, {}

    def slow_down(self, variables, share):
        """Takes only a `share` of the learning rate for these variables."""
        self.shares |= {variable.path: share for variable in variables}

    def rate_of(self, variable, learning_rate):
        """The learning rate of one variable."""
        if not self.shares:
            return learning_rate
        own = self._trainable_variables[self._get_variable_index(variable)]
        return learning_rate * self.shares.get(own.path, 1.0)

    def clipped(self, gradient):
        gradient = tf.convert_to_tensor(gradient)  # an embedding's slices become dense: each row is clipped once
        return tf.clip_by_value(gradient, -self.clip, self.clip)

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(self.clipped(gradient), variable, self.rate_of(variable, learning_rate))

    def get_config(self):
        return {**super().get_config(), "clip": self.clip}


@keras.saving.register_keras_serializable("keras_imagesent")
class ClippedSGD(_ElementwiseClipping, keras.optimizers.SGD):
    """SGD, elementwise clipping."""


@keras.saving.register_keras_serializable("keras_imagesent")
class ClippedAdam(_ElementwiseClipping, keras.optimizers.Adam):
    """Adam, elementwise clipping; the update of a weight is one pass over it, where Keras makes about ten."""

    def update_step(self, gradient, variable, learning_rate):
        index, step = self._get_variable_index(variable), tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=self.rate_of(variable, learning_rate),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=self.clipped(gradient),
        )


@keras.saving.register_keras_serializable("keras_imagesent")
class ClippedRMSprop(_ElementwiseClipping, keras.optimizers.RMSprop):
    """RMSprop, elementwise clipping."""


OPTIMIZERS = {"sgd": ClippedSGD, "adam": ClippedAdam, "rmsprop": ClippedRMSprop}


def build_optimizer(name, learning_rate, weight_decay=0.0, momentum=0.9, clip=5.0, schedule="constant", steps=None):
    """One of `sgd`, `adam`, `rmsprop`, with elementwise clipping and decoupled weight decay.

    `schedule` is `constant`, or `cosine`: the learning rate rises for the first tenth of `steps` and then falls to
    nothing. (Without the rise, large first steps leave rectified units dead.) `momentum` is SGD's. Biases do not decay.

    Example:
        model.compile(optimizer=build_optimizer("sgd", 1e-2, weight_decay=1e-4))
    """
    if name not in OPTIMIZERS:
        raise InputError(f"no optimizer is called {name!r}; choose one of {', '.join(OPTIMIZERS)}")
    if schedule == "cosine":
        rise = steps // 10
        learning_rate = keras.optimizers.schedules.CosineDecay(
            0.0, steps - rise, warmup_target=learning_rate, warmup_steps=rise
        )
    elif schedule != "constant":
        raise InputError(f"no learning rate schedule is called {schedule!r}; choose constant or cosine")
    options = {"momentum": momentum} if name == "sgd" else {}
    optimizer = OPTIMIZERS[name](learning_rate, clip=clip, weight_decay=weight_decay or None, **options)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer
