"""Edits of exported training programs: element types, marks of nodes and settings of inputs, on the ONNX model.

An edit takes a program and its inputs and returns both; forms of training name the edits that they need.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import popart
from exported_programs import Program

import onnx

Arrays = dict[str, np.ndarray]

# Results that take more computation than data movement are kept for the backward pass.
KEPT = ("MatMul", "Gemm", "Conv")


def in_halves(program: Program, inputs: Arrays) -> tuple[Program, Arrays]:
    """The model, its weights and its floating inputs in FLOAT16."""
    transformer = popart.GraphTransformer(program.model)
    transformer.convertFloatsToHalfs()
    model = onnx.load_from_string(transformer.getModelProto())
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.FLOAT16
    halves = {name: v.astype(np.float16) if v.dtype == np.float32 else v for name, v in inputs.items()}
    return replace(program, model=model.SerializeToString()), halves


def products_in_parts(program: Program, inputs: Arrays) -> tuple[Program, Arrays]:
    """The products of the largest weight of the model run in parts, by output channels, on operands of rank 2."""
    model = onnx.load_from_string(program.model)
    _split_gemms(model.graph)
    weights = {t.name: list(t.dims) for t in model.graph.initializer if len(t.dims) == 2}
    transposed = [n for n in model.graph.node if n.op_type == "Transpose" and n.input[0] in weights]
    weights |= {node.output[0]: weights[node.input[0]][::-1] for node in transposed}
    products = [n for n in model.graph.node if n.op_type == "MatMul" and n.input[1] in weights]
    rows, columns = max((weights[n.input[1]] for n in products), key=np.prod)
    factor = next(f for f in (4, 3, 2, *range(5, columns + 1)) if columns % f == 0)
    shapes, marked, nodes = popart.Builder(model.SerializeToString()), [], []
    for node in model.graph.node:
        if node not in products or weights[node.input[1]] != [rows, columns]:
            nodes.append(node)
            continue
        shape = shapes.getTensorShape(node.output[0])
        flat, flat_product = f"{node.output[0]}/flat", f"{node.output[0]}/flat_product"
        nodes += _reshaped(node.input[0], flat, [-1, rows])
        nodes.append(onnx.helper.make_node("MatMul", [flat, node.input[1]], [flat_product], node.name))
        nodes += _reshaped(flat_product, node.output[0], shape)
        marked.append(flat_product)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    builder = popart.Builder(model.SerializeToString())
    for product in marked:
        builder.setSerializeMatMul({product}, "output_channels", factor, True)
    return replace(program, model=builder.getModelProto()), inputs


def _split_gemms(graph: onnx.GraphProto) -> None:
    """Gemm nodes with plain factors become Transpose, MatMul and Add."""
    nodes = []
    for node in graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if (
            node.op_type != "Gemm"
            or given.get("transA", 0)
            or {given.get("alpha", 1.0), given.get("beta", 1.0)} != {1.0}
        ):
            nodes.append(node)
            continue
        result, weight = node.output[0], node.input[1]
        if given.get("transB", 0):
            nodes.append(onnx.helper.make_node("Transpose", [weight], [f"{result}/weight"], perm=[1, 0]))
            weight = f"{result}/weight"
        product = f"{result}/product" if len(node.input) > 2 else result
        nodes.append(onnx.helper.make_node("MatMul", [node.input[0], weight], [product], node.name))
        if len(node.input) > 2:
            nodes.append(onnx.helper.make_node("Add", [product, node.input[2]], [result]))
    del graph.node[:]
    graph.node.extend(nodes)


def _reshaped(tensor: str, result: str, shape: list[int]) -> list[onnx.NodeProto]:
    """Nodes that give a tensor another shape."""
    value = onnx.numpy_helper.from_array(np.array(shape, np.int64))
    return [
        onnx.helper.make_node("Constant", [], [f"{result}/shape"], value=value),
        onnx.helper.make_node("Reshape", [tensor, f"{result}/shape"], [result]),
    ]


def in_bfloats(program: Program, inputs: Arrays) -> tuple[Program, Arrays]:
    """The model and its weights in BFLOAT16; floating inputs stay FLOAT and are cast first."""
    model = onnx.load_from_string(program.model)
    graph, floating, casts = model.graph, onnx.TensorProto.FLOAT, []
    for tensor in graph.initializer:
        tensor.CopyFrom(_in_bfloat(tensor))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.t.data_type == floating:
                attribute.t.CopyFrom(_in_bfloat(attribute.t))
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == floating:
                attribute.i = onnx.TensorProto.BFLOAT16
    for info in [*graph.value_info, *graph.output]:
        if info.type.tensor_type.elem_type == floating:
            info.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    for info in graph.input:
        if info.type.tensor_type.elem_type == floating and info.name not in inputs:  # a weight
            info.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
        elif info.type.tensor_type.elem_type == floating:
            _read_instead(graph, info.name, f"{info.name}/bfloat")
            to = onnx.TensorProto.BFLOAT16
            casts.append(onnx.helper.make_node("Cast", [info.name], [f"{info.name}/bfloat"], to=to))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return replace(program, model=model.SerializeToString()), inputs


def _read_instead(graph: onnx.GraphProto, name: str, other: str) -> None:
    """All nodes that read one tensor read another one."""
    for node in graph.node:
        for i, operand in enumerate(node.input):
            if operand == name:
                node.input[i] = other


def _in_bfloat(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """A FLOAT tensor rounded to the nearest BFLOAT16, ties to even; others unchanged."""
    if tensor.data_type != onnx.TensorProto.FLOAT:
        return tensor
    bits = onnx.numpy_helper.to_array(tensor).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    halves = onnx.TensorProto(name=tensor.name, data_type=onnx.TensorProto.BFLOAT16, dims=tensor.dims)
    halves.raw_data = rounded.astype("<u2").tobytes()
    return halves


def marked_for_recomputation(program: Program, inputs: Arrays) -> tuple[Program, Arrays]:
    """Recompute every node except products, convolutions and the loss for the backward pass."""
    builder = popart.Builder(program.model)
    for node in onnx.load_from_string(program.model).graph.node:
        if node.op_type not in (*KEPT, "Constant") and program.loss not in node.output:
            builder.recomputeOutputInBackwardPass(set(filter(None, node.output)), popart.RecomputeType.Recompute)
    return replace(program, model=builder.getModelProto()), inputs


def with_overlapped_inputs(program: Program, inputs: Arrays) -> tuple[Program, Arrays]:
    """All inputs are on IO tiles, and are fetched while the previous iteration computes."""
    model = onnx.load_from_string(program.model)
    shapes = popart.Builder(program.model)
    settings = popart.InputSettings(popart.TileSet.IO, popart.ExchangeStrategy.OverlapInnerLoop)
    for given in model.graph.input:
        if given.name not in inputs:
            continue
        # The builder's record of the settings, taken from an input that has them.
        info = popart.TensorInfo(inputs[given.name].dtype, shapes.getTensorShape(given.name))
        marked = popart.Builder()
        marked.addInputTensor(info, settings, given.name)
        given.metadata_props.extend(onnx.load_from_string(marked.getModelProto()).graph.input[0].metadata_props)
    return replace(program, model=model.SerializeToString()), inputs
