"""Cases of the normalisations."""

import numpy as np
import torch
from torch.nn import functional

from tests.cases.case import Case, floats
from tests.cases.torch_oracle import with_torch

EPS = 0.125


def batch_inference(x, scale, bias, mean, variance):
    """BatchNormalization with given statistics."""
    spread = [1, -1] + [1] * (x.ndim - 2)
    scale, bias, mean, variance = (t.reshape(spread) for t in (scale, bias, mean, variance))
    return (x - mean) / torch.sqrt(variance + EPS) * scale + bias


def batch_training(x, scale, bias, mean, variance):
    """BatchNormalization in training with the outputs of the row; the running variance is the population's."""
    axes = [i for i in range(x.ndim) if i != 1]
    batch_mean, batch_variance = x.mean(axes), x.var(axes, unbiased=False)
    y = functional.batch_norm(x, None, None, scale, bias, True, 0.0, EPS)
    inverse = 1 / torch.sqrt(batch_variance + EPS)
    return y, 0.75 * mean + 0.25 * batch_mean, 0.75 * variance + 0.25 * batch_variance, batch_mean, inverse


def batch_unbiased(x, scale, bias, mean, variance):
    """As batch_training, with torch's own running statistics: the variance of n - 1 samples."""
    mean, variance = mean.clone(), variance.clone()
    return functional.batch_norm(x, mean, variance, scale, bias, True, 0.25, EPS), mean, variance


def local_response(size: int):
    """Return the LRN oracle over `size` channels."""
    before = (size - 1) // 2

    def run(x):
        squares = functional.pad(x * x, (0, 0, 0, 0, before, size - 1 - before))
        total = sum(squares[:, k : k + x.shape[1]] for k in range(size))
        return x / (1.5 + 0.5 / size * total) ** 0.75

    return with_torch(run)


def group_statistics(x, scale, bias):
    """GroupNormalization over two groups with mean and inverse deviation."""
    groups = x.reshape(x.shape[0] * 2, -1)
    inverse = 1 / torch.sqrt(groups.var(1, unbiased=False) + EPS)
    return functional.group_norm(x, 2, scale, bias, EPS), groups.mean(1), inverse


def strided_statistics(groups):
    """GroupNormalization, channels of a group ``groups`` apart, with mean and inverse deviation."""

    def run(x, scale, bias):
        n, channels = x.shape[:2]
        members = x.reshape(n, channels // groups, groups, -1).transpose(1, 2)
        flat = members.reshape(n * groups, -1)
        inverse = 1 / torch.sqrt(flat.var(1, unbiased=False) + EPS)
        normal = ((flat - flat.mean(1, keepdim=True)) * inverse[:, None]).reshape(members.shape)
        normal = normal.transpose(1, 2).reshape(n, channels, -1)
        return (normal * scale[:, None] + bias[:, None]).reshape(x.shape), flat.mean(1), inverse

    return run


def strided_cases(groups: int, *shape: int) -> list[Case]:
    """Groups of channels that are not neighbours: results with statistics, and gradients."""
    inputs = [floats(*shape), floats(shape[1]), floats(shape[1], low=-1)]
    attributes = {"num_groups": groups, "strided_groups": 1, "epsilon": EPS}
    expected, name = strided_statistics(groups), f"strided_{groups}_of_{shape[1]}_rank_{len(shape)}"
    return [
        Case("GroupNormalization", inputs, attributes, with_torch(expected), outputs=3, name=name),
        Case(
            "GroupNormalization",
            inputs,
            attributes,
            with_torch(lambda *t: expected(*t)[0]),
            gradients=[0, 1, 2],
            name=f"{name}_gradient",
        ),
    ]


def row_statistics(x, scale, bias):
    """GroupNormalization over one group of a matrix with mean and inverse deviation."""
    inverse = 1 / torch.sqrt(x.var(1, unbiased=False) + EPS)
    return functional.layer_norm(x, x.shape[1:], scale, bias, EPS), x.mean(1), inverse


def parameters(channels: int) -> list[np.ndarray]:
    """Scale, bias, mean and variance."""
    return [floats(channels), floats(channels, low=-1), floats(channels, high=1), floats(channels, low=0.2)]


def batch_cases(shape: tuple[int, ...]) -> list[Case]:
    """BatchNormalization in inference and training."""
    inputs = [floats(*shape), *parameters(shape[1])]
    training = {"epsilon": EPS, "momentum": 0.75, "training_mode": 1}
    rank = len(shape)
    return [
        Case("BatchNormalization", inputs, {"epsilon": EPS}, with_torch(batch_inference), gradients=[0, 1, 2, 3, 4]),
        Case("BatchNormalization", inputs, training, with_torch(batch_training), outputs=5, name=f"training_{rank}d"),
        Case(
            "BatchNormalization",
            inputs,
            training,
            with_torch(lambda *t: batch_training(*t)[0]),
            gradients=[0, 1, 2],
            name=f"training_gradient_{rank}d",
        ),
        Case(
            "BatchNormalization",
            inputs,
            {**training, "unbiased_variance": 1},
            with_torch(batch_unbiased),
            outputs=3,
            name=f"unbiased_{rank}d",
        ),
    ]


GROUPED = {"num_groups": 2, "epsilon": EPS}
GROUP_INPUTS = [floats(3, 4, 5, 2), floats(4), floats(4, low=-1)]
LRN = {"alpha": 0.5, "beta": 0.75, "bias": 1.5}

CASES = [
    *batch_cases((4, 3, 5, 2)),
    *batch_cases((5, 3)),
    Case("GroupNormalization", GROUP_INPUTS, GROUPED, with_torch(group_statistics), outputs=3, name="statistics"),
    Case(
        "GroupNormalization", GROUP_INPUTS, GROUPED, with_torch(lambda *t: group_statistics(*t)[0]), gradients=[0, 1, 2]
    ),
    *strided_cases(2, 3, 6, 5, 2),
    *strided_cases(3, 2, 42, 4),
    *strided_cases(4, 5, 8),
    Case(
        "GroupNormalization",
        [floats(3, 4), floats(4), floats(4, low=-1)],
        {"num_groups": 1, "epsilon": EPS},
        with_torch(lambda x, s, b: functional.layer_norm(x, (4,), s, b, EPS)),
        gradients=[0, 1, 2],
        name="rows_of_a_matrix",
    ),
    Case(
        "GroupNormalization",
        [floats(19, 37), floats(37), floats(37, low=-1)],
        {"num_groups": 1, "epsilon": EPS},
        with_torch(row_statistics),
        outputs=3,
        name="rows_with_statistics",
    ),
    Case(
        "LayerNormalization",
        [floats(3, 4, 5), floats(4, 5), floats(4, 5, low=-1)],
        {"axis": -2, "epsilon": EPS},
        with_torch(lambda x, s, b: functional.layer_norm(x, (4, 5), s, b, EPS)),
        gradients=[0, 1, 2],
        name="two_axes",
    ),
    Case(
        "LayerNormalization",
        [floats(3, 4, 5), floats(5)],
        {"epsilon": EPS},
        with_torch(lambda x, s: functional.layer_norm(x, (5,), s, None, EPS)),
        gradients=[0, 1],
        name="without_bias",
    ),
    Case(
        "LayerNormalization",
        [floats(3, 4, 5), floats(4, 1), floats(5)],
        {"axis": 1, "epsilon": EPS},
        with_torch(lambda x, s, b: functional.layer_norm(x, (4, 5), None, None, EPS) * s + b),
        gradients=[0, 1, 2],
        name="broadcast_parameters",
    ),
    Case(
        "InstanceNormalization",
        [floats(3, 4, 5), floats(4), floats(4, low=-1)],
        {"epsilon": EPS},
        with_torch(lambda x, s, b: functional.instance_norm(x, None, None, s, b, True, 0.0, EPS)),
        gradients=[0, 1, 2],
    ),
    Case(
        "RMSNormalization",
        [floats(3, 4, 5), floats(5)],
        {"epsilon": EPS},
        with_torch(lambda x, s: functional.rms_norm(x, (5,), s, EPS)),
        gradients=[0, 1],
    ),
    Case(
        "RMSNormalization",
        [floats(3, 4, 5), floats(4, 5)],
        {"axis": 1, "epsilon": EPS},
        with_torch(lambda x, s: functional.rms_norm(x, (4, 5), s, EPS)),
        gradients=[0, 1],
        name="two_axes",
    ),
    Case(
        "RMSNormalization",
        [floats(3, 4, 5), floats(4, 1)],
        {"axis": 1, "epsilon": EPS},
        with_torch(lambda x, s: functional.rms_norm(x, (4, 5), None, EPS) * s),
        gradients=[0, 1],
        name="broadcast_scale",
    ),
    Case(
        "RMSNormalization",
        [floats(9, 1031), floats(1031)],
        {"epsilon": EPS},
        with_torch(lambda x, s: functional.rms_norm(x, (1031,), s, EPS)),
        name="long_rows",
    ),
    *[Case("LRN", [floats(2, 6, 3, 2)], {"size": k, **LRN}, local_response(k), gradients=[0]) for k in (1, 3, 4, 5)],
    Case("BatchNormalization", [floats(4, 3, 5), *parameters(3)[:3], floats(2)], refuses="one value per channel"),
    Case(
        "GroupNormalization", [floats(3, 4), floats(4), floats(4)], {"num_groups": 3}, refuses="num_groups must divide"
    ),
    Case("LayerNormalization", [floats(3, 4), floats(3)], refuses="must broadcast to the data"),
    Case("InstanceNormalization", [floats(3, 4), floats(4), floats(4)], refuses="(N, C, spatial"),
    Case("LRN", [floats(2, 3, 4)], {"size": 0}, refuses="size must be at least 1"),
]
