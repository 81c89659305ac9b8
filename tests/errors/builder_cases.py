"""Wrong use of popart.Builder."""

import numpy as np
import popart

from tests.errors.failure import Failure


def started():
    builder = popart.Builder()
    return builder, builder.addInputTensor("FLOAT", [2, 3], "x")


def with_builder(function):
    return lambda: function(*started())


def external_twice(builder, x):
    weight = builder.addInitializedInputTensor(np.ones(3, np.float32))
    builder.addOutputTensor(builder.aiOnnx.add([x, weight]))
    builder.saveInitializersExternally([weight], "/nonexistent/folder/w.bin")


FAILURES = [
    Failure(
        "builder_input_of_float_size",
        lambda: popart.Builder().addInputTensor(popart.TensorInfo("FLOAT", [2.0, 3])),
        "not integers",
        TypeError,
    ),
    Failure(
        "builder_reshape_to_float_size",
        with_builder(lambda b, x: b.reshape_const(b.aiOnnx, [x], [3.0, 2])),
        "not integers",
        TypeError,
    ),
    Failure("builder_unknown_input", with_builder(lambda b, x: b.aiOnnx.relu(["nothing"])), "nothing"),
    Failure("builder_no_inputs", with_builder(lambda b, x: b.aiOnnx.relu([])), "input"),
    Failure(
        "builder_numbers_as_names",
        with_builder(lambda b, x: b.aiOnnx.add([x, 7])),
        "add: args: got 7 in the list, expected tensor ids",
        TypeError,
    ),
    Failure(
        "builder_number_as_attribute_name",
        with_builder(lambda b, x: b.addNodeAttribute(3, 1, {b.aiOnnx.relu([x])})),
        "the name of an attribute: got 3, expected str",
        TypeError,
    ),
    Failure(
        "builder_custom_op_with_a_number_as_attribute_name",
        with_builder(lambda b, x: b.customOp("Cube", 1, "com.acme", [x], {3: 1})),
        "the name of an attribute: got 3, expected str",
        TypeError,
    ),
    Failure(
        "builder_custom_op_with_a_number_as_input",
        with_builder(lambda b, x: b.customOp("Cube", 1, "com.acme", [3], {})),
        "Cube: the name of an input: got 3, expected str",
        TypeError,
    ),
    Failure(
        "builder_patterns_by_number",
        with_builder(lambda b, x: b.excludePatterns(b.aiOnnx.relu([x]), [3])),
        "got [3], expected a list of str",
        TypeError,
    ),
    Failure("builder_of_a_number", lambda: popart.Builder(3), "got 3, expected str", TypeError),
    Failure("transformer_of_a_number", lambda: popart.GraphTransformer(3), "got 3, expected str", TypeError),
    Failure("builder_too_many_inputs", with_builder(lambda b, x: b.aiOnnx.relu([x, x])), "input"),
    Failure("builder_unknown_method", with_builder(lambda b, x: b.aiOnnx.rellu([x])), "rellu", AttributeError),
    Failure("builder_unknown_argument", with_builder(lambda b, x: b.aiOnnx.relu([x], slope=2)), "slope", TypeError),
    Failure(
        "builder_two_opsets",
        with_builder(lambda b, x: (b.aiOnnxOpset9.relu([x]), b.aiOnnxOpset11.relu([x]))),
        "aiOnnxOpset11 asked for, but opset 9",
        RuntimeError,
    ),
    Failure("builder_unknown_element_type", lambda: popart.Builder().addInputTensor("FLOAT99", [2]), "FLOAT99"),
    Failure("builder_negative_size", lambda: popart.Builder().addInputTensor("FLOAT", [-2]), "-2"),
    Failure(
        "builder_unknown_opset",
        lambda: popart.Builder(opsets={"ai.onnx": 99, "ai.graphcore": 1}).aiOnnx,
        "got 99, expected 6 to",
    ),
    Failure(
        "builder_unknown_graphcore_opset",
        lambda: popart.Builder(opsets={"ai.onnx": 9, "ai.graphcore": 2}),
        "ai.graphcore",
        ValueError,
    ),
    Failure("builder_of_no_model", lambda: popart.Builder(b"nonsense that is no model"), "odel"),
    Failure("builder_of_missing_file", lambda: popart.Builder("/nonexistent/model.onnx"), "/nonexistent"),
    Failure("builder_output_of_nothing", with_builder(lambda b, x: b.addOutputTensor("nothing")), "nothing"),
    Failure("builder_shape_of_nothing", with_builder(lambda b, x: b.getTensorShape("nothing")), "nothing"),
    Failure("builder_type_of_nothing", with_builder(lambda b, x: b.getTensorDtypeString("nothing")), "nothing"),
    Failure(
        "builder_attribute_of_nothing", with_builder(lambda b, x: b.addNodeAttribute("a", 1, {"nothing"})), "nothing"
    ),
    Failure(
        "builder_missing_attribute",
        with_builder(lambda b, x: b.getInt64NodeAttribute("a", {b.aiOnnx.relu([x])})),
        "has no attribute",
    ),
    Failure(
        "builder_removes_missing_attribute",
        with_builder(lambda b, x: b.removeNodeAttribute("a", {b.aiOnnx.relu([x])})),
        "has no attribute",
    ),
    Failure("builder_pipeline_stage_not_set", with_builder(lambda b, x: b.getPipelineStage()), "not set"),
    Failure("builder_virtual_graph_not_set", with_builder(lambda b, x: b.getVirtualGraph()), "not set"),
    Failure(
        "builder_input_of_missing_parent",
        with_builder(lambda b, x: b.createSubgraphBuilder().addInputTensorFromParentGraph("nothing")),
        "nothing",
    ),
    Failure(
        "builder_saves_to_missing_folder",
        with_builder(lambda b, x: (b.addOutputTensor(x), b.saveModelProto("/nonexistent/folder/m.onnx"))),
        "/nonexistent/folder",
    ),
    Failure("builder_external_in_missing_folder", with_builder(external_twice), "/nonexistent/folder"),
    Failure(
        "builder_external_of_no_initializer",
        with_builder(lambda b, x: b.saveInitializersExternally([x], "/tmp/none.bin")),
        "not an initializer",
    ),
    Failure(
        "builder_partials_of_relu",
        with_builder(lambda b, x: b.setPartialsType(b.aiOnnx.relu([x]), "HALF")),
        "expected Conv or MatMul",
    ),
    Failure(
        "builder_weights_of_text",
        with_builder(lambda b, x: b.addInitializedInputTensor(np.array(["text"]))),
        "no numpy type",
    ),
]
