"""Names, ids, counters and printed text."""

import numpy as np
import popxl
import popxl.ops as ops
from popxl import TensorSpec, float32


def schedule(graph: popxl.Graph, names: dict | None = None) -> str:
    return graph._pb_graph.printSchedule({t.id: n for n, t in (names or {}).items()})


def test_tensor_ids_count_clashes():
    ir = popxl.Ir()
    with ir.main_graph:
        assert popxl.variable(0.5, name="gain").id == "gain"
        assert popxl.variable(0.6, name="gain").id == "gain__t0"
        assert popxl.constant(3).id == "t"
        assert popxl.constant(4).id == "t__t1"
        assert popxl.variable(0.7, name="gain").id == "gain__t2"
        with popxl.name_scope("dec"):
            assert popxl.variable(0.8, name="gain").id == "dec/gain"
        sub = ir.create_empty_graph("f")
        with sub:
            assert popxl.graph_input((2,), float32, "gain").id == "f_subgraph(0)/gain"
        assert popxl.h2d_stream((1,), float32, "gain").tensor_id == "gain__t3"


def test_graph_names():
    ir = popxl.Ir()

    def inner(x: popxl.Tensor) -> popxl.Tensor:
        return ops.relu(x)

    class Layer(popxl.Module):
        def build(self, x: popxl.Tensor) -> popxl.Tensor:
            return ops.relu(x)

    spec = TensorSpec((2,), float32)
    assert ir.create_graph(inner, spec).id == "test_graph_names.inner_subgraph(0)"
    assert ir.create_graph(Layer(), spec).id == "test_graph_names.Layer_subgraph(1)"
    assert ir.create_graph(lambda x: ops.relu(x), spec).id == "test_graph_names.<lambda>_subgraph(2)"
    assert ir.create_empty_graph().id == "graph_subgraph(3)"
    assert repr(ir.main_graph) == "Graph[id= name=]"
    assert repr(ir) == f"Ir[id={ir.id}]"


def head(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
    return ops.relu(x @ w)


def test_schedules_of_a_graph_and_its_caller():
    ir = popxl.Ir()
    graph = ir.create_graph(head, TensorSpec((3, 5), float32), TensorSpec((5, 2), float32))
    assert schedule(graph, {"kernel": graph.inputs[1]}) == (
        "Graph : head_subgraph(0)\n"
        "  (%1, kernel=%2) -> (%4) {\n"
        "    MatMul.100 (%1 [(3, 5) float32], %2 [(5, 2) float32]) -> (%3 [(3, 2) float32])\n"
        "    Relu.101 (%3 [(3, 2) float32]) -> (%4 [(3, 2) float32])\n"
        "  }"
    )
    with ir.main_graph:
        s = popxl.h2d_stream((3, 5), float32, "feat")
        k = popxl.variable(np.zeros((5, 2), np.float32), name="k")
        x = ops.host_load(s, "x")
        (y,) = ops.call(graph, x, k)
        ops.host_store(popxl.d2h_stream(y.shape, y.dtype, "out"), y)
    assert y.id == "relu_out"
    assert {t.id for t in ir.main_graph.tensors} == {"feat", "k", "x_init", "x_hostload", "relu_out", "out"}
    assert schedule(ir.main_graph) == (
        "Graph : \n"
        "  () -> () {\n"
        "    Init.102 () -> (%1 [(3, 5) float32])\n"
        "    HostLoad.103 (%1 [(3, 5) float32]) -> (%2 [(3, 5) float32])\n"
        "    Call.104(head_subgraph(0)) (%2 [(3, 5) float32], %3 [(5, 2) float32]) -> (%4 [(3, 2) float32])\n"
        "    HostStore.105 (%4 [(3, 2) float32]) -> ()\n"
        "  }"
    )


def test_empty_schedule():
    assert schedule(popxl.Ir().main_graph) == "Graph : \n  () -> () {\n    \n  }"


def step(v: popxl.Tensor) -> popxl.Tensor:
    return v * 2.0 + 1


def test_repeat_names_and_schedule():
    ir = popxl.Ir()
    graph = ir.create_graph(step, TensorSpec((4,), float32))
    assert schedule(graph) == (
        "Graph : step_subgraph(0)\n"
        "  (%1) -> (%5) {\n"
        "    Mul.100 (%1 [(4,) float32], %2 [() float32]) -> (%3 [(4,) float32])\n"
        "    Add.101 (%3 [(4,) float32], %4 [() float32]) -> (%5 [(4,) float32])\n"
        "  }"
    )
    assert [t.id for t in graph.constants] == ["step_subgraph(0)/t", "step_subgraph(0)/t__t0"]
    with ir.main_graph:
        x = popxl.variable(np.zeros(4, np.float32), name="x")
        (r,) = ops.repeat(graph, 6, x)
    assert r.name == "add_out__t2"
    line = "    Loop.103(step_subgraph(0)__loop_wrapper_subgraph(1)) (%1 [(4,) float32]) -> (%2 [(4,) float32])"
    assert line in schedule(ir.main_graph).splitlines()


def test_derived_output_names():
    ir = popxl.Ir()
    with ir.main_graph:
        h = popxl.variable(np.zeros((2, 3), np.float32), name="h")
        assert h.reshape((6,)).name == "h_reshaped"
        assert h.T.name == "h_T"
        assert [t.name for t in ops.split(h, 3, 1)] == ["h_split_0", "h_split_1", "h_split_2"]
        assert ops.cast(h, popxl.float16).name == "h_float16"
        assert ops.identity(h).name == "identity_h"
        assert ops.scaled_add_(h, h).name == "scaled_add__h"
        with popxl.name_scope("dec"):
            inner = popxl.variable(np.zeros((2,), np.float32), name="h")
            assert inner.reshape((2, 1)).name == "dec/dec/h_reshaped"


def test_text_of_objects():
    ir = popxl.Ir()
    with ir.main_graph:
        gain = popxl.variable(0.5, name="gain")
        stream = popxl.h2d_stream((8, 8), float32, "img")
    assert repr(gain) == "Tensor[gain popxl.dtypes.float32 ()]"
    assert str(stream) == "HostToDeviceStream Tensor[img popxl.dtypes.float32 (8, 8)]"
    assert repr(popxl.half) == "popxl.dtypes.float16"
    assert repr(TensorSpec((2, 4), popxl.int32)) == "TensorSpec(shape=(2, 4), dtype=popxl.dtypes.int32, meta_shape=())"
    grouping = popxl.Ir(replication=6).replica_grouping(3, 2)
    assert repr(grouping) == "ReplicaGrouping(num_replicas=6, stride=3, group_size=2, num_groups=3)"
