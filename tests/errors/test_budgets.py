"""Small files that ask for much memory or many nodes: reading them stays within the budget that is documented.

The allowance is 64 MiB of constants made at compile time (POPART_MAX_FOLDED_BYTES) plus a multiple of the file. Every
model is read in a process of its own, which reports how much more memory it had than before at any moment.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
ALLOWANCE_MIB = 64
# The allowance, the memory of a reference kernel in addition to its result, and memory that allocators keep.
MOST_GROWTH_MIB = 2 * ALLOWANCE_MIB + 40
SECONDS = 60

READ = """
import resource, sys, time
import popart
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
model = open(sys.argv[1], "rb").read()
def session():
    return popart.InferenceSession(model, popart.DataFlow(1, [sys.argv[2]]), popart.DeviceManager().createCpuDevice())
before, start = peak(), time.monotonic()
try:
    made = session()
    word = "read"
    if sys.argv[3] == "prepare":
        made.prepareDevice()
        word = "prepared"
except popart.OutOfMemoryException as problem:
    word = "OutOfMemoryException " + str(problem)
except popart.popart_exception as problem:
    word = type(problem).__name__ + " " + str(problem)
print(round(peak() - before), word)
"""


def int64(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model_of(nodes, initializers=(), outputs=("y",), functions=(), inputs=(), sparse=()):
    """A model of these nodes; outputs have no type."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        list(initializers),
        sparse_initializer=list(sparse),
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def reduced(nodes, initializers, value="big", **more):
    """The model that adds a number to the sum of `value`."""
    return model_of(
        [*nodes, helper.make_node("ReduceSum", [value], ["sum"]), helper.make_node("Add", ["x", "sum"], ["y"])],
        initializers,
        inputs=[("x", [1])],
        **more,
    )


def zeros(count):
    return reduced([helper.make_node("ConstantOfShape", ["shape"], ["big"])], [int64("shape", count)])


def many_zeros():
    nodes = [helper.make_node("ConstantOfShape", ["shape"], [f"z{i}"]) for i in range(20)]
    return reduced([*nodes, helper.make_node("Sum", [f"z{i}" for i in range(20)], ["big"])], [int64("shape", 1 << 23)])


def expanded():
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    return reduced([helper.make_node("Expand", ["one", "shape"], ["big"])], [one, int64("shape", 1 << 14, 1 << 13)])


def tiled():
    one = numpy_helper.from_array(np.ones(4, np.float32), "one")
    return reduced([helper.make_node("Tile", ["one", "times"], ["big"])], [one, int64("times", 1 << 25)])


def doubled(times, start=1):
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["c0"])]
    nodes += [helper.make_node("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(times)]
    return reduced(nodes, [int64("shape", start)], f"c{times}")


def ranged():
    numbers = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("a", 0), ("b", 1 << 27), ("c", 1))]
    return reduced([helper.make_node("Range", ["a", "b", "c"], ["big"])], numbers)


def of_zeros(kind, *shape, **attributes):
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["z"]),
        helper.make_node(kind, ["z"], ["big"], **attributes),
    ]
    return reduced(nodes, [int64("shape", *shape)])


def sparse():
    values = numpy_helper.from_array(np.ones(1, np.float32), "big")
    tensor = onnx.SparseTensorProto(dims=[1 << 27])
    tensor.values.CopyFrom(values)
    tensor.indices.CopyFrom(int64("places", 5))
    return reduced([], [], sparse=[tensor])


def functions(levels):
    """Functions that call the one before twice."""
    made = []
    for i in range(levels):
        inner = ("Relu", "") if i == 0 else (f"F{i - 1}", "own")
        calls = [
            helper.make_node(inner[0], ["a"], ["b"], domain=inner[1]),
            helper.make_node(inner[0], ["b"], ["c"], domain=inner[1]),
        ]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        made.append(helper.make_function("own", f"F{i}", ["a"], ["c"], calls, imports))
    call = helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="own")
    return model_of([call], functions=made, inputs=[("x", [2])])


def function_of_constants(levels):
    """A tensor of 1 MiB as numbers, which every call of the innermost function would read anew."""
    model = functions(levels)
    inner = model.functions[0]
    value = helper.make_tensor("v", TensorProto.FLOAT, [2**17, 2], np.zeros(2**18, np.float32))
    del inner.node[:]
    inner.node.extend(
        [helper.make_node("Constant", [], ["k"], value=value), helper.make_node("ReduceSum", ["k"], ["s"], keepdims=0)]
    )
    inner.node.append(helper.make_node("Add", ["a", "s"], ["c"]))
    return model


def transposed_convolution(stride):
    weights = numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32), "w")
    return model_of(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride, stride])],
        [weights],
        inputs=[("x", [1, 1, 3, 3])],
    )


def outcome(model, folder, until="read", env=None):
    """Growth in MiB at the peak and what became of the model."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    paths = os.pathsep.join([*sys.path, str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), "y", until],
        env={**os.environ, "PYTHONPATH": paths, **(env or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    growth, word = done.stdout.split(" ", 1)
    return int(growth), word.strip()


READABLE = {
    "zeros": lambda: zeros(1 << 27),
    "many_zeros": many_zeros,
    "expanded": expanded,
    "tiled": tiled,
    "doubled": lambda: doubled(40),
    "doubled_from_16_mib": lambda: doubled(6, 1 << 22),
    "ranged": ranged,
    "eye": lambda: of_zeros("EyeLike", 1 << 14, 1 << 14),
    "triangle": lambda: of_zeros("Trilu", 1 << 14, 1 << 14),
}


@pytest.mark.parametrize("name", READABLE)
def test_constants_beyond_the_budget_are_left_to_the_run(name, tmp_path):
    growth, word = outcome(READABLE[name](), tmp_path)
    assert word == "read"
    assert growth < MOST_GROWTH_MIB


REFUSED = {
    "sparse": (sparse, "Sparse tensor 'big'"),
    "functions": (lambda: functions(30), "too many nodes after its functions were expanded"),
    "function_of_constants": (lambda: function_of_constants(11), "of a function called often"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_left_to_the_run_is_refused(name, tmp_path):
    make, fragment = REFUSED[name]
    growth, word = outcome(make(), tmp_path)
    assert word.startswith("popart_exception") and fragment in word
    assert growth < MOST_GROWTH_MIB + (180 if name == "functions" else 0)  # 2^16 nodes before they are too many


def test_the_allowance_can_be_raised_and_lowered(tmp_path):
    assert outcome(sparse(), tmp_path, env={"POPART_MAX_FOLDED_BYTES": "1G"})[1] == "read"
    growth, word = outcome(zeros(1 << 23), tmp_path, env={"POPART_MAX_FOLDED_BYTES": "1M"})
    assert word == "read" and growth < 30
    bad = outcome(zeros(4), tmp_path, env={"POPART_MAX_FOLDED_BYTES": "much"})[1]
    assert "POPART_MAX_FOLDED_BYTES: got 'much'" in bad


@pytest.mark.parametrize(
    "model",
    [lambda: doubled(40), lambda: transposed_convolution(1 << 20), lambda: zeros(1 << 45)],
    ids=["doubled", "transposed_convolution", "zeros"],
)
def test_a_program_larger_than_the_machine_is_refused_before_it_is_compiled(model, tmp_path):
    growth, word = outcome(model(), tmp_path, "prepare")
    assert word.startswith("OutOfMemoryException")
    assert "does not fit" in word
    assert growth < MOST_GROWTH_MIB


def test_the_budget_follows_the_memory_limit(tmp_path):
    """Under a limit of 64 MiB at most 8 MiB are made at once: the rest is memory of the program, which is refused."""
    growth, word = outcome(zeros(12 << 20), tmp_path, "prepare", env={"POPART_MAX_MEMORY": "40M"})
    assert word.startswith("OutOfMemoryException") and growth < 30
    # what the program needs is named with the op that makes it
    assert re.search(r"Largest tensors:\n  z?big: 50331648 bytes, made by (ConstantOfShape|Expand) ", word), word
    growth, word = outcome(zeros(12 << 20), tmp_path, "prepare", env={"POPART_MAX_MEMORY": "60M"})
    assert word == "prepared"


def test_constants_that_do_not_fit_are_named(tmp_path):
    """What the file holds is named too."""
    weights = numpy_helper.from_array(np.ones(3 << 20, np.float32), "w")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [weights], inputs=[("x", [1])])
    word = outcome(model, tmp_path, "prepare", env={"POPART_MAX_MEMORY": "4M"})[1]
    assert word.startswith("OutOfMemoryException")
    assert re.search(r"\n  w: 12582912 bytes, a (constant|variable)", word), word


TRIANGLES = [
    ("Trilu", {"upper": upper}, k) for upper in (0, 1) for k in (None, -2, 0, 3, 100, -100, 2**63 - 1, -(2**63))
]
EYES = [("EyeLike", {"k": k, "dtype": to}, None) for k, to in ((0, 1), (2, 7), (-3, 9), (100, 10), (-(2**63), 11))]


@pytest.mark.parametrize("budget", ["0", "64M"])
@pytest.mark.parametrize(("kind", "attributes", "k"), TRIANGLES + EYES)
def test_matrices_of_the_run_are_those_of_the_reader(kind, attributes, k, budget, monkeypatch):
    monkeypatch.setenv("POPART_MAX_FOLDED_BYTES", budget)
    node = helper.make_node(kind, ["x"] if k is None else ["x", "k"], ["y"], **attributes)
    made = model_of([node], [] if k is None else [numpy_helper.from_array(np.array(k), "k")], inputs=[("x", [5, 7])])
    session = popart.InferenceSession(
        made.SerializeToString(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    x = np.arange(1, 36, dtype=np.float32).reshape(5, 7)
    session.run(popart.PyStepIO({"x": x}, anchors))
    if kind == "EyeLike":
        dtype = helper.tensor_dtype_to_np_dtype(attributes["dtype"])
        expected = np.eye(5, 7, max(-9, min(9, attributes["k"])), dtype)
    else:
        expected = (np.triu if attributes["upper"] else np.tril)(x, max(-9, min(9, k or 0)))
    assert anchors["y"].dtype == expected.dtype
    np.testing.assert_array_equal(anchors["y"], expected)


def test_sizes_that_overflow_are_refused_by_the_shape_rule(tmp_path):
    word = outcome(transposed_convolution(1 << 30), tmp_path)[1]
    assert word.startswith("popart_exception") and "2^48" in word and "ConvTranspose" in word
    word = outcome(transposed_convolution(1 << 40), tmp_path)[1]
    assert word.startswith("popart_exception") and "ConvTranspose" in word


def test_values_left_to_the_run_are_right():
    model = doubled(6, 1 << 22)  # 256 MiB of zeros at the end: half of the chain is computed by the run
    session = popart.InferenceSession(
        model.SerializeToString(), popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.array([1.5], np.float32)}, anchors))
    np.testing.assert_array_equal(anchors["y"].reshape(-1), [1.5])
