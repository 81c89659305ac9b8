"""popxl.Graph: a graph of the program. Wrappers are unique per graph: the same id gives the same object."""

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from popart_core import _ir as _core

from popxl import dtypes
from popxl._programs import graph_of, program
from popxl.context import _CURRENT_CONTEXT, get_current_context
from popxl.dtypes import dtype
from popxl.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from popxl.ir import Ir


class Graph:
    """A graph made by `Ir.create_graph`, `Ir.create_empty_graph` or `Ir.main_graph`; has no constructor."""

    _checks_placement = True  # ops check that their tensors are on one IPU and tile set

    def __init__(self) -> None:
        raise TypeError(
            "Cannot create popxl.Graph directly; use Ir.main_graph, Ir.create_graph or Ir.create_empty_graph."
        )

    @classmethod
    def _from_pb(cls, pb_graph: Any) -> "Graph":
        return graph_of(pb_graph)

    @classmethod
    def _make(cls, ir: "Ir", pb_graph: Any) -> "Graph":
        self = object.__new__(cls)
        self._ir_reference, self._ir_id = weakref.ref(ir), ir.id  # the Ir owns its graphs, not vice versa
        self._pb_graph, self._id = pb_graph, pb_graph.id
        self._tensor_class = ir._tensor_classes[0]  # for tensors that are neither variables nor constants
        self._tensors: dict[str, Tensor] = {}  # by id, the tensors that have a wrapper
        self._by_ref_inputs = set()
        self._op_created_hooks: dict[int, Callable[[Any], Any]] = {}
        self._next_hook = 1
        self._erased_ops: set[int] = set()
        self._exchange_of: dict[int, int] = {}  # op → the MultiExchange that it belongs to
        self._held_constraints: list[tuple[int, int]] | None = None  # kept back by `merge_exchange`
        return self

    # ---- facts
    @property
    def name(self) -> str:
        """Scope text of the graph; "" for the main graph."""
        return self._pb_graph.id

    @property
    def id(self) -> str:
        """Id, unique in the Ir; "" for the main graph."""
        return self._pb_graph.id

    @property
    def ir(self) -> "Ir":
        """The Ir that owns the graph.

        Raises:
            RuntimeError: it no longer exists.
        """
        return self._ir_reference() or program(self._ir_id)

    _ir = ir  # programs use this name too

    @property
    def main_graph(self) -> "Graph":
        """The main graph of the Ir."""
        return self.ir.main_graph

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs in order."""
        return self._wrap(self._pb_graph.getInputIds())

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Outputs in order."""
        return self._wrap(self._pb_graph.getOutputIds())

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """Inputs by unscoped name, in order."""
        return {t.name: t for t in self.inputs}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, sorted by id."""
        return self._wrap(sorted(self._pb_graph.getTensorIds(-1)))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Variables, sorted by id."""
        remote = [v.id for v in self.ir._variables.values() if v._row is not None and v._graph is self]
        return self._wrap(sorted([*self._pb_graph.getTensorIds(4), *remote]))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Constants, sorted by id."""
        return self._wrap(sorted(self._pb_graph.getTensorIds(1)))

    @property
    def called_graphs(self) -> tuple["Graph", ...]:
        """Graphs that ops of this graph call, each once."""
        return tuple(self.ir._graph(g) for g in self._pb_graph.getCalledGraphs())

    def get_tensor(self, tensor_id: str) -> Tensor:
        """Return the tensor with this full id.

        Args:
            tensor_id: id with the prefix of the graph.

        Returns:
            The tensor.

        Raises:
            popart_exception: the graph has no such tensor.
        """
        return self.ir._tensor(self, self._pb_graph.getTensor(tensor_id))

    def _wrap(self, ids: list[str]) -> tuple[Tensor, ...]:
        known = self._tensors
        return tuple(known[i] if i in known else self.get_tensor(i) for i in ids)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, Tensor):
            raise TypeError(f"Only a popxl.Tensor can be in a graph: got {type(value).__name__}.")
        same_ir = value._graph._ir_id == self._ir_id
        return value._graph is self or (same_ir and self._pb_graph.contains(value.id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            raise TypeError(f"A popxl.Graph can only be compared with a popxl.Graph: got {type(other).__name__}.")
        return self is other or (self.id == other.id and self._ir_id == other._ir_id)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, self._ir_id))

    def __repr__(self) -> str:
        return f"Graph[id={self.id} name={self.name}]"

    def _repr_html_(self) -> str:
        """A table of inputs, outputs and variables for notebooks; a click opens the list of ops."""
        from popart._notebook import facts_html, folded_html

        facts = [(f"{what} {t.name}", f"{t.dtype.name} {t.shape}") for what, t in self._named_tensors()]
        table = facts_html(f"Graph '{self.id or 'main'}'", facts)
        return table + folded_html(f"{len(self._pb_graph.getOpIds())} ops", self._pb_graph.printSchedule({}))

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        kinds = (("input", self.inputs), ("variable", self.variables), ("output", self.outputs))
        return [(what, tensor) for what, tensors in kinds for tensor in tensors]

    # ---- context
    def __enter__(self) -> "Graph":
        get_current_context().push_graph(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        get_current_context().pop_graph()

    # ---- hooks
    def register_op_created_hook(self, fn: Callable[[Any], Any]) -> int:
        """Call ``fn(op)`` after every op made in this graph.

        Returns:
            Handle for `remove_op_created_hook`, at least 1.
        """
        handle = self._next_hook
        self._next_hook += 1
        self._op_created_hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Remove a hook.

        Raises:
            ValueError: no hook has this handle.
        """
        if handle not in self._op_created_hooks:
            raise ValueError(f"There is no op-created hook with handle {handle}.")
        del self._op_created_hooks[handle]

    def _call_hooks(self, op: Any) -> None:
        for hook in list(self._op_created_hooks.values()):
            hook(op)

    # ---- building blocks for ops
    def _create_tensor_id(self, name: str | None) -> str:
        """Return the unique id for a new tensor `name` in this graph, name scopes applied."""
        self.ir._check_open("its tensors")
        return self._pb_graph.uniqueId(get_current_context()._scoped(name))

    def _create_op(self, op_type: str, inputs: list, outputs: list[str], attributes: dict, settings: Any) -> Any:
        """Return a new op of the catalog; `inputs` and `outputs` are tensor ids, None for an absent input."""
        self.ir._check_open("its ops")
        return self._pb_graph.createOp(op_type, inputs, outputs, attributes, settings)

    def _run_after(self, op_id: int, earlier: list[int]) -> None:
        """Require that an op runs after others; erased ops are skipped."""
        if self._held_constraints is None:
            self._pb_graph.runAfter(op_id, earlier)
            return
        present = [i for i in earlier if i != op_id and self._pb_graph.hasOp(i)]
        self._held_constraints += [(i, op_id) for i in present]

    def _constrain(self, before: int, after: int) -> None:
        """Require that one op runs before another."""
        if self._held_constraints is not None:
            self._held_constraints.append((before, after))
        else:
            self._pb_graph.addConstraint(before, after)

    def _erase_ops(self, ids: Iterable[int]) -> None:
        """Erase ops. Wrappers of their results keep shape and dtype, but no op may read these tensors."""
        self.ir._check_open("its ops")
        self._erased_ops.update(ids)
        _core.eraseOps(self._pb_graph, set(ids))

    def _mark_output(self, tensor: Tensor) -> None:
        self.ir._check_open("the outputs of its graphs")
        self._pb_graph.markAsOutput(tensor.id)

    def _create_tensor_ids(self, names: Iterable[str]) -> list[str]:
        """Return unique ids for the new tensors of one op; repeated names get numbers."""
        self.ir._check_open("its tensors")
        return self._pb_graph.uniqueIds(list(names), get_current_context()._scope)

    def _add_input(
        self, shape: tuple[int, ...], dtype: dtype, name: str | None, by_ref: bool, meta_shape: tuple[int, ...]
    ) -> Tensor:
        if not isinstance(dtype, dtypes.dtype):
            dtypes.dtype._require(dtype, f"Graph input '{name}'")
        ir = self._ir_reference() or self.ir
        if ir._is_prepared:
            ir._check_open("its tensors")
        scope = "/".join(_CURRENT_CONTEXT.name_scopes)
        index, tensor_id = self._pb_graph.newInput(name or "t", scope, dtype._core_value, shape, meta_shape, by_ref)
        wrapped = Tensor._make(self._tensor_class, self, index, tensor_id)
        if by_ref:
            self._by_ref_inputs.add(wrapped)
        return wrapped
