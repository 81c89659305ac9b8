"""LinearFP8 against NumPy's products of numbers rounded on the host."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest
import torch
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8
from popxl_addons.layers.linear_fp8 import LinearFP8

from tests.python.popxl_addons.programs import mse_scale

RNG = np.random.default_rng(8)
FORMATS = (popxl.float8_143, popxl.float8_143, popxl.float8_152)  # of x, weight and gradient


def rounded(x, scale, dtype):
    """X as float8 with this scale, in float64, without the scale."""
    return host_pow2scale_cast_from_fp8(host_pow2scale_cast_to_fp8(x, dtype, scale), popxl.float64, -scale)


def amax(x, largest):
    return int(np.clip(np.floor(np.log2(largest / np.abs(x.astype(np.float64)).max())), -31, 31))


class Net(addons.Module):
    def build(self, x):
        y, *_ = self.call_module(LinearFP8(5, scale_metric="amax"), "fc")(x * 1)
        return y * y


def run(module, x, dy, weights):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        t, g = popxl.variable(x), popxl.variable(dy)
        factories, graph = module.create_graph(t)
        backward = graph.autodiff()
        variables = factories.init()
        call = graph.bind(variables).call_with_info(t)
        back = backward.call_with_info(g, args=backward.grad_graph_info.inputs_dict(call))
        by_input = backward.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(call, back)
        named = {"y": call.outputs[0], "x": by_input[t]}
        named |= {name: by_input[v] for name, v in variables.to_dict().items()}
        outs = {name: popxl.d2h_stream(v.shape, v.dtype) for name, v in named.items()}
        for name, v in named.items():
            ops.host_store(outs[name], v)
    with popxl.Session(ir, "cpu") as session:
        session.write_variables_data({v: weights[n].astype(v.dtype.as_numpy()) for n, v in variables.to_dict().items()})
        got = session.run()
    return {name: got[s] for name, s in outs.items()}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("lead", [(6,), (2, 3)])
@pytest.mark.parametrize("metric", ["amax", "mse", "manual_scale"])
def test_values_and_gradients(metric, lead, dtype):
    x, dy = (RNG.normal(size=(*lead, n)).astype(dtype) for n in (8, 5))
    w, b = RNG.normal(size=(8, 5)).astype(dtype), RNG.normal(size=5).astype(dtype)
    got = run(LinearFP8(5, scale_metric=metric, scale=2), x, dy, {"weight": w, "bias": b})
    rows, drows = x.reshape(-1, 8), dy.reshape(-1, 5)
    if metric == "manual_scale":
        scales = (2, 2, 2)
    elif metric == "amax":
        scales = (amax(rows, 240), amax(w, 240), amax(drows, 57344))
    else:
        scales = tuple(mse_scale(t, f) for t, f in zip((rows, w, drows), FORMATS, strict=True))
    scales = (*scales[:2], scales[2] - 3)  # gradients keep some room
    x8, w8, d8 = (rounded(t, s, f) for t, s, f in zip((rows, w, drows), scales, FORMATS, strict=True))
    expected = {
        "y": (x8 @ w8 + b).reshape(dy.shape),
        "x": (d8 @ w8.T).reshape(x.shape),
        "weight": x8.T @ d8,
        "bias": drows.astype(np.float64).sum(0),
    }
    assert set(got) == set(expected)
    for name, value in expected.items():
        assert got[name].dtype == dtype
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=5e-3, err_msg=name)


def rounding_of_squares(x, dy, w, b):
    """Most that gradients of `Net` may be off: numbers are rounded to 3 bits of mantissa, gradients of y to 2."""
    x, w, dy = (abs(a.astype(np.float64)) for a in (x, w, dy))
    y, y_off = abs(x) @ w + abs(b), (2 * 2**-4 + 2**-8) * (x @ w)
    g = 2 * dy * (y + y_off)
    g_off = 2 * dy * y_off + 2**-3 * g
    return {
        "x": g_off @ w.T + 2**-4 * (g + g_off) @ w.T + 1e-3,
        "fc.weight": x.T @ g_off + 2**-4 * x.T @ (g + g_off) + 1e-3,
        "fc.bias": g_off.sum(0) + 1e-3,
    }


def test_in_a_module_that_is_differentiated():
    x, dy = RNG.normal(size=(6, 8)).astype(np.float32), RNG.normal(size=(6, 5)).astype(np.float32)
    weights = {"fc.weight": RNG.normal(size=(8, 5)), "fc.bias": RNG.normal(size=5)}
    got = run(Net(), x, dy, weights)
    t, w, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, *weights.values()))
    y = t @ w + b
    (y * y).backward(torch.tensor(dy).double())
    bounds = rounding_of_squares(x, dy, *weights.values())
    for name, value in {"x": t.grad, "fc.weight": w.grad, "fc.bias": b.grad}.items():
        assert (abs(got[name] - value.numpy()) <= bounds[name]).all(), name


def test_without_bias_and_refusals():
    x, dy = RNG.normal(size=(6, 8)).astype(np.float16), RNG.normal(size=(6, 5)).astype(np.float16)
    assert set(run(LinearFP8(5, bias=False), x, dy, {"weight": RNG.normal(size=(8, 5))})) == {"y", "x", "weight"}
    with pytest.raises(ValueError, match="manual_scale"):
        LinearFP8(5, scale_metric="median")
    with popxl.Ir().main_graph:
        t = popxl.variable(x)
        with pytest.raises(Exception, match="build_grad"):
            popxl.gir().create_graph(lambda t: LinearFP8(5)(t), t)
        factories, _ = LinearFP8(5).create_graph(t)
        variables = factories.init()
        layer = torch.nn.Linear(8, 5)
        weights = LinearFP8.torch_mapping(variables, layer, popxl.float16)
        np.testing.assert_array_equal(weights[variables.weight], layer.weight.detach().numpy().T.astype(np.float16))
