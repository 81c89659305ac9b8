"""Cases of activation functions, against PyTorch."""

import numpy as np
import torch
from torch.nn import functional

from tests.cases.case import Case, floats, ints


def with_torch(function, **arguments):
    """Return the NumPy form of a function of one tensor."""
    return lambda x: function(torch.from_numpy(np.ascontiguousarray(x)), **arguments).numpy()


def smooth(type, expected, **attributes):
    return Case(type, [floats(4, 9, low=-4, high=4)], attributes, expected, gradients=[0])


# The attributes are float32: the nearest ones to the function's constants.
SELU_ALPHA, SELU_GAMMA = float(np.float32(1.67326319217681884765625)), float(np.float32(1.05070102214813232421875))
NAN = np.array([np.nan, 1.0, -1.0], np.float32)

CASES = [
    smooth("Relu", with_torch(functional.relu)),
    smooth("LeakyRelu", with_torch(functional.leaky_relu, negative_slope=float(np.float32(0.01)))),
    smooth("LeakyRelu", with_torch(functional.leaky_relu, negative_slope=0.25), alpha=0.25),
    smooth("ThresholdedRelu", lambda x: np.where(x > 0.5, x, 0), alpha=0.5),
    smooth("Elu", with_torch(functional.elu)),
    smooth("Elu", with_torch(functional.elu, alpha=0.5), alpha=0.5),
    smooth("Selu", lambda x: SELU_GAMMA * np.where(x > 0, x, SELU_ALPHA * np.expm1(x))),
    smooth("Selu", lambda x: np.where(x > 0, 1.5 * x, 1.5 * 0.5 * np.expm1(x)), alpha=0.5, gamma=1.5),
    smooth("Celu", with_torch(functional.celu, alpha=2.0), alpha=2.0),
    smooth("Shrink", with_torch(functional.hardshrink, lambd=0.5)),
    smooth("Shrink", with_torch(functional.softshrink, lambd=1.25), lambd=1.25, bias=1.25),
    smooth("Clip", lambda x: np.clip(x, -1.25, 2.25), min=-1.25, max=2.25),
    smooth("Clip", lambda x: np.minimum(x, 2.25), max=2.25),
    smooth("Clip", lambda x: x),
    smooth("Sigmoid", with_torch(torch.sigmoid)),
    smooth("HardSigmoid", lambda x: np.clip(0.25 * x + 0.5, 0, 1), alpha=0.25),
    smooth("HardSwish", with_torch(functional.hardswish)),
    smooth("Softplus", with_torch(functional.softplus)),
    smooth("Softsign", with_torch(functional.softsign)),
    smooth("Mish", with_torch(functional.mish)),
    smooth("Swish", with_torch(functional.silu)),
    smooth("Swish", lambda x: x / (1 + np.exp(-1.5 * x)), alpha=1.5),
    smooth("Gelu", with_torch(functional.gelu, approximate="tanh")),
    smooth("GeluErf", with_torch(functional.gelu)),
    Case("Relu", [ints(8)], expected=lambda x: np.maximum(x, 0)),
    Case("Relu", [NAN], expected=lambda x: np.array([np.nan, 1.0, 0.0]), name="nan"),
    Case("Clip", [ints(8, dtype="int64")], {"min": -2.0, "max": 3.0}, lambda x: np.clip(x, -2, 3)),
    Case(
        "Softplus", [np.array([-200.0, 0.0, 200.0], np.float32)], expected=lambda x: np.logaddexp(0, x), name="extremes"
    ),
    Case(
        "Sigmoid",
        [np.array([-200.0, 0.0, 200.0], np.float32)],
        expected=lambda x: 1 / (1 + np.exp(-x)),
        name="extremes",
    ),
]
