"""What popxl.md says is refused when a program is run, differentiated or called: the rows of popxl_refusals.py.

A program gets an Ir whose main graph is current, and ends with the call that must refuse.
"""

import numpy as np
import popxl
from popart import popart_exception
from popxl import ops

from tests.checklist.popxl_programs import (
    FLOAT,
    Refusal,
    branches,
    echo,
    float8,
    foreign,
    grad_info,
    io_exchange,
    irregular,
    modifying,
    modifying_call,
    other_call,
    partials,
    read_only_map,
    replicated_input,
    session,
    site,
    spec,
    twice,
    var,
    zeros,
)

RUNNING = [
    # 13. Session
    Refusal("13", "no ops", RuntimeError, session(lambda ir: var(2))),
    Refusal(
        "13",
        "ops in an unreached graph only",
        RuntimeError,
        session(lambda ir: ir.create_graph(lambda x: x + 1, spec(2))),
    ),
    Refusal(
        "13",
        "unknown device",
        ValueError,
        lambda ir: (echo(ir), popxl.Session(ir, "tpu")),
        ("tpu", "ipu_hw", "ipu_model", "cpu"),
    ),
    *(
        Refusal("13", f"{name} while detached", ValueError, session(echo, use, enter=False), ("with",))
        for name, use in {
            "run": lambda s, m: s.run({m[0]: zeros(2)}),
            "run_with_outputs": lambda s, m: s.run_with_outputs({m[0]: zeros(2)}, {m[1]: zeros(2)}),
            "weights_to_host": lambda s, m: s.weights_to_host(),
            "weights_from_host": lambda s, m: s.weights_from_host(),
        }.items()
    ),
    Refusal(
        "13",
        "download of a read-only memory map",
        Exception,
        session(lambda ir: popxl.variable(read_only_map()) + 1, lambda s, m: s.weights_to_host()),
    ),
    Refusal("13", "missing input", ValueError, session(echo, lambda s, m: s.run()), ("in",)),
    Refusal(
        "13",
        "unexpected input",
        ValueError,
        session(echo, lambda s, m: s.run({m[0]: zeros(2), m[1]: zeros(2)})),
        ("out",),
    ),
    Refusal(
        "13",
        "missing output",
        ValueError,
        session(echo, lambda s, m: s.run_with_outputs({m[0]: zeros(2)}, {})),
        ("out",),
    ),
    Refusal("13", "wrong shape", ValueError, session(echo, lambda s, m: s.run({m[0]: zeros(3)})), ("in", "(3,)")),
    Refusal(
        "13",
        "too few transfers",
        ValueError,
        session(echo, lambda s, m: s.run({m[0]: zeros(2, 2)}), num_host_transfers=3),
        ("in", "3"),
    ),
    Refusal("13", "wrong number of replicas", ValueError, replicated_input, ("in", "(3, 2)"), 2),
    Refusal(
        "13",
        "wrong dtype",
        ValueError,
        session(echo, lambda s, m: s.run({m[0]: zeros(2, dtype=np.complex64)})),
        ("in",),
    ),
    Refusal(
        "13",
        "data of another tensor",
        TypeError,
        session(lambda ir: var(2) + 1, lambda s, m: s.get_tensor_data(m)),
        ("add_out", "Variable", "Constant"),
    ),
    Refusal(
        "13",
        "data written to another tensor",
        TypeError,
        session(lambda ir: var(2) + 1, lambda s, m: s.write_variable_data(m, zeros(2))),
        ("add_out", "Variable"),
    ),
    Refusal(
        "13",
        "data written to a constant",
        TypeError,
        session(
            lambda ir: (popxl.constant(zeros(2), name="c"), var(2) + 1)[0],
            lambda s, m: s.write_variable_data(m, zeros(2)),
        ),
        ("c",),
    ),
    Refusal(
        "13",
        "data of another dtype",
        TypeError,
        session(echo, lambda s, m: s.write_variable_data(m[2], zeros(3, dtype=np.float64))),
        ("v", "float64"),
    ),
    Refusal(
        "13",
        "data of another shape",
        ValueError,
        session(echo, lambda s, m: s.write_variable_data(m[2], zeros(4))),
        ("v", "(4,)", "(3,)"),
    ),
    Refusal(
        "13",
        "number written to a float8 variable",
        TypeError,
        session(lambda ir: (popxl.variable(float8()), var(2) + 1)[0], lambda s, m: s.write_variable_data(m, 1.0)),
    ),
    Refusal(
        "13",
        "data written to all replicas",
        NotImplementedError,
        session(
            lambda ir: (w := var(2, retrieval_mode="all_replicas"), w + 1)[0],
            lambda s, m: s.write_variable_data(m, zeros(2)),
        ),
        (),
        2,
    ),
    # 14. remote buffers
    Refusal("14", "no entries", ValueError, lambda ir: popxl.remote_buffer((2,), FLOAT, 0), ("entries", "0")),
    Refusal(
        "14",
        "entries set to 0",
        ValueError,
        lambda ir: setattr(popxl.remote_buffer((2,), FLOAT), "entries", 0),
        ("entries", "0"),
    ),
    Refusal(
        "14",
        "tensor of another shape",
        ValueError,
        lambda ir: popxl.remote_buffer((2,), FLOAT).validate_tensor_matches_buffer(var(3)),
        ("v", "(3,)", "(2,)"),
    ),
    Refusal(
        "14",
        "tensor of another dtype",
        ValueError,
        lambda ir: popxl.remote_buffer((2,), FLOAT).validate_tensor_matches_buffer(var(2, dtype=np.float16)),
        ("v", "float16", "float32"),
    ),
    # 15. replica groupings
    Refusal("15", "ReplicaGrouping()", RuntimeError, lambda ir: popxl.ReplicaGrouping()),
    *(
        Refusal(
            "15",
            f"stride={stride}, group_size={size} of 12",
            ValueError,
            lambda ir, a=stride, b=size: ir.replica_grouping(a, b),
            names,
            12,
        )
        for stride, size, names in [
            (0, None, ("stride", "0")),
            (13, None, ("stride", "13")),
            (5, None, ("stride", "5")),
            (1, 0, ("group_size", "0")),
            (1, 13, ("group_size", "13")),
        ]
    ),
    Refusal(
        "15",
        "stride times size no divisor, variable",
        ValueError,
        lambda ir: popxl.variable(zeros(3, 2), replica_grouping=ir.replica_grouping(2, 4)),
        ("12",),
        12,
    ),
    Refusal(
        "15",
        "stride times size no divisor, collective",
        ValueError,
        lambda ir: ops.collectives.replicated_all_reduce(var(2), group=ir.replica_grouping(2, 4)),
        ("12",),
        12,
    ),
    *(
        Refusal(
            "15",
            f"assignment {assignment}",
            ValueError,
            lambda ir, a=assignment: ir.replica_grouping_from_assignments(a),
            (),
            4,
        )
        for assignment in ([0, 0, 0, 1], [0, 0, 2, 2], [1, 1, 0, 0], [0, 0, 1], [0, 0, 1, 1, 2, 2])
    ),
    Refusal("15", "stride of an irregular grouping", NotImplementedError, lambda ir: irregular(ir).stride, (), 6),
    Refusal(
        "15",
        "collective over an irregular grouping",
        NotImplementedError,
        lambda ir: ops.collectives.replicated_all_reduce(var(2), group=irregular(ir)),
        (),
        6,
    ),
    Refusal("15", "compared with something else", TypeError, lambda ir: ir.replica_grouping() == 1),
    Refusal("15", "hash", TypeError, lambda ir: hash(ir.replica_grouping())),
    # 16. random seeds
    Refusal("16", "negative number", ValueError, lambda ir: popxl.random_seed.uint64_to_two_uint32(-1), ("-1",)),
    Refusal("16", "number above 64 bits", ValueError, lambda ir: popxl.random_seed.uint64_to_two_uint32(2**64)),
    Refusal("16", "word above 32 bits", ValueError, lambda ir: popxl.random_seed.two_uint32_to_uint64(2**32, 0)),
    Refusal("16", "negative word", ValueError, lambda ir: popxl.random_seed.two_uint32_to_uint64(0, -1)),
    # 17. float8
    Refusal(
        "17",
        "whole numbers",
        RuntimeError,
        lambda ir: popxl.fp8_utils.host_pow2scale_cast_to_fp8(zeros(2, dtype=np.int32)),
    ),
    Refusal(
        "17", "to another type", RuntimeError, lambda ir: popxl.fp8_utils.host_pow2scale_cast_to_fp8(zeros(2), FLOAT)
    ),
    Refusal(
        "17",
        "from another type",
        RuntimeError,
        lambda ir: popxl.fp8_utils.host_pow2scale_cast_from_fp8(zeros(2), FLOAT),
    ),
    Refusal("17", "from a list", RuntimeError, lambda ir: popxl.fp8_utils.host_pow2scale_cast_from_fp8([1.0], FLOAT)),
    Refusal(
        "17",
        "from float8 to whole numbers",
        RuntimeError,
        lambda ir: popxl.fp8_utils.host_pow2scale_cast_from_fp8(float8(2), popxl.int32),
    ),
    Refusal(
        "17",
        "scale search of float64",
        RuntimeError,
        lambda ir: popxl.fp8_utils.host_fp8_mse_scale(zeros(2, dtype=np.float64)),
    ),
    Refusal(
        "18",
        "attribute of a TensorLocation",
        AttributeError,
        lambda ir: setattr(popxl.TensorLocation(), "storage", popxl.TensorStorage.OffChip),
    ),
    # 21. transforms
    Refusal(
        "21.1",
        "gradient of a disconnected input",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(ir.create_graph(lambda x, y: x * 2.0, spec(2), spec(2))),
    ),
    Refusal(
        "21.1",
        "gradient of labels",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(
            ir.create_graph(lambda p, y: ops.nll_loss(p, y), spec(2, 3), spec(2, dtype=popxl.int32))
        ),
    ),
    Refusal(
        "21.1",
        "op that modifies data",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(modifying(ir)),
        ("subgraph(0)",),
    ),
    Refusal(
        "21.1",
        "accumulation",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(
            ir.create_graph(lambda x, y: ops.var_updates.accumulate_(x, y), spec(2), spec(2))
        ),
        ("subgraph(0)",),
    ),
    Refusal(
        "21.1",
        "call that modifies by reference",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(modifying_call(ir)),
        ("subgraph(1)",),
    ),
    Refusal(
        "21.1",
        "nothing required",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(ir.create_graph(lambda x: x * 2.0, spec(2)), grads_required=[]),
    ),
    Refusal(
        "21.1",
        "gradient through a comparison",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(
            ir.create_graph(lambda x, y: ops.cast(ops.greater(x, y), FLOAT), spec(2), spec(2))
        ),
    ),
    Refusal(
        "21.1",
        "gradient through a detached tensor",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(ir.create_graph(lambda x: ops.detach(x) * 2.0, spec(2))),
    ),
    Refusal(
        "21.1",
        "provided gradient of a foreign tensor",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(ir.create_graph(lambda x: x * 2.0, spec(2)), [foreign(ir)]),
    ),
    Refusal(
        "21.1",
        "required gradient of a foreign tensor",
        popart_exception,
        lambda ir: popxl.transforms.autodiff(ir.create_graph(lambda x: x * 2.0, spec(2)), None, [foreign(ir)]),
    ),
    Refusal("21.2", "GradGraphInfo()", TypeError, lambda ir: popxl.transforms.GradGraphInfo()),
    Refusal("21.2", "inputs_dict of another call", TypeError, lambda ir: grad_info(ir)[1].inputs_dict(other_call(ir))),
    Refusal(
        "21.2",
        "gradients of another call",
        TypeError,
        lambda ir: grad_info(ir)[1].fwd_graph_ins_to_grad_parent_outs(other_call(ir)),
    ),
    Refusal(
        "21.2",
        "gradients of parents of another call",
        TypeError,
        lambda ir: grad_info(ir)[1].fwd_parent_ins_to_grad_parent_outs(other_call(ir), other_call(ir)),
    ),
    Refusal("22", "partials type", ValueError, lambda ir: partials(ir), ("partialsTypeMatMuls", "double")),
    Refusal("21.3", "exchange whose ops depend on one another", RuntimeError, io_exchange, ("hostload", "hoststore")),
    # popxl-ops.md, section 13
    Refusal("ops 13.1", "too many inputs", ValueError, lambda ir: ops.call(twice(ir), var(2), var(2)), ("twice",)),
    Refusal("ops 13.1", "foreign parent tensor", ValueError, lambda ir: ops.call(twice(ir), foreign(ir)), ("foreign",)),
    Refusal(
        "ops 13.1",
        "key of another graph",
        ValueError,
        lambda ir: ops.call(twice(ir), inputs_dict={foreign(ir): var(2)}),
        ("twice",),
    ),
    Refusal(
        "ops 13.1",
        "input given twice",
        ValueError,
        lambda ir: ops.call(g := twice(ir), var(2), inputs_dict={g.inputs[0]: var(2)}),
        ("twice",),
    ),
    Refusal("ops 13.1", "missing input", ValueError, lambda ir: ops.call(twice(ir)), ("twice", "x")),
    Refusal("ops 13.1", "input that is no number", TypeError, lambda ir: ops.call(twice(ir), "text")),
    Refusal("ops 13.1", "empty input", TypeError, lambda ir: ops.call(g := twice(ir), inputs_dict={g.inputs[0]: []})),
    Refusal("ops 13.1", "shape of an input", popart_exception, lambda ir: ops.call(twice(ir), var(3))),
    Refusal(
        "ops 13.1", "dtype of an input", popart_exception, lambda ir: ops.call(twice(ir), var(2, dtype=np.float16))
    ),
    Refusal("ops 13.1", "index out of range", IndexError, lambda ir: site(ir).parent_input(1)),
    Refusal("ops 13.1", "output index out of range", IndexError, lambda ir: site(ir).parent_output(1)),
    Refusal(
        "ops 13.1", "tensor that is no input or output", ValueError, lambda ir: site(ir).graph_to_parent(foreign(ir))
    ),
    Refusal("ops 13.1", "parent tensor that is no input", ValueError, lambda ir: site(ir).parent_to_graph(var(2))),
    Refusal("ops 13.2", "negative count", ValueError, lambda ir: ops.repeat(twice(ir), -1, var(2)), ("-1",)),
    Refusal(
        "ops 13.2",
        "fewer inputs than outputs",
        ValueError,
        lambda ir: ops.repeat(ir.create_graph(lambda x: (x, x), spec(2)), 2, var(2)),
        ("1", "2"),
    ),
    Refusal("ops 13.2", "missing input of a loop", ValueError, lambda ir: ops.repeat(twice(ir), 2), ("twice",)),
    Refusal(
        "ops 13.3",
        "numbers of outputs",
        ValueError,
        lambda ir: ops.conditional(
            popxl.constant(True), twice(ir), ir.create_graph(lambda x: (x, x), spec(2)), [var(2)], [var(2)]
        ),
    ),
    Refusal(
        "ops 13.3",
        "shapes of outputs",
        popart_exception,
        lambda ir: ops.conditional(
            popxl.constant(True), twice(ir), ir.create_graph(lambda x: x * 1.0, spec(3)), [var(2)], [var(3)]
        ),
    ),
    Refusal(
        "ops 13.3",
        "modified input of a branch",
        NotImplementedError,
        lambda ir: branches(ir).set_parent_input_modified(var(2)),
    ),
    *(
        Refusal("ops 13.3", f"{name} out of range", IndexError, lambda ir, f=function: f(branches(ir)))
        for name, function in {
            "graph_to_parent_input_index": lambda s: s.graph_to_parent_input_index(1),
            "graph_to_parent_output_index": lambda s: s.graph_to_parent_output_index(1),
            "parent_to_graph_input_index": lambda s: s.parent_to_graph_input_index(3),
            "is_parent_index_in_then_branch": lambda s: s.is_parent_index_in_then_branch(3),
            "parent_input": lambda s: s.parent_input(3),
            "parent_output": lambda s: s.parent_output(1),
        }.items()
    ),
    Refusal("ops 13.3", "parent tensor of no branch", ValueError, lambda ir: branches(ir).parent_to_graph(var(2))),
]
