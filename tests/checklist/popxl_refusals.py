"""What popxl.md (sections 2 to 12) says is refused: section, situation, exception class, a program.

A program gets an Ir whose main graph is current, and ends with the call that must refuse.
"""

import builtins
import functools
import operator

import numpy as np
import popxl
from popart import popart_exception
from popxl import TensorByRef, ops
from popxl.errors import UndefinedValue

from tests.checklist.popxl_programs import (
    FLOAT,
    Refusal,
    ambiguous,
    backwards,
    by_reference,
    closure,
    echo,
    empty_operand,
    float8,
    foreign,
    gone,
    hidden_order,
    in_graph,
    memory_map,
    nested,
    on_ipu,
    returns_outer,
    session,
    spec,
    unplaced,
    var,
    zeros,
)

BUILDING = [
    # 2. Ir
    Refusal("2", "Ir compared with something else", TypeError, lambda ir: ir == 3),
    Refusal("2", "Ir compared with something else by !=", TypeError, lambda ir: ir != None),  # noqa: E711
    Refusal(
        "2",
        "replication factor of a prepared Ir",
        RuntimeError,
        session(echo, lambda s, m: setattr(s.ir, "replication_factor", 2)),
    ),
    Refusal(
        "2",
        "instance replication factor is read only",
        AttributeError,
        lambda ir: setattr(ir, "instance_replication_factor", 2),
    ),
    Refusal("2", "graph whose Ir is gone", RuntimeError, lambda ir: gone(lambda ir: ir.main_graph).ir, inside=False),
    Refusal("2", "tensor whose Ir is gone", RuntimeError, lambda ir: gone(foreign).ir, inside=False),
    Refusal("2", "replication of text", TypeError, lambda ir: popxl.Ir(replication="many"), ("many", "popdist")),
    Refusal("2", "no replicas", ValueError, lambda ir: popxl.Ir(replication=0), ("0",)),
    # 3. Graph
    Refusal("3", "Graph()", TypeError, lambda ir: popxl.Graph()),
    Refusal(
        "3",
        "tensor that a graph does not have",
        popart_exception,
        lambda ir: ir.main_graph.get_tensor("nothing"),
        ("nothing",),
    ),
    Refusal("3", "something else in a graph", TypeError, lambda ir: "v" in ir.main_graph),
    Refusal("3", "Graph compared with something else", TypeError, lambda ir: ir.main_graph == ir),
    Refusal("3", "hook that is not there", ValueError, lambda ir: ir.main_graph.remove_op_created_hook(7), ("7",)),
    Refusal("3", "closure over an outer tensor", ValueError, lambda ir: closure(ir, var(2)), ("v",)),
    Refusal("3", "variable in a sub-graph", ValueError, in_graph(lambda x: popxl.variable(1.0), spec(2))),
    Refusal("3", "contexts of two Irs nested", RuntimeError, nested),
    *(
        Refusal("3", f"{name} without a current graph", RuntimeError, lambda ir, f=function: f(), inside=False)
        for name, function in {
            "variable": lambda: popxl.variable(1.0),
            "constant": lambda: popxl.constant(1.0),
            "graph_input": lambda: popxl.graph_input((), FLOAT),
            "h2d_stream": lambda: popxl.h2d_stream((), FLOAT),
            "d2h_stream": lambda: popxl.d2h_stream((), FLOAT),
            "remote_buffer": lambda: popxl.remote_buffer((), FLOAT),
            "get_current_graph": popxl.get_current_graph,
            "get_main_graph": popxl.gmg,
            "get_ir": popxl.get_ir,
            "ops.init": lambda: ops.init((2,), FLOAT),
        }.items()
    ),
    # 4. create_graph
    Refusal("4.1", "functools.partial", TypeError, in_graph(functools.partial(lambda a, x: x, 1), spec(2))),
    Refusal("4.2", "too few arguments", ValueError, in_graph(lambda x, y: x, spec(2))),
    Refusal("4.2", "unknown keyword", ValueError, lambda ir: ir.create_graph(lambda x: x, y=spec(2))),
    Refusal("4.4", "list of tensors and numbers", TypeError, in_graph(lambda x: None, [spec(2), 1])),
    Refusal("4.4", "tuple of tensors and numbers", TypeError, in_graph(lambda x: None, (1, spec(2)))),
    Refusal("4.4", "*args of tensors and numbers", TypeError, in_graph(lambda *x: None, spec(2), 1)),
    Refusal(
        "4.4",
        "**kwargs of tensors and numbers",
        TypeError,
        lambda ir: ir.create_graph(lambda **x: None, a=spec(2), b=1),
    ),
    Refusal(
        "4.4",
        "tensors of a plain dict are foreign",
        ValueError,
        lambda ir: ir.create_graph(lambda x, d: x + d["a"], spec(2), {"a": var(2)}),
        ("v",),
    ),
    Refusal("4.6", "returns a number", ValueError, in_graph(lambda x: 3, spec(2))),
    Refusal("4.6", "returns text", ValueError, in_graph(lambda x: "abc", spec(2))),
    Refusal("4.6", "returns a tensor of another graph", ValueError, lambda ir: returns_outer(ir, var(2)), ("v",)),
    # 5. tensors
    Refusal("5", "Tensor()", RuntimeError, lambda ir: popxl.Tensor()),
    Refusal("5", "Variable()", RuntimeError, lambda ir: popxl.tensor.Variable()),
    Refusal("5", "IPU of an unused variable", UndefinedValue, lambda ir: var(2).ipu),
    Refusal("5", "tile set of an unused variable", UndefinedValue, lambda ir: var(2).tile_set),
    Refusal("5", "diag of a vector", ValueError, lambda ir: var(2).diag()),
    Refusal("5", "diag of three dimensions", ValueError, lambda ir: var(2, 2, 2).diag()),
    Refusal("5", "copy_to_ipu of a variable without source", TypeError, lambda ir: var(2).copy_to_ipu(1)),
    Refusal("5", "length of a scalar", ValueError, lambda ir: len(var())),
    Refusal("5", "truth of a scalar", ValueError, lambda ir: builtins.bool(var())),
    Refusal("5", "iteration", TypeError, lambda ir: list(var(2))),
    Refusal("5", "in", TypeError, lambda ir: 1 in var(2)),
    Refusal("5", "NumPy function", TypeError, lambda ir: np.add(zeros(2), var(2))),
    *(
        Refusal("5", f"operator {name}", TypeError, lambda ir, f=function: f(var(2), var(2)))
        for name, function in {
            "<": lambda a, b: a < b,
            ">": lambda a, b: a > b,
            "<=": lambda a, b: a <= b,
            ">=": lambda a, b: a >= b,
            "//": lambda a, b: a // b,
            "abs": lambda a, b: abs(a),
        }.items()
    ),
    Refusal("5", "empty operand", ValueError, empty_operand),
    *(
        Refusal("5", f"operand {value!r}", TypeError, lambda ir, v=value: var(2) + v, ("must be numbers",))
        for value in (None, "2", [None, 1.0])
    ),
    Refusal("6", "variable of text", TypeError, lambda ir: popxl.variable("1.5", FLOAT), ("must be numbers", "str")),
    Refusal("6", "constant of nothing", TypeError, lambda ir: popxl.constant(None, FLOAT), ("must be numbers", "None")),
    *(
        Refusal("5", f"index {key!r}", TypeError, lambda ir, k=key: var(2, 3)[k])
        for key in (True, "a", None, Ellipsis, 1.0, (0, None), (Ellipsis, 0), [0.5])
    ),
    # 6. making tensors
    Refusal(
        "6",
        "wrong number of groups",
        popart_exception,
        lambda ir: popxl.variable(zeros(3, 2), replica_grouping=ir.replica_grouping(group_size=1)),
        ("2",),
        2,
    ),
    Refusal("6", "retrieval mode", ValueError, lambda ir: popxl.variable(1.0, retrieval_mode="some"), ("some",)),
    Refusal("6", "float8 constant without dtype", TypeError, lambda ir: popxl.constant(float8(2))),
    Refusal(
        "6",
        "sharded remote variable of one replica",
        ValueError,
        lambda ir: popxl.remote_replica_sharded_variable(zeros(2), popxl.remote_buffer((2,), FLOAT)),
    ),
    Refusal(
        "6",
        "remote variable used by an op",
        ValueError,
        lambda ir: popxl.remote_variable(zeros(2), popxl.remote_buffer((2,), FLOAT), name="far") + 1,
        ("far",),
    ),
    Refusal(
        "6",
        "shard_over above the group size",
        ValueError,
        lambda ir: popxl.replica_sharded_buffer((4,), FLOAT, shard_over=4),
        ("shard_over", "4", "2"),
        2,
    ),
    Refusal(
        "6",
        "shard_over no divisor",
        ValueError,
        lambda ir: popxl.replica_sharded_buffer((4,), FLOAT, shard_over=3),
        ("shard_over", "3", "4"),
        4,
    ),
    Refusal(
        "6",
        "buffer of another meta shape",
        ValueError,
        lambda ir: popxl.remote_replica_sharded_variable(zeros(2, 2), popxl.replica_sharded_buffer((4,), FLOAT)),
        ("(2, 2)", "(4,)"),
        2,
    ),
    Refusal("6", "output of another graph", ValueError, lambda ir: popxl.graph_output(foreign(ir))),
    Refusal("6", "output that is no tensor", TypeError, lambda ir: popxl.graph_output(3)),
    Refusal("6", "attribute of a TensorSpec", AttributeError, lambda ir: setattr(spec(2), "shape", (3,))),
    Refusal("6", "item of a TensorSpec", TypeError, lambda ir: operator.setitem(spec(2), "shape", (3,))),
    Refusal("6", "TensorByRef()", NotImplementedError, lambda ir: TensorByRef()),
    Refusal(
        "6",
        "by-ref inputs of a conditional",
        NotImplementedError,
        lambda ir: ops.conditional(
            popxl.constant(True), *2 * [ir.create_graph(by_reference, spec(2))], [var(2)], [var(2)]
        ),
    ),
    # 7. dtypes
    Refusal("7", "dtype()", TypeError, lambda ir: popxl.dtype()),
    Refusal("7", "from_name of an alias", ValueError, lambda ir: popxl.dtype.from_name("half"), ("half",)),
    Refusal(
        "7", "from_name of something else", ValueError, lambda ir: popxl.dtype.from_name("bfloat16"), ("bfloat16",)
    ),
    Refusal("7", "as_dtype of text", ValueError, lambda ir: popxl.dtype.as_dtype("no type"), ("no type",)),
    Refusal("7", "as_dtype of a dtype", ValueError, lambda ir: popxl.dtype.as_dtype(FLOAT)),
    Refusal("7", "as_dtype of an object", ValueError, lambda ir: popxl.dtype.as_dtype(object())),
    # 9. host data
    Refusal("9", "scale of another type", RuntimeError, lambda ir: popxl.utils.to_numpy(1.0, FLOAT, log2_scale=1)),
    Refusal("9", "overflow rule of another type", RuntimeError, lambda ir: popxl.variable(1.0, nan_on_overflow=False)),
    Refusal(
        "9", "whole numbers to float8", TypeError, lambda ir: popxl.variable(zeros(2, dtype=np.int32), popxl.float8_143)
    ),
    Refusal(
        "9",
        "memory map of another dtype",
        ValueError,
        lambda ir: popxl.variable(memory_map(np.float32), popxl.float16),
        ("dtype", "float16", "float32"),
    ),
    Refusal(
        "9",
        "memory map that needs downcasting",
        ValueError,
        lambda ir: popxl.variable(memory_map(np.float64)),
        ("dtype", "None"),
    ),
    Refusal("9", "memory map that is not contiguous", ValueError, lambda ir: popxl.variable(memory_map(np.float32).T)),
    Refusal(
        "9", "memory map that is not aligned", ValueError, lambda ir: popxl.variable(memory_map(np.float32, offset=1))
    ),
    # 10. streams
    Refusal("10", "Stream()", NotImplementedError, lambda ir: popxl.HostToDeviceStream()),
    Refusal("10", "DeviceToHostStream()", NotImplementedError, lambda ir: popxl.DeviceToHostStream()),
    # 11. context
    Refusal("11", "in_sequence(None)", TypeError, lambda ir: popxl.in_sequence(None).__enter__()),
    Refusal("11", "in_sequence of another value", ValueError, hidden_order, ("sideways",)),
    Refusal("11", "operands on two IPUs", ValueError, lambda ir: on_ipu(0) + on_ipu(1), ("IPUs", "on0", "on1")),
    Refusal("11", "contradictory order", popart_exception, session(lambda ir: backwards(ir))),
    Refusal("11", "in-place result of an unspecified order", popart_exception, session(lambda ir: ambiguous(ir))),
    Refusal("11", "copy from an unknown IPU", ValueError, lambda ir: unplaced().copy_to_ipu(1), ("source",)),
    # 12. Module
    Refusal("12", "module without build", NotImplementedError, lambda ir: popxl.Module()()),
]
