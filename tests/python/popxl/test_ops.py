"""Values of ops against NumPy and torch."""

import numpy as np
import popart_core
import popxl
import popxl.ops as ops
import pytest
import torch
from programs import evaluate

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
Y = RNG.normal(size=(4, 5)).astype(np.float32)
POSITIVE = np.abs(X) + 0.5

UNARY = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "sign": np.sign,
    "cos": np.cos,
    "sin": np.sin,
    "exp": np.exp,
    "tanh": np.tanh,
    "negate": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: torch.nn.functional.gelu(torch.tensor(x), approximate="tanh").numpy(),
    "geluerf": lambda x: torch.nn.functional.gelu(torch.tensor(x)).numpy(),
    "swish": lambda x: torch.nn.functional.silu(torch.tensor(x)).numpy(),
    "detach": lambda x: x,
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str):
    np.testing.assert_allclose(evaluate(getattr(ops, name), X), UNARY[name](X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["exp_", "relu_", "gelu_", "geluerf_", "swish_"])
def test_unary_inplace_equals_out_of_place(name: str):
    expected = evaluate(getattr(ops, name[:-1]), X)
    np.testing.assert_array_equal(evaluate(getattr(ops, name), X), expected)


@pytest.mark.parametrize(("name", "fn"), [("log", np.log), ("log2", np.log2), ("sqrt", np.sqrt)])
def test_unary_of_positive_values(name: str, fn):
    np.testing.assert_allclose(evaluate(getattr(ops, name), POSITIVE), fn(POSITIVE), rtol=1e-5, atol=1e-6)


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "fmod": np.fmod,
          "maximum": np.maximum,
          "equal": np.equal, "greater": np.greater}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_broadcasts(name: str):
    np.testing.assert_allclose(evaluate(getattr(ops, name), X, Y), BINARY[name](X, Y), rtol=1e-5, atol=1e-6)


def test_binary_refuses_shapes_and_types():
    with pytest.raises(popart_core.popart_exception, match="Add"):
        evaluate(ops.add, X, np.zeros((3, 3), np.float32))
    with pytest.raises(popart_core.popart_exception, match="type"):
        evaluate(ops.add, X, np.zeros((5,), np.int32))
    with pytest.raises(TypeError, match="must be a popxl"):
        evaluate(lambda x: ops.add(x, 1.0), X)


def test_pow_where_clip_cast_scaled_add():
    np.testing.assert_allclose(evaluate(lambda x: ops.pow(x, 2.0), X), X**2, rtol=1e-5)
    np.testing.assert_array_equal(evaluate(ops.where, X > 0, X, -X), np.abs(X))
    np.testing.assert_array_equal(evaluate(lambda x: ops.clip(x, -0.5, 0.25), X), np.clip(X, -0.5, 0.25))
    np.testing.assert_array_equal(evaluate(lambda x: ops.cast(x, popxl.int32), X * 3), (X * 3).astype(np.int32))
    np.testing.assert_allclose(
        evaluate(lambda x, y: ops.scaled_add(x, y, 2.0, -0.5), X, X + 1), 2 * X - 0.5 * (X + 1), rtol=1e-5, atol=1e-6
    )


def test_logical_ops_cast_first():
    a, b = np.array([0, 1, 2, 0], np.int32), np.array([0, 0, 3, 1], np.int32)
    got = evaluate(lambda x, y: (x & y, x | y, ~x), a, b)
    for value, expected in zip(got, (np.logical_and(a, b), np.logical_or(a, b), np.logical_not(a)), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_finite_tests():
    x = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    got = evaluate(lambda t: (ops.isnan(t), ops.isinf(t), ops.isfinite(t)), x)
    for value, expected in zip(got, (np.isnan(x), np.isinf(x), np.isfinite(x)), strict=True):
        np.testing.assert_array_equal(value, expected)


REDUCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod,
    "l1": lambda x, **k: np.sum(np.abs(x), **k), "l2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
    "logsumexp": lambda x, **k: np.log(np.sum(np.exp(x), **k)), "sumsquare": lambda x, **k: np.sum(x * x, **k),
}  # fmt: skip


@pytest.mark.parametrize("axis", [None, 1, (0, -1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, axis, keepdims: bool):
    got = evaluate(lambda x: getattr(ops, name)(x, axis, keepdims), X)
    np.testing.assert_allclose(got, REDUCTIONS[name](X, axis=axis, keepdims=keepdims), rtol=1e-4, atol=1e-5)


def test_reduction_over_no_axes_keeps_elements():
    np.testing.assert_allclose(evaluate(lambda x: ops.l1(x, []), X), np.abs(X), rtol=1e-6)


def test_histogram():
    levels = [-0.5, 0.0, 1.0]
    counts = evaluate(lambda x: ops.histogram(x, levels, False), X)
    assert counts.dtype == np.uint32
    np.testing.assert_array_equal(counts, np.histogram(X, [-np.inf, *levels, np.inf])[0])
    half = evaluate(lambda x: ops.histogram(x, [0.5], True), X.astype(np.float16))
    np.testing.assert_array_equal(half, [np.sum(np.abs(X.astype(np.float16)) < 0.5), np.sum(np.abs(X) >= 0.5)])
    with pytest.raises(ValueError, match="strictly increasing"):
        evaluate(lambda x: ops.histogram(x, [1.0, 1.0], False), X)
    with pytest.raises(popart_core.popart_exception, match=r"must hold floats: got .*int32"):
        evaluate(lambda x: ops.histogram(x, [1.0], False), X.astype(np.int32))


def test_arg_topk_cumsum():
    np.testing.assert_array_equal(evaluate(lambda x: ops.argmax(x, -1), X), np.argmax(X, -1).astype(np.int32))
    np.testing.assert_array_equal(evaluate(lambda x: ops.argmin(x, 1, True), X), np.argmin(X, 1, keepdims=True))
    values, indices = evaluate(lambda x: ops.topk(x, 2, 2, True, True), X)
    expected = torch.topk(torch.tensor(X), 2, dim=2)
    np.testing.assert_array_equal(values, expected.values.numpy())
    np.testing.assert_array_equal(indices, expected.indices.numpy())
    assert indices.dtype == np.int32
    np.testing.assert_allclose(evaluate(lambda x: ops.cumsum(x, -1), X), np.cumsum(X, -1), rtol=1e-5, atol=1e-5)


SHAPES = {
    "reshape": (lambda x: x.reshape((-1, 10)), lambda x: x.reshape(-1, 10)),
    "reshape_": (lambda x: x.reshape_((5, 12)), lambda x: x.reshape(5, 12)),
    "flatten": (lambda x: x.flatten(), lambda x: x.reshape(-1)),
    "transpose": (lambda x: x.transpose((2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "T": (lambda x: x.T, lambda x: x.T),
    "T_": (lambda x: x.T_, lambda x: x.T),
    "concat": (lambda x: ops.concat([x, x], -1), lambda x: np.concatenate([x, x], -1)),
    "slice": (lambda x: ops.slice(x, [1, None], [None, -1]), lambda x: x[1:, :-1]),
    "slice_": (lambda x: ops.slice_(x, 1, 3, axis=1), lambda x: x[:, 1:3]),
    "reverse": (lambda x: ops.slice(x, step=-1), lambda x: x[::-1]),
    "subsample": (lambda x: ops.subsample(x, [2, 3]), lambda x: x[::2, ::3]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape_ops(name: str):
    build, expected = SHAPES[name]
    np.testing.assert_array_equal(evaluate(build, X), expected(X))


def test_split_and_squeeze():
    for got, expected in zip(evaluate(lambda x: ops.split(x, [1, 3], 1), X), np.split(X, [1], 1), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert evaluate(lambda x: ops.squeeze(x), X[:1, :, :1]).shape == (4,)
    with pytest.raises(ValueError, match="does not divide"):
        evaluate(lambda x: ops.split(x, 3, 1), X)
    with pytest.raises(ValueError, match="size 1"):
        evaluate(lambda x: ops.squeeze(x, [1]), X)
    with pytest.raises(ValueError, match="at most one -1"):
        evaluate(lambda x: x.reshape((-1, -1)), X)


def test_gather_scatter_onehot():
    i = np.array([[2, 0], [1, 1]], np.int32)
    np.testing.assert_array_equal(evaluate(lambda x, j: ops.gather(x, j, 1), X, i), np.take(X, i, 1))
    out = evaluate(lambda x, j: ops.gather(x, j, 1, zero_OOR=True), X, np.array([1, 9, -1], np.int32))
    np.testing.assert_array_equal(out[:, 0], X[:, 1])
    assert not out[:, 1:].any()
    t, j, v = np.zeros((3, 3), np.float32), np.array([[1, 0, 2], [0, 2, 1]], np.int32), np.ones((2, 3), np.float32)
    expected = t.copy()
    np.put_along_axis(expected, j, v, 0)
    np.testing.assert_array_equal(evaluate(lambda a, b, c: ops.scatter(a, b, c), t, j, v), expected)
    got = evaluate(
        lambda k: ops.onehot(k, popxl.constant(4), popxl.constant([0.5, 2.0]), -1), np.array([1, 3, 7], np.int32)
    )
    expected = np.full((3, 4), 0.5, np.float32)
    expected[0, 1] = expected[1, 3] = 2.0
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((4, 1, 2, 3), (5, 3, 2))]
)
def test_matmul(a: tuple, b: tuple):
    x, y = RNG.normal(size=a).astype(np.float32), RNG.normal(size=b).astype(np.float32)
    np.testing.assert_allclose(evaluate(ops.matmul, x, y), x @ y, rtol=1e-5, atol=1e-5)


def test_conv_and_pools():
    x, w = RNG.normal(size=(2, 4, 9, 8)).astype(np.float32), RNG.normal(size=(6, 2, 3, 3)).astype(np.float32)
    got = evaluate(lambda t, k: ops.conv(t, k, (2, 1), (1, 1, 1, 1), groups=2), x, w)
    expected = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w), stride=(2, 1), padding=1, groups=2).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    got = evaluate(lambda t: ops.max_pool(t, (3, 2), (2, 2), (1, 0, 1, 0)), x)
    expected = torch.nn.functional.max_pool2d(torch.tensor(x), (3, 2), (2, 2), (1, 0)).numpy()
    np.testing.assert_array_equal(got, expected)
    got = evaluate(lambda t: ops.average_pool(t, (2, 2), (2, 2)), x)
    np.testing.assert_allclose(got, torch.nn.functional.avg_pool2d(torch.tensor(x), 2).numpy(), rtol=1e-5, atol=1e-6)


def test_softmax_takes_trailing_axes_together():
    rows = np.exp(X.reshape(3, 20))
    expected = (rows / rows.sum(1, keepdims=True)).reshape(X.shape)
    np.testing.assert_allclose(evaluate(lambda x: ops.softmax(x, 1), X), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        evaluate(lambda x: ops.softmax(x, -1), X), torch.softmax(torch.tensor(X), -1).numpy(), rtol=1e-5, atol=1e-6
    )


def test_norms():
    x, w, b = (
        RNG.normal(size=(2, 6, 3)).astype(np.float32),
        np.linspace(0.5, 2, 6, dtype=np.float32),
        np.arange(6, dtype=np.float32),
    )
    got = evaluate(lambda t, s, o: ops.group_norm(t, s, o, 3, 1e-3), x, w, b)
    expected = torch.nn.functional.group_norm(torch.tensor(x), 3, torch.tensor(w), torch.tensor(b), 1e-3).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    got = evaluate(ops.layer_norm, x[:, :, 0], w, b)
    expected = torch.nn.functional.layer_norm(torch.tensor(x[:, :, 0]), (6,), torch.tensor(w), torch.tensor(b)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(reduction: str):
    p = torch.softmax(torch.tensor(X[0]), -1).numpy()
    labels = np.array([1, 4, 0, 2], np.int32)
    got = evaluate(lambda t, k: ops.nll_loss(t, k, ignore_index=4, reduction=reduction), p, labels)
    expected = torch.nn.functional.nll_loss(
        torch.log(torch.tensor(p)), torch.tensor(labels).long(), ignore_index=4, reduction=reduction
    )
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5)
    loss, dx = evaluate(lambda t, k: ops.nll_loss_with_softmax_grad(t, k, 2.0, 4, reduction), p, labels)
    onehot = np.eye(5, dtype=np.float32)[labels]
    grad = 2 * (p - onehot) * (labels != 4)[:, None] / (3 if reduction == "mean" else 1)
    np.testing.assert_allclose(dx, grad, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loss, expected.numpy(), rtol=1e-5)


def test_random_ops_depend_on_the_seed_only():
    seed, other = np.array([1, 2], np.uint32), np.array([1, 3], np.uint32)
    uniform = evaluate(lambda s: ops.random_uniform(s, (4, 1000), -1.0, 3.0), seed)
    assert uniform.min() >= -1 and uniform.max() < 3 and abs(uniform.mean() - 1) < 0.1
    np.testing.assert_array_equal(uniform, evaluate(lambda s: ops.random_uniform(s, (4, 1000), -1.0, 3.0), seed))
    assert (uniform != evaluate(lambda s: ops.random_uniform(s, (4, 1000), -1.0, 3.0), other)).mean() > 0.9
    normal = evaluate(lambda s: ops.random_normal(s, (4000,), 2.0, 0.5), seed)
    assert abs(normal.mean() - 2) < 0.05 and abs(normal.std() - 0.5) < 0.05
    first, second = evaluate(lambda s: ops.split_random_seed(s), seed)
    assert first[0] == second[0] == 1 and first[1] != second[1]


def test_dropout_scales_survivors():
    x = np.ones((200, 50), np.float32)
    out = evaluate(lambda t, s: ops.dropout(t, s, 0.25), x, np.array([5, 6], np.uint32))
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((out == 0).mean() - 0.25) < 0.02
    with pytest.raises(ValueError, match="probability"):
        evaluate(lambda t, s: ops.dropout(t, s, 1.0), x, np.array([5, 6], np.uint32))


def test_var_updates():
    v = ops.var_updates
    t, x = X.copy(), (X * 2 + 1)
    cases = {
        "accumulate": (lambda a, b: v.accumulate_(a, b), t + x),
        "accumulate f": (lambda a, b: v.accumulate_(a, b, 0.5), t + 0.5 * x),
        "square": (lambda a, b: v.accumulate_square_(a, b, 0.5), t + 0.5 * x * x),
        "mean": (lambda a, b: v.accumulate_mean_(a, b, 3.0), t * 3 / 4 + x / 4),
        "average": (lambda a, b: v.accumulate_moving_average_(a, b, 0.9), 0.9 * t + 0.1 * x),
        "average square": (lambda a, b: v.accumulate_moving_average_square_(a, b, 0.9), 0.9 * t + 0.1 * x * x),
        "scale": (lambda a, b: v.accumulator_scale_(a, 0.5), 0.5 * t),
        "zero": (lambda a, b: v.accumulator_zero_(a), 0 * t),
        "copy": (lambda a, b: v.copy_var_update_(a, b), x),
    }
    for name, (build, expected) in cases.items():
        np.testing.assert_allclose(evaluate(build, t, x), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_adam_updater_counts_its_step():
    m, s, w = X[0], POSITIVE[0], Y
    v = ops.var_updates
    got = evaluate(lambda a, b, c: v.adam_updater(a, b, c, None, 0.1, epsilon=1e-3), m, s, w)
    np.testing.assert_allclose(got, m / (np.sqrt(s) + 1e-3) + 0.1 * w, rtol=1e-4, atol=1e-5)
    got = evaluate(lambda a, b, k: v.adam_updater(a, b, time_step=k, beta1=0.9, beta2=0.99), m, s, np.float32(1))
    expected = (m / (1 - 0.9**2)) / (np.sqrt(s / (1 - 0.99**2)) + 1e-7)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="beta"):
        evaluate(lambda a, b, k: v.adam_updater(a, b, time_step=k), m, s, np.float32(1))


def test_required_tensors_must_be_tensors():
    with popxl.Ir().main_graph:
        x = popxl.variable(X)
        for build in (
            lambda: ops.add(x, None),
            lambda: ops.where(x, x, None),
            lambda: ops.matmul(None, x),
            lambda: ops.var_updates.accumulate_(x, None),
            lambda: ops.var_updates.adam_var_update(x, x, None, x),
        ):
            with pytest.raises(TypeError, match=r"popxl\.Tensor: got NoneType"):
                build()


def test_partials_of_a_convolution_have_names():
    image, weight = np.ones((1, 2, 4, 4), np.float32), np.ones((3, 2, 2, 2), np.float32)
    for partials in ("half", "float", popxl.float16, popxl.float32):
        got = evaluate(lambda t, w, p=partials: ops.conv(t, w, partials_types=[p]), image, weight)
        np.testing.assert_array_equal(got, np.full((1, 3, 3, 3), 8.0))
    with pytest.raises(ValueError, match="partials_types"):
        evaluate(lambda t, w: ops.conv(t, w, partials_types=["int8"]), image, weight)


def test_batch_norm_needs_spatial_dimensions():
    with popxl.Ir().main_graph:
        c = popxl.variable(np.ones(4, np.float32))
        with pytest.raises(popart_core.popart_exception, match="rank 3"):
            ops.batch_norm_inference(popxl.variable(np.ones((2, 4), np.float32)), c, c, c, c)


def accumulated(f, update="accumulate_", in_graph=False):
    """A variable of twos after the update with ones."""
    ir = popxl.Ir()
    with ir.main_graph:
        t, x = popxl.variable(np.full(3, 2, np.float32)), popxl.variable(np.ones(3, np.float32))
        factor = f() if callable(f) else f
        function = getattr(ops.var_updates, update)
        if in_graph:

            def fn(a: popxl.TensorByRef, b: popxl.Tensor):
                function(a, b, factor)

            ops.call(ir.create_graph(fn, t, x), t, x)
        else:
            function(t, x, factor)
    with popxl.Session(ir, "cpu") as session:
        session.run({s: np.float32(0) for s in session.expected_inputs()})
    return session.get_tensor_data(t)


@pytest.mark.parametrize(("f", "in_graph"), [(0.0, False), (-0.0, True), (lambda: popxl.constant(0.0), False)])
def test_an_accumulation_of_nothing_is_refused_when_it_is_compiled(f, in_graph):
    with pytest.raises(popart_core.popart_exception, match=r"Accumulate.*the factor is 0.*got f = 0"):
        accumulated(f, in_graph=in_graph)


def test_factors_that_are_not_known_or_not_zero_accumulate():
    def given():
        return ops.host_load(popxl.h2d_stream((), popxl.float32))

    np.testing.assert_array_equal(accumulated(given), np.full(3, 2, np.float32))
    np.testing.assert_array_equal(accumulated(0.5), np.full(3, 2.5, np.float32))
    np.testing.assert_array_equal(accumulated(0.0, "accumulate_square_"), np.full(3, 2, np.float32))
