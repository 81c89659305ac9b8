"""Writes a pipeline: sorts the ops of the stages into graphs, and calls them cycle by cycle (see pipelining.py)."""

from collections import defaultdict
from typing import Any

import popxl
from popxl import ops
from popxl._graph_copy import GraphCopy

Values = dict[popxl.Tensor, popxl.Tensor]


class _Kind:
    """One kind of ops, such as loads: the ops of each stage, and the graphs made from them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.ops: dict[int, list[Any]] = defaultdict(list)
        self._graphs: dict[int, GraphCopy] = {}

    def graph(self, source: popxl.Graph, stage: int, readers: dict[str, set[int]]) -> GraphCopy:
        """Return the graph of a stage; its outputs are the tensors that other ops read."""
        if stage not in self._graphs:
            made = self._graphs[stage] = GraphCopy(source, self._name.format(stage))
            own = {op.id for op in self.ops[stage]}
            for op in self.ops[stage]:
                made.copy(op)
            for op in self.ops[stage]:
                for tensor in op.getOutputIds():
                    if readers[tensor] - own:
                        made.mark_output(source.get_tensor(tensor))
            made.finish()
        return self._graphs[stage]


class PipelineWriter:
    """Makes the graph of a pipeline.

    Args:
        graph: the graph of the ops.
        recorded: the ops by number, in the order of their creation.
        stages: stage of each op by number.

    Raises:
        RuntimeError: an op reads a value of another stage.
    """

    def __init__(self, graph: popxl.Graph, recorded: dict[int, Any], stages: dict[int, int]) -> None:
        self._source, self._ops, self._stages = graph, recorded, stages
        self._loads, self._computes, self._stores, self._copies = (
            _Kind(name) for name in ("loads_stage_{}", "stage_{}", "stores_stage_{}", "ipu_copies")
        )
        self._producers: dict[str, Any] = {}
        self._readers: dict[str, set[int]] = defaultdict(set)
        for op in recorded.values():
            self._producers.update((i, op) for i in op.getOutputIds())
            for i in op.getInputIds():
                self._readers[i].add(op.id)
        self._senders: dict[int, int] = {}  # IpuCopy → the stage that sends
        self._sends: set[int] = set()  # the tensors that the next stage reads
        self._stays: set[int] = set()  # the tensors that the sending stage reads itself
        for op in recorded.values():
            self._check_inputs(op)
        for op in recorded.values():
            self._place(op)

    # ---- sorting
    def _available(self, producer: Any) -> tuple[int, ...]:
        sender = self._senders.get(producer.id)
        return (self._stages[producer.id],) if sender is None else (sender, sender + 1)

    def _check_inputs(self, op: Any) -> None:
        stage = self._stages[op.id]
        made = {i: self._producers[i] for i in op.getInputIds() if i in self._producers}
        if op.opType() == "IpuCopy":  # belongs to the sending stage, or to the receiving one
            receives = any(stage not in self._available(p) for p in made.values())
            stage = self._senders[op.id] = stage - 1 if receives else stage
        for tensor, producer in made.items():
            available = self._available(producer)
            if stage not in available:
                raise RuntimeError(
                    f"pipelined_execution: {op.debugName()} of stage {self._stages[op.id]} reads '{tensor}': got "
                    f"a value of stage {available[0]}, expected one of its own stage. Values go to the next stage "
                    "through copy_to_ipu, to later ones through pipeline.stash_and_restore_tensor."
                )
            if producer.id in self._senders:
                (self._stays if stage == available[0] else self._sends).add(producer.id)

    def _place(self, op: Any) -> None:
        stage, op_type = self._stages[op.id], op.opType()
        if op_type == "IpuCopy":
            if op.id in self._sends:
                self._copies.ops[self._senders[op.id]].append(op)
            if op.id in self._stays:
                self._computes.ops[self._senders[op.id]].append(op)
        elif op_type == "HostLoad" or (op_type == "Init" and self._only_loaded(op)):
            self._loads.ops[stage].append(op)
        else:
            (self._stores if op_type == "HostStore" else self._computes).ops[stage].append(op)

    def _only_loaded(self, init: Any) -> bool:
        """Whether only host loads read the tensor, as the destination of their data."""
        readers = [self._ops[i] for i in self._readers[init.outId(0)]]
        return bool(readers) and all(op.opType() == "HostLoad" for op in readers)

    # ---- writing
    def write(self, steps: int, stages: int) -> GraphCopy:
        """Write all cycles.

        Args:
            steps: number of micro-batches.
            stages: number of stages.

        Returns:
            The graph of the pipeline.
        """
        pipeline = GraphCopy(self._source, "pipeline_graph")
        passed: Values = {}
        for i in range(1, stages):
            passed = self._cycle(pipeline, range(i), passed, f"{pipeline.graph.name}/fill{i}")
        body, carried = self._main_cycle(stages)
        given = {made: passed[t] if t in passed else pipeline.inside(t) for t, made in body.inputs.items()}
        with pipeline.graph, popxl.in_sequence():
            passed = dict(zip(carried, ops.repeat(body.graph, steps - (stages - 1), inputs_dict=given)))
        for i in range(1, stages):
            passed = self._cycle(pipeline, range(i, stages), passed, f"{pipeline.graph.name}/drain{i}")
        pipeline.finish()
        return pipeline

    def _main_cycle(self, stages: int) -> tuple[GraphCopy, list[popxl.Tensor]]:
        """Write the repeated cycle of all stages; results of copies are carried from one iteration to the next."""
        body = GraphCopy(self._source, "pipeline_cycle")
        carried = [self._source.get_tensor(op.outId(0)) for of_stage in self._copies.ops.values() for op in of_stage]
        sent = self._cycle(body, range(stages), {t: body.inside(t) for t in carried})
        for t in carried:
            body.mark_output(t, sent[t])
        body.finish(len(carried))
        return body, carried

    def _cycle(self, target: GraphCopy, active: range, passed: Values, name: str = "") -> Values:
        """Write a cycle of some stages. `passed`: values from the previous cycle; returns those for the next one."""
        # No stage reads a value that another one makes in the same cycle, so they are marked as able to run at the same
        # time.
        values: dict[int, Values] = {s: {} for s in active}
        for t, made in passed.items():
            values[self._senders[self._producers[t.id].id] + 1][t] = made
        with target.graph, popxl.in_sequence():
            for kind in (self._loads, self._computes, self._stores):
                for s in active:
                    values[s].update(self._call(target, kind, s, values[s], name))
            sent = [self._call(target, self._copies, s, values[s], name) for s in active]
        return {t: made for results in sent for t, made in results.items()}

    def _call(self, target: GraphCopy, kind: _Kind, stage: int, values: Values, cycle: str) -> Values:
        if not kind.ops[stage]:
            return {}
        part = kind.graph(self._source, stage, self._readers)
        given = {t: values[t] if t in values else target.inside(t) for t in part.inputs}
        return part.call(given, cycle, str(stage) if kind is self._computes else "")
