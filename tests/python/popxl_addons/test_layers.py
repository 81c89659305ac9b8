"""Layers and the Adam step of popxl_addons, against PyTorch: values, gradients, variables, first values, refusals."""

import math

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import torch
from popxl_addons.layers import Conv2D, Embedding, GroupNorm, LayerNorm, Linear
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.layers.linear_gq import LinearGQ, group_quantize_compress_numpy
from popxl_addons.ops.group_quantize_decompress import group_quantize_decompress_numpy
from popxl_addons.optimizers.adam import AdamOptimizerStep

RNG = np.random.default_rng(20)
TOLERANCE = {np.float32: {"rtol": 1e-4, "atol": 1e-5}, np.float16: {"rtol": 5e-3, "atol": 5e-3}}


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def train(module, x, *args, weights=None, replicas=1, gradients=True, **kwargs):
    """Output, gradient of x, gradients of the variables by name, variables; weights: variables → values."""
    ir = popxl.Ir(replication=replicas)
    outs = {}
    with ir.main_graph, popxl.in_sequence():
        shape = x.shape[(replicas > 1) :]
        stream = popxl.h2d_stream(shape, popxl.dtype.as_dtype(x.dtype))
        t = ops.host_load(stream)
        factories, graph = module(ir).create_graph(t, *args, **kwargs)
        variables = factories.init()
        if gradients:
            wanted = [*([graph.graph.inputs[0]] if t.dtype.is_floating_point else []), *graph.args.tensors]
            backward = graph.autodiff(grads_required=wanted)
        info = graph.bind(variables).call_with_info(t)
        named = {"y": info.outputs[0]}
        if gradients:
            y = info.outputs[0]
            seed = popxl.constant(np.ones(y.shape, y.dtype.as_numpy()))
            grads = backward.call_with_info(seed, args=backward.grad_graph_info.inputs_dict(info))
            by_input = backward.grad_graph_info.fwd_graph_ins_to_grad_parent_outs(grads)
            names = {i: name for name, i in graph.args.to_dict().items()}
            named |= {names.get(i, "x"): g for i, g in by_input.items()}
        for name, value in named.items():
            outs[name] = popxl.d2h_stream(value.shape, value.dtype)
            ops.host_store(outs[name], value)
    with popxl.Session(ir, "cpu") as session:
        if weights is not None:
            session.write_variables_data(weights(variables))
        got = session.run({stream: x})
    return {name: got[s] for name, s in outs.items()}, variables


def compare(module, layer, x, mapping, dtype=np.float32, change=lambda name, g: g):
    """Our layer with PyTorch's parameters gives PyTorch's output and gradients of their sum."""
    got, _ = train(module, x.astype(dtype), weights=mapping)
    t = torch.tensor(x, requires_grad=True)
    y = layer(t)
    y.sum().backward()
    expected = {"y": y, "x": t.grad} | {name: change(name, p.grad) for name, p in layer.named_parameters()}
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value.detach().numpy(), err_msg=name, **TOLERANCE[dtype])


def module_of(make):
    return lambda ir: make()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6)])
def test_linear(shape, bias, dtype):
    layer = torch.nn.Linear(6, 4, bias=bias)
    as_popxl = popxl.dtype.as_dtype(dtype)
    compare(
        module_of(lambda: Linear(4, bias)),
        layer,
        normal(*shape),
        lambda v: Linear.torch_mapping(v, layer, as_popxl),
        dtype,
        lambda name, g: g.T if name == "weight" else g,
    )


def test_layer_norm():
    layer = torch.nn.LayerNorm((2, 3))  # parameters of two dimensions become flat
    torch.nn.init.normal_(layer.weight)
    x = normal(5, 6)
    got, _ = train(module_of(LayerNorm), x, weights=lambda v: LayerNorm.torch_mapping(v, layer))
    t = torch.tensor(x, requires_grad=True)
    y = layer(t.reshape(5, 2, 3))
    y.sum().backward()
    np.testing.assert_allclose(got["y"], y.detach().reshape(5, 6), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["x"], t.grad, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["weight"], layer.weight.grad.reshape(-1), rtol=1e-4, atol=1e-5)
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="expected \\(N, C\\)"):
        LayerNorm().create_graph(popxl.TensorSpec((2, 3, 4), popxl.float32))


def test_group_norm():
    layer = torch.nn.GroupNorm(2, 6, eps=1e-3)
    torch.nn.init.normal_(layer.weight)
    make = module_of(lambda: GroupNorm(2, eps=1e-3))
    compare(make, layer, normal(3, 6, 4, 5), lambda v: GroupNorm.torch_mapping(v, layer))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [3, (3, 2)])
def test_conv(kernel, bias):
    layer = torch.nn.Conv2d(4, 6, kernel, stride=(2, 1), padding=(1, 1), dilation=(1, 2), groups=2, bias=bias)
    make = module_of(lambda: Conv2D(6, kernel, (2, 1), (1, 1, 1, 1), (1, 2), 2, bias))
    change = lambda name, g: g.reshape(1, -1, 1, 1) if name == "bias" else g  # noqa: E731
    compare(make, layer, normal(2, 4, 7, 8), lambda v: Conv2D.torch_mapping(v, layer), np.float32, change)


def test_conv_pads_by_name():
    ir = popxl.Ir()
    with ir.main_graph:
        layer = Conv2D(6, 3, paddings="same_upper")
        _, graph = layer.create_graph(popxl.TensorSpec((1, 4, 7, 7), popxl.float32))
        assert graph.graph.outputs[0].shape == (1, 6, 7, 7)
        assert isinstance(layer.bias, popxl.Tensor)
        with pytest.raises(AssertionError, match="N, C, H, W"):
            Conv2D(6, 3).create_graph(popxl.TensorSpec((4, 7, 7), popxl.float32))


def test_embedding():
    table = normal(32, 4)
    indices = np.array([[3, 0, 18], [3, 5, 1]], np.int32)
    got, variables = train(
        module_of(lambda: Embedding(popxl.float32, 19, 4)), indices, weights=lambda v: {v.weight: table}
    )
    np.testing.assert_array_equal(got["y"], table[indices])
    expected = np.zeros_like(table)
    np.add.at(expected, indices.reshape(-1), 1)
    np.testing.assert_array_equal(got["weight"], expected)
    assert variables.weight.shape == (32, 4)  # rounded up to 16 rows
    assert Embedding.get_vocab_shard_size(19, 1) == 32 and Embedding.get_vocab_shard_size(100, 4) == 32
    np.testing.assert_array_equal(Embedding.get_offsets(100, 4), [0, 32, 64, 96])


@pytest.mark.parametrize("parts", [2, 4])
def test_embedding_in_parts(parts):
    rows = Embedding.get_vocab_shard_size(60, parts)
    table, indices = normal(parts * rows, 4), np.array([0, 59, 17, 31, 32], np.int32)

    def module(ir):
        layer = Embedding(popxl.float32, 60, 4, replica_grouping=ir.replica_grouping(group_size=1))
        assert layer.n_shards == parts and layer.vocab_shard_size == rows
        return layer

    shifted = indices - np.arange(parts, dtype=np.int32)[:, None] * rows
    got, _ = train(module, shifted, weights=lambda v: {v.weight: table.reshape(parts, rows, 4)}, replicas=parts)
    np.testing.assert_array_equal(got["y"].sum(0), table[indices])


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_layer_norm_distributed(replicas):
    x, w, b = normal(3, 8), normal(8), normal(8)

    def parts(t):
        return np.stack(np.split(t, replicas, -1)) if replicas > 1 else t

    def module(ir):
        return LayerNormDistributed(ir.replica_grouping())

    got, _ = train(module, parts(x), weights=lambda v: {v.weight: parts(w), v.bias: parts(b)}, replicas=replicas)
    layer = torch.nn.LayerNorm(8)
    layer.load_state_dict({"weight": torch.tensor(w), "bias": torch.tensor(b)})
    t = torch.tensor(x, requires_grad=True)
    y = layer(t)
    y.sum().backward()
    expected = {"y": y, "x": t.grad, "weight": layer.weight.grad, "bias": layer.bias.grad}
    for name, value in expected.items():
        np.testing.assert_allclose(
            np.concatenate(got[name], -1) if replicas > 1 else got[name], value.detach(), rtol=1e-4, atol=1e-5
        )
    with pytest.raises(AttributeError):
        LayerNormDistributed()


@pytest.mark.parametrize("dim", [-1, 1, 0])
def test_linear_gq(dim):
    layer, x = torch.nn.Linear(8, 16), normal(3, 8)
    make = module_of(lambda: LinearGQ(16, group_size=4, dim=dim))
    mapping = lambda v: LinearGQ.torch_mapping(v, layer, group_size=4, dim=dim)  # noqa: E731
    got, variables = train(make, x, weights=mapping, gradients=False)
    compressed = group_quantize_compress_numpy(layer.weight.detach().numpy().T, 4, dim)
    weight = group_quantize_decompress_numpy(*compressed, dim).astype(np.float32)
    np.testing.assert_allclose(got["y"], x @ weight + layer.bias.detach().numpy(), rtol=2e-3, atol=5e-3)
    u, c = (16, 8) if dim == 0 else (8, 16)
    assert variables.weight_compressed.shape == (u, c // 4, 1) and variables.weight_compressed.dtype == popxl.uint16
    assert variables.weight_decompression_scale.shape == (u, c // 4, 1)
    assert list(variables.keys()) == sorted(variables.keys())
    with popxl.Ir().main_graph, pytest.raises(ZeroDivisionError):
        LinearGQ(16).create_graph(popxl.TensorSpec((2, 8), popxl.float32))


def test_names_and_first_values():
    class Net(addons.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = Linear(40)
            self.norm = LayerNorm()

        def build(self, x):
            return self.norm(self.fc1(x))

    ir = popxl.Ir()
    with ir.main_graph:
        factories, graph = Net().create_graph(popxl.TensorSpec((2, 50), popxl.float16))
        assert list(factories.to_dict()) == ["fc1.weight", "fc1.bias", "norm.weight", "norm.bias"]
        assert graph.args.fc1.weight.id.endswith("fc1/weight")
        variables = factories.init()
        assert {v.dtype for v in variables.tensors} == {popxl.float16}
        graph.bind(variables).call(popxl.constant(np.zeros((2, 50), np.float16)))
    with popxl.Session(ir, "cpu") as session:
        values = session.get_tensors_data(variables.tensors)
    weight = values[variables.fc1.weight].astype(np.float32)
    assert 0.015 < weight.std() < 0.02 and np.abs(weight).max() <= 0.0401  # cut at two deviations of 0.02
    np.testing.assert_array_equal(values[variables.norm.weight], np.ones(40))
    np.testing.assert_array_equal(values[variables.fc1.bias], np.zeros(40))


def test_torch_mapping_refuses_other_shapes_and_types():
    with popxl.Ir().main_graph:
        factories, _ = Linear(4).create_graph(popxl.TensorSpec((2, 6), popxl.float32))
        variables = factories.init()
        with pytest.raises(ValueError, match="shape"):
            Linear.torch_mapping(variables, torch.nn.Linear(4, 6))
        with pytest.raises(ValueError, match="dtype"):
            Linear.torch_mapping(variables, torch.nn.Linear(6, 4), popxl.float16)
        weights = Linear.torch_mapping(variables, torch.nn.Linear(6, 4, bias=False))
        assert list(weights) == [variables.weight] and isinstance(weights, addons.WeightsDict)


# ---- Adam
def adam(w, grads, lr, beta1=0.9, beta2=0.999, eps=1e-5, weight_decay=1e-2, correct=True):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step, g in enumerate(grads, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        mean, square = (m / (1 - beta1**step), v / (1 - beta2**step)) if correct else (m, v)
        w = w - lr * (mean / (np.sqrt(square) + eps) + weight_decay * w)
    return w


OPTIONS = {
    "plain": {},
    "no bias correction": {"bias_correction": False},
    "numbers": {"beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.1},
    "no decay": {"weight_decay": 0.0},
    "loss scaling": {"loss_scaling": 64},
    "global norm": {"global_norm_max": 0.5},
    "both": {"loss_scaling": 64, "global_norm_max": 0.5},
    "small norm": {"global_norm_max": 500.0},
    "tensors": {"beta1": 0.8, "beta2": 0.9, "weight_decay": 0.1, "loss_scaling": 64, "global_norm_max": 0.5},
}


def state_of(factories):
    """Variables of the factories, in parts where they are."""

    def variable(f):
        return popxl.replica_sharded_variable(f.next_data(), f.dtype, f.name)[0] if f.meta_shape else f.create_tensor()

    return addons.NamedTensors.from_dict({name: variable(f) for name, f in factories.to_dict().items()})


@pytest.mark.parametrize(("name", "replicas"), [*((name, 1) for name in OPTIONS), ("plain", 2), ("both", 4)])
def test_adam(name, replicas):
    options = dict(OPTIONS[name])
    w, grads, lr = normal(8), [normal(8) for _ in range(3)], 0.1
    ir = popxl.Ir(replication=replicas)
    scaling, largest = options.get("loss_scaling", 1), options.get("global_norm_max")
    with ir.main_graph, popxl.in_sequence():
        g_stream, n_stream, lr_stream = (popxl.h2d_stream(s, popxl.float32) for s in ((8,), (), ()))
        g, norm, rate = (ops.host_load(s) for s in (g_stream, n_stream, lr_stream))
        if replicas > 1:
            variable, _ = popxl.replica_sharded_variable(w, popxl.float32, "w")
            g = ops.collectives.replica_sharded_slice(g)
        else:
            variable = popxl.variable(w, name="w")
        numbers = {k: v for k, v in options.items() if k != "bias_correction"}
        if name == "tensors":
            numbers = {k: popxl.constant(v, popxl.float32) for k, v in numbers.items()}
        tensors = {k: v for k, v in numbers.items() if isinstance(v, popxl.Tensor)}
        if largest:
            numbers["global_norm"] = tensors["global_norm"] = norm
        factories, graph = AdamOptimizerStep().create_graph(
            variable, g, lr=rate, **{**options, **numbers}, first_order_dtype=popxl.float32
        )
        tensors |= {"var": variable, "grad": g, "lr": rate}
        by_name = {i: tensors[i.name] for i in graph.graph.inputs if i.name in tensors}
        graph.bind(state_of(factories)).call(args=by_name)
        whole = ops.collectives.replicated_all_gather(variable) if replicas > 1 else variable
        out = popxl.d2h_stream((8,), popxl.float32)
        ops.host_store(out, whole)
    step_of_state = options.get("bias_correction", True)
    assert list(factories.keys()) == ["first_order", "second_order"] + ["step"] * step_of_state
    expected_grads = []
    with popxl.Session(ir, "cpu") as session:
        for grad in grads:
            size = np.float32(np.linalg.norm(grad))
            inputs = [scaling * grad, size, np.float32(lr)]
            streams = [g_stream, n_stream, lr_stream]
            values = [np.stack([v] * replicas) if replicas > 1 else v for v in inputs]
            got = session.run({s: v for s, v in zip(streams, values) if s in session.expected_inputs()})[out]
            expected_grads.append(grad * (largest / max(size, largest) if largest else 1))
    known = {"beta1", "beta2", "eps", "weight_decay"}
    formula = {k: v for k, v in options.items() if k in known}
    expected = adam(w, expected_grads, lr, correct=step_of_state, **formula)
    np.testing.assert_allclose(got[0] if replicas > 1 else got, expected, rtol=1e-4, atol=1e-5)


def test_adam_state_and_refusal():
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        w = popxl.variable(normal(4, 2), name="w")
        factories, graph = AdamOptimizerStep().create_graph(w, w.spec, lr=0.1)
        assert graph.graph.outputs == ()
        assert (factories.first_order.dtype, factories.second_order.dtype) == (popxl.float16, popxl.float32)
        assert all(f.by_ref for f in factories.to_dict().values()) and factories.step.shape == ()
        part, _ = popxl.replica_sharded_variable(normal(4, 2), popxl.float32, "part")
        factories, _ = AdamOptimizerStep().create_graph(part, part.spec, lr=0.1)
        assert factories.first_order.meta_shape == (4, 2)
        assert factories.first_order.shape == (math.prod((4, 2)) // 4,)
        with pytest.raises(AssertionError, match="global_norm_max"):
            AdamOptimizerStep().create_graph(w, w.spec, lr=0.1, global_norm=popxl.TensorSpec((), popxl.float32))
