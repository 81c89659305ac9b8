"""Why the builder does not know a shape: the reason, at the call that asks for the shape.

Nodes whose inputs are known and do not fit are refused where they are added: test_builder_opsets.py.
"""

import numpy as np
import popart
import pytest


def builder_of(refused):
    """A builder with a node whose shape cannot be inferred; the id of its result."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(np.ones((4, 5), np.float32), "w")
    return builder, refused(builder, x, w)


CASES = {
    "open reshape": (
        lambda b, x, w: b.aiOnnx.reshape([x, b.aiOnnx.cast([x], "INT64")]),
        [r"Reshape", r"must be known when the graph is built"],
    ),
    "unknown operator": (lambda b, x, w: b.customOp("Nowhere", 1, "my.domain", [x], {})[0], [r"Nowhere"]),
    "one of several results": (lambda b, x, w: b.customOp("Nowhere", 1, "my.domain", [x], {}, 2)[1], [r"Nowhere"]),
}


@pytest.mark.parametrize("question", ["getTensorShape", "getTensorDtypeString"])
@pytest.mark.parametrize("case", CASES)
def test_the_refusal_is_told_to_who_asks(case, question):
    refused, parts = CASES[case]
    builder, y = builder_of(refused)
    for part in parts:
        with pytest.raises(popart.popart_exception, match=part) as caught:
            getattr(builder, question)(y)
    assert f"'{y}'" in str(caught.value)
    assert not isinstance(caught.value, popart.popart_internal_exception)


@pytest.mark.parametrize("case", CASES)
def test_results_further_down_have_the_reason_of_the_first(case):
    refused, parts = CASES[case]
    builder, y = builder_of(refused)
    last = builder.aiOnnx.relu([builder.aiOnnx.exp([y])])
    for part in parts:
        with pytest.raises(popart.popart_exception, match=part):
            builder.getTensorShape(last)


@pytest.mark.parametrize("case", CASES)
def test_the_rest_of_the_model_stays_known(case):
    refused, _ = CASES[case]
    builder, _ = builder_of(refused)
    assert builder.getTensorShape(builder.aiOnnx.relu(["x"])) == [2, 3]


def test_a_subgraph_reads_refused_results_of_its_parent():
    builder, y = builder_of(CASES["open reshape"][0])
    body = builder.createSubgraphBuilder()
    inner = body.aiOnnx.relu([y])
    with pytest.raises(popart.popart_exception, match=r"Reshape.*must be known"):
        body.getTensorShape(inner)


def test_an_untyped_input_says_that_the_call_gives_the_type():
    body = popart.Builder().createSubgraphBuilder()
    x = body.addUntypedInputTensor("x")
    for tensor in (x, body.aiOnnx.relu([x])):
        with pytest.raises(popart.popart_exception, match="has no declared type"):
            body.getTensorShape(tensor)


def test_a_loaded_model_says_which_dimension_is_open():
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    builder = popart.Builder(model.SerializeToString())
    for tensor in ("x", "y"):
        with pytest.raises(popart.popart_exception, match=r"'x'.*symbol 'batch'"):
            builder.getTensorShape(tensor)
