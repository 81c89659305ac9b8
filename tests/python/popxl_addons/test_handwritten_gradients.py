"""Handwritten gradients: `build_grad`, `aux`, `var_grad`, `call_module`. Oracle: PyTorch."""

import numpy as np
import popart
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import torch
from popxl.transforms import ExpectedConnectionType

RNG = np.random.default_rng(5)
SPEC = popxl.TensorSpec((3, 4), popxl.float32)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Linear(addons.Module):
    """y = x w + b, whose handwritten gradients are larger by `factor`, to tell them from others."""

    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, x):
        w = self.add_variable_input("weight", lambda: normal(4, 4), x.dtype)
        b = self.add_variable_input("bias", lambda: normal(4), x.dtype)
        self.aux["x"], self.aux["w"], self.aux["factor"] = x, w, self.factor
        return x @ w + b

    def build_grad(self, dy):
        assert "x" in self.aux and "other" not in self.aux
        dy = dy * self.aux["factor"]
        assert self.aux["w"] is self.aux["w"]
        self.var_grad["weight"] = self.aux["x"].T @ dy
        self.var_grad["bias"] = ops.sum(dy, 0)
        return dy @ self.aux["w"].T


def expected(x, dy, w, b, factor=1.0):
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    (leaves[0] @ leaves[1] + leaves[2]).backward(torch.tensor(dy * factor))
    return [t.grad.numpy() for t in leaves]


def run(ir, tensors):
    streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
    for stream, t in zip(streams, tensors, strict=True):
        ops.host_store(stream, t)
    return streams


@pytest.mark.parametrize("method", ["auto", "build_grad", "autodiff"])
def test_gradients(method):
    x, dy = normal(3, 4), normal(3, 4)
    ir = popxl.Ir()
    with ir.main_graph:
        facts, graph = Linear(10.0).create_graph(SPEC)
        assert len(graph.graph.outputs) == 1
        bwd = graph.autodiff(method=method)
        assert graph.autodiff_applied
        variables = facts.init()
        x_t = popxl.variable(x)
        info = graph.bind(variables).call_with_info(x_t)
        binfo = bwd.call_with_info(popxl.variable(dy), args=bwd.grad_graph_info.inputs_dict(info))
        grads = bwd.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, binfo)
        streams = run(ir, [grads[t] for t in (x_t, variables.weight, variables.bias)])
    with popxl.Session(ir, "cpu") as session:
        got = session.run()
        w, b = (session.get_tensor_data(t) for t in (variables.weight, variables.bias))
    for stream, value in zip(streams, expected(x, dy, w, b, 1.0 if method == "autodiff" else 10.0), strict=True):
        np.testing.assert_allclose(got[stream], value, rtol=1e-5, atol=1e-5)


def test_structure_of_the_gradient_graph():
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph = Linear().create_graph(SPEC)
        x, weight, bias = graph.graph.inputs
        (y,) = graph.graph.outputs
        bwd = graph.autodiff(grads_required=[bias, x])
    assert [t.name for t in bwd.graph.inputs] == ["dy", "w", "x"]  # those of aux in order of access
    info = bwd.grad_graph_info
    fwd, fwd_grad = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
    assert [(c.fwd_tensor, c.connection_type) for c in info.expected_inputs] == [
        *[(y, fwd_grad), (weight, fwd), (x, fwd)]
    ]
    assert [c.fwd_tensor for c in info.expected_outputs] == [x, bias]  # variables come last
    assert [t.shape for t in bwd.graph.outputs] == [(3, 4), (4,)]
    assert graph.graph.outputs == (y, x, weight)  # every tensor of aux is an output now
    assert bwd.args.to_dict() == {} and info.forward_graph == graph.graph and info.graph == bwd.graph


def test_a_second_application():
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph = Linear().create_graph(SPEC)
        graph.autodiff(grads_provided=graph.graph.outputs)
        with pytest.raises(Exception, match="force"):
            graph.autodiff()
        graph.autodiff(grads_provided=graph.graph.outputs[:1], force=True)
        with pytest.raises(ValueError, match="method"):
            graph.autodiff(method="other", force=True)
        _, plain = Plain().create_graph(SPEC)
        with pytest.raises(Exception, match="from_module"):
            plain.autodiff(method="build_grad")


class Plain(addons.Module):
    def build(self, x):
        return ops.sin(x)


def gradient_of(build_grad, build=None, **kwargs):
    """Make the gradient graph of a module with these functions."""

    def stores(self, x):
        self.aux["x"] = x
        return x * self.add_variable_input("w", lambda: normal(3, 4), x.dtype)

    kind = type(addons.Module)("Made", (addons.Module,), {"build": build or stores, "build_grad": build_grad})
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph = kind().create_graph(SPEC)
        made = graph.autodiff(**{key: choose(graph) for key, choose in kwargs.items()})
    return graph, made


def good(self, dy):
    self.var_grad["w"] = dy
    return dy


def test_what_is_required():
    _, bwd = gradient_of(lambda self, dy: dy, grads_required=lambda g: g.graph.inputs[:1])
    assert len(bwd.graph.outputs) == 1  # a variable that is not required needs no gradient
    _, bwd = gradient_of(good)
    assert len(bwd.graph.outputs) == 2

    def only_variable(self, dy):
        self.var_grad["w"] = dy

    _, bwd = gradient_of(only_variable, grads_required=lambda g: g.graph.inputs[1:])
    assert len(bwd.graph.outputs) == 1


def no_variable(self, dy):
    return dy


def too_many(self, dy):
    self.var_grad["w"] = dy
    return dy, dy


def too_few(self, dy):
    self.var_grad["w"] = dy


def no_tensor(self, dy):
    self.var_grad["w"] = 3.0
    return dy


def unknown(self, dy):
    self.var_grad["other"] = dy
    return dy


def other_shape(self, dy):
    self.var_grad["w"] = ops.sum(dy, 0)
    return dy


def other_output(self, dy):
    self.var_grad["w"] = dy
    return ops.sum(dy, 0)


def star(self, *grads):
    return grads[0]


def keyword_only(self, dy, *, scale=1.0):
    return dy


def two_gradients(self, dy, dz):
    return dy


@pytest.mark.parametrize(
    ("build_grad", "exception", "text"),
    [
        (no_variable, Exception, "'w'"),
        (too_many, Exception, "got 2 gradients, expected 1"),
        (too_few, Exception, "got 0 gradients, expected 1"),
        (no_tensor, TypeError, "float"),
        (unknown, KeyError, "other"),
        (other_shape, ValueError, r"\(4,\)"),
        (other_output, ValueError, "output 0"),
        (star, TypeError, "grads"),
        (keyword_only, TypeError, "scale"),
        (two_gradients, ValueError, "dz"),
    ],
)
def test_wrong_gradients(build_grad, exception, text):
    with pytest.raises(exception, match=text) as caught:
        gradient_of(build_grad)
    if exception is Exception:
        assert type(caught.value) is Exception


@pytest.mark.parametrize(
    ("name", "choose"),
    [
        ("grads_provided", lambda g: g.graph.inputs[:1]),
        ("grads_provided", lambda g: g.graph.outputs * 2),
        ("grads_required", lambda g: g.graph.outputs),
        ("grads_required", lambda g: g.graph.inputs[:1] * 2),
    ],
)
def test_wrong_choices(name, choose):
    with pytest.raises(ValueError, match=name):
        gradient_of(good, **{name: choose})


def test_containers_outside_of_their_functions():
    module = Linear()
    with pytest.raises(Exception, match="build_grad") as caught:
        _ = module.aux["x"]
    assert type(caught.value) is Exception
    with pytest.raises(Exception, match="build_grad") as caught:
        module.var_grad["weight"] = 1
    assert type(caught.value) is Exception
    assert module.implements_grad_graph and not Plain().implements_grad_graph
    with pytest.raises(NotImplementedError):
        Plain().build_grad()
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph = Plain().create_graph(SPEC)
        with pytest.raises(Exception, match="build_grad"):
            Plain().create_grad_graph(graph)


def test_inline_calls():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(normal(3, 4))

        def inline(mode):
            return ir.create_graph(lambda t: Linear(grad_inlining_error=mode)(t), x)

        with pytest.raises(Exception, match="build_grad") as caught:
            inline("error")
        assert type(caught.value) is Exception
        with pytest.warns(UserWarning, match="build_grad"):
            inline("warning")
        inline("none")
    with pytest.raises(ValueError, match="cach"):
        Linear(cache=True)


# ---- call_module
class Caller(addons.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.callee = Linear(10.0)
        self.arguments = args, kwargs

    def build(self, x):
        args, kwargs = self.arguments
        self.made = self.call_module(self.callee, *args, **kwargs)
        (y,) = self.made(ops.sin(x))
        return y * 2.0


@pytest.mark.parametrize(("autodiff", "factor"), [("auto", 10.0), ("build_grad", 10.0), ("autodiff", 1.0)])
def test_called_modules(autodiff, factor):
    x, dy = normal(3, 4), normal(3, 4)
    ir = popxl.Ir()
    with ir.main_graph:
        module = Caller(autodiff=autodiff)
        facts, graph = module.create_graph(SPEC)
        assert list(facts.to_dict()) == ["Linear.weight", "Linear.bias"]
        assert module.made.n_outputs_pre_autodiff == 1 and list(module.made.var_factories.to_dict()) == [
            "weight",
            "bias",
        ]
        assert list(graph.called_graphs_grad_info) == [module.made.graph.graph]
        bwd = addons.autodiff(graph)
        variables = facts.init()
        x_t = popxl.variable(x)
        info = graph.bind(variables).call_with_info(x_t)
        binfo = bwd.call_with_info(popxl.variable(dy), args=bwd.grad_graph_info.inputs_dict(info))
        grads = bwd.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, binfo)
        streams = run(ir, [info.outputs[0], *(grads[t] for t in (x_t, variables.Linear.weight, variables.Linear.bias))])
    with popxl.Session(ir, "cpu") as session:
        y, dx, dw, db = (session.run()[s] for s in streams)
        w, b = (session.get_tensor_data(t) for t in (variables.Linear.weight, variables.Linear.bias))
    np.testing.assert_allclose(y, 2 * (np.sin(x) @ w + b), rtol=1e-5, atol=1e-5)
    dsin, *rest = expected(np.sin(x), 2 * dy, w, b, factor)
    for got, value in zip((dx, dw, db), (dsin * np.cos(x), *rest), strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4)


def test_graphs_with_a_gradient_of_their_own_are_not_differentiated():
    ir = popxl.Ir()
    with ir.main_graph:
        module = Caller(autodiff="none")
        _, graph = module.create_graph(SPEC)
        called = module.made.graph
        with pytest.raises(popart.popart_exception, match=r"Linear_subgraph\(1\)"):
            addons.autodiff(graph)
        outer = ir.create_graph(lambda x, w, b: graph.call(x, w, b)[0], *(t.spec for t in graph.graph.inputs))
        with pytest.raises(popart.popart_exception, match=r"Linear_subgraph\(1\)"):
            addons.autodiff(outer)
        infos = {called: called.autodiff()}
        assert addons.autodiff(graph, called_graphs_grad_info=infos).graph.outputs


def test_names_and_choices_of_called_modules():
    ir = popxl.Ir()
    with ir.main_graph:
        module = Caller("inner", grads_required=lambda g: g.graph.inputs[1:], autodiff="autodiff")
        facts, graph = module.create_graph(SPEC)
        assert list(facts.to_dict()) == ["inner.weight", "inner.bias"]
        (info,) = graph.called_graphs_grad_info.values()
        assert info.outputs == module.made.graph.graph.inputs[1:]
        with pytest.raises(ValueError, match="autodiff"):
            module.call_module(Linear(), autodiff="other")

        class Twice(addons.Module):
            def build(self, x):
                (y,) = self.call_module(Linear())(x)
                return self.call_module(Linear())(y)

        with pytest.raises(ValueError, match="Linear"):
            Twice().create_graph(SPEC)


def test_infos_of_attached_modules_reach_the_graph():
    class Inner(addons.Module):
        def build(self, x):
            (y,) = self.call_module(Linear(10.0), "linear")(x)
            return y

    class Outer(addons.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def build(self, x):
            return ops.sin(self.inner(x))

    ir = popxl.Ir()
    with ir.main_graph:
        facts, graph = Outer().create_graph(SPEC)
        assert list(facts.to_dict()) == ["inner.linear.weight", "inner.linear.bias"]
        assert [g.name.split("_")[0] for g in graph.called_graphs_grad_info] == ["Linear"]
        assert len(addons.autodiff(graph).graph.outputs) == 3


def test_infos_made_by_hand():
    """A forward graph and its gradient made without a module, used by autodiff of their caller."""
    ir = popxl.Ir()
    x = normal(3, 4)
    with ir.main_graph:
        fwd = ir.create_graph(lambda t: ops.exp(t), SPEC)
        bwd = ir.create_graph(lambda dy, y: dy * y * 5.0, SPEC, SPEC)
        info = addons.create_grad_graph_info(
            ir,
            fwd,
            bwd,
            dict(zip(bwd.inputs, (fwd.outputs[0], fwd.outputs[0]), strict=True)),
            {bwd.outputs[0]: fwd.inputs[0]},
            (),
        )
        assert {c.connection_type for c in info.expected_inputs} == {ExpectedConnectionType.FwdGrad}
        inputs = {bwd.inputs[0]: fwd.outputs[0], bwd.inputs[1]: fwd.inputs[0]}
        outputs = {bwd.outputs[0]: fwd.inputs[0]}
        info = addons.create_grad_graph_info(ir, fwd, bwd, inputs, outputs, fwd.inputs)
        kinds = [c.connection_type for c in info.expected_inputs]
        assert kinds == [ExpectedConnectionType.FwdGrad, ExpectedConnectionType.Fwd]
        caller = ir.create_graph(lambda t: ops.call(fwd, t)[0] * 2.0, SPEC)
        grad = addons.autodiff(caller, called_graphs_grad_info={fwd: info})
        one = popxl.variable(np.ones((3, 4), np.float32))
        site = ops.call_with_info(caller, popxl.variable(x))
        (stream,) = run(ir, grad.call(one, args=grad.grad_graph_info.inputs_dict(site)))
    with popxl.Session(ir, "cpu") as session:
        np.testing.assert_allclose(session.run()[stream], 10 * x, rtol=1e-5)
