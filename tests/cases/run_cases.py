"""Checks that follow from operator cases (tests/cases/ops/*.py).

Types and shapes, forward values against an oracle, every backend against the reference, in-place variants against
out-of-place, gradients against finite differences, refusals.

As a program: `python tests/cases/run_cases.py [TYPE ...]` runs the cases of the types given (all by default).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "build" / "dev" / "python")]

import popart_core  # noqa: E402
import popart_testing as testing  # noqa: E402

from tests.cases.case import Array, Case, seeded  # noqa: E402
from tests.cases.fallbacks import is_allowed  # noqa: E402

popart_exception = popart_core.popart_exception

# Largest difference allowed: relative to the larger of the expected value's size and 1.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "": 1e-5}
# Central differences with step 1e-5 in float64: truncation about 1e-10 x third derivative, rounding about 1e-11.
DIFFERENCE_STEP = 1e-5
DIFFERENCE_TOLERANCE = 1e-6
DIRECTIONS = 4
# Two roundings to eight bits: the backends may sum in another order before they round.
BFLOAT16_TOLERANCE = 1.6e-2


def load_cases() -> list[Case]:
    """Return the cases of every file under tests/cases/ops, in the order of file names."""
    cases: list[Case] = []
    for path in sorted((Path(__file__).parent / "ops").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"op_cases_{path.stem}", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        cases.extend(module.CASES)
    return cases


def run(case: Case, arrays: list[Array | None], backend: str = "ref", type: str = "") -> list[Array]:
    """Run the op of the case, or its variant `type`, on `arrays`."""
    return testing.run_op(type or case.type, dict(case.attributes), contiguous(arrays), backend, case.outputs)


def contiguous(arrays: list[Array | None]) -> list[Array | None]:
    """Return the arrays in C order, as the extension takes them."""
    return [None if a is None else np.asarray(a, order="C") for a in arrays]


def as_double(array: Array | None) -> Array | None:
    """Return floating arrays as float64, others unchanged."""
    return array.astype(np.float64) if array is not None and array.dtype.kind == "f" else array


def assert_close(actual: Array, expected: Array, tolerance: float, what: str) -> None:
    """Assert equal shapes and values that differ by at most `tolerance` relative to max(|expected|, 1)."""
    assert actual.shape == np.shape(expected), f"{what}: shape: got {actual.shape}, expected {np.shape(expected)}"
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    np.testing.assert_allclose(
        as_double(actual),
        np.asarray(expected, np.float64),
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        err_msg=what,
    )


def check_infos(case: Case) -> None:
    """Inferred types and shapes are those of the results."""
    for dtype in case.types:
        arrays = case.arrays(dtype)
        infos = testing.infer_op(case.type, dict(case.attributes), contiguous(arrays), case.outputs)
        for info, result in zip(infos, run(case, arrays), strict=True):
            assert tuple(info.shape()) == result.shape
            assert info.data_type_lcase() == str(result.dtype)


def check_cost(case: Case) -> None:
    """Every operand is read and written once at most; something is done, unless the op only looks at its input."""
    arrays = case.arrays(case.types[0])
    results = run(case, arrays)
    flops, read, written = testing.op_cost(case.type, dict(case.attributes), contiguous(arrays), case.outputs)
    given = sum(a.nbytes for a in arrays if a is not None)
    made = sum(a.nbytes for a in results)
    assert flops >= 0
    assert 0 <= read <= given
    if (flops, read, written) == (0, 0, 0):
        elements = b"".join(np.ravel(a).tobytes() for a in results)
        views = case.type in ("Shape", "Size") or elements == np.ravel(arrays[0]).tobytes()
        assert views or made == 0, f"{case.label}: costs nothing"
        return
    assert written == made
    if case.type == "MatMul":
        assert flops == 2 * results[0].size * arrays[0].shape[-1]
    if case.type == "Conv":
        assert flops == 2 * results[0].size * np.prod(arrays[1].shape[1:])


def check_forward(case: Case) -> None:
    """The reference gives what the oracle gives, for every element type."""
    if case.expected is None:
        return
    for dtype in case.types:
        arrays = case.arrays(dtype)
        expected = case.expected(*[as_double(a) for a in arrays])
        expected = expected if isinstance(expected, tuple) else (expected,)
        results = run(case, arrays)
        assert len(results) >= len(expected), f"{case.label}: got {len(results)} outputs, expected {len(expected)}"
        for i, (result, value) in enumerate(zip(results, expected, strict=False)):
            if value is not None:
                assert_close(result, value, case.tolerance * TOLERANCES[dtype], f"{case.label} {dtype} output {i}")


def check_backends(case: Case) -> None:
    """The best backend gives what the reference gives."""
    for dtype in case.types:
        arrays = case.arrays(dtype)
        for i, (best, reference) in enumerate(zip(run(case, arrays, "cpu"), run(case, arrays), strict=True)):
            assert best.dtype == reference.dtype
            assert_close(
                best, reference, 2 * case.tolerance * TOLERANCES[dtype], f"{case.label} {dtype} cpu output {i}"
            )


def check_bfloat16(case: Case) -> None:
    """With bfloat16 inputs the best backend gives what the reference gives, up to rounding."""
    arrays = [None if a is None else a.astype(ml_dtypes.bfloat16) if a.dtype == np.float32 else a for a in case.inputs]
    for i, (best, reference) in enumerate(zip(run(case, arrays, "cpu"), run(case, arrays), strict=True)):
        assert best.dtype == reference.dtype
        if best.dtype == ml_dtypes.bfloat16:
            best, reference = best.astype(np.float32), reference.astype(np.float32)
        assert_close(best, reference, case.tolerance * BFLOAT16_TOLERANCE, f"{case.label} bfloat16 cpu output {i}")


def check_fallbacks(case: Case) -> None:
    """The CPU backend takes every op of the case's program and of its gradient's, or the exception is written down."""
    for dtype in (*case.types, *(["bfloat16"] if "float16" in case.types else [])):
        arrays = case.arrays(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        if any(a is not None and a.dtype == np.float64 for a in arrays):
            continue  # computed by the reference on purpose
        left = testing.fallbacks(case.type, dict(case.attributes), contiguous(arrays), case.outputs)
        if case.gradients:
            weights = [y if y.dtype.kind in "fV" else None for y in run(case, arrays)]
            left += testing.grad_fallbacks(
                case.type, dict(case.attributes), contiguous(arrays), weights, list(case.gradients), case.outputs
            )
        for op, reason in left:
            assert is_allowed(op, reason), f"{case.label} {dtype}: {op} falls back to the reference: {reason}"


def check_inplace(case: Case) -> None:
    """Every in-place variant that takes the case's shapes gives the same result."""
    types = set(testing.op_types())
    for dtype in case.types:
        arrays = case.arrays(dtype)
        reference = run(case, arrays)
        for index, suffix in enumerate(("Inplace", "LhsInplace", "RhsInplace")):
            variant = case.type + suffix
            overwritten = arrays[0 if index < 2 else 1] if len(arrays) > max(0, index - 1) else None
            if variant not in types or overwritten is None or overwritten.shape != reference[0].shape:
                continue
            for backend in ("ref", "cpu"):
                for result, expected in zip(run(case, arrays, backend, variant), reference, strict=True):
                    assert_close(
                        result, expected, 2 * case.tolerance * TOLERANCES[dtype], f"{variant} {dtype} {backend}"
                    )


def check_gradients(case: Case) -> None:
    """Gradients agree with central differences along random directions, on every backend."""
    if not case.gradients:
        return
    rng = seeded(case.label)
    arrays = [as_double(a) for a in case.arrays("float64")]
    outputs = run(case, arrays)
    weights = [rng.standard_normal(y.shape) if y.dtype.kind == "f" else None for y in outputs]
    wanted = list(case.gradients)

    def weighted_sum(values: list[Array | None]) -> float:
        return sum(float((y * w).sum()) for y, w in zip(run(case, values), weights, strict=True) if w is not None)

    gradients = testing.grad_op(
        case.type, dict(case.attributes), contiguous(arrays), weights, wanted, "ref", case.outputs
    )
    for i, gradient in zip(wanted, gradients, strict=True):
        assert gradient is not None, f"{case.label}: there is no gradient for input {i}"
        assert gradient.shape == arrays[i].shape
        for _ in range(DIRECTIONS):
            direction = rng.standard_normal(arrays[i].shape)
            moved = [
                weighted_sum([*arrays[:i], arrays[i] + s * DIFFERENCE_STEP * direction, *arrays[i + 1 :]])
                for s in (1, -1)
            ]
            slope = (moved[0] - moved[1]) / (2 * DIFFERENCE_STEP)
            scale = max(1.0, abs(slope), float(np.abs(gradient).max(initial=0)))
            difference = abs(float((gradient * direction).sum()) - slope)
            assert difference <= case.tolerance * DIFFERENCE_TOLERANCE * scale, (
                f"{case.label}: gradient of input {i}: got {float((gradient * direction).sum())}, expected {slope}"
            )
    check_gradient_backends(case, weights, gradients)


def check_gradient_backends(case: Case, weights: list[Array | None], reference: list[Array]) -> None:
    """float32 gradients of both backends agree with the float64 gradient of the reference."""
    arrays = case.arrays("float32")
    singles = [None if w is None else w.astype(np.float32) for w in weights]
    for backend in ("ref", "cpu"):
        gradients = testing.grad_op(
            case.type, dict(case.attributes), contiguous(arrays), singles, list(case.gradients), backend, case.outputs
        )
        for i, gradient, expected in zip(case.gradients, gradients, reference, strict=True):
            size = max(1.0, float(np.abs(expected).max(initial=0)))
            what = f"{case.label}: float32 gradient of input {i} on {backend}"
            assert_close(gradient / size, expected / size, 4 * case.tolerance * TOLERANCES["float32"], what)


def check_refusal(case: Case) -> None:
    """The op is refused with the message expected, which names the op."""
    try:
        testing.infer_op(case.type, dict(case.attributes), contiguous(case.arrays(case.types[0])), case.outputs)
    except popart_exception as problem:
        assert case.refuses in str(problem), f"got the message {problem}, expected {case.refuses} in it"
        assert case.type in str(problem), f"the message does not name the op: {problem}"
        return
    raise AssertionError(f"{case.label} was accepted, expected a refusal: {case.refuses}")


def check_failure(case: Case) -> None:
    """Every backend ends the run with the same typed error, which names the op, whatever the number of threads."""
    messages = set()
    for dtype in case.types:
        for backend in ("ref", "cpu"):
            for threads in (1, 2):
                try:
                    testing.run_op(
                        case.type,
                        dict(case.attributes),
                        contiguous(case.arrays(dtype)),
                        backend,
                        case.outputs,
                        threads=threads,
                    )
                except popart_core.popart_runtime_error as problem:
                    messages.add(str(problem))
                else:
                    raise AssertionError(f"{case.label} {dtype} on {backend} gave values, expected: {case.fails}")
    assert len(messages) == 1, f"{case.label}: the messages differ: {messages}"
    (message,) = messages
    assert case.fails in message, f"got the message {message}, expected {case.fails} in it"


CHECKS: dict[str, Callable[[Case], None]] = {
    "infos": check_infos,
    "cost": check_cost,
    "forward": check_forward,
    "backends": check_backends,
    "bfloat16": check_bfloat16,
    "fallbacks": check_fallbacks,
    "inplace": check_inplace,
    "gradients": check_gradients,
}


def checks_of(case: Case) -> Iterator[tuple[str, Callable[[Case], None]]]:
    """Return the names and functions of the checks that the case calls for."""
    if case.refuses is not None:
        yield "refusal", check_refusal
        return
    if case.fails is not None:
        yield "failure", check_failure
        return
    for name, check in CHECKS.items():
        if (name == "forward" and case.expected is None) or (name == "gradients" and not case.gradients):
            continue
        if name == "bfloat16" and "float16" not in case.types:
            continue
        yield name, check


def main(types: list[str]) -> int:
    """Run all checks of the cases of `types` (all when empty), print failures and return their number."""
    failures = count = 0
    for case in load_cases():
        if types and case.type not in types:
            continue
        for name, check in checks_of(case):
            count += 1
            try:
                check(case)
            except (AssertionError, popart_exception) as problem:
                failures += 1
                print(f"FAILED {case.label} [{name}]: {problem}")
    print(f"{count} checks, {failures} failed")
    return failures


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
