"""What popxl-addons.md (but for sections 19 to 21) says is refused: section, situation, exception class, a program.

A program gets an Ir whose main graph is current, and ends with the call that must refuse.
"""

import copy
import types

import numpy as np
import popxl
import popxl_addons as addons
from popart import popart_exception
from popxl import ops
from popxl_addons.dot_tree import DotTree
from popxl_addons.named_replica_grouping import (
    NamedReplicaGrouping,
    get_ild_replica_grouping,
    get_instance_replica_grouping,
)
from popxl_addons.named_tensors import NamedTensorData
from popxl_addons.patterns import apply_pre_alias_patterns
from popxl_addons.remote import NamedRemoteBuffers
from popxl_addons.rts import all_gather_replica_sharded_graph
from popxl_addons.transforms import pipelined_execution

from tests.checklist.popxl_programs import Refusal

SPEC = popxl.TensorSpec((3, 4), popxl.float32)


def ones(*shape):
    return np.ones(shape, np.float32)


def var(*shape, name=None):
    return popxl.variable(ones(*shape), name=name)


def tree():
    return DotTree.from_dict({"a": 1, "b.c": 2, "n.0": 3})


def on_tree(function):
    return lambda ir: function(tree())


def factory(data, **kwargs):
    return lambda ir: addons.VariableFactory(data, **kwargs)


class Plain(addons.Module):
    def build(self, x):
        return x * self.add_variable_input("w", lambda: ones(3, 4), x.dtype)


class ByHand(addons.Module):
    """A handwritten gradient that `grads` makes."""

    def __init__(self, grads=lambda module, dy: dy, **kwargs):
        super().__init__(**kwargs)
        self.grads = grads

    def build(self, x):
        self.aux["x"] = x
        return x * self.add_variable_input("w", lambda: ones(3, 4), x.dtype)

    def build_grad(self, dy):
        return self.grads(self, dy)


class Star(ByHand):
    def build_grad(self, *grads):
        return grads


class TwoGradients(ByHand):
    def build_grad(self, dy, dz):
        return dy


def graph_of(module):
    return module.create_graph(SPEC)[1]


def gradient(module, **choices):
    """Make the gradient graph, for the outputs and inputs that functions of the forward graph choose."""

    def program(ir):
        graph = graph_of(module())
        graph.autodiff(**{key: choose(graph.graph) for key, choose in choices.items()})

    return program


def states(name, value=lambda dy: dy):
    """A `build_grad` that states one gradient of a variable."""

    def grads(module, dy):
        module.var_grad[name] = value(dy)
        return dy

    return lambda: ByHand(grads)


def reassigned(ir):
    module = addons.Module()
    module.sub = Plain()
    module.sub = Plain()


class Early(addons.Module):
    def __init__(self):
        self.sub = Plain()


class Caller(addons.Module):
    def __init__(self, times=1, **kwargs):
        super().__init__()
        self.times, self.kwargs = times, kwargs

    def build(self, x):
        for _ in range(self.times):
            (x,) = self.call_module(ByHand(), **self.kwargs)(x)
        return x


def twice(ir):
    graph = graph_of(Plain())
    graph.autodiff()
    graph.autodiff()


def same_name(ir):
    class Repeats(addons.Module):
        def build(self, x):
            for _ in range(2):
                self.add_variable_input("w", lambda: ones(3), x.dtype)

    graph_of(Repeats())


def session(ir):
    x = var(2, name="x")
    y = ops.add(x, x)
    out = addons.host_store(y)
    return addons.TaskSession([], [out], addons.NamedTensors(x=x), ir=ir)


def unequal(ir):
    with ir.main_graph:
        own = session(ir)
    other = types.SimpleNamespace(get_named_tensors_data=lambda: NamedTensorData(z=ones(2)))
    own.load_from_session(other, "error")


def serial(handle=None, **kwargs):
    def program(ir):
        _, graph = Plain().create_graph(SPEC)
        x, w = graph.graph.inputs
        loads = {x: popxl.h2d_stream((3, 4), popxl.float32) if handle is None else handle}
        if kwargs.pop("loads_named", False):
            loads[w] = popxl.h2d_stream((3, 4), popxl.float32)
        addons.batch_serialise(graph, 2, loads, {}, {}, **{"io_mode": "compute", **kwargs})

    return program


def serial_without_gradient(ir):
    _, graph = Plain().create_graph(SPEC)
    bwd = addons.autodiff(graph)
    loads = {graph.graph.inputs[0]: popxl.h2d_stream((3, 4), popxl.float32)}
    addons.batch_serialise_fwd_and_grad(graph, bwd, graph.args, 2, loads, {}, {}, io_mode="compute")


def in_pipeline(body, steps=4, stages=2):
    def program(ir):
        x = var(2, name="x")
        with pipelined_execution(steps) as pipeline:
            with pipeline.stage(0):
                y = x + x
            for stage in range(1, stages):
                with pipeline.stage(stage):
                    x * x
            body(pipeline, x, y)

    return program


def stashed(stage, choose):
    def body(pipeline, x, y):
        with pipeline.stage(stage):
            pipeline.stash_and_restore_tensor(choose(x, y))

    return body


def two_processes(choose):
    """The part inside a process of a grouping of 8 replicas, 4 of them in this process."""

    def program(ir):
        ir._instances = 2
        ir.replication_factor = 4
        get_instance_replica_grouping(choose(ir))

    return program


REFUSALS = [
    # 2. Small utilities
    Refusal(
        "2",
        "weight of another dtype",
        ValueError,
        lambda ir: addons.WeightsDict({var(2): np.ones(2)}),
        ("float64", "float32"),
    ),
    Refusal(
        "2", "weight of another shape", ValueError, lambda ir: addons.WeightsDict({var(2): ones(3)}), ("(2,)", "(3,)")
    ),
    # 3. DotTree
    Refusal("3", "insert of a name that is there", ValueError, on_tree(lambda t: t.insert("a", 0)), ("a",)),
    Refusal("3", "dotted insert below a name that is there", ValueError, on_tree(lambda t: t.insert("b.x", 0)), ("b",)),
    Refusal("3", "insert of no identifier", ValueError, on_tree(lambda t: t.insert("x-y", 0)), ("x-y",)),
    Refusal("3", "insert of a negative number", ValueError, on_tree(lambda t: t.insert(-1, 0)), ("-1",)),
    Refusal("3", "get of a missing name", KeyError, on_tree(lambda t: t.get("q")), ("q", "b.c")),
    Refusal("3", "get of a missing number", KeyError, on_tree(lambda t: t.n.get(3)), ("3", "0")),
    Refusal("3", "get of a missing negative number", KeyError, on_tree(lambda t: t.n.get(-3)), ("0",)),
    Refusal("3", "get below a leaf", KeyError, on_tree(lambda t: t.get("a.x")), ("a",)),
    Refusal("3", "negative number without numbers", ValueError, on_tree(lambda t: t.b.get(-1))),
    Refusal("3", "missing attribute", AttributeError, on_tree(lambda t: t.q), ("q", "b.c")),
    Refusal("3", "pop of a number", AttributeError, on_tree(lambda t: t.n.pop(0))),
    Refusal("3", "pop of a missing name", KeyError, on_tree(lambda t: t.pop("b.q")), ("b.q",)),
    Refusal("3", "filter_keys with a repeated key", ValueError, on_tree(lambda t: t.filter_keys(["a", "a"]))),
    Refusal("3", "from_dict below a leaf", AttributeError, lambda ir: DotTree.from_dict({"a": 1, "a.b": 2}), ("a",)),
    Refusal("3", "from_dict of a repeated key", ValueError, lambda ir: DotTree.from_dict({"1": 1, 1: 2}), ("1",)),
    Refusal("3", "len of a tree", TypeError, on_tree(len)),
    Refusal("3", "iteration over a tree", KeyError, on_tree(list)),
    Refusal("3", "copy.copy", RecursionError, on_tree(copy.copy)),
    Refusal("3", "copy.deepcopy", RecursionError, on_tree(copy.deepcopy)),
    Refusal("3.1", "remap without a tensor", KeyError, lambda ir: addons.NamedTensors(a=var(2)).remap({})),
    # 4. Variable factories
    Refusal("4.1", "callable that fails", ValueError, factory(lambda: 1 / 0), ("data_iter",)),
    Refusal("4.1", "neither callable nor iterable", ValueError, factory(3), ("data_iter", "int")),
    Refusal("4.1", "no host tensor", ValueError, factory(object), ("data_iter", "object")),
    Refusal("4.1", "Python numbers", AttributeError, factory(lambda: 3.0)),
    Refusal("4.1", "lists", AttributeError, factory(lambda: [3.0])),
    Refusal("4.1", "more parts than replicas", AssertionError, factory(lambda: ones(4), shard_over=2)),
    Refusal(
        "4.1",
        "second variable of a one-shot iterable",
        StopIteration,
        lambda ir: [f.create_tensor() for f in [addons.VariableFactory(iter([ones(2)]), name="w")] * 2],
    ),
    Refusal(
        "4.3",
        "init_remote without a buffer",
        KeyError,
        lambda ir: Plain().create_graph(SPEC)[0].init_remote(NamedRemoteBuffers()),
        ("w",),
    ),
    # 5. Module
    Refusal("5", "cache and build_grad", ValueError, lambda ir: ByHand(cache=True), ("build_grad",)),
    Refusal(
        "5",
        "unknown grad_inlining_error",
        ValueError,
        lambda ir: addons.Module(grad_inlining_error="x"),
        ("'x'", "warning"),
    ),
    Refusal(
        "5",
        "inline call with build_grad",
        Exception,
        lambda ir: ir.create_graph(lambda x: ByHand()(x), SPEC),
        ("build_grad",),
    ),
    Refusal("5", "attribute assigned again", ValueError, reassigned, ("sub",)),
    Refusal("5", "sub-module before super().__init__()", AttributeError, lambda ir: Early(), ("super().__init__()",)),
    Refusal("5", "attribute that is not there", AttributeError, lambda ir: Plain().lienar, ("Plain", "lienar")),
    Refusal("5.1", "arguments that do not fit", ValueError, lambda ir: Plain().create_graph(SPEC, SPEC), ("Plain",)),
    Refusal(
        "5.1",
        "enclosing graph differentiated without the gradient graph",
        popart_exception,
        lambda ir: addons.autodiff(graph_of(Caller(autodiff="none"))),
        ("ByHand_subgraph(1)",),
    ),
    Refusal("5.2", "variable name used twice", ValueError, same_name, ("w",)),
    Refusal("5.2", "negative number as a name", ValueError, lambda ir: Plain().add_variable_inputs(-1, None), ("-1",)),
    Refusal("5.3", "iteration over no list", AttributeError, lambda ir: list(Plain())),
    Refusal("5.4", "build_grad that is not overridden", NotImplementedError, lambda ir: Plain().build_grad()),
    Refusal("5.4", "aux outside of build_grad", Exception, lambda ir: ByHand().aux["x"], ("x", "build_grad")),
    Refusal(
        "5.4",
        "var_grad outside of build_grad",
        Exception,
        lambda ir: states("w")().grads(ByHand(), var(2)),
        ("build_grad",),
    ),
    Refusal("5.4", "var_grad of no tensor", TypeError, gradient(states("w", lambda dy: 3)), ("w", "int")),
    Refusal("5.4", "var_grad of an unknown variable", KeyError, gradient(states("v")), ("v", "w")),
    Refusal(
        "5.4",
        "var_grad of another shape",
        ValueError,
        gradient(states("w", lambda dy: ops.sum(dy, 0))),
        ("(4,)", "(3, 4)"),
    ),
    Refusal("5.4", "star parameters", TypeError, gradient(Star), ("grads",)),
    Refusal("5.4", "number of parameters", ValueError, gradient(TwoGradients), ("dz",)),
    Refusal(
        "5.4",
        "create_grad_graph without build_grad",
        Exception,
        lambda ir: Plain().create_grad_graph(graph_of(Plain())),
        ("build_grad",),
    ),
    Refusal(
        "5.4",
        "provided gradient of no output",
        ValueError,
        gradient(ByHand, grads_provided=lambda g: g.inputs),
        ("grads_provided",),
    ),
    Refusal(
        "5.4",
        "provided gradient twice",
        ValueError,
        gradient(ByHand, grads_provided=lambda g: g.outputs * 2),
        ("grads_provided",),
    ),
    Refusal(
        "5.4",
        "required gradient of no input",
        ValueError,
        gradient(ByHand, grads_required=lambda g: g.outputs),
        ("grads_required",),
    ),
    Refusal(
        "5.4",
        "required gradient twice",
        ValueError,
        gradient(ByHand, grads_required=lambda g: g.inputs * 2),
        ("grads_required",),
    ),
    Refusal("5.4", "variable without gradient", Exception, gradient(ByHand), ("w", "var_grad")),
    Refusal("5.4", "too many gradients", Exception, gradient(lambda: ByHand(lambda m, dy: (dy, dy))), ("2", "1")),
    Refusal("5.4", "too few gradients", Exception, gradient(lambda: ByHand(lambda m, dy: None)), ("0", "1")),
    Refusal(
        "5.4",
        "gradient of another shape",
        ValueError,
        gradient(lambda: ByHand(lambda m, dy: ops.sum(dy, 0)), grads_required=lambda g: g.inputs[:1]),
        ("0", "(4,)"),
    ),
    Refusal("5.5", "two calls of one name", ValueError, lambda ir: graph_of(Caller(2, autodiff="none")), ("ByHand",)),
    # 6 and 7. Graphs
    Refusal("6", "missing inputs", ValueError, lambda ir: graph_of(Plain()).bind().call(var(3, 4)), ("w",)),
    Refusal("6", "subgraph_io_map without outs", TypeError, lambda ir: graph_of(Plain()).bind().subgraph_io_map()),
    Refusal("7", "no gradient graph", AttributeError, lambda ir: graph_of(Plain()).grad_graph_info),
    Refusal(
        "7", "unknown method", ValueError, lambda ir: graph_of(Plain()).autodiff(method="x"), ("'x'", "build_grad")
    ),
    Refusal("7", "autodiff twice", Exception, twice, ("force",)),
    Refusal(
        "7",
        "build_grad without one",
        Exception,
        lambda ir: graph_of(Plain()).autodiff(method="build_grad"),
        ("from_module",),
    ),
    # 9. Graph cache
    Refusal("9", "replica grouping as an argument", TypeError, lambda ir: addons.argument_hash(ir.replica_grouping())),
    Refusal("9", "array as an argument", TypeError, lambda ir: addons.argument_hash(ones(2))),
    # 11. Streams
    Refusal(
        "11", "missing attribute", AttributeError, lambda ir: addons.InputStreams(a=((), popxl.int32)).b, ("a", "b")
    ),
    Refusal("11", "missing key", KeyError, lambda ir: addons.OutputStreams(a=((), popxl.int32))["b"], ("a", "b")),
    # 12. TaskSession
    Refusal(
        "12",
        "data loader without its methods",
        ValueError,
        lambda ir: setattr(session(ir), "dataloader", object()),
        ("save", "resume"),
    ),
    Refusal("12", "names that differ", ValueError, unequal, ("x", "z"), inside=False),
    # 14. Remote buffers
    Refusal(
        "14",
        "elements that do not divide",
        ValueError,
        lambda ir: addons.create_remote_buffer(var(3)),
        ("(3,)", "2"),
        replicas=2,
    ),
    *[
        Refusal(
            "14",
            f"shard_over_dict: {given!r}",
            ValueError,
            lambda ir, given=given: addons.named_variable_buffers(Plain().create_graph(SPEC)[0], 1, given),
            ("w",),
            replicas=2,
        )
        for given in (0, 3, {"w": 3}, "2", 1.5, None)
    ],
    # 15. Replica groupings
    Refusal(
        "15",
        "processes that are grouped differently",
        ValueError,
        two_processes(lambda ir: ir.replica_grouping_from_assignments([0, 0, 1, 1, 2, 3, 2, 3])),
    ),
    Refusal(
        "15",
        "stride above a process",
        ValueError,
        two_processes(lambda ir: ir.replica_grouping(8, 1)),
        ("8", "4"),
    ),
    Refusal(
        "15",
        "stride above the link domain",
        ValueError,
        lambda ir: get_ild_replica_grouping(ir.replica_grouping(64, 2)),
        ("64",),
        replicas=128,
    ),
    # 16. Sharding
    Refusal(
        "16",
        "name without a grouping",
        KeyError,
        lambda ir: all_gather_replica_sharded_graph(
            addons.NamedTensors(a=var(2)), replica_groups=NamedReplicaGrouping()
        ),
        ("a",),
    ),
    # 17. Routes
    Refusal(
        "17",
        "tensor of no parent graph",
        ValueError,
        lambda ir: addons.route_tensor_into_graph(var(3, 4), graph_of(Plain()).graph),
        ("Plain_subgraph(0)",),
    ),
    # 18. Transforms
    *[
        Refusal("18.1", f"autodiff of a {what}", TypeError, lambda ir, make=make: addons.autodiff(make()), (what,))
        for what, make in (
            ("tuple", lambda: Plain().create_graph(SPEC)),
            ("NamedVariableFactories", lambda: Plain().create_graph(SPEC)[0]),
            ("Plain", Plain),
        )
    ],
    Refusal(
        "18.5",
        "no proportions",
        KeyError,
        lambda ir: (var(2, 2) @ var(2, 2)) and addons.set_available_memory_proportion_by_ipu(ir, []),
    ),
    Refusal("18.6", "handle of another kind", TypeError, serial(handle=3), ("int",)),
    Refusal("18.6", "no IO tiles", ValueError, serial(io_mode="io"), ("numIOTiles",)),
    Refusal("18.6", "no IO tiles, overlapped", ValueError, serial(io_mode="io_overlapped"), ("numIOTiles",)),
    Refusal("18.6", "unknown mode", ValueError, serial(io_mode="x"), ("'x'", "compute")),
    Refusal("18.6", "no rows", ValueError, serial(rows=0), ("rows", "0")),
    Refusal("18.6", "named argument that is loaded", KeyError, serial(loads_named=True)),
    Refusal("18.6", "gradient without a handle", ValueError, serial_without_gradient, ("load_handles",)),
    Refusal("18.7", "op outside of a stage", RuntimeError, in_pipeline(lambda p, x, y: x + y)),
    Refusal("18.7", "too few steps", ValueError, in_pipeline(lambda p, x, y: None, 3), ("3", "2")),
    Refusal(
        "18.7",
        "stash outside of a stage",
        RuntimeError,
        in_pipeline(lambda p, x, y: p.stash_and_restore_tensor(y)),
        ("stage",),
    ),
    Refusal("18.7", "stash of what no stage makes", RuntimeError, in_pipeline(stashed(1, lambda x, y: x))),
    Refusal("18.7", "stash in the same stage", TypeError, in_pipeline(stashed(0, lambda x, y: y))),
    # 22. Array munging
    Refusal(
        "22", "unshard2D of another number", AssertionError, lambda ir: addons.unshard2D(ones(3, 2, 2), 2, 2, 0, 1)
    ),
    Refusal(
        "22",
        "repeat_shard of an unknown order",
        ValueError,
        lambda ir: addons.repeat_shard(ones(4), 2, 2, 0, "x"),
        ("x",),
    ),
    Refusal("22", "tp above rf", ValueError, lambda ir: addons.tensor_parallel_input(ones(4), 4, 2), ("4", "2")),
    Refusal("22", "tp no divisor", ValueError, lambda ir: addons.tensor_parallel_input(ones(4), 3, 4), ("3", "4")),
    Refusal("22", "pad_axis to less", AssertionError, lambda ir: addons.pad_axis(ones(4), 3, 0)),
    Refusal("22", "axis of a scalar", IndexError, lambda ir: addons.handle_negative_axis(ones(), 0)),
    Refusal("22", "axis out of range", IndexError, lambda ir: addons.handle_negative_axis(ones(2), -2), ("-2",)),
    # 23. Performance and debugging
    Refusal("23", "unknown mode", ValueError, lambda ir: addons.print_FLOPs({"TOT": 0}, "x"), ("x",)),
    Refusal("23", "unknown form", ValueError, lambda ir: addons.format_flops_scientific(1, "x"), ("x",)),
    Refusal("23", "unknown level", KeyError, lambda ir: addons.print_tensor(var(2), level="x"), ("x",)),
    # 25. Patterns
    Refusal("25", "unknown level", KeyError, lambda ir: apply_pre_alias_patterns(ir, "x"), ("x",)),
]
