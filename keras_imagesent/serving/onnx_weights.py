"""Weights of ONNX files in float16 or int8, at half or a quarter of the size; what computes with them is float32."""

import numpy as np

LEAST = 1000  # smaller weights are not worth a cast


def halve_initializers(model):
    """Stores the large float32 constants of an ONNX model in float16, each cast back where it was.

    Example:
        >>> onnx.save(halve_initializers(onnx.load("caption.onnx")), "caption.onnx")
    """
    from onnx import TensorProto, helper, numpy_helper

    def halve(weight, value):
        half = numpy_helper.from_array(value.astype(np.float16), f"{weight.name}_half")
        return [half], helper.make_node("Cast", [half.name], [weight.name], to=TensorProto.FLOAT)

    return _restore(model, halve)


def quantize_initializers(model):
    """Stores the large matrices and kernels of an ONNX model in int8, with a scale for each output channel; other large
    weights become float16.

    Only the storage is smaller: activations stay float32, so that no ranges have to be measured on photos.

    Example:
        >>> onnx.save(quantize_initializers(onnx.load("caption.onnx")), "caption.onnx")
    """
    from onnx import helper, numpy_helper

    users = {name: node.op_type for node in all_nodes(model.graph) for name in node.input}

    def quantize(weight, value):
        if value.ndim < 2:
            return None
        axis = 0 if users.get(weight.name) in ("Conv", "Gather") else value.ndim - 1
        others = tuple(n for n in range(value.ndim) if n != axis)
        scale = np.maximum(np.abs(value).max(axis=others) / 127, 1e-12).astype(np.float32)
        shape = [-1 if n == axis else 1 for n in range(value.ndim)]
        whole = np.round(value / scale.reshape(shape)).astype(np.int8)
        stored = [numpy_helper.from_array(whole, f"{weight.name}_int8")]
        stored += [numpy_helper.from_array(scale, f"{weight.name}_scale")]
        names = [tensor.name for tensor in stored]
        return stored, helper.make_node("DequantizeLinear", names, [weight.name], axis=axis)

    return halve_initializers(_restore(model, quantize))


def _restore(model, store):
    """Replaces each large float32 constant by what `store` makes of it: tensors, and a node that gives it back."""
    import onnx
    from onnx import TensorProto, numpy_helper

    graph, restoring = model.graph, []
    for weight in list(graph.initializer):
        if weight.data_type != TensorProto.FLOAT or np.prod(weight.dims) < LEAST:
            continue
        stored = store(weight, numpy_helper.to_array(weight))
        if stored:
            graph.initializer.remove(weight)
            graph.initializer.extend(stored[0])
            restoring.append(stored[1])
    nodes = [*restoring, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return model


def all_nodes(graph):
    """All nodes of an ONNX graph and of the graphs inside its loops and branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from all_nodes(inner)
