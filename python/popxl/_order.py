"""The order of ops that only program order determines: the order that needs the least memory.

The order never violates a constraint, a data dependency, or an order that changes of memory require.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from popart_core import _ir as _core


def put(ops: Sequence[Any], order: Iterable[int]) -> None:
    """Distribute the program positions of `ops` among them so that they run in `order`, a list of indices in `ops`."""
    for place, i in zip(sorted(_core.place(op) for op in ops), order, strict=True):
        _core.setPlace(ops[i], place)


def use_least_memory(pb_graph: Any, ids: Iterable[int], together: Mapping[int, int]) -> None:
    """Order ops of one graph so that their results need little memory; keep their order if it is as good.

    Args:
        pb_graph: the core's graph.
        ids: numbers of the ops; erased ops are skipped.
        together: number of an op → number of a group of ops that stay next to each other.
    """
    ops = sorted((pb_graph.getOp(i) for i in ids if pb_graph.hasOp(i)), key=_core.place)
    parts: dict[int, list[int]] = {}
    for position, op in enumerate(ops):
        parts.setdefault(together.get(op.id, op.id), []).append(position)
    nodes = list(parts.values())
    if len(nodes) > 1:
        group = _Group(pb_graph, [[ops[i] for i in node] for node in nodes])
        best = min(list(range(len(nodes))), group.smallest_first(), key=group.cost)
        put(ops, [i for node in best for i in nodes[node]])


class _Group:
    """Ops that run together, by number, and their results, which stay in memory until the last reader has run."""

    def __init__(self, pb_graph: Any, nodes: Sequence[Sequence[Any]]) -> None:
        number = {op.id: i for i, node in enumerate(nodes) for op in node}
        self._after: list[set[int]] = [set() for _ in nodes]
        for before, after in _core.orderEdges(pb_graph):
            if number.get(before) != number.get(after) and before in number and after in number:
                self._after[number[before]].add(number[after])
        self._value: dict[str, int] = {}  # tensor → the value that it has or views
        self._bytes: list[int] = []
        self._made = [[v for op in node for v in self._values_made(op)] for node in nodes]
        self._read = [
            sorted({self._value[t] for op in node for t in op.getInputIds() if t in self._value}) for node in nodes
        ]
        self._readers = [0] * len(self._bytes)
        for values in self._read:
            for v in values:
                self._readers[v] += 1

    def _values_made(self, op: Any) -> list[int]:
        made, inputs = [], op.getInputIndexMap()
        for tensor, at in zip(op.getOutputTensors(), op.getOutputIndexMap(), strict=True):
            base = next((t for i, t in inputs.items() if op.aliasesInput(i, at)), None)
            if base is None:
                self._value[tensor.id] = len(self._bytes)
                made.append(len(self._bytes))
                self._bytes.append(tensor.nbytes())
            elif base in self._value:
                self._value[tensor.id] = self._value[base]
        return made

    def cost(self, order: Sequence[int]) -> tuple[int, int]:
        """Return the largest number of bytes at one time, and the sum of the bytes over all ops."""
        left, live, most, total = list(self._readers), 0, 0, 0
        for i in order:
            live += sum(self._bytes[v] for v in self._made[i])
            most, total = max(most, live), total + live
            live -= self._freed(i, left)
            for v in self._read[i]:
                left[v] -= 1
        return most, total

    def _freed(self, i: int, left: Sequence[int]) -> int:
        return sum(self._bytes[v] for v in self._read[i] if left[v] == 1)

    def smallest_first(self) -> list[int]:
        """Return an order that always continues with the op, among those that can run, that adds the least memory."""
        left, waiting = list(self._readers), [0] * len(self._read)
        for later in self._after:
            for j in later:
                waiting[j] += 1
        readers: dict[int, list[int]] = {}
        for i, values in enumerate(self._read):
            for v in values:
                readers.setdefault(v, []).append(i)

        def growth(i: int) -> int:
            return sum(self._bytes[v] for v in self._made[i]) - self._freed(i, left)

        ready = [(growth(i), i) for i, n in enumerate(waiting) if n == 0]
        heapq.heapify(ready)
        done, order = [False] * len(self._read), []
        while ready:
            _, i = heapq.heappop(ready)
            if done[i]:
                continue  # an outdated entry: its growth has become smaller
            done[i] = True
            order.append(i)
            for j in self._after[i]:
                waiting[j] -= 1
            for v in self._read[i]:
                left[v] -= 1
            last = {j for v in self._read[i] if left[v] == 1 for j in readers[v]}
            for j in {*self._after[i], *last}:
                if waiting[j] == 0 and not done[j]:
                    heapq.heappush(ready, (growth(j), j))
        return order
