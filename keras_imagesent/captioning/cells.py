"""The three recurrent cells of the captioner; everything around them is shared.

Each step's input is `z_t = W_hx x_t + [t=1] b_v` (Eq. 14), as long as the hidden state. `project` brings the inputs of
many steps to the cell's gates in one product; `call` is one step. Training, greedy, sampling and beam search use both.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_imagesent")
class ReluCell(keras.layers.Layer):
    """`h[t] = relu(z[t] + W_hh h[t-1] + b_h)`: the paper's cell (Eq. 14).

    Args:
        units: size of the hidden state.

    Call arguments:
        z: (B, units) the input of this step.
        states: list of one tensor (B, units).

    Example:
        >>> h, states = ReluCell(512)(z, [h])
    """

    states = 1

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, z_shape=None, states_shape=None):
        self.kernel = self.add_weight((self.units, self.units), "orthogonal", name="kernel")
        self.bias = self.add_weight((self.units,), "zeros", name="bias")

    def project(self, z):
        return z

    def call(self, z, states):
        h = ops.relu(z + ops.matmul(states[0], self.kernel) + self.bias)
        return h, [h]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("keras_imagesent")
class LSTMCell(keras.layers.Layer):
    """Long short-term memory; the forget gate starts open (bias 1).

    Args:
        units: size of the hidden state.

    Call arguments:
        z: (B, 4 units) the projected input of this step: input, forget and output gate, then candidate.
        states: list of two tensors (B, units): hidden state and memory.
    """

    states = 2

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, z_shape=None, states_shape=None):
        units = self.units
        self.input_kernel = self.add_weight((units, 4 * units), "glorot_uniform", name="input_kernel")
        self.kernel = self.add_weight((units, 4 * units), "orthogonal", name="kernel")
        self.bias = self.add_weight((4 * units,), "zeros", name="bias")
        self.bias.assign(ops.concatenate([ops.zeros(units), ops.ones(units), ops.zeros(2 * units)]))

    def project(self, z):
        return ops.matmul(z, self.input_kernel)

    def call(self, z, states):
        h, memory = states
        total = z + ops.matmul(h, self.kernel) + self.bias
        open_in, keep, open_out = ops.split(ops.sigmoid(total[:, : 3 * self.units]), 3, axis=-1)
        memory = keep * memory + open_in * ops.tanh(total[:, 3 * self.units :])
        h = open_out * ops.tanh(memory)
        return h, [h, memory]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("keras_imagesent")
class GRUCell(keras.layers.Layer):
    """Gated recurrent unit, reset after the product, so that a step is one matrix product.

    Args:
        units: size of the hidden state.

    Call arguments:
        z: (B, 3 units) the projected input of this step: update and reset gate, then candidate.
        states: list of one tensor (B, units).
    """

    states = 1

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, z_shape=None, states_shape=None):
        self.input_kernel = self.add_weight((self.units, 3 * self.units), "glorot_uniform", name="input_kernel")
        self.kernel = self.add_weight((self.units, 3 * self.units), "orthogonal", name="kernel")
        self.bias = self.add_weight((3 * self.units,), "zeros", name="bias")

    def project(self, z):
        return ops.matmul(z, self.input_kernel)

    def call(self, z, states):
        (h,) = states
        product = ops.matmul(h, self.kernel) + self.bias
        gates = ops.sigmoid(z[:, : 2 * self.units] + product[:, : 2 * self.units])
        update, reset = ops.split(gates, 2, axis=-1)
        candidate = ops.tanh(z[:, 2 * self.units :] + reset * product[:, 2 * self.units :])
        h = update * h + (1 - update) * candidate
        return h, [h]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


CELLS = {"relu": ReluCell, "lstm": LSTMCell, "gru": GRUCell}


@keras.saving.register_keras_serializable("keras_imagesent")
class Recurrence(keras.layers.Layer):
    """Runs a cell over all steps of a sentence; the image enters at the first one only (Eq. 14).

    The loop is unrolled over a fixed number of steps: XLA, ONNX and LiteRT all like it better than a rolled one.

    Args:
        cell: "relu", "lstm" or "gru".
        units: size of the hidden state.

    Call arguments:
        z: (B, T, units) W_hx x_t of every step, T fixed.
        image: (B, units) b_v.

    Returns:
        (B, T, units) the hidden states.
    """

    def __init__(self, cell, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.cell = CELLS[cell](units, name=cell)

    def build(self, z_shape, image_shape=None):
        self.cell.build()

    def initial_states(self, like):
        """h_0 = 0 for every row of `like` (B, units)."""
        return [ops.zeros_like(like)] * self.cell.states

    def call(self, z, image):
        steps = ops.unstack(self.cell.project(z), axis=1)
        steps[0] = steps[0] + self.cell.project(image)
        states, hidden = self.initial_states(image), []
        for step in steps:
            h, states = self.cell(step, states)
            hidden.append(h)
        return ops.stack(hidden, axis=1)

    def get_config(self):
        return {**super().get_config(), "cell": self.cell.name, "units": self.units}
