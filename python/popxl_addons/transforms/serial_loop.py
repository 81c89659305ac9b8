"""SerialLoop: the loop over the steps of a batch-serialised graph, with or without overlapping transfers."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import popxl
from popxl import ops

if TYPE_CHECKING:
    from popxl_addons.transforms.batch_serialisation import RemoteHandle, _Step

Tensors = list[popxl.Tensor]
Values = Mapping[popxl.Tensor, popxl.Tensor]


class SerialLoop:
    """Writes the steps into the current graph.

    Args:
        step: the loads, the computation and the stores of a step.
        steps: number of steps.
        row: row of the buffers, int32 scalar.
        seed_input: input of the step's graph that gets the seed of the step, or None.
        seed: seed of the first step.
        passed: other inputs of the step's graph → their values.
    """

    def __init__(
        self,
        step: "_Step",
        steps: int,
        row: popxl.Tensor,
        seed_input: popxl.Tensor | None,
        seed: popxl.Tensor | None,
        passed: Values,
    ) -> None:
        self._step, self._steps, self._seed_input, self._passed = step, steps, seed_input, passed
        self._seed = [] if seed is None else [seed]
        self._first_entry: dict[int, popxl.Tensor | None] = {}  # by handle, None: 0
        for handle in step.handles:
            in_buffer = handle.row_of(row)
            self._first_entry[id(handle)] = None if in_buffer is None else in_buffer * steps

    # ---- one step, in the current graph
    def _entry(
        self, firsts: Mapping[int, popxl.Tensor | None], i: popxl.Tensor
    ) -> "Callable[[RemoteHandle], popxl.Tensor]":
        def entry(handle: "RemoteHandle") -> popxl.Tensor:
            first = firsts[id(handle)]
            return i if first is None else first + i

        return entry

    def _compute(self, loaded: Tensors, passed: Values, seed: Tensors) -> tuple[Tensors, Tensors]:
        """Return the tensors to store, and the seed of the next step."""
        if not seed:
            return self._step.compute(loaded, passed), []
        used, following = ops.split_random_seed(seed[0])
        return self._step.compute(loaded, {**passed, self._seed_input: used}), [following]

    # ---- the loops
    def plain(self) -> None:
        """Load, compute and store, step by step."""

        def body(i: popxl.Tensor, carried: Tensors, passed: Values, entry: Any) -> Tensors:
            loaded = self._step.load(entry(i))
            results, seed = self._compute(loaded, passed, carried)
            self._step.store(results, entry(i))
            return seed

        self._repeat(self._steps, 0, self._seed, body)

    def overlapped(self) -> None:
        """In cycle i: store step i - 2, load step i, compute step i - 1."""
        step, n = self._step, self._steps
        entry = lambda i: self._entry(self._first_entry, popxl.constant(i, popxl.int32))  # noqa: E731
        first = step.load(entry(0))
        loaded = step.load(entry(1))
        results, seed = self._compute(first, self._passed, self._seed)
        count = len(loaded)

        def body(i: popxl.Tensor, carried: Tensors, passed: Values, entry: Any) -> Tensors:
            ready, results, seed = carried[:count], carried[count : count + stored], carried[count + stored :]
            with popxl.in_sequence(False):
                step.store(results, entry(i - 2))
                loaded = step.load(entry(i))
                results, seed = self._compute(ready, passed, seed)
            return [*loaded, *results, *seed]

        stored = len(results)
        carried = self._repeat(n - 2, 2, [*loaded, *results, *seed], body)
        loaded, results, seed = carried[:count], carried[count : count + stored], carried[count + stored :]
        step.store(results, entry(n - 2))
        results, _ = self._compute(loaded, self._passed, seed)
        step.store(results, entry(n - 1))

    def _repeat(self, count: int, first: int, carried: Tensors, build: Any) -> Tensors:
        """Repeat ``build(i, carried, passed, entry)``, which returns the new carried tensors, for i from `first` on."""
        if count == 0:
            return carried
        graph = popxl.gcg().ir.create_empty_graph("batch_serial_step")
        given = [popxl.constant(first, popxl.int32), *carried]
        firsts: dict[int, popxl.Tensor | None] = {}
        with graph, popxl.in_sequence(True):
            i = popxl.graph_input((), popxl.int32, "step")
            inside = [popxl.graph_input(t.shape, t.dtype, t.name, meta_shape=t.meta_shape) for t in carried]
            for key, t in self._first_entry.items():
                firsts[key] = None if t is None else popxl.graph_input((), popxl.int32, "first_entry")
                given += [] if t is None else [t]
            passed = {
                t: popxl.graph_input(t.shape, t.dtype, t.name, t in self._step.graph._by_ref_inputs, t.meta_shape)
                for t in self._passed
            }
            results = build(i, inside, passed, lambda at: self._entry(firsts, at))
            for t in (i + 1, *results):
                popxl.graph_output(t)
        return list(ops.repeat(graph, count, *given, *self._passed.values())[1:])
