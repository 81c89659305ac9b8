"""Statements of popart-ir-legacy.md: what popart.ir does in another way than popxl."""

import numpy as np
import popart
import popart.ir as pir
import popart.ir.ops as ops
import popart.ir.transforms.autodiff as differentiation
import pytest
from popart.ir.remote_buffer_handle import RemoteBufferHandle

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def ir():
    ir = pir.Ir()
    with ir.main_graph():
        yield ir


def var(value=X, name="v"):
    return pir.variable(value, name=name)


def run(ir, *tensors):
    streams = [pir.d2h_stream(t.shape, t.dtype) for t in tensors]
    for stream, t in zip(streams, tensors, strict=True):
        ops.host_store(stream, t)
    program = ir._pb_ir
    program.setDataFlow(popart.DataFlow(1, {s.tensor_id(): popart.AnchorReturnType("All") for s in streams}))
    program.removeIsolatedTensors(True)
    program.updateVertices()
    program.logIr()
    session = popart.InferenceSession.fromIr(ir=program, deviceInfo=popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.weightsFromHost()
    session.run(popart.PyStepIO({}, anchors))
    return [anchors[s.tensor_id()].reshape(s.shape) for s in streams]


def test_text(ir):
    gain = pir.variable(0.5, name="gain")
    assert repr(gain) == str(gain) == "Tensor[name=gain type=popart.ir.dtypes.float32 shape=()]"
    assert repr(pir.half) == "popart.ir.dtypes.float16" and pir.float is pir.float32
    stream = pir.h2d_stream((2,), pir.float32, "img")
    assert str(stream) == "HostToDeviceStream Tensor[name=img type=popart.ir.dtypes.float32 shape=(2,)]"
    graph = ir.create_empty_graph("plain")
    assert repr(graph) == "Graph[id=plain name=plain]" and repr(ir) == f"Ir[id={ir.id}]"
    assert ir.create_empty_graph().id == "graph"


def test_comparisons(ir):
    main = ir.main_graph()
    assert ir != 3 and not ir == "x" and main != 3 and 3 not in main and var() in main  # noqa: SIM201


def test_types(ir):
    dtypes = [pir.variable(v).dtype for v in (1, 1.0, True, np.ones(2), np.ones(2, np.int64), np.ones(2, np.uint64))]
    assert dtypes == [pir.int32, pir.float32, pir.bool, pir.float32, pir.int32, pir.uint32]
    assert pir.variable(1.0, dtype=pir.float64).dtype == pir.float64
    assert pir.dtype.as_dtype(np.float16) is pir.float16 and pir.int8.as_numpy() == np.int8
    v = pir.variable(3, dtype=pir.int8)
    total = v + 1
    assert total.dtype == pir.int8 and [c.dtype for c in ir.main_graph().get_constants()] == [pir.int8]


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t + 1,
        lambda t: t - t,
        lambda t: t * 2,
        lambda t: t / 4,
        lambda t: t @ X.T if isinstance(t, np.ndarray) else t @ pir.constant(X.T),
        lambda t: -t,
        lambda t: t[1],
        lambda t: t[1:3],
        lambda t: t[::-1],
        lambda t: t[1, 2],
        lambda t: t[-2:],
        lambda t: t.T,
        lambda t: t.reshape((4, 3)),
    ],
)
def test_operators_and_indices(ir, function):
    (got,) = run(ir, function(var()))
    np.testing.assert_allclose(got, function(X), rtol=1e-6)


@pytest.mark.parametrize("key", [[0, 1], np.array([0]), "a", 1.5, None])
def test_other_indices_are_refused(ir, key):
    with pytest.raises(IndexError):
        var()[key]


def test_gather_by_an_index(ir):
    (got,) = run(ir, var()[pir.constant(np.array([2, 0], np.int32))])
    np.testing.assert_array_equal(got, X[[2, 0]])


def test_the_length_of_a_scalar(ir):
    with pytest.raises(IndexError):
        len(pir.variable(1.0))


def test_streams_need_the_main_graph(ir):
    with ir.create_empty_graph(), pytest.raises(ValueError, match="main graph"):
        pir.h2d_stream((2,), pir.float32)


def test_graphs_of_functions(ir):
    v, w = var(name="v"), var(name="w")
    seen = {}

    def build(x, *rest, flag, key=None):
        seen.update(rest=rest, flag=flag, key=key)
        return x + rest[0]

    graph = ir.create_graph(build, v, w, flag=[1], key=v)
    assert [t.name for t in graph.get_input_tensors()] == ["x", "w", "key"] and seen["flag"] == [1]
    with pytest.raises(ValueError, match="same tensor"):
        ir.create_graph(lambda a, b: a + b, v, v)
    with pytest.raises(TypeError):
        ir.create_graph(lambda a: a, v, w)
    with pytest.raises(TypeError):
        ir.create_graph("no function")


def test_pipeline_stages_and_placement(ir):
    with pir.virtual_graph(1), pir.pipeline_stage(2), pir.io_tiles(), pir.name_scope("s"):
        t = ops.init((2,), pir.float32, "x")
    op = t._pb_tensor.getProducer()
    assert op.getVirtualGraphId() == 1 and op.isIoTiles() and t.name == "s/x"


def test_call_sites(ir):
    v = var()
    graph = ir.create_graph(lambda a, b: a + b, v, var(name="w"))
    a, b = graph.get_input_tensors()
    info = ops.call_with_info(graph, v, subgraph_in_to_parent_in={b: v})
    assert info.called_graph is graph and info.get_op_input_tensor(0) is v
    assert info.subgraph_to_op_tensor(a) is v and info.op_in_to_subgraph_in_tensor(v) is a
    assert info.get_output_tensors() == (info.get_op_output_tensor(0),)
    assert info.subgraph_in_to_op_in_index(1) == info.op_in_to_subgraph_in_index(1) == 1
    assert info.subgraph_out_to_op_out_index(0) == info.op_out_to_subgraph_out_index(0) == 0
    with pytest.raises(ValueError):
        ops.call(graph, v)
    with pytest.raises(ValueError):
        ops.call(graph, v, v, v)
    with pytest.raises(TypeError):
        ops.call(graph, v, 1.0)


def test_loops(ir):
    graph = ir.create_graph(lambda a: a * 2, var())
    (got,) = run(ir, ops.repeat(graph, 3, ir.main_graph().get_tensor("v")))
    np.testing.assert_array_equal(got, 8 * X)


def test_loops_carry_every_input(ir):
    v = var()
    graph = ir.create_graph(lambda a, b: a + b, v, var(name="w"))
    with pytest.raises(ValueError, match="equal"):
        ops.repeat(graph, 3, v, v)
    with pytest.raises(ValueError, match="more than 1"):
        ops.repeat(ir.create_graph(lambda a: a, v), 1, v)


@pytest.mark.parametrize("by_mapping", [True, False])
def test_what_a_loop_changes_in_place(ir, by_mapping):
    v = var()
    graph = ir.create_empty_graph("body")
    with graph, pir.in_sequence():
        a = pir.subgraph_input(v.shape, v.dtype, "a")
        pir.subgraph_output(ops.var_updates.accumulate_(a, pir.constant(np.ones_like(X))))
    with pir.in_sequence():
        result = ops.repeat(graph, 3, subgraph_in_to_parent_in={a: v}) if by_mapping else ops.repeat(graph, 3, v)
        got, after = run(ir, result, v)
    np.testing.assert_array_equal(got, X + 3)
    np.testing.assert_array_equal(after, X + 3 if by_mapping else X)


def test_what_a_loop_reads_by_mapping_stays(ir):
    v = var()
    graph = ir.create_graph(lambda a: a * 2, v)
    with pir.in_sequence():
        got, after = run(ir, ops.repeat(graph, 3, subgraph_in_to_parent_in={graph.get_input_tensors()[0]: v}), v)
    np.testing.assert_array_equal(got, 8 * X)
    np.testing.assert_array_equal(after, X)


def test_iteration(ir):
    for got, row in zip(run(ir, *var()), X, strict=True):
        np.testing.assert_array_equal(got, row)


def test_tensors_of_two_ipus(ir):
    with pir.virtual_graph(0):
        a = var() + 1
    with pir.virtual_graph(1):
        b = var(name="w") + 2
        result = a + b
    (got,) = run(ir, result)
    np.testing.assert_array_equal(got, 2 * X + 3)


def test_members_of_enumerations_are_asked_for(ir):
    v, labels = var(), pir.constant(np.array([1, 2, 0], np.int32))
    with pytest.raises(TypeError, match="reducing"):
        ops.matmul(v, v, serialise_mode="reducing")
    with pytest.raises(popart.popart_exception, match="serialise_factor 0"):
        ops.matmul(v, v.T, serialise_mode=ops.SerialiseMode.ReducingDim, serialise_factor=0)
    with pytest.raises(TypeError, match="ReductionType"):
        ops.nll_loss_with_softmax_grad(v, labels, 1, "mean")
    with pytest.raises(TypeError, match="CollectiveOperator"):
        ops.collectives.replicated_all_reduce(v, "add")


def test_gradients(ir):
    v = var()
    graph = ir.create_graph(lambda x: x * x, v)
    info = differentiation.autodiff(graph)
    assert info.get_output_tensors() == graph.get_input_tensors() and len(info.get_input_tensors()) == 3
    site = ops.call_with_info(graph, v)
    inputs = differentiation.get_expected_forward_inputs_from_call(site, info)
    gradient = ops.call(info.graph, pir.constant(np.ones_like(X)), subgraph_in_to_parent_in=inputs)
    (got,) = run(ir, gradient)
    np.testing.assert_array_equal(got, 2 * X)


def test_serialised_products(ir):
    v, w = var(), pir.constant(X.T.copy())
    products = [ops.matmul(v, w, serialise_mode=mode, serialise_factor=f) for mode, f in (
        (ops.SerialiseMode.ReducingDim, 2), (ops.SerialiseMode.InputChannels, 3), (ops.SerialiseMode.OutputChannels, 3),
    )]  # fmt: skip
    with pytest.raises(popart.popart_exception, match="3"):
        ops.matmul(v, w, serialise_mode=ops.SerialiseMode.ReducingDim, serialise_factor=3)
    for got in run(ir, *products):
        np.testing.assert_allclose(got, X @ X.T)


def test_losses_of_the_older_order(ir):
    p = pir.variable(np.full((2, 4), 0.25, np.float32))
    labels = pir.constant(np.array([1, 2], np.int32))
    losses = [
        ops.nll_loss_with_softmax_grad(p, labels, 1, reduction)[0]
        for reduction in (popart.ReductionType.Mean, popart.ReductionType.Sum, popart.ReductionType.NoReduction)
    ]
    mean, total, each = run(ir, *losses)
    np.testing.assert_allclose([mean, total], [np.log(4), 2 * np.log(4)], rtol=1e-6)
    np.testing.assert_allclose(each, [np.log(4)] * 2, rtol=1e-6)


def test_remote_buffer_handles(monkeypatch):
    monkeypatch.setattr(RemoteBufferHandle, "_buffers", {})
    first, second = RemoteBufferHandle(), RemoteBufferHandle(tensor_shape=(2,), tensor_dtype=pir.float32, repeats=3)
    assert (first.remote_buffer_id, second.remote_buffer_id) == (1, 2) and RemoteBufferHandle(1) is first
    assert first.tensor_shape is None and second.tensor_shape == (2,) and second.repeats == 3
    assert RemoteBufferHandle(2).repeats == 3
    first.tensor_shape = (4,)
    with pytest.raises(ValueError, match="shape"):
        first.tensor_shape = (5,)
    with pytest.raises(ValueError, match="dtype"):
        second.tensor_dtype = pir.float16
    with pytest.raises(ValueError, match="repeats"):
        second.repeats = 0
    with pytest.raises(NotImplementedError):
        RemoteBufferHandle(-1)


OPERATORS = {
    "%": lambda x: x % x, "**": lambda x: x**x, "&": lambda x: x & x, "|": lambda x: x | x, "~": lambda x: ~x,
    "1 +": lambda x: 1.0 + x, "1 -": lambda x: 1.0 - x, "2 *": lambda x: 2.0 * x, "1 /": lambda x: 1.0 / x,
    "array @": lambda x: X @ x, "array +": lambda x: X + x,
}  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_of_popxl_alone(ir, operator):
    with pytest.raises(TypeError):
        OPERATORS[operator](var())


def test_augmented_addition_changes_nothing_in_place(ir):
    first = total = var()
    total += first
    assert total is not first
    np.testing.assert_array_equal(run(ir, first, total), [X, 2 * X])
