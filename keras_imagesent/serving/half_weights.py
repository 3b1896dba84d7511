"""Weights stored in float16, at half the size, in models that go on computing in float32."""

import keras
import numpy as np
import tensorflow as tf

LEAST = 1000  # smaller weights are not worth a cast


class HalfWeights(keras.StatelessScope):
    """A scope in which graphs read the large float32 weights of Keras models from float16 copies, cast back.

    The models stay as they are. Only graphs that are traced inside the scope read the copies.

    Example:
        >>> with HalfWeights():
        ...     function = tf.function(model).get_concrete_function(specification)
    """

    def __init__(self):
        super().__init__()
        self.halves = {}  # id of a Keras variable -> its float16 copy

    def get_current_value(self, variable):
        """What Keras reads instead of the variable's own value; None leaves it as it is."""
        if variable.dtype != "float32" or np.prod(variable.shape) < LEAST:
            return super().get_current_value(variable)
        if id(variable) not in self.halves:
            with tf.init_scope():
                self.halves[id(variable)] = tf.Variable(variable._value.numpy().astype(np.float16), trainable=False)
        return tf.cast(self.halves[id(variable)], tf.float32)


def halve_initializers(model):
    """Stores the large float32 constants of an ONNX model in float16, each cast back where it was.

    Example:
        >>> onnx.save(halve_initializers(onnx.load("caption.onnx")), "caption.onnx")
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph, casts = model.graph, []
    for initializer in list(graph.initializer):
        if initializer.data_type != TensorProto.FLOAT or np.prod(initializer.dims) < LEAST:
            continue
        name = initializer.name
        half = numpy_helper.from_array(numpy_helper.to_array(initializer).astype(np.float16), f"{name}_half")
        graph.initializer.remove(initializer)
        graph.initializer.append(half)
        casts.append(helper.make_node("Cast", [half.name], [name], f"{name}_cast", to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return model
