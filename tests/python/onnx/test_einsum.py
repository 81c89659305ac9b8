"""Einsum against NumPy, with gradients by finite differences."""

import numpy as np
import popart
import pytest

from tests.python.onnx.single_node import Node, check_gradients, values

SIZES = {"i": 2, "j": 3, "k": 4, "l": 5, "m": 6, "b": 2, "z": 0, "o": 1}
EQUATIONS = [
    "ij,jk->ik",
    "ij,jk",
    "ij->ji",
    "ij->",
    "ii->i",
    "ii",
    "iij->j",
    "bij,bjk->bik",
    "bij,bkj->bki",
    "ij,ij->ij",
    "ij,ij->",
    "i,j->ij",
    "i,j,k->kij",
    "ij,jk,kl,lm->im",
    "bij,jk,bkl->lb",
    "i j , j k -> i k",
    "ijk,k->ij",
    "ij,k->kj",
    "...ij,...jk->...ik",
    "...i->...",
    "i...->...i",
    "...,i->...i",
    "zi,ij->zj",
    "iz,zj->ij",
    "iok,oj->ijk",
    "Ij,jI->I",
]


def operands(equation, dtype=np.float32, extra=(2, 3)):
    rng = np.random.default_rng(7)
    shapes = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        before, dots, after = term.partition("...")
        letters = [[SIZES[c.lower()] for c in part] for part in (before, after)]
        shapes.append(letters[0] + (list(extra) if dots else []) + letters[1])
    return [(rng.standard_normal(s) * 2).astype(dtype) for s in shapes]


def einsum(equation, inputs):
    return Node("Einsum", inputs, {"equation": equation}, opset=12)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_values_and_gradients(equation):
    inputs = operands(equation)
    expected = np.einsum(equation, *inputs)
    (got,) = values(einsum(equation, inputs))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    if all(a.size for a in inputs):
        check_gradients(einsum(equation, inputs), range(len(inputs)))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.int64, np.int8, np.uint8, np.int16])
def test_types(dtype):
    inputs = operands("bij,bjk->ik", dtype)
    (got,) = values(einsum("bij,bjk->ik", inputs))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, np.einsum("bij,bjk->ik", *inputs), rtol=1e-2 if dtype == np.float16 else 1e-7)


def test_dimensions_of_an_ellipsis_broadcast():
    a, b = operands("...ij,...jk", extra=(3, 1))[0], operands("...ij,...jk", extra=(4,))[1]
    (got,) = values(einsum("...ij,...jk->...ik", [a, b]))
    np.testing.assert_allclose(got, np.einsum("...ij,...jk->...ik", a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("ij,jk,kl->il", "more terms"),
        ("ij->ij", "a term for each input"),
        ("ij,ik->ij", "two sizes"),
        ("i1,jk->ik", "cannot read"),
        ("ij,jk->ii", "twice"),
        ("ij,jk->iz", "label of no input"),
        ("ijk,jk->i", "dimensions of its input"),
    ],
)
def test_refusals(equation, text):
    with pytest.raises(popart.popart_exception, match=text):
        values(einsum(equation, operands("ij,jk")))
