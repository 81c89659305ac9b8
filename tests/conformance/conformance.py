"""What any backend has to do, derived from the operator cases (tests/cases/ops/*.py).

A backend conforms when, for every case and element type: results are those of the oracle and of the reference, with
inputs in place and permuted; in-place variants give the same; empty tensors are taken or refused as the reference
does; any number of threads and repeated runs give the same bits. Two checks concern no backend: every case survives
the IR's text form, and an ONNX model where the operator has an ONNX form.

To put a backend to the test: give it a name in `toBackend` (python/bindings/testing.cpp) and add that name to BACKENDS.
`counting` is the CPU's kernels on a device with memory of its own, which runs later what it is given and the tasks of a
round backwards (tests/support/counting_device).
"""

from __future__ import annotations

from collections.abc import Callable

from tests.cases import run_cases
from tests.cases.case import Array, Case
from tests.cases.run_cases import TOLERANCES, assert_close, contiguous, popart_exception, testing

BACKENDS = ("ref", "cpu", "counting")
REPETITIONS = 100
# Every so many cases are run REPETITIONS times.
REPEATED = 10
THREADS = (1, 2, 3, 8)
Arrays = list[Array | None]


def run(case: Case, arrays: Arrays, backend: str, **settings: int | bool) -> list[Array]:
    """Run the op of the case on `arrays` with settings of `testing.run_op`."""
    return testing.run_op(case.type, dict(case.attributes), contiguous(arrays), backend, case.outputs, **settings)


def assert_same_bits(got: list[Array], expected: list[Array], what: str) -> None:
    """Assert equal types, shapes and bytes."""
    assert len(got) == len(expected), f"{what}: got {len(got)} outputs, expected {len(expected)}"
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{what}: output {i}: got {a.dtype}{a.shape}"
        assert a.tobytes() == b.tobytes(), f"{what}: output {i} differs in its bits"


def assert_near(case: Case, dtype: str, got: list[Array], expected: list[Array], what: str) -> None:
    """Assert equal types, and values within the tolerance of two roundings of the element type."""
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert a.dtype == b.dtype, f"{what}: output {i}: got {a.dtype}, expected {b.dtype}"
        assert_close(a, b, 2 * case.tolerance * TOLERANCES[dtype], f"{what} {dtype} output {i}")


def check_infos(case: Case, backend: str) -> None:
    """Results have the types and shapes that inference says."""
    for dtype in case.types:
        arrays = case.arrays(dtype)
        infos = testing.infer_op(case.type, dict(case.attributes), contiguous(arrays), case.outputs)
        for info, result in zip(infos, run(case, arrays, backend), strict=True):
            assert (tuple(info.shape()), info.data_type_lcase()) == (result.shape, str(result.dtype)), case.label


def check_values(case: Case, backend: str) -> None:
    """Results are those of the reference, and of the oracle where the case has one."""
    for dtype in case.types:
        arrays = case.arrays(dtype)
        results = run(case, arrays, backend)
        assert_near(case, dtype, results, run(case, arrays, "ref"), f"{case.label} on {backend}")
        if case.expected is None:
            continue
        expected = case.expected(*[run_cases.as_double(a) for a in arrays])
        expected = expected if isinstance(expected, tuple) else (expected,)
        for i, (result, value) in enumerate(zip(results, expected, strict=False)):
            if value is not None:
                what = f"{case.label} on {backend} {dtype} output {i}"
                assert_close(result, value, 2 * case.tolerance * TOLERANCES[dtype], what)


def check_inplace(case: Case, backend: str) -> None:
    """Every in-place variant that takes the case's shapes gives what the op gives."""
    types = set(testing.op_types())
    for dtype in case.types:
        arrays = case.arrays(dtype)
        reference = run(case, arrays, backend)
        for operand, suffix in ((0, "Inplace"), (0, "LhsInplace"), (1, "RhsInplace")):
            variant = case.type + suffix
            overwritten = arrays[operand] if operand < len(arrays) else None
            if variant not in types or overwritten is None or overwritten.shape != reference[0].shape:
                continue
            assert_near(
                case, dtype, run_cases.run(case, arrays, backend, variant), reference, f"{variant} on {backend}"
            )


def check_transposed(case: Case, backend: str) -> None:
    """Inputs whose dimensions are permuted in memory give what plain ones give."""
    for dtype in case.types:
        arrays = case.arrays(dtype)
        if all(a is None or a.ndim < 2 for a in arrays):
            return
        plain = run(case, arrays, backend)
        assert_near(case, dtype, run(case, arrays, backend, transposed=True), plain, f"{case.label} on {backend}")


def emptied(case: Case, dtype: str) -> list[Arrays]:
    """Variants of the inputs without elements: each size of the first and of the last dimension becomes 0."""
    arrays = case.arrays(dtype)
    variants = []
    for at in (0, -1):
        sizes = {a.shape[at] for a in arrays if a is not None and a.ndim > 0}
        for size in sorted(sizes):
            cut: Arrays = []
            for a in arrays:
                keeps = a is None or a.ndim == 0 or a.shape[at] != size
                cut.append(a if keeps else a[:0] if at == 0 else a[..., :0])
            variants.append(cut)
    return variants


def check_empty(case: Case, backend: str) -> None:
    """Empty inputs give what the reference gives, or are refused by both with a message that names the op."""
    for arrays in emptied(case, case.types[0]):
        shapes = [None if a is None else a.shape for a in arrays]
        try:
            expected = run(case, arrays, "ref")
        except popart_exception as problem:
            assert type(problem).__name__ != "popart_internal_exception", f"{case.label} {shapes}: {problem}"
            assert case.type in str(problem), f"{case.label} {shapes}: the message does not name the op: {problem}"
            try:
                run(case, arrays, backend)
            except popart_exception:
                continue
            raise AssertionError(f"{case.label} {shapes}: {backend} takes what the reference refuses") from None
        assert_near(case, case.types[0], run(case, arrays, backend), expected, f"{case.label} {shapes} on {backend}")


def check_threads(case: Case, backend: str) -> None:
    """Any number of threads gives the same bits, for every element type."""
    for dtype in case.types:
        arrays = case.arrays(dtype)
        one, *others = (run(case, arrays, backend, threads=n) for n in THREADS)
        for threads, other in zip(THREADS[1:], others, strict=True):
            assert_same_bits(other, one, f"{case.label} {dtype} on {backend}, {threads} threads and 1")


def check_repetition(case: Case, backend: str) -> None:
    """REPETITIONS runs of one program give the same bits."""
    run(case, case.arrays(case.types[0]), backend, threads=2, repetitions=REPETITIONS)


def check_text(case: Case) -> None:
    """Print → parse gives an equal program."""
    for dtype in case.types:
        arrays = contiguous(case.arrays(dtype))
        text = testing.op_text(case.type, dict(case.attributes), arrays, case.outputs)
        assert case.type in text, f"{case.label}: its text does not name it: {text}"


def results_through_onnx(case: Case, dtype: str) -> list[Array] | None:
    """Return the results of the op after it was written as an ONNX model and read again; None: no ONNX form."""
    arrays = contiguous(case.arrays(dtype))
    return testing.run_op_as_onnx(case.type, dict(case.attributes), arrays, case.outputs)


def check_onnx(case: Case) -> None:
    """Written as an ONNX model and read again the op gives the same numbers, where it has an ONNX form."""
    for dtype in case.types:
        results = results_through_onnx(case, dtype)
        if results is not None:
            assert_near(case, dtype, results, run(case, case.arrays(dtype), "ref"), f"{case.label} through ONNX")


CHECKS: dict[str, Callable[[Case, str], None]] = {
    "infos": check_infos,
    "values": check_values,
    "inplace": check_inplace,
    "transposed": check_transposed,
    "empty": check_empty,
    "threads": check_threads,
}
