"""What popxl-printing-and-naming.md says is printed or named how: section, what, a program, its text.

A program gets a new Ir whose main graph is current and returns the text, or a list of texts.
"""

from typing import Any, NamedTuple

import numpy as np
import popxl
from popxl import TensorByRef, TensorSpec, ops

FLOAT = popxl.float32


class Printed(NamedTuple):
    """One row; `text` None: the default text of Python objects."""

    section: str
    what: str
    program: Any
    text: Any
    replicas: int = 1


def spec(*shape, dtype=FLOAT):
    return TensorSpec(shape, dtype)


def var(*shape, name="v", dtype=np.float32):
    return popxl.variable(np.zeros(shape, dtype), name=name)


def function(body, qualname):
    body.__qualname__ = qualname
    return body


F = function(lambda gain: gain * 2.0, "f")
HEAD = function(lambda x, w: ops.relu(x @ w), "head")
STEP = function(lambda v: v * 2.0 + 1, "step")


def f(ir):
    return ir.create_graph(F, spec(2))


def named(ir, qualname):
    return ir.create_graph(function(lambda x: x, qualname), spec(2)).id


def head(ir):
    return ir.create_graph(HEAD, spec(3, 5), spec(5, 2))


def schedule(graph, **names):
    return graph._pb_graph.printSchedule({t.id: name for name, t in names.items()}).split("\n")


def gain(ir):
    return popxl.variable(0.5, name="gain")


def out(function):
    """Name of the result of a function of a (2, 3) float32 variable `x`."""

    def program(ir):
        result = function(var(2, 3, name="x"))
        return result.name if isinstance(result, popxl.Tensor) else [t.name for t in result]

    return program


def in_a_scope(ir):
    with popxl.name_scope("dec"):
        return var(2, 3, name="h").reshape((6,)).id


def loads(ir):
    ops.host_load(popxl.h2d_stream((2,), FLOAT), "x")
    buffer = popxl.remote_buffer((2,), FLOAT)
    ops.remote_load(buffer, 0, "y")
    ops.remote_load(buffer, 0)
    return [t.name for t in ir.main_graph.tensors]


def calls(ir):
    graph = head(ir)
    x, w = var(3, 5, name="x"), var(5, 2, name="w")
    names = [ops.call(graph, x, w)[0].name for _ in range(2)]
    same = ir.create_graph(lambda given: given, spec(2))
    return [*names, ops.call(same, var(2))[0].name]


def repeats(ir):
    graph = ir.create_graph(function(lambda a, b: (a + b, a * b), "two"), spec(2), spec(2))
    p, q = var(2, name="p"), var(2, name="q")
    with popxl.name_scope("ignored"):
        site = ops.repeat_with_info(graph, 2, p, q)
    wrapper = site.called_graph
    return [
        [t.name for t in site.outputs],
        wrapper.id,
        [t.name for t in wrapper.inputs],
        [t.name.split("__t")[0] for t in wrapper.outputs],
    ]


def conditional(ir):
    then, other = ir.create_graph(lambda x: x + 1, spec(2)), ir.create_graph(lambda x: x * 2.0, spec(2))
    return ops.conditional(popxl.constant(True), then, other, [var(2)], [var(2)])[0].name


def gradients(ir):
    graph = head(ir)
    info = popxl.transforms.autodiff(graph)
    again = popxl.transforms.autodiff(graph)
    return [
        info.graph.id,
        [t.name for t in info.graph.inputs],
        [t.name for t in info.graph.outputs],
        again.graph.id.startswith(f"{graph.id}_bwd_"),
    ]


def extra_outputs(ir):
    graph = ir.create_graph(function(lambda x, w: ops.gelu(x @ w), "head"), spec(3, 5), spec(5, 2))
    site = ops.call_with_info(graph, var(3, 5), var(5, 2))
    popxl.transforms.autodiff(graph)
    return [[t.name for t in graph.outputs], [t.name.rstrip("0123456789") for t in site.outputs]]


def provided_and_used(ir):
    graph = ir.create_graph(function(lambda x: (lambda y: (y, y * 2.0))(ops.relu(x)), "g"), spec(2))
    names = [t.name for t in popxl.transforms.autodiff(graph).graph.tensors]
    return any(n.startswith("Gradient___relu_out__t") for n in names)


def caller(ir):
    graph = head(ir)
    s = popxl.h2d_stream((3, 5), FLOAT, "feat")
    k = var(5, 2, name="k")
    x = ops.host_load(s, "x")
    (y,) = ops.call(graph, x, k)
    ops.host_store(popxl.d2h_stream(y.shape, y.dtype, "out"), y)
    return [*schedule(ir.main_graph), [t.id for t in ir.main_graph.tensors]]


def shared(ir):
    inner = function(lambda x: ops.relu(ops.tanh(x)), "inner")

    def outer(x):
        x = ops.exp(x + x)
        graph = ir.create_graph(inner, spec(2))
        (y,) = ops.call(graph, x)
        return ops.call(graph, ops.tanh(y))[0]

    graph = ir.create_graph(function(outer, "outer"), spec(2))
    return [line.split(" (")[0].strip() for line in schedule(graph)[2:-1]]


def loop(ir):
    graph = ir.create_graph(STEP, spec(4))
    (r,) = ops.repeat(graph, 6, var(4, name="x"))
    return [*schedule(graph)[2:-1], [c.id for c in graph.constants], *schedule(ir.main_graph)[2:-1], r.name]


def index(ir):
    x = var(4, 6, name="x")
    x[1, ::2]
    return [line.split(" (")[0].strip() + line.rsplit("[", 1)[1] for line in schedule(ir.main_graph)[2:-1]]


def branches(ir):
    conditional(ir)
    return [line.strip().split("(")[0] for line in schedule(ir.main_graph)[2:-1]]


def gradient_of_branches(ir):
    graph = ir.create_graph(lambda x: ops.conditional(popxl.constant(True), f(ir), f(ir), [x], [x])[0], spec(2))
    return [line.strip().split(".")[0] for line in schedule(popxl.transforms.autodiff(graph).graph)[2:-1]]


def grad_schedule(ir):
    graph = ir.create_graph(lambda x: ops.call(ir.create_graph(STEP, spec(4)), x)[0], spec(4))
    lines = schedule(popxl.transforms.autodiff(graph).graph)
    return [line.strip().startswith("Call.") and "subgraph" not in line for line in lines if "Call." in line]


def adam(decay, rate):
    def program(ir):
        def body(w: TensorByRef, m: TensorByRef, v: TensorByRef, n: TensorByRef, lr):
            u = ops.var_updates.adam_updater(m, v, weight=w, weight_decay=decay, time_step=n, beta1=0.8, beta2=0.95)
            ops.scaled_add_(w, u, b=-lr if rate is None else rate)

        half = spec(3, 5, dtype=popxl.float16)
        return schedule(ir.create_graph(function(body, "step"), spec(3, 5), half, spec(3, 5), spec(), spec()))

    return program


def exchange(ir):
    a, b = popxl.h2d_stream((2,), FLOAT, "a"), popxl.h2d_stream((3,), FLOAT, "b")
    with popxl.transforms.merge_exchange():
        ops.host_load(a), ops.host_load(b)
    return schedule(ir.main_graph)[2:-1]


def op_names(ir):
    with popxl.name_scope("dec"):
        y = var(2, 2) @ var(2, 2)
    (z,) = ops.call(head(ir), var(3, 5), var(5, 2))
    return [t._pb_tensor.getProducer().name() for t in (y, z)]


def counts_of_a_new_ir():
    ir = popxl.Ir()
    stack = popxl.context.get_current_context()
    held, stack._graphs, stack._irs = (stack._graphs, stack._irs), [], []
    try:
        graph = ir.create_graph(HEAD, spec(3, 5), spec(5, 2))
        with graph:
            names = [popxl.constant(1).name, popxl.constant(2).name]
    finally:
        stack._graphs, stack._irs = held
    return [graph.id, *names, graph._pb_graph.getOpIds()]


def counters(ir):
    popxl.constant(1), popxl.constant(2)
    ir.create_graph(HEAD, spec(3, 5), spec(5, 2))
    return counts_of_a_new_ir()


FORMS = [
    Printed("1", "each Ir counts from the start", counters, ["head_subgraph(0)", "t", "t__t0", [100, 101]]),
    # 2. graphs
    Printed("2", "main graph", lambda ir: [ir.main_graph.id, ir.main_graph.name], ["", ""]),
    Printed("2", "function", lambda ir: [f(ir).id, f(ir).id], ["f_subgraph(0)", "f_subgraph(1)"]),
    Printed("2", "local function", lambda ir: named(ir, "outer.<locals>.inner"), "outer.inner_subgraph(0)"),
    Printed("2", "lambda", lambda ir: named(ir, "<lambda>"),
            "<lambda>_subgraph(0)"),
    Printed("2", "empty graphs", lambda ir: [ir.create_empty_graph("body").id, ir.create_empty_graph().id],
            ["body_subgraph(0)", "graph_subgraph(1)"]),
    # 3. tensors
    Printed("3", "reshape in a scope", in_a_scope, "dec/dec/h_reshaped"),
    Printed("3", "add", out(lambda x: x + 1), "add_out"),
    Printed("3", "matmul", out(lambda x: x @ x.T), "matmul_out"),
    Printed("3", "gelu", out(ops.gelu), "gelu_out"),
    Printed("3", "reshape", out(lambda x: x.reshape((6,))), "x_reshaped"),
    Printed("3", "transpose", out(lambda x: x.T), "x_T"),
    Printed("3", "split", out(lambda x: ops.split(x, 2)), ["x_split_0", "x_split_1"]),
    Printed("3", "cast", out(lambda x: ops.cast(x, popxl.float16)), "x_float16"),
    Printed("3", "copy to an IPU", out(lambda x: x.copy_to_ipu(1, 0)), "x_c1"),
    Printed("3", "identity", out(ops.identity), "identity_x"),
    Printed("3", "scaled_add_", out(lambda x: ops.scaled_add_(x, x)), "scaled_add__x"),
    Printed("3", "accumulate_", out(lambda x: ops.var_updates.accumulate_(x, x)), "accumulate__x"),
    Printed("3", "copy_var_update_", out(lambda x: ops.var_updates.copy_var_update_(x, x + 1)), "updated__x"),
    Printed("3", "all reduce", out(lambda x: ops.collectives.replicated_all_reduce(x)), "x_all_reduce", 2),
    Printed("3", "loads", loads, [
        "h2d_stream", "id_1_offset_offset__t0_remote_load", "id_1_offset_offset__t0_remote_loaded", "offset",
        "offset__t0", "x_hostload", "x_init", "y_remote_load", "y_remote_loaded",
    ]),
    Printed("3", "calls", calls, ["relu_out", "relu_out__t0", "given"]),
    Printed("3", "loops", repeats, [
        ["add_out__t1", "mul_out__t3"], "two_subgraph(0)__loop_wrapper_subgraph(1)",
        ["Iterator___", "LoopCond___", "p", "q"], ["LoopCond___", "add_out", "mul_out"],
    ]),
    Printed("3", "conditionals", conditional, "add_out_or_mul_out"),
    Printed("3", "gradient graphs", gradients, [
        "head_subgraph(0)_bwd", ["Gradient___relu_out", "relu_out", "w", "x"], ["Gradient___x", "Gradient___w"], True,
    ]),
    Printed("3", "outputs that autodiff adds", extra_outputs,
            [["gelu_out", "matmul_out"], ["gelu_out", "autodiff_output__t"]]),
    Printed("3", "provided gradient with inner contributions", provided_and_used, True),
    Printed("3", "names of ops", op_names, ["dec/matmul", "--call--head_subgraph(0)"]),
    # 4. text of objects
    Printed("4", "dtype", lambda ir: [repr(popxl.half), str(popxl.bool)],
            ["popxl.dtypes.float16", "popxl.dtypes.bool"]),
    Printed("4", "variable", lambda ir: [repr(t := gain(ir)), str(t)], 2 * ["Tensor[gain popxl.dtypes.float32 ()]"]),
    Printed("4", "constant", lambda ir: repr(popxl.constant(1, name="c")), "Tensor[c popxl.dtypes.int32 ()]"),
    Printed("4", "tensor", lambda ir: repr(f(ir).inputs[0]), "Tensor[f_subgraph(0)/gain popxl.dtypes.float32 (2,)]"),
    Printed("4", "TensorSpec", lambda ir: repr(spec(2, 4, dtype=popxl.int32)),
            "TensorSpec(shape=(2, 4), dtype=popxl.dtypes.int32, meta_shape=())"),
    Printed("4", "graph", lambda ir: [repr(f(ir)), repr(ir.main_graph)],
            ["Graph[id=f_subgraph(0) name=f_subgraph(0)]", "Graph[id= name=]"]),
    Printed("4", "h2d stream", lambda ir: str(popxl.h2d_stream((8, 8), FLOAT, "img")),
            "HostToDeviceStream Tensor[img popxl.dtypes.float32 (8, 8)]"),
    Printed("4", "d2h stream", lambda ir: str(popxl.d2h_stream((8, 8), FLOAT, "img")),
            "DeviceToHostStream Tensor[img popxl.dtypes.float32 (8, 8)]"),
    Printed("4", "repr of a stream", lambda ir: popxl.h2d_stream((8, 8), FLOAT), None),
    Printed("4", "regular grouping", lambda ir: repr(ir.replica_grouping(3, 2)),
            "ReplicaGrouping(num_replicas=6, stride=3, group_size=2, num_groups=3)", 6),
    Printed("4", "irregular grouping", lambda ir: repr(ir.replica_grouping_from_assignments([0, 0, 1, 0, 1, 1])),
            "ReplicaGrouping(assignment=[0, 0, 1, 0, 1, 1])", 6),
    Printed("4", "connection type", lambda ir: str(popxl.transforms.ExpectedConnectionType.Fwd),
            "ExpectedConnectionType.Fwd"),
    Printed("4", "connection", lambda ir: repr(popxl.transforms.autodiff(f(ir)).expected_inputs[0]),
            "(ExpectedConnectionType.FwdGrad, Tensor[f_subgraph(0)/mul_out popxl.dtypes.float32 (2,)])"),
    Printed("4", "GradGraphInfo", lambda ir: repr(popxl.transforms.autodiff(
        ir.create_graph(function(lambda x: ops.relu(x), "f"), spec(2)))).split("\n"), [
        "GradGraphInfo[", "  graph=f_subgraph(0)_bwd", "  expected_inputs=[",
        "    (ExpectedConnectionType.FwdGrad, Tensor[f_subgraph(0)/relu_out popxl.dtypes.float32 (2,)])",
        "    (ExpectedConnectionType.Fwd, Tensor[f_subgraph(0)/relu_out popxl.dtypes.float32 (2,)])",
        "  ]", "  expected_outputs=[",
        "    (ExpectedConnectionType.FwdGrad, Tensor[f_subgraph(0)/x popxl.dtypes.float32 (2,)])", "  ]", "]",
    ]),
    Printed("4", "CallSiteInfo", lambda ir: ops.call_with_info(f(ir), var(2)), None),
    Printed("4", "Session", lambda ir: (ops.init((2,), FLOAT), popxl.Session(ir))[1], None),
    Printed("4", "RemoteBuffer", lambda ir: popxl.remote_buffer((2,), FLOAT), None),
    Printed("4", "Module", lambda ir: popxl.Module(), None),
    # 5 and 6. schedules
    Printed("5", "empty graph", lambda ir: schedule(ir.main_graph), ["Graph : ", "  () -> () {", "    ", "  }"]),
    Printed("5", "conditional", branches, ["If.102 "]),
    Printed("5", "calls of gradient graphs", grad_schedule, [True]),
    Printed("5", "gradient of a conditional", gradient_of_branches, ["IfGrad", "Sum"]),
    Printed("5", "merged exchanges", exchange, [
        "    Init.100 () -> (%1 [(2,) float32])",
        "    Init.102 () -> (%2 [(3,) float32])",
        "    MultiExchange.104 (%1 [(2,) float32], %2 [(3,) float32]) -> (%3 [(2,) float32], %4 [(3,) float32])",
    ]),
    Printed("6.1", "graph with parameters", lambda ir: schedule(g := head(ir), kernel=g.inputs[1]), [
        "Graph : head_subgraph(0)",
        "  (%1, kernel=%2) -> (%4) {",
        "    MatMul.100 (%1 [(3, 5) float32], %2 [(5, 2) float32]) -> (%3 [(3, 2) float32])",
        "    Relu.101 (%3 [(3, 2) float32]) -> (%4 [(3, 2) float32])",
        "  }",
    ]),
    Printed("6.2", "main graph calling it", caller, [
        "Graph : ",
        "  () -> () {",
        "    Init.102 () -> (%1 [(3, 5) float32])",
        "    HostLoad.103 (%1 [(3, 5) float32]) -> (%2 [(3, 5) float32])",
        "    Call.104(head_subgraph(0)) (%2 [(3, 5) float32], %3 [(5, 2) float32]) -> (%4 [(3, 2) float32])",
        "    HostStore.105 (%4 [(3, 2) float32]) -> ()",
        "  }",
        ["feat", "k", "out", "relu_out", "x_hostload", "x_init"],
    ]),
    Printed("6.3", "shared sub-graph built in the middle", shared,
            ["Add.100", "Exp.101", "Call.104(inner_subgraph(1))", "Tanh.105", "Call.106(inner_subgraph(1))"]),
    Printed("6.4", "scalars and repeat", loop, [
        "    Mul.100 (%1 [(4,) float32], %2 [() float32]) -> (%3 [(4,) float32])",
        "    Add.101 (%3 [(4,) float32], %4 [() float32]) -> (%5 [(4,) float32])",
        ["step_subgraph(0)/t", "step_subgraph(0)/t__t0"],
        "    Loop.103(step_subgraph(0)__loop_wrapper_subgraph(1)) (%1 [(4,) float32]) -> (%2 [(4,) float32])",
        "add_out__t2",
    ]),
    Printed("6.4", "index", index,
            ["Slice.100(1, 6) float32])", "Subsample.101(1, 3) float32])", "Reshape.102(3,) float32])"]),
    Printed("6.6", "optimiser step", adam(0.0, None), [
        "Graph : step_subgraph(0)",
        "  (%1, %2, %3, %4, %5) -> () {",
        "    AdamUpdater.100 (%2 [(3, 5) float16], %3 [(3, 5) float32], %4 [() float32]) -> (%6 [(3, 5) float16])",
        "    Neg.101 (%5 [() float32]) -> (%7 [() float32])",
        "    ScaledAddLhsInplace.102 (%1 [(3, 5) float32], %6 [(3, 5) float16], %7 [() float32])"
        " -> (%8 [(3, 5) float32])",
        "  }",
    ]),
    Printed("6.6", "optimiser step with a number", lambda ir: adam(0.0, -0.02)(ir)[-2],
            "    ScaledAddLhsInplace.101 (%1 [(3, 5) float32], %6 [(3, 5) float16]) -> (%7 [(3, 5) float32])"),
    Printed("6.6", "optimiser step with decay", lambda ir: adam(0.1, -0.02)(ir)[2],
            "    AdamUpdater.100 (%1 [(3, 5) float32], %2 [(3, 5) float16], %3 [(3, 5) float32], %4 [() float32])"
            " -> (%6 [(3, 5) float32])"),
]  # fmt: skip

# types of operators in schedules; MultiExchange is printed for several
OP_TYPES = """
Add Sub Mul Div MatMul Reshape Transpose Slice Subsample Concat Split Gather PopartTiedGather Scatter ScatterReduce
OneHot TopK ArgMax ArgMin CumSum Cast Neg Abs Exp Log Sqrt Tanh Relu Gelu GeluErf Swish Softmax Sin Cos Ceil Floor Sign
Clip Identity IsNaN IsInf Not And Or Equal Greater Max Where Pow Fmod IncrementMod ReduceSum ReduceMean ReduceMax
ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare ReduceMedian Dropout ShapedDropout
GroupNormalization BatchNormalization Conv ConvTranspose AveragePool MaxPool Resize Nll
NlllWithSoftmaxGradDirect RandomUniform RandomNormal ModifyRandomSeed Init HostLoad HostStore RemoteLoad
RemoteLoadInplace RemoteStore RemoteCodeLoad IpuCopy IoTileCopy PrintTensor Detach ScaledAdd Call Loop If Accumulate
AccumulatorScale PopartSparseAccumulate AdamUpdater AdamVarUpdate CopyVarUpdate LambSquare AllReduce ReplicatedAllReduce
ReplicatedAllGather ReplicatedReduceScatter DynamicSlice DynamicUpdate Histogram Pow2ScaleThenCast CastThenPow2Scale
AddLhsInplace ScaledAddLhsInplace ReluInplace GeluInplace GeluErfInplace ExpInplace SwishInplace ReshapeInplace
TransposeInplace SliceInplace ConcatInplace DetachInplace IncrementModInplace DynamicUpdateInplace
ReplicatedAllReduceInplace
Sum AddArg0Grad AddArg1Grad SubArg0Grad SubArg1Grad MulArg0Grad MulArg1Grad DivArg0Grad DivArg1Grad PowArg0Grad
PowArg1Grad FmodArg0Grad MatMulLhsGrad MatMulRhsGrad ReshapeGrad TransposeGrad SliceGrad ConcatGrad SplitGrad GatherGrad
TiedGatherGrad ReluGrad GeluGrad GeluErfGrad TanhGrad SoftmaxGrad ExpGrad LogGrad SqrtGrad NegGrad CastGrad
ReduceSumGrad ReduceMeanGrad WhereXGrad WhereYGrad DropoutGrad GroupNormalizationGrad NllGrad UnaryZeroGrad ConvDataGrad
ConvWeightsGrad MaxPoolGrad AveragePoolGrad AllReduceGrad ScatterReduceGradOp
"""
