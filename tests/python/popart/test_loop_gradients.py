"""Gradients through Loop, in ONNX models and popxl repeats: against torch and finite differences in float64."""

import io
import warnings

import numpy as np
import popart
import popart_core
import popxl
import popxl.ops as ops
import pytest
import torch
from popxl.transforms import autodiff

import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.python.popart.training_runs import ready, training_session
from tests.python.popxl.programs import gradients as popxl_gradients

RNG = np.random.default_rng(11)
STEPS, BATCH, WIDTH = 4, 3, 5
X = RNG.normal(size=(STEPS, BATCH, WIDTH))
U = RNG.normal(size=(WIDTH, WIDTH)) * 0.5
B = RNG.normal(size=(WIDTH,))
H = RNG.normal(size=(BATCH, WIDTH))
D = RNG.normal(size=(STEPS, BATCH, WIDTH))
KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}


def scalar(name, value, dtype):
    return numpy_helper.from_array(np.array(value, dtype), name)


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def body_graph(nodes, carried, outputs, kind, initializers=()):
    """A loop body: inputs i, go and the carried ones; outputs go and `outputs`."""
    inputs = [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL)]
    inputs += [info(name, shape, kind) for name, shape in carried]
    nodes = [*nodes, helper.make_node("Identity", ["go"], ["go_on"])]
    results = [info("go_on", [], TensorProto.BOOL), *(info(name, shape, kind) for name, shape in outputs)]
    return helper.make_graph(nodes, "body", inputs, results, list(initializers))


def model_of(nodes, variables, inputs=()):
    """A model whose output is the scalar `loss`."""
    kind = KINDS[next(iter(variables.values())).dtype]
    graph = helper.make_graph(
        nodes,
        "model",
        list(inputs),
        [info("loss", [], kind)],
        [numpy_helper.from_array(v, k) for k, v in variables.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def gradients(model, names, loss="loss"):
    """(loss, gradients of the variables `names`)."""
    anchors = [loss, *(f"Gradient___{n}" for n in names)]
    session = ready(
        training_session(
            model.SerializeToString(), loss, popart.SGD({"defaultLearningRate": (0.0, False)}), anchors=anchors
        )
    )
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({}, arrays))
    return arrays[loss].copy(), [arrays[a].copy() for a in anchors[1:]]


def recurrent_model(dtype, steps=STEPS):
    """tanh(x[i] + h U + b) repeated: the loss weighs every state (a scan output) and the last one."""
    kind = KINDS[np.dtype(dtype)]
    body = body_graph(
        [
            helper.make_node("Gather", ["x", "i"], ["x_i"], axis=0),
            helper.make_node("MatMul", ["h", "u"], ["hu"]),
            helper.make_node("Sum", ["x_i", "hu", "b"], ["s"]),
            helper.make_node("Tanh", ["s"], ["h_next"]),
            helper.make_node("Mul", ["h_next", "h"], ["seen"]),
            helper.make_node("Identity", ["h_next"], ["state"]),
        ],
        [("h", [BATCH, WIDTH])],
        [("h_next", [BATCH, WIDTH]), ("seen", [BATCH, WIDTH]), ("state", [BATCH, WIDTH])],
        kind,
    )
    nodes = [
        helper.make_node("Loop", ["steps", "", "h0"], ["last", "all", "states"], body=body),
        helper.make_node("Mul", ["all", "d"], ["weighed"]),
        helper.make_node("ReduceSum", ["weighed"], ["part"], keepdims=0),
        helper.make_node("ReduceSumSquare", ["states"], ["part2"], keepdims=0),
        helper.make_node("ReduceSum", ["last"], ["part3"], keepdims=0),
        helper.make_node("Sum", ["part", "part2", "part3"], ["loss"]),
    ]
    variables = {"x": X, "u": U, "b": B, "h0": H, "d": D[:steps]}
    model = model_of(nodes, {k: v.astype(dtype) for k, v in variables.items()})
    model.graph.initializer.append(scalar("steps", steps, np.int64))
    return model


def recurrent_torch(steps=STEPS):
    x, u, b, h0, d = (torch.tensor(v, requires_grad=True) for v in (X, U, B, H, D[:steps]))
    h, seen, states = h0, [], []
    for i in range(steps):
        new = torch.tanh(x[i] + h @ u + b)
        seen.append(new * h)
        states.append(new)
        h = new
    loss = (torch.stack(seen) * d).sum() + torch.stack(states).square().sum() + h.sum()
    loss.backward()
    return loss.detach().numpy(), [t.grad.numpy() for t in (x, u, b, h0, d)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_scans_carried_and_captured_values(dtype, tolerance):
    loss, grads = gradients(recurrent_model(dtype), ["x", "u", "b", "h0", "d"])
    expected_loss, expected = recurrent_torch()
    np.testing.assert_allclose(loss, expected_loss, rtol=tolerance, atol=tolerance)
    for got, want in zip(grads, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_finite_differences():
    model = recurrent_model(np.float64)
    _, grads = gradients(model, ["u", "h0"])
    for name, base, grad in (("u", U, grads[0]), ("h0", H, grads[1])):
        direction = RNG.normal(size=base.shape)
        values = []
        for sign in (1, -1):
            moved = recurrent_model(np.float64)
            (initializer,) = [t for t in moved.graph.initializer if t.name == name]
            initializer.CopyFrom(numpy_helper.from_array(base + sign * 1e-5 * direction, name))
            values.append(gradients(moved, ["b"])[0])
        slope = (values[0] - values[1]) / 2e-5
        np.testing.assert_allclose((grad * direction).sum(), slope, rtol=1e-7, atol=1e-8)


def test_no_iterations_pass_the_gradient_through():
    body = body_graph(
        [helper.make_node("Mul", ["h", "u"], ["h_next"])], [("h", [3])], [("h_next", [3])], TensorProto.FLOAT
    )
    nodes = [
        helper.make_node("Loop", ["steps", "", "h0"], ["last"], body=body),
        helper.make_node("ReduceSumSquare", ["last"], ["loss"], keepdims=0),
    ]
    h0, u = np.array([1, -2, 3], np.float32), np.array([2, 2, 2], np.float32)
    model = model_of(nodes, {"h0": h0, "u": u})
    model.graph.initializer.append(scalar("steps", 0, np.int64))
    _, grads = gradients(model, ["h0", "u"])
    np.testing.assert_array_equal(grads[0], 2 * h0)
    np.testing.assert_array_equal(grads[1], 0 * u)


def test_carried_values_that_exchange_and_stop():
    """a, b, n = b * w, sin(a), n + 1 (int): gradients change places every iteration; a third value has none."""
    body = body_graph(
        [
            helper.make_node("Mul", ["b", "w"], ["a_next"]),
            helper.make_node("Sin", ["a"], ["b_next"]),
            helper.make_node("Floor", ["c"], ["c_next"]),
        ],
        [("a", [4]), ("b", [4]), ("c", [4])],
        [("a_next", [4]), ("b_next", [4]), ("c_next", [4])],
        TensorProto.FLOAT,
    )
    nodes = [
        helper.make_node("Loop", ["steps", "", "a0", "b0", "c0"], ["a5", "b5", "c5"], body=body),
        helper.make_node("Mul", ["a5", "c5"], ["ac"]),
        helper.make_node("ReduceSum", ["ac"], ["loss"], keepdims=0),
    ]
    values = {k: RNG.normal(size=4).astype(np.float32) for k in ("a0", "b0", "c0", "w")}
    model = model_of(nodes, values)
    model.graph.initializer.append(scalar("steps", 5, np.int64))
    _, grads = gradients(model, ["a0", "b0", "w"])
    a0, b0, w = (torch.tensor(values[k], requires_grad=True) for k in ("a0", "b0", "w"))
    a, b = a0, b0
    for _ in range(5):
        a, b = b * w, torch.sin(a)
    (a * torch.floor(torch.tensor(values["c0"]))).sum().backward()
    for got, want in zip(grads, (a0, b0, w), strict=True):
        expected = np.zeros(4) if want.grad is None else want.grad.numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_nested_loops():
    inner = helper.make_graph(
        [
            helper.make_node("Mul", ["k", "w"], ["kw"]),
            helper.make_node("Add", ["kw", "h"], ["kwh"]),
            helper.make_node("Tanh", ["kwh"], ["k_next"]),
            helper.make_node("Identity", ["go2"], ["go2_on"]),
        ],
        "inner",
        [info("j", [], TensorProto.INT64), info("go2", [], TensorProto.BOOL), info("k", [4])],
        [info("go2_on", [], TensorProto.BOOL), info("k_next", [4]), info("kwh", [4])],
    )
    outer = body_graph(
        [
            helper.make_node("Loop", ["three", "", "h"], ["k_last", "sums"], body=inner),
            helper.make_node("ReduceSum", ["sums", "first_axis"], ["sum"], keepdims=0),
            helper.make_node("Mul", ["k_last", "sum"], ["h_next"]),
        ],
        [("h", [4])],
        [("h_next", [4]), ("k_last", [4])],
        TensorProto.FLOAT,
    )
    nodes = [
        helper.make_node("Loop", ["two", "", "h0"], ["last", "ks"], body=outer),
        helper.make_node("ReduceSum", ["last"], ["part"], keepdims=0),
        helper.make_node("ReduceSumSquare", ["ks"], ["part2"], keepdims=0),
        helper.make_node("Add", ["part", "part2"], ["loss"]),
    ]
    values = {k: RNG.normal(size=4).astype(np.float32) for k in ("h0", "w")}
    model = model_of(nodes, values)
    model.graph.initializer.extend(
        [scalar("two", 2, np.int64), scalar("three", 3, np.int64), scalar("first_axis", [0], np.int64)]
    )
    loss, grads = gradients(model, ["h0", "w"])
    h0, w = (torch.tensor(values[k], requires_grad=True) for k in ("h0", "w"))
    h, ks = h0, []
    for _ in range(2):
        k, sums = h, []
        for _ in range(3):
            sums.append(k * w + h)
            k = torch.tanh(sums[-1])
        ks.append(k)
        h = k * torch.stack(sums).sum(0)
    expected = h.sum() + torch.stack(ks).square().sum()
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grads[0], h0.grad.numpy(), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(grads[1], w.grad.numpy(), rtol=2e-5, atol=1e-5)


def test_branches_inside_a_loop():
    """Odd iterations multiply, even ones take the sine."""

    def branch(op, name):
        return helper.make_graph([op], name, [], [info(f"{name}_out", [4])])

    body = body_graph(
        [
            helper.make_node("Mod", ["i", "two"], ["odd"]),
            helper.make_node("Equal", ["odd", "one"], ["is_odd"]),
            helper.make_node(
                "If",
                ["is_odd"],
                ["h_next"],
                then_branch=branch(helper.make_node("Mul", ["h", "w"], ["yes_out"]), "yes"),
                else_branch=branch(helper.make_node("Sin", ["h"], ["no_out"]), "no"),
            ),
        ],
        [("h", [4])],
        [("h_next", [4])],
        TensorProto.FLOAT,
    )
    nodes = [
        helper.make_node("Loop", ["steps", "", "h0"], ["last"], body=body),
        helper.make_node("ReduceSum", ["last"], ["loss"], keepdims=0),
    ]
    values = {k: RNG.normal(size=4).astype(np.float32) for k in ("h0", "w")}
    model = model_of(nodes, values)
    model.graph.initializer.extend([scalar(n, v, np.int64) for n, v in (("one", 1), ("two", 2), ("steps", 5))])
    _, grads = gradients(model, ["h0", "w"])
    h0, w = (torch.tensor(values[k], requires_grad=True) for k in ("h0", "w"))
    h = h0
    for i in range(5):
        h = h * w if i % 2 else torch.sin(h)
    h.sum().backward()
    np.testing.assert_allclose(grads[0], h0.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grads[1], w.grad.numpy(), rtol=1e-5, atol=1e-6)


def early_model(limit, dtype=np.float64, steps=9, go=True):
    """H = sin(h w) + h until its sum reaches the limit: the loss weighs every state and the last one."""
    kind = KINDS[np.dtype(dtype)]
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["h", "w"], ["hw"]),
            helper.make_node("Sin", ["hw"], ["s"]),
            helper.make_node("Add", ["s", "h"], ["h_next"]),
            helper.make_node("ReduceSum", ["h_next"], ["sum"], keepdims=0),
            helper.make_node("Less", ["sum", "limit"], ["go_on"]),
        ],
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("h", [3], kind)],
        [info("go_on", [], TensorProto.BOOL), info("h_next", [3], kind)],
    )
    nodes = [
        helper.make_node("Loop", ["steps", "go0", "h0"], ["last"], body=body),
        helper.make_node("ReduceSumSquare", ["last"], ["loss"], keepdims=0),
    ]
    values = {"h0": np.array([0.1, 0.2, 0.3]), "w": np.array([1.0, 0.7, 1.3])}
    model = model_of(nodes, {k: v.astype(dtype) for k, v in values.items()}, [info("limit", [], kind)])
    model.graph.initializer.extend([scalar("go0", go, np.bool_)])
    if steps is not None:
        model.graph.initializer.append(scalar("steps", steps, np.int64))
    else:
        model.graph.input.append(info("steps", [], TensorProto.INT64))
    return model


def early_torch(limit, steps=9, go=True):
    h0 = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, requires_grad=True)
    w = torch.tensor([1.0, 0.7, 1.3], dtype=torch.float64, requires_grad=True)
    h, runs = h0, 0
    while go and runs < steps:
        h = torch.sin(h * w) + h
        runs += 1
        go = bool(h.sum() < limit)
    h.square().sum().backward()
    return runs, h0.grad.numpy(), np.zeros(3) if w.grad is None else w.grad.numpy()


def test_a_loop_that_stops_early():
    """One program for all limits: the backward loop runs as often as the forward one did."""
    anchors = ["loss", "Gradient___h0", "Gradient___w"]
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    session = ready(training_session(early_model(0).SerializeToString(), "loss", optimizer, anchors=anchors))
    runs = set()
    for limit in (0.0, 2.0, 4.0, 6.0, 1e9):
        arrays = session.initAnchorArrays()
        session.run(popart.PyStepIO({"limit": np.array(limit)}, arrays))
        count, dh, dw = early_torch(limit)
        runs.add(count)
        np.testing.assert_allclose(arrays["Gradient___h0"], dh, rtol=1e-12)
        np.testing.assert_allclose(arrays["Gradient___w"], dw, rtol=1e-12)
    assert {1, 9} < runs
    assert len(runs) >= 3


def test_a_loop_that_does_not_start():
    model = early_model(1.0, go=False)
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    session = ready(
        training_session(model.SerializeToString(), "loss", optimizer, anchors=["Gradient___h0", "Gradient___w"])
    )
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"limit": np.array(1.0)}, arrays))
    np.testing.assert_allclose(arrays["Gradient___h0"], [0.2, 0.4, 0.6], rtol=1e-12)
    np.testing.assert_array_equal(arrays["Gradient___w"], 0)


@pytest.mark.parametrize("steps", [None, 2**62])
def test_a_loop_without_a_bound_is_refused(steps):
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    model = early_model(1.0, steps=steps).SerializeToString()
    with pytest.raises(popart.popart_exception, match=r"a bound of its iterations|at most 1048576"):
        training_session(model, "loss", optimizer, anchors=["Gradient___w"])


def test_dropout_keeps_its_mask_in_every_iteration():
    """h3 = h0 w m1 w m2 w m3: the gradient of sum(h3) for h0 is h3 / h0, zero where an element was dropped."""
    size = 64
    body = body_graph(
        [
            helper.make_node("Mul", ["h", "w"], ["hw"]),
            helper.make_node("Dropout", ["hw", "ratio", "training"], ["h_next"]),
        ],
        [("h", [size])],
        [("h_next", [size])],
        TensorProto.FLOAT,
    )
    nodes = [
        helper.make_node("Loop", ["steps", "", "h0"], ["last"], body=body),
        helper.make_node("ReduceSum", ["last"], ["loss"], keepdims=0),
    ]
    values = {"h0": RNG.uniform(1, 2, size).astype(np.float32), "w": RNG.uniform(1, 2, size).astype(np.float32)}
    model = model_of(nodes, values)
    model.graph.initializer.extend(
        [scalar("steps", 3, np.int64), scalar("ratio", 0.3, np.float32), scalar("training", True, np.bool_)]
    )
    loss, (dh, dw) = gradients(model, ["h0", "w"])
    kept = dh != 0
    assert 0 < kept.sum() < size
    np.testing.assert_allclose(loss, (dh * values["h0"]).sum(), rtol=1e-5)
    np.testing.assert_allclose(dh[kept], values["w"][kept] ** 3 / 0.7**3, rtol=1e-5)
    np.testing.assert_allclose(dw * values["w"], 3 * dh * values["h0"], rtol=1e-5)


class Recurrent(torch.nn.Module):
    """A recurrent classifier with a loop that the exporter keeps."""

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(12, 8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[1], 8)
        for i in range(x.shape[0]):
            h = torch.tanh(self.cell(torch.cat([x[i], h], dim=1)))
        return torch.softmax(self.head(h), 1)


@pytest.mark.filterwarnings("ignore")
def test_training_follows_torch():
    torch.manual_seed(2)
    network = Recurrent()
    batches = [(torch.randn(6, 7, 4), torch.randint(0, 3, (7,))) for _ in range(20)]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            torch.jit.script(network),
            (batches[0][0],),
            file,
            dynamo=False,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.TRAINING,
            opset_version=17,
            input_names=["input"],
            output_names=["output"],
        )
    model = file.getvalue()
    assert "Loop" in {node.op_type for node in onnx.load_from_string(model).graph.node}
    builder = popart.Builder(model)
    labels = builder.addInputTensor("INT32", [7], "labels")
    loss = builder.aiGraphcore.nllloss(["output", labels], popart.ReductionType.Mean)
    session = ready(
        training_session(
            builder.getModelProto(),
            loss,
            popart.SGD({"defaultLearningRate": (0.1, True), "defaultMomentum": (0.9, True)}),
            batches=len(batches),
        )
    )
    anchors = session.initAnchorArrays()
    inputs = np.stack([x.numpy() for x, _ in batches])
    targets = np.stack([y.numpy() for _, y in batches]).astype(np.int32)
    session.run(popart.PyStepIO({"input": inputs, "labels": targets}, anchors))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in batches:
        value = torch.nn.functional.nll_loss(network(x).log(), y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    np.testing.assert_allclose(anchors[loss], losses, rtol=1e-4)


@pytest.mark.parametrize("before", [True, False])
def test_popxl_repeat(before):
    def cell(h, w):
        return ops.gelu(h @ w)

    def fn(h, w):
        return ops.repeat(popxl.gcg().ir.create_graph(cell, h, w), 3, h, w)[0]

    h0, w0, dy = (v.astype(np.float32) for v in (H, U, D[0]))
    got = popxl_gradients(popxl.Ir(), fn, [h0, w0], dy, before)
    h, w = torch.tensor(h0, requires_grad=True), torch.tensor(w0, requires_grad=True)
    y = h
    for _ in range(3):
        y = torch.nn.functional.gelu(y @ w, approximate="tanh")
    y.backward(torch.tensor(dy))
    np.testing.assert_allclose(got[0], h.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], w.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_popxl_repeat_that_writes_its_input_is_refused():
    def cell(h: popxl.TensorByRef, w):
        ops.add_(h, w)

    def fn(h, w):
        y = h * 2.0
        ops.repeat(popxl.gcg().ir.create_graph(cell, y, w), 3, y, w)
        return y

    ir = popxl.Ir()
    with ir.main_graph:
        h, w = popxl.variable(H.astype(np.float32)), popxl.variable(H.astype(np.float32))
        graph = ir.create_graph(fn, h, w)
        with pytest.raises(popart_core.popart_exception, match="writes to one of its inputs"):
            autodiff(graph)
