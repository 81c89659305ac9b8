"""Functions for all ops: checks of tensor arguments, and `emit`, the only function that adds an op to the graph."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from popart_core import _ir, popart_exception

from popxl._operators import operators
from popxl.context import _CURRENT_CONTEXT
from popxl.dtypes import dtype
from popxl.tensor import Tensor, check_in_graph

_NO_OPS: list[int] = []


def check_tensor_ipu_and_tile_set(**tensors: Tensor) -> None:
    """Check that tensors whose placement is known are on one IPU and tile set.

    Raises:
        ValueError: they are on different ones.
    """
    if len(tensors) < 2:
        return
    graph = next(iter(tensors.values()))._graph
    ir = graph.ir
    if not graph._checks_placement or _ir.areTogether(
        [t._pb_tensor for t in tensors.values()], ir._graphs_of_moved_ops
    ):
        return
    placements = [t._placement() for t in tensors.values()]
    for what, known in zip(("IPUs", "tile sets"), zip(*placements, strict=True), strict=True):
        if len({place for place in known if place is not None}) > 1:
            places = ", ".join(
                f"{t.id} (argument `{name}`): {place}"
                for (name, t), place in zip(tensors.items(), known, strict=True)
                if place is not None
            )
            raise ValueError(
                f"Tensors are on different {what}: {places}. Move them with ops.ipu_copy or ops.io_tile_copy."
            )


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """Return a negative `axis` as a number from the front."""
    return t.rank + axis if axis < 0 else axis


def checked_axis(function: str, t: Tensor, axis: int) -> int:
    """Return a checked `axis` as a number from the front.

    Raises:
        popart_exception: `t` has no such axis.
    """
    if not -t.rank <= axis < t.rank:
        raise popart_exception(
            f"{function}: axis out of range: got {axis} for {t.name} of shape {t.shape}, expected {-t.rank} to "
            f"{t.rank - 1}."
        )
    return handle_negative_axis(t, axis)


def convert_optional_float(value: float | None) -> float | None:
    """Return `value` as a float; None stays None."""
    return None if value is None else float(value)


def convert_optional_int(value: int | None) -> int | None:
    """Return `value` as an int; None stays None."""
    return None if value is None else int(value)


def convert_optional_int64_list(values: Iterable[int] | None) -> list[int] | None:
    """Return `values` as a list of ints; None stays None."""
    return None if values is None else [int(v) for v in values]


def convert_optional_dtype(value: dtype | None) -> int | None:
    """Return the core's number of a dtype; None stays None.

    Raises:
        TypeError: `value` is not a popxl dtype.
    """
    return None if value is None else dtype._require(value, "dtype")._core


def cast_if_needed(t: Tensor, data_type: dtype) -> Tensor:
    """Return `t`, cast to the dtype if it has another one."""
    return t if t.dtype == data_type else operators.cast(t, data_type)


def check_memory_proportion(value: float | None) -> None:
    """Check an available memory proportion.

    Raises:
        ValueError: it is outside (0, 1].
    """
    if value is not None and not 0 < value <= 1:
        raise ValueError(f"available_memory_proportion: got {value}, expected a value in (0, 1].")


def emit(
    op_type: str,
    inputs: Mapping[str, Tensor | None],
    outputs: str | Sequence[str],
    attributes: Mapping[str, Any] | None = None,
    *,
    label: str = "",
    same_placement: bool = True,
    function: str = "",
    optional: Collection[str] = (),
) -> list[Tensor]:
    """Add an op of the catalog to the current graph.

    Args:
        op_type: type of the row, for example ``"MatMul"``.
        inputs: argument name → tensor in the order of the row's inputs; None: absent, which `optional` must allow.
        outputs: requested names of the outputs.
        attributes: attributes of the row; entries with value None are left out.
        label: debug name, default the lower-case type.
        same_placement: check that the inputs are on one IPU and tile set.
        function: name of the function in popxl.ops, for the message when the operator does not exist yet.
        optional: names of the inputs that may be absent.

    Returns:
        The output tensors.

    Raises:
        TypeError, ValueError: from the argument checks.
        popart_exception: shapes or types do not fit, or the operator is not supported.
    """
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    return add_op(op_type, inputs, names, attributes, label, same_placement, function, optional)


def add_op(
    op_type: str,
    inputs: Mapping[str, Tensor | None],
    names: list[str],
    attributes: Mapping[str, Any] | None = None,
    label: str = "",
    same_placement: bool = True,
    function: str = "",
    optional: Collection[str] = (),
    wanted: int | None = None,
) -> list[Tensor]:
    """As `emit`, with the output names in a list; `wanted`: how many outputs to return, default all."""
    ctx, read = _CURRENT_CONTEXT, []
    graph, ir = (ctx._graphs[-1], ctx._irs[-1]) if ctx._graphs else ctx.current
    for name, t in inputs.items():
        if t is None and name in optional:
            read.append(None)
            continue
        if not (isinstance(t, Tensor) and t._graph is graph and t._row is None):
            check_in_graph(graph, **{name: t})
        read.append(t._index)
    if function and not has_operator(op_type):
        raise unsupported(function, f"There is no operator {op_type}.")
    if ir._is_prepared:
        ir._check_open("its tensors" if names else "its ops")
    history, earlier = None, _NO_OPS
    if ctx.in_sequence is True and (history := ctx._plain_history(graph)) is not None:
        earlier = history.previous
    emitted = graph._pb_graph.emitOp(
        op_type,
        read,
        names,
        {k: v for k, v in attributes.items() if v is not None} if attributes else {},
        label or op_type.lower(),
        "/".join(ctx.name_scopes),
        ctx.ipu_id,
        ctx.io_tile_set == "io",
        ctx.execution_context,
        ctx.pipeline_stage,
        len(names) if wanted is None else wanted,
        earlier,
        ir._graphs_of_moved_ops if same_placement and graph._checks_placement else None,
    )
    if emitted is None:
        _refuse({name: t for name, t in inputs.items() if t is not None})
    op_id, results = emitted
    if history is not None:
        history.previous = [op_id]  # this history has no unordered group
    elif ctx.in_sequence is not None:
        ctx._add_in_sequence_topocons(graph, op_id)
    if graph._op_created_hooks:
        graph._call_hooks(graph._pb_graph.getOp(op_id))
    make, plain = Tensor._make, graph._tensor_class
    return [make(plain, graph, *results[0])] if len(results) == 1 else [make(plain, graph, *r) for r in results]


def _refuse(inputs: Mapping[str, Tensor]) -> None:
    """Raise the error that explains why the core has refused the inputs of an op.

    Raises:
        popart_exception: a tensor was erased.
        ValueError: they are on different IPUs or tile sets.
    """
    for t in inputs.values():
        _ = t.shape  # raises an error if the tensor was erased
    check_tensor_ipu_and_tile_set(**inputs)


def emit_one(
    op_type: str,
    inputs: Mapping[str, Tensor | None],
    output: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    label: str = "",
    same_placement: bool = True,
    function: str = "",
    optional: Collection[str] = (),
) -> Tensor:
    """Add an op with one output (`emit`) and return it."""
    return add_op(op_type, inputs, [output], attributes, label, same_placement, function, optional)[0]


def has_operator(op_type: str) -> bool:
    """Whether the catalog has an operator of this type."""
    return _ir.hasOperator(op_type)


def unsupported(what: str, instead: str) -> Exception:
    """Return the exception for a function whose operator does not exist yet."""
    return popart_exception(f"popxl.ops.{what} is not supported yet. {instead}")
