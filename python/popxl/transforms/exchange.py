"""Context managers that merge exchanges with host and remote memory.

On devices with one memory this changes no value. The merged ops are neighbours in the order of the graph, and printed
as one `MultiExchange`.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from popart_core import _ir as _core

from popxl._order import put
from popxl.context import get_current_graph, in_sequence, io_tiles
from popxl.graph import Graph

_EXCHANGES = ("HostLoad", "HostStore", "RemoteLoad", "RemoteLoadInplace", "RemoteStore", "RemoteCodeLoad")
_Pairs = list[tuple[int, int]]


class MultiExchange:
    """Several exchanges that run as one; hooks are called with this object."""

    def __init__(self, graph: Graph, ops: list[Any]) -> None:
        self.id = graph.ir._pb_ir.getAndIncrOpsCounter()
        self.ops = ops
        for op in ops:
            _core.setExchange(op, self.id)
            graph._exchange_of[op.id] = self.id

    def getGraph(self) -> Any:
        """Return the core's graph."""
        return self.ops[0].getGraph()

    def opType(self) -> str:
        """Return the type."""
        return "MultiExchange"

    def debugName(self) -> str:
        """Return the type and the ops that were merged."""
        return f"MultiExchange ({', '.join(op.debugName() for op in self.ops)})"

    __repr__ = debugName


class _Block:
    """Ops of one graph that were made in a `merge_exchange`.

    Args:
        graph: the graph.
        ops: the ops in the order of their creation.
        held: order constraints on them that are not in the graph yet, as pairs of op numbers.
    """

    def __init__(self, graph: Graph, ops: list[Any], held: _Pairs) -> None:
        self._graph = graph
        self._ops = {op.id: op for op in ops if graph._pb_graph.hasOp(op.id)}
        self._exchanges = {i for i, op in self._ops.items() if op.opType() in _EXCHANGES}
        inits = {i for i, op in self._ops.items() if op.opType() == "Init"}
        self._held = _without(held, inits)
        self._level = self._levels()

    def _levels(self) -> dict[int, int]:
        """Return for each op how many exchanges must run one after another before it; inits ignore constraints."""
        needs, follows = defaultdict(set), defaultdict(set)
        for before, after in _core.orderEdges(self._graph._pb_graph):
            if before in self._ops and after in self._ops:
                needs[after].add(before)
        for before, after in self._held:
            if before in self._ops:
                both = before in self._exchanges and after in self._exchanges
                (follows if both else needs)[after].add(before)
        level: dict[int, int] = {}
        for i in self._ops:
            own = [level[j] + (j in self._exchanges) for j in needs[i]] + [level[j] for j in follows[i]]
            level[i] = max(own, default=0)
        return level

    def _position(self, i: int) -> tuple[int, bool, int]:
        exchanges = i in self._exchanges
        return self._level[i], exchanges, i if exchanges else _core.place(self._ops[i])

    def merge(self) -> list[Any]:
        """Merge, and add the constraints; return the ops without inits, with a `MultiExchange` for merged ops."""
        groups: dict[int, list[int]] = defaultdict(list)
        for i in self._exchanges:
            groups[self._level[i]].append(i)
        parts = {i: sorted(group) for group in groups.values() for i in group}
        ids = list(self._ops)
        by_level = sorted(ids, key=self._position)
        put(list(self._ops.values()), [ids.index(i) for i in by_level])
        for before, after in self._held:
            first, second = parts.get(before, [before]), parts.get(after, [after])
            for pair in ((a, b) for a in first for b in second if first != second):
                self._graph._constrain(*pair)
        several = [group for group in groups.values() if len(group) > 1]
        merged = [MultiExchange(self._graph, [self._ops[i] for i in sorted(group)]) for group in several]
        for op in merged:
            self._graph._call_hooks(op)
        alone = [op for i, op in self._ops.items() if op.opType() != "Init" and len(parts.get(i, [i])) == 1]
        return [*alone, *merged]


def _without(pairs: _Pairs, left_out: set[int]) -> _Pairs:
    """Return the constraints between the other ops, including those that follow from pairs with the left-out ones."""
    before = defaultdict(set)
    for first, second in pairs:
        before[second] |= before[first] if first in left_out else {first}
    return [(first, second) for second, all_ in before.items() if second not in left_out for first in sorted(all_)]


@contextmanager
def _merging() -> Iterator[list[Any]]:
    graph = get_current_graph()
    created: list[Any] = []
    remaining: list[Any] = []
    outer, graph._held_constraints = graph._held_constraints, []
    handle = graph.register_op_created_hook(created.append)
    try:
        yield remaining
    except BaseException:
        held, graph._held_constraints = graph._held_constraints, outer
        for pair in held:
            graph._constrain(*pair)
        raise
    finally:
        graph.remove_op_created_hook(handle)
    held, graph._held_constraints = graph._held_constraints, outer
    remaining += _Block(graph, created, held).merge()


@contextmanager
def merge_exchange() -> Iterator[None]:
    """Merge the host and remote loads and stores that are made inside, in the current graph, into few exchanges.

    Exchanges are merged if none needs the data of another and no other op has to run between them.
    """
    with _merging():
        yield


@contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """Place loads and stores on IO tiles, as one exchange.

    Args:
        verify_overlap: check that there is one op, not counting inits.

    Raises:
        RuntimeError: more than one op remains.
    """
    with io_tiles(), _merging() as remaining, in_sequence(False):
        yield
    if verify_overlap and len(remaining) > 1:
        raise RuntimeError(
            f"io_tile_exchange: these ops are not one exchange: got {[op.debugName() for op in remaining]}, expected "
            "loads and stores that do not need one another. Make other ops outside, or pass verify_overlap=False."
        )
