"""Operators of users: kernels in Python with NumPy and PyTorch, and operators that are not registered."""

import subprocess
import sys

import numpy as np
import popart_core
import popxl
import popxl_addons as addons
import pytest
import torch
from popxl import TensorSpec, ops
from programs import evaluate, gradients

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)

cube = popxl.define_op("Cube", lambda x: x**3, lambda dy, x: 3 * x**2 * dy)
leaky = popxl.define_op(
    "Leaky",
    lambda x, alpha=0.01: np.where(x >= 0, x, alpha * x),
    lambda dy, x, alpha=0.01: np.where(x >= 0, dy, alpha * dy),
)
mixed = popxl.define_op(
    "Mixed",
    lambda x, w: (x @ w, (x * x).sum(-1)),
    shapes=lambda x, w: [TensorSpec((x.shape[0], w.shape[1]), x.dtype), TensorSpec(x.shape[:1], x.dtype)],
    framework="torch",
)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_a_kernel_of_numpy(dtype):
    x = X.astype(dtype)
    got = evaluate(cube, x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x**3)


def test_arguments_by_name():
    np.testing.assert_allclose(evaluate(lambda t: leaky(t, alpha=0.5), X), np.where(X >= 0, X, X / 2))
    np.testing.assert_allclose(evaluate(leaky, X), np.where(X >= 0, X, 0.01 * X), rtol=1e-6)


def test_gradients_of_numpy():
    dy = np.ones_like(X) * 2
    (got,) = gradients(popxl.Ir(), lambda t: ops.sin(cube(t)), [X], dy, before=True)
    np.testing.assert_allclose(got, 2 * np.cos(X**3) * 3 * X**2, rtol=1e-5, atol=1e-6)
    (got,) = gradients(popxl.Ir(), lambda t: leaky(t, alpha=0.25), [X], dy, before=False)
    np.testing.assert_allclose(got, np.where(X >= 0, 2, 0.5))


def test_a_kernel_of_torch_with_several_results():
    w = np.arange(8, dtype=np.float32).reshape(4, 2)
    product, squares = evaluate(mixed, X, w)
    np.testing.assert_allclose(product, X @ w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(squares, (X * X).sum(-1), rtol=1e-5)


def test_gradients_by_autograd():
    w = np.arange(8, dtype=np.float32).reshape(4, 2)
    dy = np.arange(6, dtype=np.float32).reshape(3, 2)
    got = gradients(popxl.Ir(), lambda a, b: mixed(a, b)[0], [X, w], dy, before=True)
    a, b = torch.tensor(X, requires_grad=True), torch.tensor(w, requires_grad=True)
    (a @ b).backward(torch.tensor(dy))
    for g, t in zip(got, (a, b), strict=True):
        np.testing.assert_allclose(g, t.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_printed_as_it_is_called():
    def model(x):
        return cube(x)

    ir = popxl.Ir()
    graph = ir.create_graph(model, TensorSpec((3, 4), popxl.float32))
    lines = addons.GraphWithNamedArgs(graph).print_schedule().splitlines()
    assert lines[2] == "    Cube.100 (%1 [(3, 4) float32]) -> (%2 [(3, 4) float32])"
    assert [t.name for t in graph.outputs] == ["Cube_out"]


def test_in_a_loop():
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(np.full(3, 0.5, np.float32))
        graph = ir.create_graph(cube, t)
        (result,) = ops.repeat(graph, 2, t)
        out = popxl.d2h_stream(result.shape, result.dtype)
        ops.host_store(out, result)
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run()[out], 0.5**9)


def test_a_later_definition_takes_the_place_of_the_first():
    for factor in (2, 3):
        scaled = popxl.define_op("Scaled", lambda x, factor=factor: x * factor)
        np.testing.assert_array_equal(evaluate(scaled, X), X * factor)


def test_without_backward_there_is_no_gradient():
    plain = popxl.define_op("Plain", lambda x: x + 1)
    with pytest.raises(popart_core.popart_exception, match="Plain"):
        gradients(popxl.Ir(), plain, [X], X, before=True)


def test_what_a_kernel_raises_ends_the_run():
    def fail(x):
        raise ZeroDivisionError("nothing to divide by")

    failing = popxl.define_op("Failing", fail)
    with pytest.raises(popart_core.popart_runtime_error, match="nothing to divide by"):
        evaluate(failing, X)


def test_results_that_do_not_fit_end_the_run():
    wrong = popxl.define_op("Wrong", lambda x: x[:1])
    with pytest.raises(popart_core.popart_runtime_error, match=r"shape \(1, 4\), expected \(3, 4\)"):
        evaluate(wrong, X)


def test_refusals():
    with pytest.raises(ValueError, match="framework"):
        popxl.define_op("Other", lambda x: x, framework="jax")
    with popxl.Ir().main_graph:
        with pytest.raises(TypeError, match="inputs_0"):
            cube(X)
        with pytest.raises(popart_core.popart_exception, match="Missing"):
            popxl.custom_op("Missing", popxl.variable(X), domain="nobody")


def test_a_program_ends_without_a_word():
    """The functions go when the interpreter does; the core holds nothing of Python after that."""
    text = """
import numpy as np, popxl
square = popxl.define_op("Square", lambda x: x * x)
ir = popxl.Ir()
with ir.main_graph:
    square(popxl.variable(np.ones(3, np.float32)))
with popxl.Session(ir, "cpu") as session:
    session.run()
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
