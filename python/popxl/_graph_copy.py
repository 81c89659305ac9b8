"""GraphCopy: a new graph of copies of another graph's ops, for transforms that move ops."""

from collections.abc import Mapping
from typing import Any

from popart_core import _ir as _core

from popxl.graph import Graph
from popxl.ops.call import call_with_info, changed_inputs
from popxl.tensor import Constant, Tensor, TensorSpec


class GraphCopy:
    """A new graph of the Ir of `source`.

    Tensors of `source` that a copied op reads, and that no copied op makes, become inputs, in the order of their first
    use.
    Constants are copied.

    Args:
        source: the graph whose ops are copied.
        name: base of the new graph's name.
    """

    def __init__(self, source: Graph, name: str) -> None:
        self.source = source
        self.graph = source.ir.create_empty_graph(name)
        self.graph.ir._graphs_of_moved_ops.add(self.graph.id)
        self.inputs: dict[Tensor, Tensor] = {}
        self.outputs: list[Tensor] = []
        self._inside: dict[Tensor, Tensor] = {}
        self._copies: dict[int, int] = {}

    def inside(self, t: Tensor) -> Tensor:
        """Return the copy of `t`, a tensor of the source; if there is none, add an input."""
        made = self._inside.get(t)
        if made is None:
            pb = self.graph._pb_graph
            name, core, shape = pb.uniqueId(t.name), t.dtype._core, list(t.shape)
            if isinstance(t, Constant):
                made = self.graph.ir._tensor(self.graph, pb.addConstant(name, core, shape, t._pb_tensor.bytes()))
            else:
                made = self.inputs[t] = self.add_input(t.spec, t.name)
            self._inside[t] = made
        return made

    def add_input(self, spec: TensorSpec, name: str) -> Tensor:
        """Add an input that is not a copy of a tensor of the source; such inputs precede all others."""
        pb = self.graph._pb_graph
        made = pb.addInput(pb.uniqueId(name), spec.dtype._core, list(spec.shape), list(spec.meta_shape), False)
        return self.graph.ir._tensor(self.graph, made)

    def copy(self, op: Any) -> None:
        """Copy an op of the source; its operands must be inputs, or results of ops that were copied before."""
        pb = self.graph._pb_graph
        read = op.getInputIndexMap()
        inputs = [
            self.inside(self.source.get_tensor(read[i])).id if i in read else None for i in range(op.inputCount())
        ]
        results = [self.source.get_tensor(i) for i in op.getOutputIds()]
        ids = [pb.uniqueId(t.name) for t in results]
        self._copies[op.id] = _core.copyOp(op, pb, inputs, ids).id
        self._inside.update((t, self.graph.get_tensor(i)) for t, i in zip(results, ids))

    def mark_output(self, t: Tensor, made: Tensor | None = None) -> None:
        """Make the copy of `t`, or `made`, the next output."""
        self.outputs.append(t)
        self.graph._mark_output(self.inside(t) if made is None else made)

    def finish(self, first: int = 0) -> None:
        """Copy the order constraints; inputs from number `first` on that the graph changes are passed by reference."""
        for before, after in _core.constraints(self.source._pb_graph):
            if before in self._copies and after in self._copies:
                self.graph._pb_graph.addConstraint(self._copies[before], self._copies[after])
        inputs = self.graph.inputs
        for i in changed_inputs(self.graph):
            if i >= first:
                inputs[i]._pb_tensor.byReference = True
                self.graph._by_ref_inputs.add(inputs[i])

    def call(self, values: Mapping[Tensor, Tensor], cycle: str = "", stage: str = "") -> dict[Tensor, Tensor]:
        """Call the graph.

        Args:
            values: tensor of the source → tensor of the current graph, for every input.
            cycle: the cycle of a pipeline that the call belongs to; empty: the graph has only one cycle.
            stage: the stage that the call runs, at the same time as other stages of the cycle; empty: none.

        Returns:
            Tensor of the source → result of the call, for every output.
        """
        given = {made: values[t] for t, made in self.inputs.items()}
        info = call_with_info(self.graph, inputs_dict=given)
        _core.setStage(info._op, cycle, stage)
        return dict(zip(self.outputs, info.outputs))
