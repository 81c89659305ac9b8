"""Programs of examples/popxl as modules, and what their tests share."""

import importlib
import sys
from pathlib import Path

import numpy as np
import popxl
import popxl_addons as addons
import popxl_addons.patterns
import torch
from popxl import ops

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "popxl"


def load(name):
    """The module examples/popxl/<name>.py."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


def arrays_of(model, gradients=False):
    """Parameters of a PyTorch model by name, or their gradients."""
    named = dict(model.named_parameters())
    return {
        n: (p.grad if gradients else p).detach().numpy()
        for n, p in named.items()
        if not gradients or p.grad is not None
    }


def scatter(model, scale=0.3, seed=0):
    """Draw all parameters, biases and scales too, so that none of them is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * scale / (1 if p.ndim == 1 else p.shape[-1] ** 0.5))
            if "norm" in name.lower() and name.endswith("weight"):
                p.add_(1)
    return model.eval()


def evaluate(module, weights, *inputs, gradients=True, replicas=1, loss_scaling=1.0):
    """Outputs, and gradients by variable name, of a module at these weights.

    `weights`: our arrays by name, with one value per group where there are several. With more than one replica every
    input has a leading dimension of replicas and so has every result. Gradients come without their `loss_scaling`.
    """
    training = load("training")
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        streams = [popxl.h2d_stream(v.shape[(replicas > 1) :], popxl.dtype.as_dtype(v.dtype)) for v in inputs]
        loaded = [ops.host_load(s) for s in streams]
        factories, graph = module(ir).create_graph(*loaded)
        variables = factories.init()
        if gradients:
            loss, grads = training.loss_and_gradients(graph, variables, *loaded, loss_scaling=loss_scaling)
            results = {"loss": loss, **grads}
        else:
            results = dict(enumerate(graph.bind(variables).call(*loaded)))
        outs = {}
        for name, t in results.items():
            outs[name] = popxl.d2h_stream(t.shape, t.dtype)
            ops.host_store(outs[name], t)
    addons.patterns.apply_pre_alias_patterns(ir)
    with popxl.Session(ir, "cpu") as session:
        given = {v: weights[n] for n, v in variables.to_dict().items() if n in weights}
        values = {v: np.ascontiguousarray(a, v.dtype.as_numpy()) for v, a in given.items()}
        session.write_variables_data(addons.WeightsDict(values))
        got = session.run(dict(zip(streams, inputs, strict=True)))
    scaled = gradients and loss_scaling != 1
    return {n: got[s].astype(np.float32) / loss_scaling if scaled and n != "loss" else got[s] for n, s in outs.items()}


def close(got, expected, name, rtol=1e-4):
    """Equal within `rtol` of the largest magnitude."""
    atol = rtol * max(np.abs(expected).max(), 1e-3)
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol, err_msg=name)
