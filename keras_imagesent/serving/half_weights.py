"""Weights stored in float16, at half the size, in models that go on computing in float32."""

import keras
import numpy as np
import tensorflow as tf

LEAST = 1000  # smaller weights are not worth a cast


class HalfVariable(keras.Variable):
    """A Keras variable kept in float16 and read in float32."""

    @property
    def value(self):
        return tf.cast(self._value, tf.float32)


def halve_weights(models):
    """Stores the large weights of Keras models in float16; call it before anything is traced with them.

    Example:
        >>> halve_weights([backbone, captioner])
        >>> export_saved_model(PhotoModel(backbone, captioner=...), "exported/imagesent")
    """
    for model in models:
        for weight in model.weights:
            if weight.dtype == "float32" and np.prod(weight.shape) >= LEAST:
                weight._value = tf.Variable(tf.cast(weight._value, tf.float16), trainable=False)
                weight.__class__ = HalfVariable


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
