"""The current position in the program that is built: graph, IPU, tile set, name scopes, order constraints.

One process-global object. Every context manager here restores the previous value, also when its body raises.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any

from popxl._order import use_least_memory
from popxl._programs import graph_of
from popxl.errors import BuildError

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir

_EXECUTION_CONTEXTS = (
    "Normal",
    "AccumulateOuterFragment",
    "WeightsFromHostFragment",
    "WeightsToHostFragment",
    "OptimizerFromHostFragment",
    "Subgraph",
)


def _execution_context_number(value: Any) -> int:
    if value is None:
        return 0
    name = getattr(value, "name", None) or str(value).rsplit(".", 1)[-1]
    return _EXECUTION_CONTEXTS.index(name)


class _OrderHistory:
    """The state of `in_sequence` for one graph: the ops that a new op must follow."""

    def __init__(self) -> None:
        self.previous: list[int] = []
        self.group: list[int] = []
        self._ordered = 0  # number of ops of the group that are ordered

    def order_group(self, graph: "Graph") -> None:
        """Order the unordered group so that it takes little memory."""
        if len(self.group) > max(self._ordered, 1):
            self._ordered = len(self.group)
            use_least_memory(graph._pb_graph, self.group, graph._exchange_of)

    def follow(self, op_id: int) -> list[int]:
        """Record an op that runs after all previous ones; return the ops that it must follow."""
        before = self.group or self.previous
        self.previous, self.group, self._ordered = [op_id], [], 0
        return before

    def join(self, op_id: int) -> list[int]:
        """Record an op of the unordered group; return the ops that it must follow."""
        self.group.append(op_id)
        return self.previous


class Context:
    """Current graph, IPU, tile set, name scopes and order constraints."""

    def __init__(self) -> None:
        self._graphs: list[Graph] = []
        self._irs: list[Ir] = []  # the Irs of these graphs, kept alive meanwhile
        self._thread: Thread | None = None  # the thread that made the first of them current
        self.ipu_id: int = 0
        self.io_tile_set: str | None = None
        self.pipeline_stage: int | None = None
        self.execution_context: int = 0
        self.name_scopes: list[str] = []
        self.in_sequence: bool | str | None = None
        self._in_sequence_depth = 0
        self._history: dict[tuple[int, str, int], _OrderHistory] = defaultdict(_OrderHistory)
        self._group_graphs: dict[tuple[int, str, int], Graph] = {}  # the graphs with unordered groups
        self.debug_frame_offset = 0

    # ---- graphs
    @property
    def graph(self) -> "Graph":
        """Innermost graph. Raises RuntimeError when there is none."""
        if not self._graphs:
            raise RuntimeError("There is no current graph. Build inside `with ir.main_graph:` or `with graph:`.")
        return self._graphs[-1]

    @property
    def current(self) -> "tuple[Graph, Ir]":
        """Innermost graph and its Ir. Raises RuntimeError when there is none."""
        return (self._graphs[-1], self._irs[-1]) if self._graphs else (self.graph, self.graph.ir)

    @property
    def ir(self) -> "Ir":
        """Ir of the innermost graph. Raises RuntimeError when there is none."""
        return self._irs[-1] if self._irs else self.graph.ir

    @property
    def main_graph(self) -> "Graph":
        """Main graph of the outermost graph's Ir.

        Raises:
            RuntimeError: no graph is current.
        """
        if not self._graphs:
            raise RuntimeError("There is no current graph. Build inside `with ir.main_graph:` or `with graph:`.")
        return self._graphs[0].main_graph

    def push_graph(self, graph: "Graph") -> None:
        """Make `graph` the current one.

        Raises:
            BuildError: another thread builds a program.
            RuntimeError: the graph belongs to another Ir than the current one.
        """
        thread = current_thread()
        if not self._graphs:
            self._thread = thread
        elif self._thread is not thread:
            raise BuildError(
                f"{graph.ir!r}: another thread builds {self._irs[0]!r}: got thread '{thread.name}', expected "
                f"'{self._thread.name}'. Programs are built one after the other: let each thread hold the same lock "
                "while it builds. Sessions may run at the same time."
            )
        if self._irs and self._irs[-1] != graph.ir:
            raise RuntimeError("Graphs of different Irs cannot be nested: leave the context of the other Ir first.")
        self._irs.append(graph.ir)
        self._graphs.append(graph)

    def pop_graph(self) -> None:
        """Return to the enclosing graph."""
        self._graphs.pop()
        self._irs.pop()

    # ---- settings of new ops
    @property
    def _scope(self) -> str:
        return "/".join(self.name_scopes)

    def _scoped(self, name: str | None) -> str:
        return f"{'/'.join(self.name_scopes)}/{name or 't'}" if self.name_scopes else name or "t"

    def _get_op_settings(self, name: str) -> dict[str, Any]:
        """Return the settings of an op created now under the label `name`."""
        return {
            "name": self._scoped(name),
            "scope": self._scope,
            "ipu": self.ipu_id,
            "io_tiles": self.io_tile_set == "io",
            "execution_context": self.execution_context,
            "pipeline_stage": -1 if self.pipeline_stage is None else self.pipeline_stage,
        }

    def _op_created(self, op: Any) -> None:
        """Apply order constraints to a new op, then call the hooks of its graph."""
        self._op_created_in(graph_of(op.getGraph()), op.id)

    def _op_created_in(self, graph: "Graph", op_id: int) -> None:
        """As `_op_created`, for an op given by graph and number."""
        if self.in_sequence is not None:
            self._add_in_sequence_topocons(graph, op_id)
        if graph._op_created_hooks:
            graph._call_hooks(graph._pb_graph.getOp(op_id))

    def _add_in_sequence_topocons(self, graph: "Graph", op_id: int) -> None:
        key, mode = (graph._ir_id, graph._id, self.execution_context), self.in_sequence
        if mode is not True and mode not in (True, False):
            if mode != "pass":
                raise ValueError(f"Unknown in_sequence mode: got {mode!r}, expected True, False or 'pass'.")
            self._history.pop(key, None)
            return
        history = self._history[key]
        if mode:
            if history.group:
                history.order_group(graph)
            before = history.follow(op_id)
        else:
            before = history.join(op_id)
            self._group_graphs[key] = graph
        if before:
            graph._run_after(op_id, before)

    def _plain_history(self, graph: "Graph") -> _OrderHistory | None:
        """Return the history of a graph whose next op only has to follow `previous`; None if there is more to do."""
        history = self._history[(graph._ir_id, graph._id, self.execution_context)]
        return None if history.group or graph._held_constraints is not None else history

    def _order_groups(self) -> None:
        for key, graph in self._group_graphs.items():
            self._history[key].order_group(graph)
        self._group_graphs.clear()


_CURRENT_CONTEXT = Context()


def get_current_context() -> Context:
    """Return the process-global context."""
    return _CURRENT_CONTEXT


def get_current_graph() -> "Graph":
    """Return the innermost graph.

    Raises:
        RuntimeError: no graph is current.
    """
    return _CURRENT_CONTEXT.graph


def get_main_graph() -> "Graph":
    """Return the main graph of the current Ir.

    Raises:
        RuntimeError: no graph is current.
    """
    return _CURRENT_CONTEXT.main_graph


def get_ir() -> "Ir":
    """Return the Ir of the current graph.

    Raises:
        RuntimeError: no graph is current.
    """
    return _CURRENT_CONTEXT.main_graph.ir


gcg = get_current_graph
gmg = get_main_graph
gir = get_ir


@contextmanager
def _set(attribute: str, value: Any) -> Iterator[Any]:
    ctx = get_current_context()
    previous = getattr(ctx, attribute)
    setattr(ctx, attribute, value)
    try:
        yield value
    finally:
        setattr(ctx, attribute, previous)


@contextmanager
def ipu(ipu: int) -> Iterator[int]:
    """Place the ops created inside on IPU number `ipu`."""
    with _set("ipu_id", ipu):
        yield ipu


@contextmanager
def io_tiles() -> Iterator[None]:
    """Place the ops created inside on IO tiles."""
    with _set("io_tile_set", "io"):
        yield


@contextmanager
def pipeline_stage(stage: int) -> Iterator[int]:
    """Give the ops created inside this pipeline stage."""
    with _set("pipeline_stage", stage):
        yield stage


@contextmanager
def name_scope(name: str) -> Iterator[list[str]]:
    """Prefix the names of tensors and ops created inside with ``name/``; scopes nest."""
    ctx = get_current_context()
    ctx.name_scopes.append(name)
    try:
        yield ctx.name_scopes
    finally:
        ctx.name_scopes.pop()


@contextmanager
def _execution_context(context: Any) -> Iterator[Any]:
    with _set("execution_context", _execution_context_number(context)):
        yield context


@contextmanager
def in_sequence(mode: bool | str = True) -> Iterator[None]:
    """Constrain the order of the ops created inside.

    Args:
        mode: True: each op runs after the previous one; False: the ops form a group between their neighbours, ordered
            so that they need the least memory; ``"pass"``: no constraints, and previous ops are forgotten.

    Raises:
        TypeError: `mode` is None.
    """
    if mode is None:
        raise TypeError("in_sequence: got None, expected True, False or 'pass'.")
    ctx = get_current_context()
    previous = ctx.in_sequence
    ctx.in_sequence = mode
    ctx._in_sequence_depth += 1
    try:
        yield
        if mode is False:
            ctx._order_groups()
    finally:
        ctx.in_sequence = previous
        ctx._in_sequence_depth -= 1
        if ctx._in_sequence_depth == 0:
            ctx._history.clear()


@contextmanager
def debug_context_frame_offset(i: int) -> Iterator[None]:
    """Skip `i` more frames when the source location of an op is recorded."""
    ctx = get_current_context()
    with _set("debug_frame_offset", ctx.debug_frame_offset + i):
        yield


def op_debug_context(name: str | Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Mark a function as one that creates ops. Usable bare or with a name.

    Args:
        name: name to record; default the name of the function.

    Returns:
        The function, or with a name a decorator.
    """

    def decorate(fn: Callable[..., Any], label: str) -> Callable[..., Any]:
        @wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        wrapper._op_debug_name = label
        return wrapper

    if callable(name):
        return decorate(name, name.__name__)
    return lambda fn: decorate(fn, name or fn.__name__)
