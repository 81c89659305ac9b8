"""Norms of 16-bit activations with FLOAT parameters: only activations and their gradient are rounded."""

import ml_dtypes
import numpy as np
import popart
import pytest
import torch
from torch.nn import functional

from onnx import TensorProto, helper, numpy_helper
from tests.python.popart.training_runs import ready, training_session

TYPES = {"FLOAT16": (TensorProto.FLOAT16, np.float16), "BFLOAT16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}
EPS = 0.125
SHAPE = (6, 8, 5, 3)


def layer_norm(x, scale, shift):
    return functional.layer_norm(x, x.shape[-1:], scale, shift, EPS)


def group_norm(x, scale, shift):
    return functional.group_norm(x, 2, scale, shift, EPS)


def batch_norm(x, scale, shift):
    return functional.batch_norm(x, None, None, scale, shift, True, 0.0, EPS)


# The operator, its attributes, shape of x, parameters, values per parameter, and the same in PyTorch.
NORMS = {
    "layer": ("LayerNormalization", {"axis": -1}, SHAPE, SHAPE[-1], layer_norm),
    "group": ("GroupNormalization", {"num_groups": 2, "domain": "ai.graphcore"}, SHAPE, SHAPE[1], group_norm),
    "rows": ("GroupNormalization", {"num_groups": 1, "domain": "ai.graphcore"}, (30, 24), 24, layer_norm),
    "batch": ("BatchNormalization", {"training_mode": 1}, SHAPE, SHAPE[1], batch_norm),
    "large_batch": ("BatchNormalization", {"training_mode": 1}, (32, 16, 48, 48), 16, batch_norm),
}


def model_of(norm, dtype, values):
    """Sum of weights times the normalised x, which is normalised in 16 bits."""
    op, attributes, shape, channels, _ = NORMS[norm]
    inputs, outputs = ["x16", "scale", "shift"], ["y16"]
    weights = {"scale": values["scale"], "shift": values["shift"], "t": values["t"]}
    if op == "BatchNormalization":
        weights |= {"mean": np.zeros(channels, np.float32), "variance": np.ones(channels, np.float32)}
        inputs += ["mean", "variance"]
        outputs += ["new_mean", "new_variance"]
    nodes = [
        helper.make_node("Cast", ["x"], ["x16"], to=TYPES[dtype][0]),
        helper.make_node(op, inputs, outputs, epsilon=EPS, **attributes),
        helper.make_node("Cast", ["y16"], ["y"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["y", "t"], ["product"]),
        helper.make_node("ReduceSum", ["product"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "norm",
        [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("y", shape), ("loss", []))],
        [numpy_helper.from_array(v, name) for name, v in (weights | {"x": values["x"]}).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.graphcore", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("norm", NORMS)
def test_parameters_and_their_gradients_are_not_rounded(norm, dtype):
    _, _, shape, channels, in_torch = NORMS[norm]
    rng = np.random.default_rng(5)

    def of_type(values):
        return values.astype(TYPES[dtype][1]).astype(np.float32)

    values = {
        "x": of_type(rng.normal(1.0, 2.0, shape)),
        "t": of_type(rng.normal(size=shape)),
        "scale": rng.normal(1.0, 0.5, channels).astype(np.float32),
        "shift": rng.normal(size=channels).astype(np.float32),
    }
    gradients = [popart.reservedGradientPrefix() + name for name in ("x", "scale", "shift")]
    session = ready(
        training_session(
            model_of(norm, dtype, values),
            "loss",
            popart.SGD({"defaultLearningRate": (0.0, True)}),
            anchors=["y", *gradients],
        )
    )
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    tensors = [torch.tensor(values[name], requires_grad=True) for name in ("x", "scale", "shift")]
    y = in_torch(*tensors)
    found = torch.autograd.grad((y * torch.tensor(values["t"])).sum(), tensors)
    # Rounding to nearest: half of the last of 8 or 11 bits. Saved statistics of a batch norm have the type of x.
    rounding = 2.0**-8 if dtype == "BFLOAT16" else 2.0**-11
    exact = 2 * rounding if "batch" in norm else 1e-5
    np.testing.assert_allclose(anchors["y"], y.detach().numpy(), rtol=1.01 * rounding, atol=1e-5)
    for name, expected, bound in zip(gradients, found, (2 * rounding, exact, 1e-5), strict=True):
        size = float(expected.abs().max())
        np.testing.assert_allclose(anchors[name], expected.numpy(), rtol=0, atol=bound * size, err_msg=name)
    assert "/float32" not in session._report()  # what is widened has tensors of such names
