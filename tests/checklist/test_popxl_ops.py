"""Names, signatures, printed operators and refusals of popxl.ops are those of its reference sheet."""

import functools
import inspect
import re

import numpy as np
import popart_core
import popxl
import popxl_addons as addons
import pytest
from popxl import TensorByRef, TensorSpec, ops

from tests.checklist import popxl_ops as sheet
from tests.checklist import popxl_ops_refusals as refusals

MODULES = {"ops": ops, "v": ops.var_updates, "c": ops.collectives}
FUNCTIONS = [(m, name, parameters) for _, m, names, parameters in sheet.CALLS for name in names.split()]


@pytest.mark.parametrize(("module", "name", "parameters"), FUNCTIONS)
def test_signature(module, name, parameters):
    expected = inspect.signature(eval(f"lambda {parameters}: None", {"popxl": popxl}))
    got = inspect.signature(getattr(MODULES[module], name))
    assert [(p.name, p.kind, p.default) for p in got.parameters.values()] == [
        (p.name, p.kind, p.default) for p in expected.parameters.values()
    ]


@pytest.mark.parametrize(("module", "names"), sheet.UNEXPORTED)
def test_names_of_modules(module, names):
    found = functools.reduce(getattr, module.split("."), popxl)
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_every_public_function_is_on_the_sheet():
    listed = {(MODULES[m], name) for m, name, _ in FUNCTIONS} | {(ops, "CallSiteInfo")}
    public = {
        (module, name)
        for module in MODULES.values()
        for name in module.__all__
        if not inspect.ismodule(getattr(module, name)) and inspect.isfunction(getattr(module, name))
    }
    own = {(ops.collectives, name) for name in ("to_collective_op", "replicated_all_to_all", "replicated_broadcast")}
    assert public - listed - own == set()


class Program:
    """A graph with the tensors of the sheet as inputs, in which its calls are made."""

    def __init__(self):
        self.ir = ir = popxl.Ir(replication=1)
        spec = TensorSpec((2, 3, 4), popxl.float32)
        self.names = {"ops": ops, "v": ops.var_updates, "c": ops.collectives, "popxl": popxl, "np": np}
        self.names |= {
            function.__name__: ir.create_graph(function, spec) for function in (callee, other, twice, flat, changing)
        }
        with ir.main_graph:
            self.names["buffer"] = popxl.remote_buffer((2, 3, 4), popxl.float32, 4)
            self.names["foreign"] = popxl.variable(np.ones((2, 3, 4), np.float32), name="foreign")
            self.names["stream_in"] = popxl.h2d_stream((2, 3, 4), popxl.float32, "stream_in")
            self.names["stream_out"] = popxl.d2h_stream((2, 3, 4), popxl.float32, "stream_out")
        self.graph = self.names["graph"] = ir.create_empty_graph("program")
        with self.graph:
            for name, dtype, shape in [*sheet.TENSORS, ("yes", "bool", ())]:
                self.names[name] = popxl.graph_input(shape, getattr(popxl, dtype), name)

        self.names["branching"] = self.branching

    def branching(self):
        """Return the call site of a conditional."""
        call = (self.names[name] for name in ("yes", "callee", "other"))
        return ops.conditional_with_info(*call, [self.names["x"]], [self.names["y"]])

    def __call__(self, call):
        with self.graph, popxl.in_sequence():
            return eval(call, self.names)

    def printed(self):
        """Types of the operators in a printed schedule."""
        lines = addons.GraphWithNamedArgs(self.graph).print_schedule().splitlines()[2:-1]
        return [re.match(r"\s*(\w+)\.\d+", line)[1] for line in lines if line.strip()]


def callee(x):
    return ops.rename(x, "callee_out")


def other(x):
    return ops.rename(x, "other_out")


def flat(x):
    return ops.flatten(x)


def twice(x):
    return x + x, x * x


def changing(x: TensorByRef):
    return ops.relu_(x)


@pytest.mark.parametrize(("types", "results", "call"), [row[1:] for row in sheet.PRINTED])
def test_printed(types, results, call):
    program = Program()
    program(call)
    assert program.printed() == types.split()
    operators = list(program.graph._pb_graph.getOps())
    if operators and results != "?":
        last = [program.graph.get_tensor(i).name for i in operators[-1].getOutputIds()]
        assert last == results.split()


@pytest.mark.parametrize(("constants", "call"), [row[1:] for row in sheet.CONSTANTS])
def test_constants(constants, call):
    program = Program()
    program(call)
    made = ", ".join(f"{t.name} {t.dtype.name}" for t in program.graph.constants)
    assert made == constants


@pytest.mark.parametrize("call", [row[0] for row in refusals.PLACED])
def test_tensors_on_different_ipus(call):
    program = Program()
    for number, name in enumerate("pq"):
        with popxl.ipu(number):
            program.names[name] = program(f"ops.exp({'xy'[number]})")
            for dtype in ("bool", "int32", "uint32"):
                program.names[f"{name}_{dtype}"] = program(f"ops.cast({name}, popxl.{dtype})")
    with pytest.raises(ValueError, match="ipu"):
        program(call)


ERRORS = {"PE": popart_core.popart_exception, "TypeError": TypeError, "ValueError": ValueError, "KeyError": KeyError,
          "IndexError": IndexError, "NotImplementedError": NotImplementedError}  # fmt: skip


@pytest.mark.parametrize(("error", "named", "call"), [row[1:] for row in refusals.REFUSED])
def test_refused(error, named, call):
    program = Program()
    with pytest.raises(ERRORS[error]) as caught:
        program(call)
    assert caught.type is ERRORS[error] and named in str(caught.value)


@pytest.mark.parametrize("call", [row[1] for row in refusals.ACCEPTED])
def test_accepted_until_the_session(call):
    Program()(call)


@pytest.mark.parametrize("call", [row[1] for row in refusals.EARLIER])
def test_refused_earlier(call):
    with pytest.raises(popart_core.popart_exception):
        Program()(call)
