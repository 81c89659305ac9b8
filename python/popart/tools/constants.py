"""Constant expressions of a model, computed one node after the other (``popart-convert --fold``).

A node that neither onnx's reference evaluator nor our own computes stays in the model, with all that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import popart_core


def folded(model: Any, onnx: Any, most_bytes: int) -> tuple[int, list[str]]:
    """Compute the nodes that read only constants and replace them, in place.

    Args:
        model: The ModelProto.
        onnx: The package.
        most_bytes: Largest value that is made.

    Returns:
        How many nodes are gone, and a line on each that could not be computed.
    """
    sizes, notes = value_bytes(model, onnx)
    evaluator = _Evaluator(model, onnx)
    done: set[int] = set()
    for place, node in enumerate(model.graph.node):
        computed = bool(graphs_of(node)) or random_kind(node)
        small = all(sizes.get(name, most_bytes + 1) <= most_bytes for name in node.output if name)
        if computed or not small or not all(evaluator.knows(name) for name in node.input if name):
            continue
        problem = evaluator.compute(node)
        if problem is None:
            done.add(place)
        else:
            name = next((text for text in (node.name, *node.output) if text), "")
            notes.append(f"{node.op_type} '{name}' stays: {problem}")
    if done:
        rest = [node for place, node in enumerate(model.graph.node) if place not in done]
        read = {name for node in rest for name in names_read(node)} | {value.name for value in model.graph.output}
        made = [name for place in sorted(done) for name in model.graph.node[place].output if name in read]
        kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
        kept += [onnx.numpy_helper.from_array(np.asarray(evaluator.values[name]), name) for name in made]
        for field, entries in ((model.graph.node, rest), (model.graph.initializer, kept)):
            del field[:]
            field.extend(entries)
    return len(done), notes


class _Evaluator:
    """Values of initializers and of nodes, by name."""

    def __init__(self, model: Any, onnx: Any) -> None:
        self._model, self._onnx = model, onnx
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.values: dict[str, Any] = {}

    def knows(self, name: str) -> bool:
        return name in self.values or name in self._tensors

    def compute(self, node: Any) -> str | None:
        """Compute the outputs of `node`, whose inputs are known; returns why not."""
        from onnx.reference import ReferenceEvaluator

        feeds = {name: self._value(name) for name in node.input if name}
        outputs = [name for name in node.output if name]
        graph = self._onnx.helper.make_graph(
            [node], "constant", [self._declared(name, value) for name, value in feeds.items()],
            [self._onnx.ValueInfoProto(name=name) for name in outputs],
        )  # fmt: skip
        part = self._onnx.helper.make_model(
            graph,
            opset_imports=self._model.opset_import,
            functions=self._model.functions,
            ir_version=self._model.ir_version,
        )
        try:
            results = ReferenceEvaluator(part).run(None, feeds)
        except Exception as problem:  # the evaluator's operators raise exceptions of any class
            try:
                results = self._by_ourselves(part, feeds)
            except popart_core.popart_exception as ours:
                return f"onnx: {_one_line(problem)}; popart: {_one_line(ours)}"
        self.values.update(zip(outputs, results, strict=True))
        return None

    def _value(self, name: str) -> Any:
        if name not in self.values:
            self.values[name] = self._onnx.numpy_helper.to_array(self._tensors[name])
        return self.values[name]

    def _declared(self, name: str, value: Any) -> Any:
        array = np.asarray(value)
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return self._onnx.helper.make_tensor_value_info(name, kind, array.shape)

    @staticmethod
    def _by_ourselves(part: Any, feeds: Mapping[str, Any]) -> Iterable[Any]:
        from popart.backend import BackendRep  # needs onnx

        popart_core._expect_errors(True)
        try:
            return BackendRep(part).run(dict(feeds))
        finally:
            popart_core._expect_errors(False)


def _one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return f"{text[:200]}…" if len(text) > 200 else text or type(problem).__name__


def value_bytes(model: Any, onnx: Any) -> tuple[dict[str, int], list[str]]:
    """Bytes of the values whose shapes ONNX's inference knows, and a line where it fails."""
    sizes: dict[str, int] = {}
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as problem:  # classes of onnx's C++ part
        return sizes, [f"nothing is computed: onnx does not infer the shapes: {_one_line(problem)}"]
    for value in inferred.graph.value_info:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape") or any(not d.HasField("dim_value") for d in tensor.shape.dim):
            continue
        count = int(np.prod([d.dim_value for d in tensor.shape.dim], dtype=np.float64))
        sizes[value.name] = count * 16
        if tensor.elem_type in range(1, 24) and tensor.elem_type != 8:
            sizes[value.name] = count * onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    return sizes, []


def random_kind(node: Any) -> bool:
    """Whether a node draws random values."""
    return node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial", "Dropout")


def names_read(node: Any) -> set[str]:
    """Names that a node and the graphs inside it read."""
    names = set(node.input)
    for graph in graphs_of(node):
        names.update(value.name for value in graph.output)
        for inner in graph.node:
            names |= names_read(inner)
    return names


def graphs_of(node: Any) -> list[Any]:
    """The graphs inside a node."""
    return [g for a in node.attribute for g in ([a.g] if a.type == a.GRAPH else a.graphs)]
