"""Gradient graphs against torch."""

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest
import torch
from popxl import TensorSpec, float32
from popxl.transforms import ExpectedConnectionType, autodiff
from programs import gradients

RNG = np.random.default_rng(3)
X, W = RNG.normal(size=(3, 5)).astype(np.float32), RNG.normal(size=(5, 2)).astype(np.float32)
DY = RNG.normal(size=(3, 2)).astype(np.float32)


def head(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
    return ops.gelu(x @ w)


@pytest.mark.parametrize("before", [True, False])
def test_gradients(before: bool):
    got = gradients(popxl.Ir(), head, [X, W], DY, before)
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    torch.nn.functional.gelu(x @ w, approximate="tanh").backward(torch.tensor(DY))
    np.testing.assert_allclose(got[0], x.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], w.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_through_called_graphs():
    def outer(x, w):
        inner = popxl.gir().create_graph(head, x, w)
        (y,) = ops.call(inner, x, w)
        (z,) = ops.call(inner, x * 2.0, w)[:1]
        return y + z

    got = gradients(popxl.Ir(), outer, [X, W], DY, before=True)
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    y = sum(torch.nn.functional.gelu(s * x @ w, approximate="tanh") for s in (1, 2))
    y.backward(torch.tensor(DY))
    np.testing.assert_allclose(got[0], x.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], w.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_structure_of_gradient_graphs():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x, w: ops.relu(x @ w), TensorSpec((3, 5), float32), TensorSpec((5, 2), float32))
    info = autodiff(graph)
    assert info.graph.id == f"{graph.id}_bwd"
    assert [t.name for t in info.graph.inputs] == ["Gradient___relu_out", "relu_out", "w", "x"]
    assert [t.name for t in info.graph.outputs] == ["Gradient___x", "Gradient___w"]
    assert [c.connection_type for c in info.expected_inputs] == [ExpectedConnectionType.FwdGrad] + [
        ExpectedConnectionType.Fwd
    ] * 3
    assert info.outputs == graph.inputs and len(graph.outputs) == 1
    kinds = [op.opType() for op in info.graph._pb_graph.getOps()]
    assert kinds.count("Sum") == 3 and {"ReluGrad", "MatMulLhsGrad", "MatMulRhsGrad"} <= set(kinds)
    text = repr(info).splitlines()
    assert text[:2] == ["GradGraphInfo[", f"  graph={graph.id}_bwd"] and text[-1] == "]"
    assert text[3] == f"    (ExpectedConnectionType.FwdGrad, Tensor[{graph.id}/relu_out popxl.dtypes.float32 (3, 2)])"
    gelu = ir.create_graph(head, TensorSpec((3, 5), float32), TensorSpec((5, 2), float32))
    autodiff(gelu)
    assert [t.name for t in gelu.outputs] == ["gelu_out", "matmul_out"]


def test_required_gradients():
    ir = popxl.Ir()

    def fn(x, labels):
        return ops.nll_loss(ops.softmax(x, -1), labels)

    graph = ir.create_graph(fn, TensorSpec((3, 5), float32), TensorSpec((3,), popxl.int32))
    with pytest.raises(popart_core.popart_exception):
        autodiff(graph)
    info = autodiff(graph, grads_required=[graph.inputs[0]])
    assert info.outputs == (graph.inputs[0],)
    with pytest.raises(TypeError):
        popxl.transforms.GradGraphInfo()


def test_graphs_that_change_tensors_are_refused():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x: ops.add_(x, x), TensorSpec((3,), float32))
    with pytest.raises(popart_core.popart_exception):
        autodiff(graph)


def test_decomposed_sums_have_the_same_values():
    plain = gradients(popxl.Ir(), head, [X, W], DY, before=True)

    def gradient_with_chains(ir):
        with ir.main_graph:
            x, w, dy = popxl.variable(X), popxl.variable(W), popxl.constant(DY)
            graph = ir.create_graph(head, x, w)
            info = autodiff(graph)
            assert popxl.transforms.decompose_sum(info.graph) is info.graph
            call = ops.call_with_info(graph, x, w)
            grad = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(call))
            out = popxl.d2h_stream(W.shape, float32)
            ops.host_store(out, grad.outputs[1])
        kinds = [op.opType() for op in info.graph._pb_graph.getOps()]
        assert "Sum" not in kinds and kinds.count("AddLhsInplace") == kinds.count("Init") > 0
        with popxl.Session(ir) as session:
            return session.run()[out]

    np.testing.assert_array_equal(gradient_with_chains(popxl.Ir()), plain[1])


def test_one_tensor_as_two_outputs():
    def twice(x):
        y = ops.gelu(x)
        return y, y

    ir = popxl.Ir()
    with ir.main_graph:
        x, dy = popxl.variable(X), popxl.constant(X)
        graph = ir.create_graph(twice, x)

        def outer(x):
            a, b = ops.call(graph, x)
            return a * 2.0 + b

        whole = ir.create_graph(outer, x)
        info = autodiff(whole)
        call = ops.call_with_info(whole, x)
        (dx,) = ops.call(info.graph, dy, inputs_dict=info.inputs_dict(call))
        out = popxl.d2h_stream(dx.shape, dx.dtype)
        ops.host_store(out, dx)
    with popxl.Session(ir) as session:
        got = session.run()[out]
    x = torch.tensor(X, requires_grad=True)
    (3 * torch.nn.functional.gelu(x, approximate="tanh")).backward(torch.tensor(X))
    np.testing.assert_allclose(got, x.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_of_gradients():
    """The square of a gradient, differentiated again: gradient ops without a rule are taken apart."""

    def penalty(x, w):
        graph = popxl.gir().create_graph(lambda x, w: ops.tanh(ops.softmax(x @ w, 1)), x, w)
        info = autodiff(graph)
        call = ops.call_with_info(graph, x, w)
        gradient, _ = ops.call(info.graph, popxl.constant(DY), inputs_dict=info.inputs_dict(call))
        return gradient * gradient

    ones = np.ones_like(X)
    got = gradients(popxl.Ir(), penalty, [X, W], ones, before=True)
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    y = torch.tanh(torch.softmax(x @ w, 1))
    (dx,) = torch.autograd.grad(y, x, torch.tensor(DY), create_graph=True)
    (dx * dx).sum().backward()
    np.testing.assert_allclose(got[0], x.grad.numpy(), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(got[1], w.grad.numpy(), rtol=1e-3, atol=1e-5)
