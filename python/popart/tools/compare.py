"""Results against those of ONNX Runtime, of another model, or of a file; and the first operator that differs.

The search for an operator (`first_difference`) keeps the results of the operators of the main graph on both sides, a
group of operators at a time in the order of the file, and stops at the first one that differs. A result that is kept is
not fused with what reads it: a fault of a fused kernel may not show, and then no operator differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import popart_core

from popart.tools import files
from popart.tools.command import UsageError
from popart.tools.running import named_feeds, named_parts, run_model

Arrays = Mapping[str, np.ndarray]
Source = Callable[[Sequence[str]], Arrays]  # values of the outputs and of the tensors named
GROUP = 64  # operators whose results are kept at the same time


@dataclass(frozen=True)
class Tolerance:
    """Values are equal where ``|ours - theirs| <= atol + rtol |theirs|``, or where both are NaN."""

    rtol: float
    atol: float

    def difference(self, ours: np.ndarray | None, theirs: np.ndarray) -> dict[str, Any]:
        """How far one array is from another; one of another size differs in all elements.

        Args:
            ours: None: there is none.
            theirs: What it is compared with.

        Returns:
            "equal", "differing" of "elements", and the "largestDifference" of finite elements.
        """
        if ours is not None and ours.size == theirs.size and theirs.dtype.kind in "OU":
            differing = int((ours.astype(str).reshape(theirs.shape) != theirs.astype(str)).sum())
            return {"equal": differing == 0, "differing": differing, "elements": theirs.size, "largestDifference": 0.0}
        if ours is None or ours.size != theirs.size or theirs.dtype.kind not in "fiubcV":
            return {"equal": False, "differing": theirs.size, "elements": theirs.size, "largestDifference": 0.0}
        wide = np.complex128 if "c" in (ours.dtype.kind, theirs.dtype.kind) else np.float64
        ours, theirs = ours.astype(wide).reshape(theirs.shape), theirs.astype(wide)
        close = np.isclose(ours, theirs, rtol=self.rtol, atol=self.atol, equal_nan=True)
        finite = np.isfinite(ours) & np.isfinite(theirs)
        return {
            "equal": bool(close.all()),
            "differing": int((~close).sum()),
            "elements": int(close.size),
            "largestDifference": float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0)),
        }

    def rows(self, ours: Arrays, theirs: Arrays) -> list[dict[str, Any]]:
        """One row for each array of ``theirs``: the "output" and its `difference`."""
        return [{"output": name, **self.difference(ours.get(name), array)} for name, array in theirs.items()]


# ---- what the results are compared with ------------------------------------------------------------


def of_onnx_runtime(model: Path, facts: Mapping[str, Any], feeds: Arrays, *, optimised: bool = True) -> Source:
    """ONNX Runtime's values.

    Args:
        model: The file.
        facts: What `files.describe` says of it.
        feeds: An array for each input, and for each tensor of a sequence.
        optimised: Whether ONNX Runtime rewrites the graph first.

    Returns:
        What runs the model.

    Raises:
        UsageError: ONNX Runtime is not installed, or refuses the model.
    """
    try:
        import onnxruntime
    except ImportError:
        raise UsageError("--check needs the package onnxruntime. Install it: pip install onnxruntime") from None

    def values(names: Sequence[str]) -> Arrays:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3  # errors
        if not optimised:
            settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            source: str | bytes = str(model)
            if names:
                source = _with_outputs(model, names)
                folder = "session.model_external_initializers_file_folder_path"
                settings.add_session_config_entry(folder, str(model.resolve().parent))
            session = onnxruntime.InferenceSession(source, settings, providers=["CPUExecutionProvider"])
            results = session.run(None, named_feeds(facts, feeds))
        except Exception as problem:  # its exceptions share no class
            raise UsageError(f"ONNX Runtime does not run the model: {problem}") from None
        found: dict[str, np.ndarray] = {}
        for output, value in zip(session.get_outputs(), results, strict=True):
            found.update(named_parts(output.name, value))
        return found

    return values


def _with_outputs(model: Path, names: Iterable[str]) -> bytes:
    """The bytes of a model with more outputs; weights that are outside of the file stay there."""
    onnx = files.import_onnx()
    proto = onnx.load(str(model), load_external_data=False)
    there = {value.name for value in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    return proto.SerializeToString()


def of_other_model(other: Path, facts: Mapping[str, Any], feeds: Arrays, threads: int | None) -> Source:
    """The values of another model for the same inputs.

    Args:
        other: Its file. It has the same inputs and outputs, by name or, with other names, by position; their types may
            be others.
        facts: What `files.describe` says of the first model.
        feeds: An array for each input of the first model.
        threads: That compute.

    Returns:
        What runs the other model, with the first one's names of outputs.

    Raises:
        UsageError: The other model has other inputs or outputs.
    """
    theirs = files.describe(other)
    of_input = _same_names(other, "input", [e["name"] for e in facts["inputs"]], [e["name"] for e in theirs["inputs"]])
    of_output = _same_names(
        other, "output", [e["name"] for e in facts["outputs"]], [e["name"] for e in theirs["outputs"]]
    )
    kinds = {entry["name"]: entry["type"] for entry in theirs["inputs"]}
    given = {}
    for name, array in feeds.items():
        base, slash, number = name.rpartition("/")
        renamed = of_input.get(name) or (of_input[base] + slash + number if base in of_input else name)
        kind = kinds.get(renamed)
        given[renamed] = array if kind is None or array.dtype.kind in "OU" else array.astype(files.numpy_dtype(kind))
    ours_of = {their: our for our, their in of_output.items()}

    def values(names: Sequence[str]) -> Arrays:
        anchors = [of_output.get(name, name) for name in names]
        results = run_model(other, theirs, given, anchors, threads).results
        renamed: dict[str, np.ndarray] = {}
        for name, array in results.items():
            base, slash, number = name.rpartition("/")
            renamed[ours_of.get(name) or (ours_of[base] + slash + number if base in ours_of else name)] = array
        return renamed

    return values


def _same_names(other: Path, what: str, ours: list[str], theirs: list[str]) -> dict[str, str]:
    """The other model's name of each input or output."""
    if set(ours) == set(theirs):
        return {name: name for name in ours}
    if len(ours) != len(theirs):
        raise UsageError(
            f"--compare: '{other}' has {len(theirs)} {what}s ({', '.join(theirs)}), expected {len(ours)}: "
            f"{', '.join(ours)}"
        )
    return dict(zip(ours, theirs, strict=True))


# ---- the first operator that differs ---------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """A node of the main graph."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def operators_of(model: Path) -> list[Operator]:
    """The nodes of the main graph of a model that make tensors, in the order of the file."""
    graph = files.import_onnx().load(str(model), load_external_data=False).graph
    return [
        Operator(n.op_type, n.name, tuple(filter(None, n.input)), outputs)
        for n in graph.node
        if (outputs := tuple(filter(None, n.output)))
    ]


def in_both(operators: Iterable[Operator], others: Iterable[Operator], outputs: Iterable[str]) -> list[Operator]:
    """The operators with those of their results that another model has too; operators without any are left out.

    Args:
        operators: Of the model.
        others: Of the other model.
        outputs: Names of the model's outputs, which the other model has under some name.

    Returns:
        The operators, in their order.
    """
    known = {name for operator in others for name in operator.outputs} | set(outputs)
    kept = [replace(o, outputs=tuple(name for name in o.outputs if name in known)) for o in operators]
    return [operator for operator in kept if operator.outputs]


def first_difference(
    operators: Sequence[Operator], ours: Source, theirs: Source, tolerance: Tolerance, feeds: Iterable[str]
) -> dict[str, Any]:
    """The first operator whose results differ.

    Args:
        operators: In the order of the file.
        ours: Values of tensors.
        theirs: What they are compared with.
        tolerance: When values are equal.
        feeds: Names of the inputs.

    Returns:
        "operator" (None: none differs) with "kind", "name", "results" (rows of `Tolerance.rows`) and "inputs", the
        largest difference of each input that was compared; "compared", how many operators were, of "operators"; and
        "notes" on those that were not.
    """
    seen: dict[str, float] = {name: 0.0 for name in feeds}
    notes: list[str] = []
    compared = 0
    for group, mine, other in _values_of_groups(operators, ours, theirs, notes):
        for operator in group:
            both = [name for name in operator.outputs if name in mine and name in other]
            if not both:
                continue
            compared += 1
            rows = tolerance.rows(mine, {name: other[name] for name in both})
            if not all(row["equal"] for row in rows):
                found = {
                    "kind": operator.kind, "name": operator.name, "results": rows,
                    "inputs": {name: seen[name] for name in operator.inputs if name in seen},
                }  # fmt: skip
                return {"operator": found, "compared": compared, "operators": len(operators), "notes": notes}
            seen.update({row["output"]: row["largestDifference"] for row in rows})
    return {"operator": None, "compared": compared, "operators": len(operators), "notes": notes}


def _values_of_groups(
    operators: Sequence[Operator], ours: Source, theirs: Source, notes: list[str]
) -> Iterator[tuple[Sequence[Operator], Arrays, Arrays]]:
    """Values of both sides, group by group; where a group is refused, each of its operators alone."""
    for start in range(0, len(operators), GROUP):
        group = operators[start : start + GROUP]
        names = [name for operator in group for name in operator.outputs]
        try:
            yield group, ours(names), theirs(names)
            continue
        except (UsageError, popart_core.popart_exception) as problem:
            if len(group) == 1:
                notes.append(f"{group[0].kind} '{group[0].name}' is not compared: {problem}")
                continue
        for operator in group:
            yield from _values_of_groups([operator], ours, theirs, notes)
