"""Runs the test cases that the onnx package carries (operators and small models) and sorts them by outcome.

``python -m tests.python.onnx.node_suite`` prints the table; ``--update`` rewrites refused.json, which lists the cases
that are refused and the reason, for review.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes  # registers bfloat16 with NumPy
import numpy as np
import onnx.numpy_helper
from onnx.backend.test.loader import load_model_tests

import onnx
import tests.conftest  # noqa: F401  sets the import paths when this module is run by itself

import popart  # isort: skip
import popart.backend  # isort: skip

REFUSED = Path(__file__).parent / "refused.json"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Outcome:
    """What came of one case: "pass", "refused" or "fail", and why."""

    name: str
    kind: str
    outcome: str
    reason: str


def as_array(value):
    """Stored tensors as arrays, sequences as lists of them, absent values as None."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    return onnx.numpy_helper.to_optional(value) if isinstance(value, onnx.OptionalProto) else value


def load_proto(path, value_type):
    kind = value_type.WhichOneof("value")
    data = path.read_bytes()
    if kind == "sequence_type":
        return as_array(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return as_array(onnx.OptionalProto.FromString(data))
    return as_array(onnx.TensorProto.FromString(data))


def data_sets(case, model):
    """Pairs of inputs and expected outputs."""
    if case.data_sets is not None:
        sets = case.data_sets
        return [([as_array(v) for v in inputs], [as_array(v) for v in outputs]) for inputs, outputs in sets]
    sets = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        pair = []
        for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(folder.glob(f"{kind}_*.pb")))
            pair.append([load_proto(folder / f"{kind}_{i}.pb", values[i].type) for i in range(count)])
        sets.append(tuple(pair))
    return sets


def drops_same_elements(got, expected):
    """Whether two draws of dropout agree where both keep an element, and drop elements at a like rate."""
    kept = (got != 0) & (expected != 0)
    rates = np.mean(got == 0), np.mean(expected == 0)
    spread = 4 * np.sqrt(0.5 / got.size)  # four standard deviations of a difference of rates, or more
    return np.array_equal(got[kept], expected[kept]) and abs(rates[0] - rates[1]) <= spread


def compare(case, got, expected):
    """Empty when equal within the case's tolerance, otherwise what differs."""
    if len(got) != len(expected):
        return f"{len(got)} outputs instead of {len(expected)}"
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if b is None or isinstance(b, list):
            inner = "" if type(a) is type(b) else f"got {type(a).__name__}, expected {type(b).__name__}"
            inner = inner or (compare(case, a, b) if b is not None else "")
            if inner:
                return f"output {i}: {inner}"
            continue
        if b.dtype.kind in "OUST":
            if a.dtype.kind not in "OUST" or a.shape != b.shape or a.tolist() != b.tolist():
                return f"output {i}: got {a.tolist()}, expected {b.tolist()}"
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {i}: got {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if "bernoulli" in case.name:
            same = set(np.unique(a.astype(np.float64))) <= {0.0, 1.0}
        elif case.name.startswith("test_training_dropout") and "zero_ratio" not in case.name:
            same = drops_same_elements(a, b)
        elif a.dtype.kind in "iub":
            same = np.array_equal(a, b)
        else:
            wide = [x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b)]
            # The case's own tolerance; results of 16 bits may differ by two units of the last place, which is more than
            # the suite's 1e-3 for bfloat16 and float16: inner results of expanded functions are rounded to 16 bits too.
            half = b.dtype.kind != "c" and b.dtype.itemsize == 2
            rtol = max(case.rtol, 2 * float(ml_dtypes.finfo(b.dtype).eps)) if half else case.rtol
            # The transforms stored are those of a float32 FFT: what is 0 there has the noise of the largest element.
            noise = float(np.finfo(np.float32).eps * np.abs(wide[1]).max(initial=0)) if "_dft" in case.name else 0
            same = np.allclose(wide[0], wide[1], rtol=rtol, atol=case.atol + noise, equal_nan=True)
        if not same:
            return f"output {i}: values differ: got {a.ravel()[:4]}, expected {b.ravel()[:4]}"
    return ""


def run_case(case) -> Outcome:
    """Run one case of the suite."""
    model = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
    try:
        rep = popart.backend.prepare(model)
        for inputs, expected in data_sets(case, model):
            difference = compare(case, rep.run(inputs), expected)
            if difference:
                return Outcome(case.name, case.kind, "fail", difference)
    except popart.popart_internal_exception as failed:
        return Outcome(case.name, case.kind, "fail", f"internal: {failed}")
    except popart.popart_exception as refused:
        return Outcome(case.name, case.kind, "refused", str(refused))
    except Exception as failed:
        return Outcome(case.name, case.kind, "fail", f"{type(failed).__name__}: {failed}")
    return Outcome(case.name, case.kind, "pass", "")


@functools.cache
def all_cases() -> dict[str, object]:
    """Every case by name."""
    cases = {}
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            cases[case.name] = case
    return cases


@functools.cache
def outcomes() -> dict[str, Outcome]:
    """Every case's outcome by name."""
    return {name: run_case(case) for name, case in sorted(all_cases().items())}


def short_reason(reason: str) -> str:
    """A reason without names and numbers of one case: what refused.json groups by."""
    found = re.search(r"operator \S+ of version|must be known when|sequences, maps and absent|element type", reason)
    text = reason if found is None else reason[found.start() :]
    operator = re.match(r"operator (\S+) of version", text)
    if operator:
        return f"operator {operator.group(1)} is not supported"
    text = re.sub(r"'[^']*'", "'…'", text.split(": got")[0])
    return re.sub(r"\d+", "N", text)[:100]


def table(results: dict[str, Outcome]) -> str:
    """Counts by kind and outcome."""
    counts = Counter((r.kind, r.outcome) for r in results.values())
    lines = [f"{'suite':<20}{'pass':>7}{'refused':>9}{'fail':>6}"]
    for kind in KINDS:
        row = [counts[kind, outcome] for outcome in ("pass", "refused", "fail")]
        lines.append(f"{kind:<20}{row[0]:>7}{row[1]:>9}{row[2]:>6}")
    return "\n".join(lines)


def refused_by_reason(results: dict[str, Outcome]) -> dict[str, list[str]]:
    """Names of refused cases by reason."""
    groups: dict[str, list[str]] = {}
    for result in results.values():
        if result.outcome == "refused":
            groups.setdefault(short_reason(result.reason), []).append(result.name)
    return {reason: sorted(groups[reason]) for reason in sorted(groups)}


def main() -> None:
    results = outcomes()
    print(table(results))
    for result in results.values():
        if result.outcome == "fail":
            print("FAIL", result.name, result.reason[:300])
    groups = refused_by_reason(results)
    for reason, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):5} {reason}  e.g. {names[0]}: {results[names[0]].reason[:200]}")
    if "--update" in sys.argv:
        REFUSED.write_text(json.dumps(groups, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
