"""Floating-point operations of programs, counted from their ops.

A breakdown is a dict: op type → {op number: count}. The ops of a called graph are one level deeper, below the call:
``{"MatMul": {100: 8, "Call_107(Linear)": {101: 16}}, "TOT": 24}``.
"""

import re
from collections.abc import Iterator
from math import floor, log10, prod
from typing import Any

import popxl
from popxl.utils import table_to_string

from popxl_addons.graph_common import GraphLike, to_graph

__all__ = ["evaluate_FLOPs", "evaluate_ir_FLOPs", "format_flops_scientific", "print_FLOPs", "total_FLOPs"]

_TOTAL = "TOT"
_NUMBER = re.compile(r"_subgraph\([0-9]+\)")
_POWERS = {"K": 3, "M": 6, "G": 9, "T": 12}


def _product(op: Any) -> int:
    return 2 * op.inTensor(0).shape()[-1] * op.outTensor(0).nelms()


def _element_wise(op: Any) -> int:
    return op.outTensor(0).nelms()


def _group_norm(op: Any) -> int:
    shape, means = op.inTensor(0).shape(), op.outTensor(1).nelms()
    groups = int(means / shape[0])
    elements = int(prod(shape[-2:]) / groups)
    return 3 * elements + 2 * means + 4 * op.outTensor(0).nelms()


_COUNTS = {
    "MatMul": _product,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _element_wise),
    "GroupNormalization": _group_norm,
}


def evaluate_FLOPs(graph: GraphLike) -> dict[str, Any]:
    """Count the floating-point operations of one execution of a graph.

    A product counts 2 k for each element of the result; Add, Sub, Mul and Div count one. GroupNormalization counts
    3 e + 2 means + 4 for each element of the result (e: last two dimensions over the number of groups). Other ops
    count zero. A called graph counts at each call, a repeated one for each iteration.

    Args:
        graph: the graph.

    Returns:
        The breakdown; its last entry ``"TOT"`` is the sum.
    """
    graph = to_graph(graph)
    by_type: dict[str, Any] = {}
    for op in graph._pb_graph.getOps():
        op_type = op.opType()
        if op_type in _COUNTS:
            by_type.setdefault(op_type, {})[op.id] = _COUNTS[op_type](op)
        elif op_type in ("Call", "Loop"):
            times = op.getTripCountValue() if op_type == "Loop" else 1
            for called in op.getCalledGraphs():
                name = f"{op_type}_{op.id}({_NUMBER.sub('', called.id)})"
                inside = _scaled(evaluate_FLOPs(graph.ir._graph(called)), times)
                for inner_type, counts in inside.items():
                    if inner_type != _TOTAL:
                        by_type.setdefault(inner_type, {})[name] = counts
    return {**by_type, _TOTAL: sum(count for _, count in _leaves(by_type))}


def evaluate_ir_FLOPs(ir: popxl.Ir) -> dict[str, Any]:
    """Count the floating-point operations of one run of a program on all replicas.

    Args:
        ir: the program.

    Returns:
        The breakdown of the main graph (`evaluate_FLOPs`), times the replication factor.
    """
    return _scaled(evaluate_FLOPs(ir.main_graph), ir.replication_factor)


def total_FLOPs(ir: popxl.Ir) -> int:
    """Return the floating-point operations of one run.

    Args:
        ir: the program.

    Returns:
        The sum of `evaluate_ir_FLOPs`.
    """
    return evaluate_ir_FLOPs(ir)[_TOTAL]


def print_FLOPs(flops_breakdown: dict[str, Any], mode: str = "type", numerical_format: str = "nearest3") -> None:
    """Print a breakdown as a table.

    Args:
        flops_breakdown: what `evaluate_FLOPs` returned.
        mode: ``"type"``: a row for each type; ``"flat"``: a row for each op. Both largest first.
        numerical_format: as in `format_flops_scientific`.

    Raises:
        ValueError: the mode or format is unknown.
    """
    total = flops_breakdown[_TOTAL]
    rows: list[tuple[str, ...]]
    if mode == "type":
        sums = {name: sum(c for _, c in _leaves(part)) for name, part in flops_breakdown.items() if name != _TOTAL}
        rows = [("Op Type", "FLOPs", "%")]
        for name, count in _largest_first(sums.items()):
            share = 100 * count / total if total else 0.0
            rows.append((name, format_flops_scientific(count, numerical_format), f"{share:.1f}"))
    elif mode == "flat":
        rows = [("Op Type", "FLOPs", "Op Name")]
        for path, count in _largest_first(_leaves(flops_breakdown)):
            rows.append((path.split(".")[0], format_flops_scientific(count, numerical_format), path))
        rows.append((_TOTAL, format_flops_scientific(total, numerical_format), ""))
    else:
        raise ValueError(f"print_FLOPs: mode: got {mode!r}, expected 'type' or 'flat'.")
    print(table_to_string(rows))


def format_flops_scientific(val: float, format: str = "nearest3") -> str:
    """Return a count with three decimals and an exponent.

    Args:
        val: the count.
        format: ``"K"``, ``"M"``, ``"G"`` or ``"T"``: the exponent 3, 6, 9 or 12; ``"nearest3"``: the multiple of 3
            nearest to the exponent of the number.

    Returns:
        For example ``"9.072E+03"``.

    Raises:
        ValueError: the format is unknown.
    """
    if format in _POWERS:
        exponent = _POWERS[format]
    elif format == "nearest3":
        power = floor(log10(abs(val))) if val > 0 else 0
        exponent = 3 * (power // 3 + (power % 3 == 2))
    else:
        raise ValueError(f"format_flops_scientific: format: got {format!r}, expected 'nearest3', 'K', 'M', 'G' or 'T'.")
    scaled = val / 10**exponent if exponent >= 0 else val * 10**-exponent
    return f"{scaled:.3f}E{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _leaves(breakdown: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Yield (dotted path, count) of every op."""
    if not isinstance(breakdown, dict):
        yield path, breakdown
        return
    for key, value in breakdown.items():
        yield from _leaves(value, f"{path}.{key}" if path else str(key))


def _scaled(breakdown: Any, factor: int) -> Any:
    if isinstance(breakdown, dict):
        return {key: _scaled(value, factor) for key, value in breakdown.items()}
    return breakdown * factor


def _largest_first(counts: Any) -> list[tuple[str, int]]:
    return sorted(counts, key=lambda item: -item[1])
