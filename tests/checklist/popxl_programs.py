"""What the tables of refusals of popxl are made of: the row, and programs that several rows use."""

import gc
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import popxl
from popxl import TensorByRef, TensorSpec, ops

FLOAT = popxl.float32


class Refusal(NamedTuple):
    """One row: `program` raises `exception`, and each of `names` stands in the message."""

    section: str
    situation: str
    exception: type[BaseException]
    program: Any
    names: tuple[str, ...] = ()
    replicas: int = 1
    inside: bool = True  # the main graph is current


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def var(*shape, dtype=np.float32, name="v", **more):
    return popxl.variable(zeros(*shape, dtype=dtype), name=name, **more)


def foreign(ir):
    """A tensor of another graph."""
    return ir.create_graph(lambda x: x, TensorSpec((2,), FLOAT)).inputs[0]


def spec(*shape, dtype=FLOAT):
    return TensorSpec(shape, dtype)


def gone(what):
    """What a function makes of an Ir that is not there any more."""
    made = what(popxl.Ir())
    gc.collect()
    return made


def nested(ir):
    with popxl.Ir().main_graph:
        pass


def in_graph(body, *specs):
    return lambda ir: ir.create_graph(body, *specs)


def session(build, use=lambda session: None, *, enter=True, **options):
    """Build, make a session, use it."""

    def program(ir):
        for name, value in options.items():
            setattr(ir, name, value)
        made = build(ir)

        session = popxl.Session(ir, "cpu")
        if not enter:
            return use(session, made)
        with session:
            return use(session, made)

    return program


def echo(ir, shape=(2,), dtype=FLOAT):
    """A program that returns its input and has a variable."""
    source, target = popxl.h2d_stream(shape, dtype, "in"), popxl.d2h_stream(shape, dtype, "out")
    ops.host_store(target, ops.host_load(source))
    v = var(3)
    ops.call(ir.create_graph(lambda x: x + 1, v.spec), v)
    return source, target, v


def memory_map(dtype, mode="w+", **more):
    folder = tempfile.mkdtemp()
    return np.memmap(Path(folder) / "data", dtype=dtype, mode=mode, shape=(4, 2), **more)


def read_only_map():
    path = Path(tempfile.mkdtemp()) / "data"
    np.zeros(2, np.float32).tofile(path)
    return np.memmap(path, np.float32, "r", shape=(2,))


def float8(*shape):
    return popxl.utils.to_numpy(zeros(*shape), popxl.float8_143)


def grad_info(ir):
    graph = ir.create_graph(lambda x: x * 2.0, spec(2))
    return graph, popxl.transforms.autodiff(graph)


def other_call(ir):
    x = var(2)
    return ops.call_with_info(ir.create_graph(lambda y: y + 1, spec(2)), x)


def modifying(ir):
    return ir.create_graph(lambda x, y: ops.add_(x, y), spec(2), spec(2))


def io_exchange(ir):
    source, target = popxl.h2d_stream((2,), FLOAT), popxl.d2h_stream((2,), FLOAT)
    with popxl.transforms.io_tile_exchange():
        ops.host_store(target, ops.host_load(source))


def replicated_input(ir):
    return session(echo, lambda s, m: s.run({m[0]: zeros(3, 2)}))(ir)


def on_ipu(number, shape=(2,)):
    with popxl.ipu(number):
        return ops.init(shape, FLOAT, f"on{number}")


def hidden_order(ir):
    with popxl.in_sequence("sideways"):
        ops.init((2,), FLOAT)


def closure(ir, outer):
    ir.create_graph(lambda x: ops.add(x, outer), spec(2))


def returns_outer(ir, outer):
    ir.create_graph(lambda x: outer, spec(2))


def by_reference(x: TensorByRef):
    return ops.add_(x, x)


def twice_(x):
    return x * 2.0


twice_.__qualname__ = "twice"


def twice(ir):
    return ir.create_graph(twice_, spec(2))


def site(ir):
    return ops.call_with_info(twice(ir), var(2))


def branches(ir):
    return ops.conditional_with_info(popxl.constant(True), twice(ir), twice(ir), [var(2)], [var(2)])


def unplaced():
    with popxl.ipu(None):
        return ops.init((2,), FLOAT)


def backwards(ir):
    """Two ops that must each run before the other."""
    first = var(2) + 1
    second = first + 1
    graph = ir.main_graph._pb_graph
    graph.addConstraint(second._pb_tensor.getProducer().id, first._pb_tensor.getProducer().id)
    return second


def ambiguous(ir):
    v = var(2)
    with popxl.in_sequence(False):
        ops.add_(v, popxl.constant(zeros(2)))
        return v * v


def irregular(ir):
    return ir.replica_grouping_from_assignments([0, 0, 1, 0, 1, 1])


def partials(ir):
    ir._pb_ir.getSessionOptions().partialsTypeMatMuls = "double"
    ops.matmul(var(2, 2), var(2, 2))


def modifying_call(ir):
    inner = ir.create_graph(by_reference, spec(2))
    return ir.create_graph(lambda x, y: ops.call(inner, x)[0] * y, spec(2), spec(2))


def empty_operand(ir):
    var(2) + []  # noqa: RUF005
