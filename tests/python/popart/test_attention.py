"""Attention without the matrix of scores beside PyTorch: values and gradients, forms of masks, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import popart
import pytest

torch = pytest.importorskip("torch")

Arrays = dict[str, np.ndarray]


Steps = Callable[[Any, Any], Any]


def mask_of(form: str, queries: int, keys: int) -> np.ndarray | None:
    """What is added to the scores ``(queries, keys)``."""
    if form == "none":
        return None
    far = np.arange(queries)[:, None] - np.arange(keys)[None, :]
    allowed = far >= 0 if form == "causal" else (far >= 0) & (far < 40)
    return np.where(allowed, 0, -np.inf).astype(np.float32)


def trained(values: Arrays, steps: Steps, dtype: type = np.float32) -> Arrays:
    """Y and the gradients of sum(y * g) in PopART; `steps` makes of the scores what the softmax reads."""
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    q, k, v = (builder.addInitializedInputTensor(values[name].astype(dtype), name) for name in "qkv")
    scores = builder.aiOnnx.matmul([q, builder.aiOnnx.transpose([k], [0, 1, 3, 2])])
    scale = builder.aiOnnx.constant(np.array(values["q"].shape[-1] ** -0.5, dtype))
    scores = steps(builder, builder.aiOnnx.mul([scores, scale]))
    y = builder.aiOnnx.matmul([builder.aiOnnx.softmax([scores], 3), v])
    weighted = builder.aiOnnx.mul([y, builder.aiOnnx.constant(values["g"].astype(dtype))])
    loss = builder.aiGraphcore.identityloss([weighted], reduction=popart.ReductionType.Sum)
    wanted = [y] + [popart.reservedGradientPrefix() + name for name in "qkv"]
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in wanted}),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, anchors))
    return {name: anchors[key].copy() for name, key in zip(["y", "q", "k", "v"], wanted, strict=True)}


def expected(values: Arrays, steps: Callable[[Any], Any]) -> Arrays:
    """The same in PyTorch, in float64."""
    q, k, v = (torch.tensor(values[name], dtype=torch.float64, requires_grad=True) for name in "qkv")
    scores = steps(q @ k.transpose(2, 3) * values["q"].shape[-1] ** -0.5)
    y = torch.softmax(scores, 3) @ v
    (y * torch.tensor(values["g"])).sum().backward()
    return {"y": y.detach().numpy(), **{name: t.grad.numpy() for name, t in zip("qkv", (q, k, v), strict=True)}}


def operands(heads: int, queries: int, keys: int, size: int, batch: int = 1) -> Arrays:
    """Random operands."""
    rng = np.random.default_rng(queries)
    shapes = {"q": queries, "k": keys, "v": keys, "g": queries}
    return {name: rng.normal(size=(batch, heads, n, size)).astype(np.float32) for name, n in shapes.items()}


def expect_equal(ours: Arrays, theirs: Arrays, tolerance: float = 2e-5) -> None:
    """All four, with NaN at the same places."""
    for name, value in theirs.items():
        largest = np.nanmax(np.abs(value), initial=1.0)
        np.testing.assert_allclose(ours[name], value, rtol=0, atol=tolerance * largest, err_msg=name)


@pytest.mark.parametrize("form", ["none", "causal", "window"])
@pytest.mark.parametrize(
    ("heads", "queries", "keys", "size"),
    [(2, 1, 1, 8), (3, 7, 5, 3), (2, 64, 64, 26), (1, 130, 257, 48), (1, 700, 700, 64), (1, 1030, 1030, 33)],
)
def test_training_equals_pytorch(heads: int, queries: int, keys: int, size: int, form: str) -> None:
    """Values and the gradients of all three operands, from one key to some thousand."""
    values, mask = operands(heads, queries, keys, size), mask_of(form, queries, keys)
    if mask is None:
        return expect_equal(trained(values, lambda _, s: s), expected(values, lambda s: s))
    ours = trained(values, lambda b, s: b.aiOnnx.add([s, b.aiOnnx.constant(mask)]))
    return expect_equal(ours, expected(values, lambda s: s + torch.tensor(mask, dtype=torch.float64)))


@pytest.mark.parametrize("shape", [(40, 50), (2, 1, 1, 50), (3, 40, 1), (1,), (2, 3, 40, 50), (2, 1, 40, 50)])
def test_masks_of_any_shape(shape: tuple[int, ...]) -> None:
    """Addends that broadcast along any axes; some of them cannot be left out."""
    values, mask = operands(3, 40, 50, 16, batch=2), np.random.default_rng(0).normal(size=shape).astype(np.float32)
    mask[mask > 1] = -1e9 if shape[-1] > 1 else -3  # a whole row at -1e9 has no digits left in float32
    ours = trained(values, lambda b, s: b.aiOnnx.add([b.aiOnnx.constant(mask), s]))
    expect_equal(ours, expected(values, lambda s: s + torch.tensor(mask, dtype=torch.float64)))


def test_conditions_and_softcap() -> None:
    """Where with a constant condition, and a bounded score, one after the other."""
    values, allowed = operands(3, 40, 50, 16), np.tril(np.ones((40, 50), bool))

    def steps(b: Any, s: Any) -> Any:
        cap, low = (b.aiOnnx.constant(np.array(x, np.float32)) for x in (2, -np.inf))
        s = b.aiOnnx.mul([b.aiOnnx.tanh([b.aiOnnx.div([s, cap])]), cap])
        return b.aiOnnx.where([b.aiOnnx.constant(allowed), s, low])

    theirs = expected(values, lambda s: torch.where(torch.tensor(allowed), torch.tanh(s / 2) * 2, -torch.inf))
    expect_equal(trained(values, steps), theirs)


def test_rows_without_keys_are_not_numbers() -> None:
    """As in the softmax of such a row: of these rows, and of what they have a part in, nothing else."""
    values, mask = operands(2, 40, 40, 16), np.zeros((40, 40), np.float32)
    mask[[0, 1, 20]] = -np.inf
    ours = trained(values, lambda b, s: b.aiOnnx.add([s, b.aiOnnx.constant(mask)]))
    expect_equal(ours, expected(values, lambda s: s + torch.tensor(mask, dtype=torch.float64)))


def test_float16_is_stored_and_summed_in_float32() -> None:
    """Operands, scores and results are rounded to 16 bits, sums are not."""
    values = operands(2, 70, 90, 32)
    expect_equal(trained(values, lambda _, s: s, np.float16), expected(values, lambda s: s), 1e-2)
