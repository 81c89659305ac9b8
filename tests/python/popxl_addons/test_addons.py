"""Modules, named tensors, caches and gradients of popxl_addons."""

from functools import partial

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import torch
from popxl_addons.transforms.autodiff import autodiff


class Linear(addons.Module):
    """A linear layer."""

    def __init__(self, features: int, cache: bool = False):
        super().__init__(cache=cache)
        self.features = features

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        w = self.add_variable_input("weight", partial(np.random.normal, 0, 0.1, (x.shape[-1], self.features)), x.dtype)
        b = self.add_variable_input("bias", partial(np.ones, self.features), x.dtype)
        return x @ w + b


class Net(addons.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.fc1 = Linear(4)
        self.fc2 = Linear(2)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return self.fc2(ops.gelu(self.fc1(x)))


SPEC = popxl.TensorSpec((3, 5), popxl.float32)


def test_random_initialisers_draw_once_extra():
    np.random.seed(0)
    draws = np.random.normal(size=(3, 2)).astype(np.float32)
    np.random.seed(0)
    ir = popxl.Ir()
    with ir.main_graph:
        factory = addons.VariableFactory(partial(np.random.normal, size=(2,)), popxl.float32, "w")
        first, second = factory.create_tensor(), factory.create_tensor()
    np.testing.assert_array_equal(ir._variable_data[first.id], draws[1])
    np.testing.assert_array_equal(ir._variable_data[second.id], draws[2])


def test_names_of_nested_modules():
    ir = popxl.Ir()
    with ir.main_graph:
        facts, graph = Net().create_graph(SPEC)
        variables = facts.init()
        again = facts.init("copy")
    assert list(facts.to_dict()) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert [t.id for t in graph.graph.inputs] == [
        f"Net_subgraph(0)/{n}" for n in ("x", "fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias")
    ]
    assert [t.name for t in variables.tensors] == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    assert again.fc1.bias.name == "copy.fc1.bias"
    assert repr(variables.fc2).startswith("NamedTensors({\nbias: Tensor[fc2.bias popxl.dtypes.float32 (2,)],\n")
    assert str(variables.fc2).startswith("{'bias': Tensor[fc2.bias popxl.dtypes.float32 (2,)]")


def test_training_step_matches_torch():
    np.random.seed(1)
    x = np.random.normal(size=(3, 5)).astype(np.float32)
    labels = np.array([0, 1, 1], np.int32)
    ir = popxl.Ir()
    with ir.main_graph:
        x_t, label_t = popxl.variable(x), popxl.constant(labels)
        facts, fwd = Net().create_graph(x_t)
        bwd = addons.autodiff(fwd)
        variables = facts.init()
        start = {n: ir._variable_data[t.id].copy() for n, t in variables.to_dict().items()}
        info = fwd.bind(variables).call_with_info(x_t)
        loss, dx = addons.ops.cross_entropy_with_grad(info.outputs[0], label_t)
        binfo = bwd.call_with_info(dx, args=bwd.grad_graph_info.inputs_dict(info))
        grads = bwd.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, binfo)
        for t in variables.tensors:
            ops.scaled_add_(t, grads[t], b=-0.5)
        out = popxl.d2h_stream(loss.shape, loss.dtype)
        ops.host_store(out, loss)
    with popxl.Session(ir, "ipu_hw") as session:
        got = [float(session.run()[out]) for _ in range(3)]
    p = {n: torch.tensor(v, requires_grad=True) for n, v in start.items()}
    expected = []
    for _ in range(3):
        h = torch.nn.functional.gelu(torch.tensor(x) @ p["fc1.weight"] + p["fc1.bias"], approximate="tanh")
        value = torch.nn.functional.cross_entropy(h @ p["fc2.weight"] + p["fc2.bias"], torch.tensor(labels).long())
        expected.append(value.item())
        gradients = torch.autograd.grad(value, list(p.values()))
        p = {n: (t - 0.5 * g).detach().requires_grad_() for (n, t), g in zip(p.items(), gradients, strict=True)}
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    after = session.get_tensors_data(variables.tensors)
    for name, t in variables.to_dict().items():
        np.testing.assert_allclose(after[t], p[name].detach().numpy(), rtol=1e-4, atol=1e-6)


def test_cached_modules_share_graphs():
    ir = popxl.Ir()
    with ir.main_graph:
        layer = Linear(4, cache=True)
        facts, first = layer.create_graph(SPEC)
        again, second = layer.create_graph(popxl.variable(np.ones((3, 5), np.float32)))
        _, other = layer.create_graph(popxl.TensorSpec((2, 5), popxl.float32))
    assert first.graph is second.graph and other.graph is not first.graph
    assert facts.weight is again.weight


def test_function_decorator_calls_one_graph():
    @addons.function
    def double(x: popxl.Tensor) -> popxl.Tensor:
        return x * 2.0

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(3, np.float32))
        double(double(x)[0])
    assert [op.opType() for op in ir.main_graph._pb_graph.getOps()] == ["Call", "Call"]
    assert len(ir._pb_ir.getAllGraphs()) == 2


def test_streams_collections():
    ir = popxl.Ir()
    with ir.main_graph:
        streams = addons.InputStreams(a=((2,), popxl.float32), b=((3,), popxl.int32))
    assert [s.tensor_id for s in streams] == ["a", "b"] and streams.b is streams[1] is streams["b"]
    assert list(streams.keys()) == ["a", "b"]
    with pytest.raises(KeyError, match="No key"):
        _ = streams["c"]


def test_module_lists_and_errors():
    layers = addons.Module.from_list([Linear(2), Linear(3)])
    assert [layer.features for layer in layers] == [2, 3] and layers[1].features == 3
    with pytest.raises(ValueError, match="already exists"):
        net = Net()
        net.fc1 = Linear(3)
    with pytest.raises(ValueError, match="grad_inlining_error"):
        addons.Module(grad_inlining_error="maybe")
    assert autodiff is addons.autodiff and addons.transforms.autodiff is addons.autodiff
