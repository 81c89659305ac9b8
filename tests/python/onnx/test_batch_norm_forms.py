"""Batch normalisation: the operator of ai.graphcore, version 7 with spatial = 0, types of the statistics.

Right values: PyTorch, NumPy (popart-ops.md: variance of n - 1 samples for ai.graphcore).
"""

import numpy as np
import popart
import pytest
import torch

import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.inference import infer, on_reference, prepare, run_once

rng = np.random.default_rng(0)


def trained(model, loss, feeds, names, rate=0.1):
    session = popart.TrainingSession(
        model, popart.DataFlow(1, [loss, *names]), loss, popart.ConstSGD(rate), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    session.weightsToHost()
    return session, anchors


def test_graphcore_batch_norm_has_the_unbiased_variance():
    builder = popart.Builder()
    x = rng.normal(1, 2, (4, 3, 5)).astype(np.float32)
    values = [rng.uniform(0.5, 2, 3), rng.normal(0, 1, 3), rng.normal(0, 1, 3), rng.uniform(1, 2, 3)]
    at = builder.addInputTensor("FLOAT", [4, 3, 5], "x")
    weights = [builder.addInitializedInputTensor(v.astype(np.float32), n) for v, n in zip(values, "sbmv", strict=True)]
    outputs = builder.aiGraphcore.batchnormalization([at, *weights], 5, epsilon=1e-4, momentum=0.7)
    loss = builder.aiGraphcore.identityloss([outputs[0]])
    session, anchors = trained(builder.getModelProto(), loss, {"x": x}, outputs)
    norm = torch.nn.BatchNorm1d(3, eps=1e-4, momentum=0.3)
    with torch.no_grad():
        for tensor, value in zip((norm.weight, norm.bias, norm.running_mean, norm.running_var), values, strict=True):
            tensor.copy_(torch.tensor(value))
        y = norm(torch.tensor(x))
    np.testing.assert_allclose(anchors[outputs[0]], y.numpy(), rtol=1e-4, atol=1e-5)
    for name, value in (("m", norm.running_mean), ("v", norm.running_var)):
        array = np.zeros(3, np.float32)
        session.readWeights(popart.PyWeightsIO({name: array}))
        np.testing.assert_allclose(array, value.numpy(), rtol=1e-5)
    np.testing.assert_allclose(anchors[outputs[3]], x.mean((0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(anchors[outputs[4]], x.var((0, 2), ddof=1), rtol=1e-4)


def test_graphcore_batch_norm_for_inference():
    builder = popart.Builder()
    x = rng.normal(1, 2, (4, 3, 5)).astype(np.float32)
    s, b, m, v = (a.astype(np.float32) for a in (np.ones(3), np.zeros(3), rng.normal(0, 1, 3), rng.uniform(1, 2, 3)))
    names = [builder.addInputTensor("FLOAT", [4, 3, 5], "x")]
    names += [builder.addInitializedInputTensor(value, name) for value, name in zip((s, b, m, v), "sbmv", strict=True)]
    (y,) = builder.aiGraphcore.batchnormalization(names, 1)
    (got,) = infer(builder.getModelProto(), {"x": x}, [y])
    np.testing.assert_allclose(got, (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 2, 2)])
def test_version_7_without_spatial_normalises_every_place_by_itself(shape):
    builder = popart.Builder(opsets={"ai.onnx": 7, "ai.graphcore": 1})
    x = rng.normal(1, 2, shape).astype(np.float32)
    s, b, m, v = rng.uniform(0.5, 2, (4, *shape[1:])).astype(np.float32)
    names = [builder.addInputTensor("FLOAT", list(shape), "x")]
    names += [builder.addInitializedInputTensor(value, name) for value, name in zip((s, b, m, v), "sbmv", strict=True)]
    (y,) = builder.aiOnnx.batchnormalization(names, 1, spatial=0)
    (got,) = infer(builder.getModelProto(), {"x": x}, [y])
    np.testing.assert_allclose(got, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=1e-5, atol=1e-5)
    outputs = builder.aiOnnx.batchnormalization(names, 5, spatial=0, momentum=0.6)
    loss = builder.aiGraphcore.identityloss([outputs[0]])
    session, anchors = trained(builder.getModelProto(), loss, {"x": x}, outputs)
    mean, var = x.mean(0), x.var(0)
    np.testing.assert_allclose(anchors[outputs[0]], (x - mean) / np.sqrt(var + 1e-5) * s + b, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(anchors[outputs[4]], var, rtol=1e-3)
    for name, value in (("m", 0.6 * m + 0.4 * mean), ("v", 0.6 * v + 0.4 * var)):
        array = np.zeros(shape[1:], np.float32)
        session.readWeights(popart.PyWeightsIO({name: array}))
        np.testing.assert_allclose(array, value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kinds", [(np.float16, np.float32), (np.float32, np.float32), (np.float16, np.float16)])
@pytest.mark.parametrize("parameters", [np.float16, np.float32])
@pytest.mark.parametrize("trains", [False, True])
def test_float16_data_with_float_statistics(kinds, trains, parameters):
    """Each running output has the type of its own input; the CPU has a kernel for it."""
    x = rng.normal(1, 2, (8, 4, 3, 3)).astype(np.float16)
    s, b = rng.uniform(0.5, 2, 4).astype(parameters), rng.normal(0, 1, 4).astype(parameters)
    m, v = rng.normal(0, 1, 4).astype(kinds[0]), rng.uniform(1, 2, 4).astype(kinds[1])
    names = ["y", "rm", "rv"] if trains else ["y"]
    node = helper.make_node(
        "BatchNormalization", ["x", "s", "b", "m", "v"], names, training_mode=int(trains), momentum=0.5
    )
    types = [TensorProto.FLOAT16, *(helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in kinds)]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", types[0], x.shape)],
        [
            helper.make_tensor_value_info(n, t, x.shape if n == "y" else [4])
            for n, t in zip(names, types, strict=False)
        ],
        [numpy_helper.from_array(a, n) for a, n in zip((s, b, m, v), "sbmv", strict=True)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    onnx.checker.check_model(model)
    options = popart.SessionOptions()
    options.followTrainingMode = True
    options.constantWeights = False
    session = prepare(model.SerializeToString(), names, userOptions=options)
    got = run_once(session, {"x": x}, names)
    assert "BatchNormalization" not in on_reference(session)
    wide = x.astype(np.float64)
    mean, var = (wide.mean((0, 2, 3)), wide.var((0, 2, 3))) if trains else (m.astype(float), v.astype(float))
    line = (slice(None), None, None)
    want = (wide - mean[line]) / np.sqrt(var[line] + 1e-5) * s[line] + b[line]
    assert [a.dtype for a in got] == [np.float16, *kinds][: len(names)]
    np.testing.assert_allclose(got[0], want, rtol=5e-3, atol=5e-3)
    if trains:
        tolerance = {"rtol": 2e-3, "atol": 2e-3}
        np.testing.assert_allclose(got[1], 0.5 * m + 0.5 * mean, **tolerance)
        np.testing.assert_allclose(got[2], 0.5 * v + 0.5 * var, **tolerance)
