"""`popart._internal.ir`, `popart_core` and the private parts of popxl have the names that programs use."""

import enum
import functools
import importlib
import sys

import numpy as np
import popart
import popart._internal.ir as _ir
import popart_core
import popxl
import popxl.ops as ops
import pytest

from tests.checklist import internal_ir as sheet


def resolve(root, name):
    return functools.reduce(getattr, name.split("."), root)


def find(path):
    """A name by its dotted path through packages, modules and classes."""
    for cut in range(path.count(".") + 1, 0, -1):
        module = ".".join(path.split(".")[:cut])
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        rest = path.split(".")[cut:]
        return functools.reduce(getattr, rest, sys.modules[module])
    raise AssertionError(path)


@pytest.mark.parametrize(("owner", "name"), [(row[1], name) for row in sheet.MEMBERS for name in row[2].split()])
def test_member(owner, name):
    assert hasattr(resolve(_ir, owner), name)


@pytest.mark.parametrize("name", sheet.NAMES.split())
def test_name(name):
    resolve(_ir, name)


@pytest.mark.parametrize(("path", "name"), [(row[1], name) for row in sheet.PRIVATE for name in row[2].split()])
def test_private_name(path, name):
    assert hasattr(find(path), name)


@pytest.mark.parametrize(("name", "members"), [row[1:] for row in sheet.CORE])
def test_enumeration_of_the_core(name, members):
    assert all(hasattr(getattr(popart_core, name), member) for member in members.split())


def test_the_core_has_what_popart_has():
    kinds = (enum.Enum, Exception)
    shared = [
        n for n, v in vars(popart).items() if isinstance(v, type) and issubclass(v, kinds) and hasattr(popart_core, n)
    ]
    assert len(shared) > 40 and all(getattr(popart, n) is getattr(popart_core, n) for n in shared)


@pytest.mark.parametrize(("name", "make"), sheet.CLASSES)
def test_class_of_an_op(name, make):
    ir = popxl.Ir()
    with ir.main_graph:
        make(types(), popxl.variable(np.ones((4, 4), np.float32), name="x"))
    cls = getattr(_ir.op, name)
    assert isinstance(ir.main_graph._pb_graph.getOps()[-1], cls)
    assert not any(isinstance(op, _ir.op.LoopOp) for op in ir.main_graph._pb_graph.getOps())


class types:
    """`popxl.ops`, where a type may be given by its name."""

    def __getattr__(self, name):
        function = getattr(ops, name)
        return lambda *args, **kwargs: function(
            *[getattr(popxl, a) if isinstance(a, str) else a for a in args], **kwargs
        )


def test_objects():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones(2, np.float32), name="x")
        x + 1
    assert isinstance(ir._pb_ir, _ir.Ir) and isinstance(x._pb_tensor, _ir.Tensor)
    assert isinstance(ir.main_graph._pb_graph, _ir.Graph) and ir.main_graph._by_ref_inputs == set()
    assert ir.main_graph._ir is ir.main_graph.ir is ir
    ir.of_a_program = 3  # any attribute
    with popxl.Session(ir, "cpu") as session:
        session._pb_session.setEngineIsLoaded(False)


def test_expected_connections_there_and_back():
    graph = popxl.Ir().create_graph(lambda x: x * x, popxl.TensorSpec((2,), popxl.float32))
    for connection in (info := popxl.transforms.autodiff(graph)).expected_inputs + info.expected_outputs:
        assert connection._pb_ec.fwdId == connection.fwd_tensor.id
        assert type(connection)._from_pb(graph, connection._pb_ec) == connection
        assert type(connection)._from_pb(graph._pb_graph, connection._pb_ec) == connection
