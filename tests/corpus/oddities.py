"""Files that people have and that no exporter writes: edited exports, and models written by hand.

Each computes the same as the module that it was made from.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from onnxruntime.transformers.float16 import convert_float_to_float16
from torch import nn
from torch.nn import functional

import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.corpus.files import ROUNDING_16_BITS, Array, File, Made, graph_inputs
from tests.corpus.of_torch import drawer, exported, made_network
from tests.models.circulation.exporting import Form, export
from tests.models.circulation.network import Inputs

FLOAT = TensorProto.FLOAT
TOOL = "by hand"
Edit = Callable[[ModelProto], None]


def weights(model: ModelProto) -> Iterator[TensorProto]:
    """Initializers of floats with more than one dimension."""
    for tensor in model.graph.initializer:
        if tensor.data_type == FLOAT and len(tensor.dims) > 1:
            yield tensor


def readers(model: ModelProto, name: str) -> list[tuple[onnx.NodeProto, int]]:
    """Where a tensor is read: nodes and numbers of inputs."""
    return [(n, i) for n in model.graph.node for i, given in enumerate(n.input) if given == name]


def put_between(model: ModelProto, tensor: TensorProto, nodes: list[onnx.NodeProto], result: str) -> None:
    """Let those that read an initializer read `result` of the nodes, which are put in front."""
    for node, i in readers(model, tensor.name):
        node.input[i] = result
    for node in reversed(nodes):
        model.graph.node.insert(0, node)


# ---- edits: what the file computes stays


def wrong_shape_of_output(model: ModelProto) -> None:
    dims = model.graph.output[0].type.tensor_type.shape.dim
    dims[0].dim_value = 5


def wrong_rank_of_output(model: ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3


def wrong_shapes_of_values(model: ModelProto) -> None:
    del model.graph.value_info[:]
    for node in model.graph.node:
        if node.op_type in ("MatMul", "Gemm"):
            model.graph.value_info.append(helper.make_tensor_value_info(node.output[0], FLOAT, [1, 77]))


def no_shape_of_output(model: ModelProto) -> None:
    model.graph.output[0].type.tensor_type.ClearField("shape")


def initializers_as_inputs(model: ModelProto) -> None:
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def initializers_before_inputs(model: ModelProto) -> None:
    given = list(model.graph.input)
    del model.graph.input[:]
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    model.graph.input.extend(given)


def transposed_weights(model: ModelProto) -> None:
    for tensor in list(weights(model)):
        stored = f"{tensor.name}_stored"
        order = list(range(len(tensor.dims)))[::-1]
        node = helper.make_node("Transpose", [stored], [f"{tensor.name}_transposed"], perm=order)
        put_between(model, tensor, [node], node.output[0])
        value = np.ascontiguousarray(numpy_helper.to_array(tensor).transpose(order))
        tensor.CopyFrom(numpy_helper.from_array(value, stored))


def flat_weights(model: ModelProto) -> None:
    for tensor in list(weights(model)):
        value, shape = numpy_helper.to_array(tensor), f"{tensor.name}_shape"
        node = helper.make_node("Reshape", [f"{tensor.name}_flat", shape], [f"{tensor.name}_shaped"])
        put_between(model, tensor, [node], node.output[0])
        model.graph.initializer.append(numpy_helper.from_array(np.array(value.shape), shape))
        tensor.CopyFrom(numpy_helper.from_array(value.reshape(-1).copy(), f"{tensor.name}_flat"))


def identities_of_weights(model: ModelProto) -> None:
    for tensor in list(weights(model)):
        node = helper.make_node("Identity", [tensor.name], [f"{tensor.name}_same"])
        put_between(model, tensor, [node], node.output[0])


def weights_in_one(model: ModelProto) -> None:
    """Two weights of a shape as one initializer that is split."""
    shapes: dict[tuple[int, ...], list[TensorProto]] = {}
    for tensor in weights(model):
        shapes.setdefault(tuple(tensor.dims), []).append(tensor)
    first, second = next(found for found in shapes.values() if len(found) > 1)[:2]
    both = np.concatenate([numpy_helper.to_array(t) for t in (first, second)])
    names = [f"{t.name}_part" for t in (first, second)]
    node = helper.make_node("Split", ["both"], names, axis=0)
    put_between(model, second, [], names[1])
    put_between(model, first, [node], names[0])
    model.graph.initializer.remove(second)
    first.CopyFrom(numpy_helper.from_array(both, "both"))


def weights_as_constants(model: ModelProto) -> None:
    for tensor in list(weights(model)):
        model.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
        model.graph.initializer.remove(tensor)


def weights_of_type(kind: int, model: ModelProto) -> None:
    for tensor in list(weights(model)):
        value = numpy_helper.to_array(tensor)
        node = helper.make_node("Cast", [f"{tensor.name}_small"], [f"{tensor.name}_float"], to=FLOAT)
        put_between(model, tensor, [node], node.output[0])
        small = helper.make_tensor(f"{tensor.name}_small", kind, value.shape, value.ravel())
        tensor.CopyFrom(small)


def numbers_one_by_one(model: ModelProto) -> None:
    for tensor in list(weights(model)):
        value = numpy_helper.to_array(tensor)
        tensor.CopyFrom(helper.make_tensor(tensor.name, FLOAT, value.shape, value.ravel().tolist()))


def opset_twice(model: ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx", model.opset_import[0].version))


def opsets_unused(model: ModelProto) -> None:
    for domain in ("ai.onnx.ml", "com.microsoft", "org.pytorch.aten", "a.domain.of.nobody"):
        model.opset_import.append(helper.make_opsetid(domain, 1))


def no_names(model: ModelProto) -> None:
    model.graph.name = "g"
    for node in model.graph.node:
        node.name = ""


def same_names(model: ModelProto) -> None:
    for node in model.graph.node:
        node.name = "node"


def strange_names(model: ModelProto) -> None:
    new = {n: f"Σ {n}/:0 %{i}" for i, n in enumerate(o for node in model.graph.node for o in node.output)}
    for tensor in model.graph.initializer:
        new[tensor.name] = f"вес.{tensor.name}"
        tensor.name = new[tensor.name]
    for node in model.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    model.graph.output[0].name = new[model.graph.output[0].name]
    del model.graph.value_info[:]


def unused_parts(model: ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.full((3, 3), 7, np.float32), "unused"))
    model.graph.node.append(helper.make_node("Neg", ["unused"], ["unread"]))


def extra_outputs(model: ModelProto) -> None:
    """An initializer and an input are outputs too."""
    held = next(weights(model))
    model.graph.output.append(helper.make_tensor_value_info(held.name, FLOAT, list(held.dims)))
    model.graph.output.append(model.graph.input[0])


def descriptions(model: ModelProto) -> None:
    model.doc_string = model.graph.doc_string = "text\n" * 5
    model.producer_name, model.model_version = "somebody", -1
    entry = model.metadata_props.add()
    entry.key, entry.value = "names", "{0: 'cat'}"
    for node in model.graph.node:
        node.doc_string = "somewhere.py(1)"


def _if(
    name: str,
    condition: str,
    nodes_then: list[onnx.NodeProto],
    nodes_else: list[onnx.NodeProto],
    held: Sequence[TensorProto] = (),
) -> onnx.NodeProto:
    """An If whose branches end in `<name>_then`, which holds initializers, and `<name>_else`."""
    graphs = {}
    for branch, nodes, initializers in (("then", nodes_then, held), ("else", nodes_else, ())):
        output = helper.make_empty_tensor_value_info(f"{name}_{branch}")
        output.type.tensor_type.elem_type = FLOAT
        graphs[f"{branch}_branch"] = helper.make_graph(nodes, branch, [], [output], initializers)
    return helper.make_node("If", [condition], [name], **graphs)


def branch_of_another_rank(model: ModelProto) -> None:
    """As torch.squeeze is exported: the branch not taken has a rank that what follows does not take."""
    node = model.graph.node[-1]
    last, result = node.output[0], f"{node.output[0]}_chosen"
    model.graph.initializer.append(numpy_helper.from_array(np.array(False), "taken"))
    then = [helper.make_node("Flatten", [last], [f"{result}_flat"], axis=0),
            helper.make_node("Unsqueeze", [f"{result}_flat", "axes"], [f"{result}_then"])]  # fmt: skip
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, 1]), "axes"))
    other = [helper.make_node("Identity", [last], [f"{result}_else"])]
    model.graph.node.append(_if(result, "taken", then, other))
    model.graph.output[0].name = result


def weights_in_branch(model: ModelProto) -> None:
    """The last layer with its weights inside of a branch that is taken."""
    node = model.graph.node[-1]
    result = node.output[0]
    held = [t for t in model.graph.initializer if t.name in node.input]
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    inner.output[0] = f"{result}_then"
    other = [helper.make_node("Neg", [node.input[0]], [f"{result}_else"])]
    chosen = _if(result, "taken", [inner], other, held)
    for tensor in held:
        model.graph.initializer.remove(tensor)
    model.graph.node.remove(node)
    model.graph.node.append(chosen)
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "taken"))


def in_function(model: ModelProto) -> None:
    """All nodes as a function of the model, its initializers arguments."""
    held = [t.name for t in model.graph.initializer]
    names = [*graph_inputs(model), *held]
    outputs = [value.name for value in model.graph.output]
    imports = list(model.opset_import)
    function = helper.make_function("own", "Network", names, outputs, list(model.graph.node), imports)
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.append(helper.make_node("Network", names, outputs, domain="own"))
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.ir_version = max(model.ir_version, 8)


def tied_twice(model: ModelProto) -> None:
    """The table of tied tokens stored once for each use, one of them transposed."""
    tables = [t for t in weights(model) if sorted(t.dims) == [16, 40]]
    assert tables
    table = tables[0]
    value = numpy_helper.to_array(table)
    value = value if value.shape == (40, 16) else value.T
    for name, stored in (("table", value), ("turned", value.T)):
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(stored), name))
    turned = {n.output[0] for n, _ in readers(model, table.name) if n.op_type == "Transpose"}
    for node in model.graph.node:
        for i, given in enumerate(node.input):
            if node.op_type == "Gather" and i == 0:
                node.input[i] = "table"
            elif given in turned or (given in {t.name for t in tables} and node.op_type == "MatMul"):
                node.input[i] = "turned"
    for node in [n for n in model.graph.node if n.output[0] in turned]:
        model.graph.node.remove(node)
    for tensor in tables:
        model.graph.initializer.remove(tensor)


EDITS: dict[str, tuple[str, int, Edit]] = {  # name -> network, opset, edit
    "wrong_shape_of_output": ("mixer", 17, wrong_shape_of_output),
    "wrong_rank_of_output": ("mixer", 13, wrong_rank_of_output),
    "wrong_shapes_of_values": ("mixer", 17, wrong_shapes_of_values),
    "no_shape_of_output": ("squeeze_excite", 17, no_shape_of_output),
    "initializers_as_inputs": ("squeeze_excite", 13, initializers_as_inputs),
    "initializers_before_inputs": ("mixer", 17, initializers_before_inputs),
    "transposed_weights": ("mixer", 17, transposed_weights),
    "transposed_convolutions": ("ghost_planes", 17, transposed_weights),
    "flat_weights": ("selective_kernels", 17, flat_weights),
    "identities_of_weights": ("mixer", 17, identities_of_weights),
    "weights_in_one": ("class_token", 17, weights_in_one),
    "numbers_one_by_one": ("mixer", 17, numbers_one_by_one),
    "opset_twice": ("mixer", 17, opset_twice),
    "opsets_unused": ("mixer", 17, opsets_unused),
    "no_names": ("attention", 17, no_names),
    "same_names": ("attention", 17, same_names),
    "strange_names": ("attention", 17, strange_names),
    "unused_parts": ("mixer", 17, unused_parts),
    "extra_outputs": ("mixer", 17, extra_outputs),
    "descriptions": ("mixer", 17, descriptions),
    "branch_of_another_rank": ("squeeze_excite", 17, branch_of_another_rank),
    "weights_in_branch": ("squeeze_excite", 17, weights_in_branch),
    "in_function": ("mixer", 17, in_function),
    "tied_twice": ("tied_tokens", 17, tied_twice),
}
LOADED_ONLY: dict[str, tuple[str, int, Edit]] = {  # their weights are no float32 initializers
    "weights_as_constants": ("mixer", 17, weights_as_constants),
    "weights_of_float16": ("mixer", 17, partial(weights_of_type, TensorProto.FLOAT16)),
    "weights_of_bfloat16": ("mixer", 17, partial(weights_of_type, TensorProto.BFLOAT16)),
    "weights_of_double": ("mixer", 17, partial(weights_of_type, TensorProto.DOUBLE)),
}
# ONNX Runtime refuses these, and computes the file that was edited.
UNEDITED_REFERENCE = {"wrong_rank_of_output", "wrong_shapes_of_values", "opset_twice", "opsets_unused", "same_names"}


def edited(name: str, opset: int, edit: Edit, unedited: bool, folder: Path) -> Made:
    base = exported(name, Form(False, opset))
    model = onnx.load_from_string(base.model)
    edit(model)
    return Made(model.SerializeToString(), base.draw, base.network, reference=base.model if unedited else None)


# ---- files in several parts


def in_parts(one_file: bool, folder: Path) -> Made:
    """Weights in files of their own, or in one."""
    base = exported("mixer", Form(False, 17))
    path = folder / "model.onnx"
    onnx.save(
        onnx.load_from_string(base.model), str(path), save_as_external_data=True,
        all_tensors_to_one_file=one_file, location="weights.bin" if one_file else None, size_threshold=0,
    )  # fmt: skip
    return Made(base.model, base.draw, base.network, path=path)


# ---- types of 16 bits


def half(keep_io: bool, folder: Path) -> Made:
    base = exported("mixer", Form(False, 17))
    model = convert_float_to_float16(onnx.load_from_string(base.model), keep_io_types=keep_io)

    def draw() -> dict[str, Array]:
        kind = np.float32 if keep_io else np.float16
        return {name: array.astype(kind) for name, array in base.draw().items()}

    return Made(model.SerializeToString(), draw)


# ---- loops and old forms


@torch.jit.script
def applied_often(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = x + torch.tanh(torch.nn.functional.linear(x, weight, bias))
    return x


class Steps(nn.Module):
    """A layer that is applied to its own result, in a loop that the exporter keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(applied_often(x, self.layer.weight, self.layer.bias))


def of_module(make: Callable[[], nn.Module], inputs: Callable[[], Inputs], form: Form, folder: Path) -> Made:
    network = made_network(make)
    model = export(network, inputs(), form)
    return Made(model, drawer(graph_inputs(model), inputs), network)


class OldConvolutions(nn.Module):
    """What `old_form` writes in operator set 7."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(4 * 4 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.leaky_relu(self.first(x), 0.1), 2)
        return self.last(x.flatten(1))


def old_form(opset: int, folder: Path) -> Made:
    """Version 3 of the format: initializers are inputs, Gemm and Reshape as they were."""
    network = made_network(OldConvolutions)
    values = {n.removeprefix("network."): p.detach().numpy() for n, p in network.named_parameters()}
    nodes = [
        helper.make_node("Conv", ["in0", "first.weight", "first.bias"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("LeakyRelu", ["c"], ["r"], alpha=0.1),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "last.weight", "last.bias"], ["y"], transB=1),
    ]
    held = [numpy_helper.from_array(value.copy(), name) for name, value in values.items()]
    held.append(numpy_helper.from_array(np.array([0, -1]), "shape"))
    given = [helper.make_tensor_value_info("in0", FLOAT, [2, 2, 8, 8])]
    given += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in held]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", FLOAT, [2, 5])], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    return Made(model.SerializeToString(), drawer(["in0"], lambda: (torch.randn(2, 2, 8, 8),)), network)


def rows() -> Iterator[File]:
    """All oddities."""
    for name, (network, opset, edit) in EDITS.items():
        yield File(name, TOOL, partial(edited, network, opset, edit, name in UNEDITED_REFERENCE), trains=True)
    for name, (network, opset, edit) in LOADED_ONLY.items():
        yield File(name, TOOL, partial(edited, network, opset, edit, False))
    yield File("weights_in_one_file", TOOL, partial(in_parts, True), trains=True)
    yield File("weights_in_files", TOOL, partial(in_parts, False), trains=True)
    yield File("float16", TOOL, partial(half, False), near=ROUNDING_16_BITS)
    yield File("float16_inside", TOOL, partial(half, True), near=ROUNDING_16_BITS)
    loop = partial(of_module, Steps, lambda: (torch.randn(2, 8),))
    yield File("scripted_loop", TOOL, partial(loop, Form(False, 17)), trains=True)
    for opset in (7, 8, 9):
        yield File(f"old_form-{opset}", TOOL, partial(old_form, opset), trains=True)
