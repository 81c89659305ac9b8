"""Batches in parts: the bits of the plain program, or those of sums over parts, in less memory."""

import contextlib
import itertools
import re

import numpy as np
import popart
import pytest

from tests.python.popart.test_recomputation import Case, Network, Standard, arena_of, session_of, train
from tests.python.popart.training_runs import inference_session, ready, training_session, types_of

Fwd, Bwd = popart.BatchSerializationTransformContext.Fwd, popart.BatchSerializationTransformContext.Bwd
Dynamic, Static = popart.BatchSerializationMethod.UnrollDynamic, popart.BatchSerializationMethod.UnrollStatic
Loop = popart.BatchSerializationMethod.Loop
SCHEDULES = popart.BatchSerializationBatchSchedule
METHODS = {"dynamic": Dynamic, "static": Static, "loop": Loop}
NETWORKS = ["mlp", "convolutions", "attention"]


def in_parts(factor=2, context=Fwd, method=Static, schedule=SCHEDULES.Isomorphic, joins=True):
    return popart.BatchSerializationSettings(factor, joins, joins, joins, context, method, schedule)


def case(optimizer="sgd", shape=None, settings=None, **parts):
    more = {"batchSerializationSettings": in_parts(**parts)} if parts else {}
    return Case(optimizer=optimizer, settings={"enableOutlining": False, **more, **(settings or {})}, **(shape or {}))


def inference(name, settings=None, build=None):
    """A network's result and planned memory."""
    network = Network()
    y = getattr(network, name)(**(build or {}))
    options = popart.SessionOptions()
    options.enableOutlining = False
    if settings:
        options.batchSerializationSettings = settings
    session = ready(inference_session(network.builder.getModelProto(), [y], options))
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(3)
    feeds = {}
    for tensor, shape in network.shapes.items():
        values = rng.integers(0, 5, shape) if tensor == "labels" else rng.normal(size=shape)
        feeds[tensor] = values.astype(np.int32 if tensor == "labels" else np.float32)
    session.run(popart.PyStepIO(feeds, anchors))
    arena = int(re.search(r"activations: (\d+)", session.getSummaryReport())[1])
    return anchors[y].tobytes(), arena, types_of(session)


ORDERS = [order for order in SCHEDULES if order.name != "N"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NETWORKS)
def test_inference_gives_the_bits_of_the_plain_program(name, method):
    plain, _, plain_ops = inference(name)
    for context, order in itertools.product((Fwd, Bwd), ORDERS):
        result, _, ops = inference(name, in_parts(context=context, method=METHODS[method], schedule=order))
        assert result == plain, (context, order)
        if method == "loop":
            assert "Loop" in ops
        else:
            product = "Conv" if name == "convolutions" else "MatMul"
            assert ops.count(product) == plain_ops.count(product) * 2
            assert ("DynamicSlice" if method == "dynamic" else "Slice") in ops


WIDE = {"width": 64, "layers": 6, "batch": 512}


@pytest.mark.parametrize("method", METHODS)
def test_planned_memory_falls_in_inference(method):
    _, plain, _ = inference("mlp", build=WIDE)
    for factor in (4, 8):
        _, arena, _ = inference("mlp", in_parts(factor, method=METHODS[method], joins=False), WIDE)
        samples = 512 * 64 * 4
        # in addition to whole inputs, two activations of one part, and the scores
        assert arena <= samples + 2 * samples / factor + 512 * 5 * 4 * 4, (arena, plain)
        assert arena < 0.9 * plain


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("name", NETWORKS)
def test_backward_context_trains_with_the_bits_of_the_plain_program(name, optimizer, tmp_path):
    expected = train(name, case(optimizer), tmp_path, steps=5)[:2]
    for method in METHODS.values():
        for schedule in ORDERS:
            parts = case(optimizer, context=Bwd, method=method, schedule=schedule)
            assert train(name, parts, tmp_path, steps=5)[:2] == expected, (method, schedule)


def assert_close(ours, plain):
    """Losses, or weights and state by name, of two programs: equal but for rounding."""
    pairs = zip(ours, plain, strict=True)
    if isinstance(plain, dict):
        assert list(ours) == list(plain)
        pairs = ((ours[name], plain[name]) for name in plain)
    for a, b in pairs:
        np.testing.assert_allclose(np.frombuffer(a, np.float32), np.frombuffer(b, np.float32), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("batch", "bits"), [(34, True), (32, False), (16, True)])
def test_data_gradients_of_few_rows_add_up_in_another_order(batch, bits, tmp_path):
    """Of at most 16 rows, where the whole batch has more; all methods in the same one (decision 0029)."""
    shape = {"build": {"width": 32, "layers": 3, "batch": batch}}
    plain = train("mlp", case("momentum", shape), tmp_path, steps=2)
    found = [train("mlp", case("momentum", shape, context=Bwd, method=m), tmp_path, steps=2) for m in METHODS.values()]
    assert all(cut[:2] == found[0][:2] for cut in found)
    assert found[0][0][0] == plain[0][0]
    assert_close(found[0][1], plain[1])
    if bits:
        assert found[0][:2] == plain[:2]


@pytest.mark.parametrize("shape", [{"batches": 2}, {"factor": 2}, {"replicas": 2}], ids=lambda s: next(iter(s)))
def test_same_bits_in_loops_and_replicas(shape, tmp_path):
    expected = train("mlp", case("momentum", shape), tmp_path, steps=3)[:2]
    for method in METHODS.values():
        found = train("mlp", case("momentum", shape, context=Bwd, method=method), tmp_path, steps=3)
        assert found[:2] == expected, method


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("method", ["dynamic", "static"])
def test_forward_context_adds_the_gradients_of_parts(name, optimizer, method, tmp_path):
    losses, state, _ = train(name, case(optimizer), tmp_path, steps=4)
    found = [
        train(name, case(optimizer, context=Fwd, method=METHODS[method], schedule=order), tmp_path, steps=4)[:2]
        for order in ORDERS
    ]
    assert found[0][0][0] == losses[0]  # before the first update nothing is summed in parts
    assert_close(found[0][0], losses)
    if optimizer != "adam":  # which makes steps of any size of gradients that are 0 but for rounding
        assert_close(found[0][1], state)
    assert all(cut == found[0] for cut in found)


def test_forward_context_with_recomputation_needs_less_memory():
    deep = {"width": 64, "layers": 12, "batch": 512}
    plain = arena_of("mlp", Case(build=deep))
    recomputed = arena_of("mlp", Case(Standard, build=deep))
    cut = Case(Standard, build=deep, settings={"batchSerializationSettings": in_parts(8, joins=False)})
    assert arena_of("mlp", cut) <= 0.75 * recomputed < plain


def test_gradient_anchors_are_whole():
    def trained(settings):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [6, 4], "x")
        w = builder.addInitializedInputTensor(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")
        h = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, w])])
        loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([h, w])], 0.5)
        ids = [loss, h, "Gradient___" + h, "Gradient___x", "Gradient___w"]
        options = popart.SessionOptions()
        if settings:
            options.batchSerializationSettings = settings
        session = ready(training_session(builder.getModelProto(), loss, popart.ConstSGD(0.1), options, ids))
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({x: np.linspace(-2, 2, 24, dtype=np.float32).reshape(6, 4)}, anchors))
        return [anchors[id].copy() for id in ids]

    plain = trained(None)
    for settings in (in_parts(3), in_parts(3, Bwd), in_parts(2, Fwd, Dynamic), in_parts(2, Bwd, Loop)):
        for ours, expected in zip(trained(settings)[:4], plain, strict=False):
            np.testing.assert_array_equal(ours, expected)


BORDERS = {  # between two layers: scopes of the builder, and options
    "VirtualGraph": (("virtualGraph",), {"virtualGraphMode": popart.VirtualGraphMode.Manual}),
    "ExecutionPhase": (("executionPhase",), {"virtualGraphMode": popart.VirtualGraphMode.ExecutionPhases}),
    "PipelineStage": (
        ("virtualGraph", "pipelineStage"),
        {"virtualGraphMode": popart.VirtualGraphMode.Manual, "enablePipelining": True},
    ),
}


def two_layers(border, **joins):
    """How many tensors are joined, and the result; two layers with a border between them, the batch in parts."""
    scopes, given = BORDERS[border]
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [4, 8], "x")
    for layer in range(2):
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(getattr(builder, scope)(layer))
            w = builder.addInitializedInputTensor(np.eye(8, dtype=np.float32) * (layer + 2))
            h = builder.aiOnnx.relu([builder.aiOnnx.matmul([h, w])])
    options = popart.SessionOptions()
    options.enableOutlining = False
    for name, value in given.items():
        setattr(options, name, value)
    if border == "ExecutionPhase":
        options.executionPhaseSettings.phases = 2
    options.batchSerializationSettings = in_parts(2, joins=False)
    for name, value in joins.items():
        setattr(options.batchSerializationSettings, name, value)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    session = ready(inference_session(builder.getModelProto(), [h], options, batches=3, device=device))
    anchors = session.initAnchorArrays()
    data = np.arange(96, dtype=np.float32).reshape(3, 4, 8)
    session.run(popart.PyStepIO({"x": data}, anchors))
    np.testing.assert_array_equal(anchors[h], 6 * data)
    return types_of(session).count("Concat")


@pytest.mark.parametrize("border", BORDERS)
def test_results_are_joined_where_asked_for(border):
    """The result is joined at the end, and at the border with its own flag alone."""
    assert two_layers(border) == 1
    for flag in BORDERS:
        own = flag == border or (flag == "VirtualGraph" and border == "PipelineStage")  # stages are on two of them
        assert two_layers(border, **{f"concatOn{flag}Change": True}) == 1 + own, flag


def test_batches_that_do_not_fall_into_parts_are_refused():
    for factor, batch in ((3, 8), (16, 8)):
        name = rf"factor: the batch of input 'x', axis 0 of .*, .*got {batch} samples and {factor} parts"
        with pytest.raises(popart.popart_exception, match=name):
            session_of("mlp", case(factor=factor))


def test_loops_in_the_forward_context_cannot_be_trained():
    with pytest.raises(popart.popart_exception, match="method Loop in the forward context cannot be differentiated"):
        session_of("mlp", case(method=Loop))


def test_negative_factors_are_refused():
    with pytest.raises(popart.popart_exception, match=r"batchSerializationSettings\.factor must not be negative"):
        session_of("mlp", case(factor=-2))


@pytest.mark.parametrize("context", [Fwd, Bwd])
@pytest.mark.parametrize("kind", ["lstm", "rnn", "graphcore_lstm"])
def test_the_batch_of_recurrent_layers_is_axis_1(kind, context):
    """Three steps of four samples: four samples fall into two parts, three do not."""
    rng = np.random.default_rng(3)
    steps, batch, width, hidden = 3, 4, 5, 6

    def result(batch, settings=None, training=False):
        builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        x = builder.addInputTensor("FLOAT", [steps, batch, width], "x")
        values = np.random.default_rng(5)

        def weight(*shape):
            return builder.addInitializedInputTensor(values.normal(size=shape).astype(np.float32))

        if kind == "graphcore_lstm":
            y = builder.aiGraphcore.lstm([x, weight(4, width + hidden, hidden), weight(4, hidden)], 1)[0]
        else:
            gates = 4 if kind == "lstm" else 1
            call = getattr(builder.aiOnnx, kind)
            y = call([x, weight(1, gates * hidden, width), weight(1, gates * hidden, hidden)], 3 if gates == 4 else 2)[
                0
            ]
        options = popart.SessionOptions()
        if settings:
            options.batchSerializationSettings = settings
        if training:
            loss = builder.aiGraphcore.l1loss([y], 0.5)
            sgd = popart.ConstSGD(0.1)
            session = ready(training_session(builder.getModelProto(), loss, sgd, options, [loss, y]))
        else:
            session = ready(inference_session(builder.getModelProto(), [y], options))
        anchors = session.initAnchorArrays()
        data = rng.normal(size=(2, steps, batch, width)).astype(np.float32)
        data[:] = np.random.default_rng(7).normal(size=data.shape)
        for run in range(2):
            session.run(popart.PyStepIO({"x": data[run]}, anchors))
        return anchors[y]

    for training in (False, True):
        plain = result(batch, training=training)
        np.testing.assert_allclose(result(batch, in_parts(context=context), training), plain, rtol=1e-4, atol=1e-6)
    with pytest.raises(popart.popart_exception, match=r"batch of input 'x', axis 1 of .*got 3 samples and 2 parts"):
        result(3, in_parts(context=context))
