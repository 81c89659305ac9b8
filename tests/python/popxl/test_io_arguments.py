"""Arguments of loads, stores and copies are checked when they are called: kind of object and its program."""

import numpy as np
import popxl
import popxl.ops as ops
import pytest


def objects(ir):
    """A stream of each direction, a buffer, a variable and a graph of a program."""
    with ir.main_graph:
        return {
            "h2d": popxl.h2d_stream((2,), popxl.float32, "in"),
            "d2h": popxl.d2h_stream((2,), popxl.float32, "out"),
            "buffer": popxl.remote_buffer((2,), popxl.float32, 2),
            "x": popxl.variable(np.ones(2, np.float32), name="x"),
            "graph": ir.create_empty_graph("other"),
        }


@pytest.fixture
def program():
    """Objects of the program that is being built."""
    ir = popxl.Ir()
    made = objects(ir)
    with ir.main_graph:
        yield made


WRONG_KIND = [
    ("h2d_stream", lambda p: ops.host_load(p["d2h"])),
    ("h2d_stream", lambda p: ops.host_load("in")),
    ("d2h_stream", lambda p: ops.host_store(p["h2d"], p["x"])),
    ("d2h_stream", lambda p: ops.host_store(None, p["x"])),
    ("remote_buffer", lambda p: ops.remote_load(p["x"], 0)),
    ("remote_buffer", lambda p: ops.remote_load_(1, 0, p["x"])),
    ("remote_buffer", lambda p: ops.remote_store(None, 0, p["x"])),
    ("offset", lambda p: ops.remote_load(p["buffer"], 0.0)),
    ("graph", lambda p: ops.remote_code_load(None, "executable")),
    ("graph", lambda p: ops.remote_code_load(p["x"], "executable")),
    ("graph", lambda p: ops.remote_code_load("other", "executable")),
    ("destination", lambda p: ops.remote_code_load(p["graph"], None)),
]


@pytest.mark.parametrize(("name", "call"), WRONG_KIND)
def test_another_kind_of_object_is_refused(program, name, call):
    with pytest.raises(TypeError, match=name):
        call(program)


OF_ANOTHER_PROGRAM = [
    ("h2d_stream", lambda p, o: ops.host_load(o["h2d"])),
    ("d2h_stream", lambda p, o: ops.host_store(o["d2h"], p["x"])),
    ("remote_buffer", lambda p, o: ops.remote_load(o["buffer"], 0)),
    ("remote_buffer", lambda p, o: ops.remote_load_(o["buffer"], 0, p["x"])),
    ("remote_buffer", lambda p, o: ops.remote_store(o["buffer"], 0, p["x"])),
    ("graph", lambda p, o: ops.remote_code_load(o["graph"], "executable")),
]


@pytest.mark.parametrize(("name", "call"), OF_ANOTHER_PROGRAM)
def test_objects_of_another_program_are_refused(name, call):
    own, other = popxl.Ir(), popxl.Ir()
    program, foreign = objects(own), objects(other)
    with own.main_graph, pytest.raises(ValueError, match=rf"{name}: got .* of Ir\[id={other.id}\]"):
        call(program, foreign)


def test_a_refused_call_leaves_the_program_as_it_was(program):
    graph = popxl.gcg()
    before = [t.id for t in graph.tensors]
    with pytest.raises(TypeError):
        ops.host_load(program["d2h"])
    assert [t.id for t in graph.tensors] == before


def test_entries_of_numpy(program):
    loaded = ops.remote_load(program["buffer"], np.int64(1))
    assert loaded.shape == (2,)
    with pytest.raises(ValueError, match="no entry 2"):
        ops.remote_load(program["buffer"], np.uint8(2))


def test_the_element_type_of_a_buffer_is_checked(program):
    with pytest.raises(TypeError, match="float32"):
        popxl.remote_buffer((2,), "float32", 1)
