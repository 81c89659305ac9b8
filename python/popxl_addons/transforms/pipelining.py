"""pipelined_execution: the stages of a graph work on successive micro-batches at the same time.

Stage s works on micro-batch m - s in cycle m. A cycle is: all host loads, the stages in ascending order, all host
stores, then the copies between IPUs, whose results the next cycle reads:

    cycle 0      loads_stage_0, stage_0, …                       ramp up: stages [0, i) for i = 1 … S - 1
    …            loads_stage_0 … S-1, stage_0 … S-1, stores, ipu_copies        repeated steps - (S - 1) times
    last cycle   loads_stage_S-1, stage_S-1, …                   ramp down: stages [i, S) for i = 1 … S - 1
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import popxl
from popart_core import _ir as _core
from popxl import ops
from popxl.context import get_current_context
from popxl.ops import CallSiteInfo

from popxl_addons.graph_common import GradGraphInfoLike, to_grad_graph_info
from popxl_addons.module import Module
from popxl_addons.transforms.pipeline_writer import PipelineWriter


def _zeros(shape: tuple[int, ...], dtype: popxl.dtype) -> np.ndarray:
    return np.zeros(shape, dtype.as_numpy())


class Stash(Module):
    """Writes a tensor into the next slot of a ring buffer."""

    def build(self, t: popxl.Tensor, size: int) -> None:
        """Add the ops; variables: counter (uint32, one element) and stash (`size` slots)."""
        counter = self.add_variable_input("counter", lambda: _zeros((1,), popxl.uint32), by_ref=True)
        slots = (size, *t.shape)
        stash = self.add_variable_input("stash", lambda: _zeros(slots, t.dtype), t.dtype, by_ref=True)
        with popxl.in_sequence():  # the slot is written before its number changes
            updated = ops.dynamic_update_(stash, counter, t.reshape((1, *t.shape)), [0], [1], no_overlap=True)
            _core.setRing(updated._pb_tensor.getProducer(), True)
            ops.increment_mod_(counter, 1, size)


class Restore(Module):
    """Reads the next slot of a ring buffer."""

    def build(self, stash: popxl.Tensor) -> popxl.Tensor:
        """Add the ops; variable: counter (uint32, one element)."""
        counter = self.add_variable_input("counter", lambda: _zeros((1,), popxl.uint32), by_ref=True)
        with popxl.in_sequence():  # the slot is read before its number changes
            slot = ops.dynamic_slice(stash, counter, [0], [1], no_overlap=True)
            _core.setRing(slot._pb_tensor.getProducer(), False)
            ops.increment_mod_(counter, 1, stash.shape[0])
        # compat: a restored scalar has one dimension (test_pipelining.py::test_stashed_scalars_have_one_dimension)
        return slot.reshape(stash.shape[1:] or (1,))


class Pipeline:
    """The stages of one pipelined execution; made by `pipelined_execution`."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._graph = popxl.gcg()
        self._ops: dict[int, Any] = {}
        self._stages: dict[int, int] = {}
        self._current: int | None = None
        self._stash, self._restore = Stash(cache=True), Restore(cache=True)

    @contextmanager
    def stage(self, stage: int) -> Iterator[None]:
        """Assign the ops created inside to a stage.

        Args:
            stage: number of the stage, from 0.

        Raises:
            ValueError: the number is negative.
        """
        if stage < 0:
            raise ValueError(f"pipeline.stage: got {stage}, expected 0 or more.")
        previous, self._current = self._current, stage
        try:
            yield
        finally:
            self._current = previous

    # ---- values that later stages read
    def stash_and_restore_tensor(self, t: popxl.Tensor, from_stage: int | None = None) -> popxl.Tensor:
        """Return, in this stage, the value that a tensor had in an earlier stage for the same micro-batch.

        The values are stored in a ring buffer, which is a variable.

        Args:
            t: the tensor.
            from_stage: the stage of the tensor; default: that of its producer.

        Returns:
            Tensor of the shape and dtype of t; of shape (1,) for a scalar.

        Raises:
            RuntimeError: the current position is outside of a stage, or no stage makes t.
            TypeError: the tensor comes from this stage or a later one.
            ValueError: the current graph is not the main graph, or t is a part of a replica-sharded tensor.
        """
        stage = self._require_stage("stash_and_restore_tensor")
        if from_stage is None:
            from_stage = self._stage_of(t)
        if from_stage is None:
            raise RuntimeError(f"stash_and_restore_tensor: no stage makes {t}. Pass from_stage, or use it as it is.")
        size = stage - from_stage + 1
        if size <= 1:
            raise TypeError(
                f"stash_and_restore_tensor: {t} comes from stage {from_stage} and is wanted in stage {stage}: expected "
                "an earlier stage. In the same stage use the tensor itself."
            )
        if t.meta_shape:
            raise ValueError(f"stash_and_restore_tensor: {t} is a part of a tensor. Gather it, and keep the whole.")
        factories, graph = self._stash.create_graph(t, size=size)
        variables = factories.init()
        with self.stage(from_stage):
            graph.bind(variables).call(t)
        factories, graph = self._restore.create_graph(variables.stash)
        return graph.bind(factories.init()).call(variables.stash)[0]

    def stash_and_restore_activations(
        self, call_info: CallSiteInfo, grad_info: GradGraphInfoLike
    ) -> dict[popxl.Tensor, popxl.Tensor]:
        """Return the activations that a gradient graph reads, for the call of the gradient graph in this stage.

        Args:
            call_info: the forward call, made in this stage or an earlier one.
            grad_info: the gradient graph.

        Returns:
            Input of the gradient graph → tensor. Tensors made in the pipeline are stashed; others are used directly.

        Raises:
            RuntimeError: the current position or the forward call is outside of a stage.
            TypeError: the forward call belongs to another graph, or is in a later stage.
        """
        stage = self._require_stage("stash_and_restore_activations")
        activations = to_grad_graph_info(grad_info).inputs_dict(call_info)
        from_stage = self._stages.get(call_info._op.id)
        if from_stage is None:
            raise RuntimeError("stash_and_restore_activations: the forward call is in no stage of this pipeline.")
        if from_stage == stage:
            return activations
        restored: dict[popxl.Tensor, popxl.Tensor] = {}
        for t in activations.values():
            if t not in restored:
                external = self._stage_of(t) is None
                value = t if external else self.stash_and_restore_tensor(t, from_stage)
                restored[t] = value if value.shape == t.shape else ops.reshape(value, t.shape)
        return {graph_input: restored[t] for graph_input, t in activations.items()}

    def _require_stage(self, what: str) -> int:
        if self._current is None:
            raise RuntimeError(f"{what}: no stage is current. Call it inside `with pipeline.stage(i):`.")
        return self._current

    def _stage_of(self, t: popxl.Tensor) -> int | None:
        return self._stages.get(t._pb_tensor.getProducer().id) if t._pb_tensor.hasProducer() else None

    # ---- recording
    def _record(self, op: Any) -> None:
        if self._current is None:
            raise RuntimeError(
                f"{op.debugName()} is created in a pipeline but in no stage. Put it into `with pipeline.stage(i):`, or "
                "before the pipeline."
            )
        self._ops[op.id] = op
        self._stages[op.id] = self._current


@contextmanager
def pipelined_execution(steps: int) -> Iterator[Pipeline]:
    """Run the ops created inside as a pipeline, for `steps` micro-batches.

    Every op belongs to a stage (``with pipeline.stage(i):``). Values go from one stage to the next by
    `popxl.ops.ipu_copy`, to later stages by `Pipeline.stash_and_restore_tensor`. At the end, a call of the graph
    ``pipeline_graph`` replaces the ops. The results are those of running the ops once for every micro-batch.

    Args:
        steps: number of micro-batches, at least twice the number of stages. The Ir's num_host_transfers is a multiple
            of it.

    Raises:
        RuntimeError: an op is in no stage, or reads a value of another stage.
        ValueError: there are too few steps.
    """
    graph, ctx = popxl.gcg(), get_current_context()
    pipeline = Pipeline(steps)
    place = (graph.ir.id, graph.id, ctx.execution_context)
    history = copy.deepcopy(ctx._history.get(place))
    handle = graph.register_op_created_hook(pipeline._record)
    try:
        yield pipeline
    finally:
        graph.remove_op_created_hook(handle)
    stages = max(pipeline._stages.values(), default=-1) + 1
    if stages == 0:
        raise RuntimeError("pipelined_execution: there is no op. Create ops inside `with pipeline.stage(i):`.")
    if steps < 2 * stages:
        raise ValueError(
            f"pipelined_execution: {steps} steps are too few for {stages} stages: expected at least {2 * stages}, "
            "twice the stages."
        )
    made = PipelineWriter(graph, pipeline._ops, pipeline._stages).write(steps, stages)
    graph._erase_ops(pipeline._ops)
    if history is not None:
        ctx._history[place] = history
    made.call({t: t for t in made.inputs})
