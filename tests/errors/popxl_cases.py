"""Wrong PopXL programs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import popxl
import popxl.custom
from popxl import ops
from popxl.errors import BuildError

from tests.errors.failure import Failure


def in_main(function):
    """The function, called with a variable float32[2, 3] in the main graph of a new Ir."""

    def program():
        ir = popxl.Ir()
        with ir.main_graph:
            return function(popxl.variable(np.ones((2, 3), np.float32), name="w"))

    return program


def other_ir(w):
    other = popxl.Ir()
    with other.main_graph:
        v = popxl.variable(np.ones((2, 3), np.float32))
    return ops.add(w, v)


def session_with(inputs):
    def program():
        ir = popxl.Ir()
        with ir.main_graph:
            stream = popxl.h2d_stream((2, 3), popxl.float32, name="x")
            out = popxl.d2h_stream((2, 3), popxl.float32, name="y")
            ops.host_store(out, ops.relu(ops.host_load(stream)))
        with popxl.Session(ir, "cpu") as s:
            return s.run({stream: inputs})

    return program


def unentered_session():
    ir = popxl.Ir()
    with ir.main_graph:
        stream = popxl.h2d_stream((2,), popxl.float32)
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, ops.host_load(stream))
    return popxl.Session(ir, "cpu").run({stream: np.zeros(2, np.float32)})


def changed_after_session(change):
    """Change an Ir in its main graph after a Session was made for it; `change` gets a variable of the Ir."""

    def program():
        ir = popxl.Ir()
        with ir.main_graph:
            w = popxl.variable(np.ones((2, 3), np.float32), name="w")
            ops.host_store(popxl.d2h_stream((2, 3), popxl.float32), ops.relu(w))
        popxl.Session(ir, "cpu")
        with ir.main_graph:
            change(w)

    return program


def set_transfers(w):
    w.ir.num_host_transfers = 2


def set_replication(w):
    w.ir.replication_factor = 2


def parts_after_session(change):
    """Change a remote buffer or a call of a program after a Session was made for it."""

    def program():
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            w = popxl.variable(np.ones((2, 3), np.float32), name="w")
            buffer = popxl.remote_buffer((2, 3), popxl.float32, 2)
            call = ops.call_with_info(ir.create_graph(lambda x: x + 1.0, w), w)
            ops.remote_store(buffer, 0, call.outputs[0])
        popxl.Session(ir, "cpu")
        change(buffer, call)

    return program


def built_by_two_threads(own_ir):
    """Build a program inside of which another thread builds: the same one, or one of its own."""

    def program():
        ir = popxl.Ir()
        with ir.main_graph, ThreadPoolExecutor(1) as pool:
            other = popxl.Ir() if own_ir else ir
            pool.submit(other.create_graph, lambda x: x, popxl.TensorSpec((2,), popxl.float32)).result()

    return program


CHANGES = {
    "op": lambda w: ops.relu(w),
    "op_in_place": lambda w: ops.var_updates.copy_var_update_(w, w),
    "variable": lambda w: popxl.variable(np.ones(2, np.float32)),
    "constant": lambda w: popxl.constant(np.ones(2, np.float32)),
    "stream": lambda w: popxl.h2d_stream((2,), popxl.float32),
    "graph": lambda w: w.ir.create_graph(lambda x: x, w),
    "output": lambda w: popxl.graph_output(w),
    "gradient": lambda w: popxl.transforms.autodiff(w.ir.main_graph),
    "sums": lambda w: popxl.transforms.decompose_sum(w.ir.main_graph),
    "transfers": set_transfers,
    "replication": set_replication,
}

FAILURES = [
    *(
        Failure(
            f"popxl_{name}_after_session", changed_after_session(change), "after a popxl.Session was made", BuildError
        )
        for name, change in CHANGES.items()
    ),
    *(
        Failure(
            f"popxl_{name}_after_session", parts_after_session(change), "after a popxl.Session was made", BuildError
        )
        for name, change in {
            "entries": lambda buffer, call: setattr(buffer, "entries", 5),
            "meta_shape": lambda buffer, call: setattr(buffer, "meta_shape", (4, 3)),
            "buffer_info": lambda buffer, call: buffer.set_remote_buffer_info(popxl.float32, (2, 3), 5),
            "modified_input": lambda buffer, call: call.set_parent_input_modified(call.parent_input(0)),
        }.items()
    ),
    *(
        Failure(f"popxl_thread_builds_{name}", built_by_two_threads(own_ir), "another thread builds", BuildError)
        for name, own_ir in {"its_own_ir": True, "the_same_ir": False}.items()
    ),
    *(
        Failure(f"popxl_{name}_of_float_size", in_main(function), "sizes that are not integers: got [2.0]", TypeError)
        for name, function in {
            "h2d_stream": lambda w: popxl.h2d_stream([2.0], popxl.float32),
            "d2h_stream": lambda w: popxl.d2h_stream([2.0], popxl.float32),
            "init": lambda w: ops.init([2.0], popxl.float32),
            "graph_input": lambda w: popxl.graph_input([2.0], popxl.float32),
            "spec": lambda w: popxl.TensorSpec([2.0], popxl.float32),
            "meta_shape": lambda w: popxl.TensorSpec([2], popxl.float32, [2.0]),
            "remote_buffer": lambda w: popxl.remote_buffer([2.0], popxl.float32),
            "reshape": lambda w: w.reshape([2.0]),
            "random": lambda w: ops.random_normal(popxl.constant(np.ones(2, np.uint32)), [2.0]),
        }.items()
    ),
    Failure(
        "popxl_custom_op_of_minus_one_output",
        in_main(lambda w: popxl.custom.custom_op("Any", w, domain="test", num_outputs=-1)),
        "wrong number of outputs: got -1",
        ValueError,
    ),
    *(
        Failure(f"popxl_{name}_of_unknown_dtype", in_main(function), "not a popxl dtype: got 'float99'", TypeError)
        for name, function in {
            "h2d_stream": lambda w: popxl.h2d_stream((2,), "float99"),
            "d2h_stream": lambda w: popxl.d2h_stream((2,), "float99"),
            "variable": lambda w: popxl.variable([1.0], "float99"),
            "constant": lambda w: popxl.constant([1.0], "float99"),
            "cast": lambda w: ops.cast(w, "float99"),
            "init": lambda w: ops.init((2,), "float99"),
            "graph_input": lambda w: popxl.graph_input((2,), "float99"),
            "spec": lambda w: w.ir.create_graph(lambda x: x, popxl.TensorSpec((2,), "float99")),
        }.items()
    ),
    Failure(
        "popxl_op_outside_a_graph", lambda: popxl.variable(np.ones(2, np.float32)), "no current graph", RuntimeError
    ),
    Failure(
        "popxl_add_does_not_broadcast",
        in_main(lambda w: ops.add(w, popxl.constant(np.ones(2, np.float32)))),
        "broadcast",
    ),
    Failure("popxl_add_of_types", in_main(lambda w: ops.add(w, popxl.constant(np.ones(3, np.int32)))), "types"),
    Failure("popxl_matmul_sizes_differ", in_main(lambda w: w @ w), "last dimension of the left operand"),
    Failure("popxl_reshape_changes_elements", in_main(lambda w: w.reshape((5,))), "element counts differ"),
    Failure("popxl_transpose_repeats", in_main(lambda w: ops.transpose(w, (0, 0))), "not a permutation"),
    Failure("popxl_concat_axis", in_main(lambda w: ops.concat([w, w], axis=2)), "out of range"),
    Failure("popxl_softmax_axis", in_main(lambda w: ops.softmax(w, axis=5)), "axis out of range"),
    Failure("popxl_other_ir", in_main(other_ir), "Graphs of different Irs", RuntimeError),
    Failure("popxl_unknown_device", lambda: popxl.Session(popxl.Ir(), "tpu"), "Unknown device", ValueError),
    Failure("popxl_negative_replication", lambda: popxl.Ir(replication=0), "expected at least 1", ValueError),
    Failure("popxl_wrong_shape", session_with(np.zeros((2, 4), np.float32)), "wrong shape", ValueError),
    Failure("popxl_run_outside_session", unentered_session, "not attached", ValueError),
    Failure(
        "popxl_host_store_of_other_shape",
        in_main(lambda w: ops.host_store(popxl.d2h_stream((9,), popxl.float32), w)),
        "shapes differ",
        ValueError,
    ),
]
