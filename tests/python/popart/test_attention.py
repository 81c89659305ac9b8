"""Attention without the matrix of scores beside PyTorch: values and gradients, forms of masks, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import kernels_of

torch = pytest.importorskip("torch")

Arrays = dict[str, np.ndarray]
BFLOAT16 = ml_dtypes.bfloat16


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
    return run_once(session, {}, wanted)


def run_once(session: Any, feeds: Arrays, wanted: list[str]) -> Arrays:
    """Y and the gradients by their short names."""
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
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
    mask[mask > 1] = -1e9 if shape[-1] > 1 else -3  # rows at -1e9: test_rows_far_from_zero
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


WHOLE = {np.float32: "FLOAT", np.float16: "FLOAT16", BFLOAT16: "BFLOAT16"}
FAR = {"-1e9": -1e9, "lowest": np.finfo(np.float32).min, "logits of thousands": 3e6}


def whole_numbers(heads: int, queries: int, keys: int, size: int = 16) -> Arrays:
    """Operands whose products have no rounding error in any of the types, so that only steps and softmax round."""
    rng = np.random.default_rng(queries)
    shapes = {"q": queries, "k": keys, "v": keys, "g": queries}
    return {name: rng.integers(-2, 3, (1, heads, n, size)).astype(np.float32) for name, n in shapes.items()}


def far_mask(form: str, queries: int, keys: int, low: float) -> np.ndarray:
    """What is added to the scores: one entry, one row, some rows or a row but one key at `low`."""
    mask = np.zeros((queries, keys), np.float32)
    if form == "entry":
        mask[0, 0] = low
    elif form == "row":
        mask[queries // 2] = low
    elif form == "rows":
        mask[::3] = low
    else:
        mask[1, 1:] = low
    return mask


def far_model(values: Arrays, mask: np.ndarray, kind: str, dtype: Any, others: dict[str, bool]) -> Any:
    """The session of y = softmax(scores with the mask) v, the loss sum(y g), and what to anchor."""
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    o, feeds = builder.aiOnnx, {}

    def typed(t: str) -> str:
        return t if dtype is np.float32 else o.cast([t], WHOLE[dtype])

    def constant(x: Any) -> str:
        return typed(o.constant(np.array(x, np.float32)))

    q, k, v = (typed(builder.addInitializedInputTensor(values[name], name)) for name in "qkv")
    scores = o.mul([o.matmul([q, o.transpose([k], [0, 1, 3, 2])]), constant(0.25)])
    if kind == "stream":
        feeds["mask"] = mask
        scores = o.add([scores, typed(builder.addInputTensor("FLOAT", mask.shape, "mask"))])
    elif kind == "where":
        scores = o.where([o.constant(mask == 0), scores, constant(mask.min())])
    else:
        scores = o.add([scores, constant(mask)])
    p = o.softmax([scores], 3)
    if others.get("recompute"):
        builder.recomputeOutputInBackwardPass(p)
    y = o.matmul([p, v])
    weighted = o.mul([y, constant(values["g"])])
    loss = builder.aiGraphcore.identityloss([weighted], reduction=popart.ReductionType.Sum)
    wanted = [y] + [popart.reservedGradientPrefix() + name for name in "qkv"]
    anchors = wanted + ([p] if others.get("probabilities") else [])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, {name: popart.AnchorReturnType("All") for name in anchors}),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, feeds, wanted


def rounded_as(dtype: Any, x: Any) -> Any:
    """X as `dtype` holds it; gradients pass."""
    return x + (torch.tensor(x.detach().numpy().astype(dtype).astype(np.float64)) - x).detach()


def far_expected(values: Arrays, mask: np.ndarray, kind: str, dtype: Any) -> Arrays:
    """In float64 but for the scores that the softmax reads, which are of the program's type."""
    low = torch.tensor(float(np.array(mask.min()).astype(dtype)), dtype=torch.float64)
    addend = torch.tensor(mask.astype(dtype).astype(np.float64))

    def steps(s: Any) -> Any:
        s = torch.where(torch.tensor(mask == 0), s, low) if kind == "where" else s + addend
        return rounded_as(dtype, s)

    return expected(values, steps)


@pytest.mark.parametrize("others", [{}, {"probabilities": True}, {"recompute": True}], ids=str)
@pytest.mark.parametrize("kind", ["constant", "stream", "where"])
@pytest.mark.parametrize("form", ["entry", "row", "rows", "all but one"])
@pytest.mark.parametrize("low", ["-1e9", "lowest"])
def test_rows_far_from_zero(low: str, form: str, kind: str, others: dict[str, bool]) -> None:
    """Rows masked whole have gradients like others: as those of PyTorch on the scores that float32 has."""
    values = whole_numbers(2, 32, 40)
    mask = far_mask(form, 32, 40, FAR[low])
    session, feeds, wanted = far_model(values, mask, kind, np.float32, others)
    if not others:
        assert kernels_of(session) >= {"FusedAttention", "FusedAttentionGrad"}
    ours = run_once(session, feeds, wanted)
    expect_equal(ours, far_expected(values, mask, kind, np.float32))


@pytest.mark.parametrize("others", [{}, {"probabilities": True}, {"recompute": True}], ids=str)
@pytest.mark.parametrize("kind", ["constant", "stream", "where"])
@pytest.mark.parametrize(("form", "queries", "keys"), [("rows", 32, 40), ("all but one", 32, 40), ("rows", 64, 300)])
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=["float16", "bfloat16"])
def test_rows_far_from_zero_in_16_bits(
    dtype: Any, form: str, queries: int, keys: int, kind: str, others: dict[str, bool]
) -> None:
    """The lowest number of the type; products and scores are exact."""
    values = whole_numbers(2, queries, keys)
    low = -65504.0 if dtype is np.float16 else -1e9
    mask = far_mask(form, queries, keys, low)
    session, feeds, wanted = far_model(values, mask, kind, dtype, others)
    ours = run_once(session, feeds, wanted)
    expect_equal(
        {name: a.astype(np.float32) for name, a in ours.items()}, far_expected(values, mask, kind, dtype), 2e-2
    )


@pytest.mark.parametrize("kind", ["constant", "stream", "where"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 7), (64, 300), (300, 700)])
@pytest.mark.parametrize("low", ["-1e9", "logits of thousands"])
def test_rows_far_from_zero_in_blocks_of_keys(low: str, queries: int, keys: int, kind: str) -> None:
    """Several blocks of keys, and ranges of queries that are added; scores of millions keep quarters."""
    values = whole_numbers(1, queries, keys)
    mask = far_mask("rows", queries, keys, FAR[low])
    session, feeds, wanted = far_model(values, mask, kind, np.float32, {})
    assert kernels_of(session) >= {"FusedAttention", "FusedAttentionGrad"}
    expect_equal(run_once(session, feeds, wanted), far_expected(values, mask, kind, np.float32))


def test_float16_is_stored_and_summed_in_float32() -> None:
    """Operands, scores and results are rounded to 16 bits, sums are not."""
    values = operands(2, 70, 90, 32)
    expect_equal(trained(values, lambda _, s: s, np.float16), expected(values, lambda s: s), 1e-2)
