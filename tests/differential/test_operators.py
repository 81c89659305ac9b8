"""Operators give equal numbers with any pass of lowering off that may be: the operator cases, forward and backward."""

import numpy as np
import popart
import pytest

from tests.cases.case import seeded
from tests.cases.run_cases import contiguous, load_cases, testing
from tests.differential.runs import compare, environment

CASES = [case for case in load_cases() if case.refuses is None and case.fails is None]
FIRST_OF_TYPE = list({case.type: case for case in reversed(CASES)}.values())


def ties(a):
    """Few different values."""
    return np.round(a)


def huge(a):
    """Values whose squares and sums are still finite."""
    return a * np.asarray(1e4 if a.dtype != np.float16 else 16, a.dtype)


def tiny(a):
    """Values whose squares are nothing."""
    return a * np.asarray(1e-25 if a.dtype != np.float16 else 1e-3, a.dtype)


def same(a):
    """The values of the case."""
    return a


HURTING = (same, ties, huge, tiny)


class Runs:
    """The runs of one case: forward, and backward where it has gradients."""

    def __init__(self, case, dtype, change):
        arrays = contiguous(case.arrays(dtype))
        self.inputs = [a if a is None or a.dtype.kind != "f" else change(a).astype(a.dtype) for a in arrays]
        self.case, self.attributes = case, dict(case.attributes)

    def forward(self, off=""):
        with environment("POPART_DISABLE_PASSES", off):
            return self.outcome(
                lambda: testing.run_op(self.case.type, self.attributes, self.inputs, "cpu", self.case.outputs)
            )

    def backward(self, off=""):
        wanted = list(self.case.gradients)
        with environment("POPART_DISABLE_PASSES", off):
            return self.outcome(
                lambda: testing.grad_op(
                    self.case.type, self.attributes, self.inputs, self.weights(), wanted, "cpu", self.case.outputs
                )
            )

    def outcome(self, run):
        """The arrays by name; a refusal is a result as well."""
        try:
            return {f"result {i}": a for i, a in enumerate(run()) if a is not None}
        except popart.popart_exception as problem:
            return {"exception": np.array(type(problem).__name__)}

    def weights(self):
        """Gradients of the outputs."""
        rng = seeded(self.case.label)
        infos = testing.infer_op(self.case.type, self.attributes, self.inputs, self.case.outputs)
        floats = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
        kinds = [(tuple(info.shape()), floats.get(info.data_type_lcase())) for info in infos]
        return [kind and np.asarray(rng.normal(size=shape), kind) for shape, kind in kinds]

    def passes(self, backward):
        """The passes that change the program."""
        if not backward:
            return testing.passes_of_op(self.case.type, self.attributes, self.inputs, self.case.outputs)
        wanted = list(self.case.gradients)
        return testing.passes_of_gradient(
            self.case.type, self.attributes, self.inputs, self.weights(), wanted, self.case.outputs
        )


def problems_of(case, dtype, change=same):
    """What goes wrong with each pass off that changes the case's programs."""
    runs, problems = Runs(case, dtype, change), []
    for backward in (False, True):
        if backward and (not case.gradients or dtype not in ("float32", "float64")):
            continue
        run = runs.backward if backward else runs.forward
        try:
            passes = runs.passes(backward)
        except popart.popart_exception:
            continue  # refused: no pass comes to run
        expected = run() if passes else {}
        texts = [compare(run, expected, name, case.tolerance) for name in passes]
        what = f"{'backward ' if backward else ''}{dtype} {change.__name__}"
        problems += [f"{case.label} {what} {text}" for text in texts if text]
    return problems


@pytest.mark.parametrize("case", FIRST_OF_TYPE, ids=lambda case: case.label)
def test_first_case_of_each_operator(case):
    assert not problems_of(case, case.types[0])


@pytest.mark.slow
@pytest.mark.parametrize("change", HURTING, ids=lambda change: change.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_every_case(case, change):
    assert not [text for dtype in case.types for text in problems_of(case, dtype, change)]
