"""Models that are damaged or break ONNX's structural rules."""

import tempfile
from pathlib import Path

import numpy as np

import onnx
from onnx import TensorProto
from tests.errors.failure import Failure, edited, parsed, session


def relu_bytes() -> bytes:
    return parsed("float[2,3] x", "y = Relu(x)").SerializeToString()


def external(location: str, fragment: str, name: str, **entries: str) -> Failure:
    """A model whose weight lies in a file, loaded from a folder with a file `w.bin` of 12 bytes."""

    def program():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "w.bin").write_bytes(np.ones(3, np.float32).tobytes())
            Path(folder, "inner").mkdir()
            Path(folder, "inner", "link").symlink_to("/etc")
            model = parsed("float[2,3] x", "y = Add(x, w)")
            weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[3])
            weight.data_location = TensorProto.EXTERNAL
            for key, value in {"location": location, **entries}.items():
                weight.external_data.add(key=key, value=value)
            path = Path(folder, "model.onnx")
            path.write_bytes(model.SerializeToString())
            return session(str(path))

    return Failure(name, program, fragment)


def weight(model):
    return model.graph.initializer[0]


def set_dims(*dims):
    def edit(model):
        del weight(model).dims[:]
        weight(model).dims.extend(dims)

    return edit


def input_dim(index, value):
    return lambda model: setattr(model.graph.input[0].type.tensor_type.shape.dim[index], "dim_value", value)


def open_dim(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def recursive_function(model):
    function = model.functions.add(name="F", domain="own", input=["a"], output=["b"])
    function.opset_import.add(domain="own", version=1)
    function.node.append(onnx.helper.make_node("F", ["a"], ["b"], domain="own"))
    model.opset_import.add(domain="own", version=1)
    model.graph.node[0].op_type, model.graph.node[0].domain = "F", "own"


def sparse(dims, indices):
    """Give Add a sparse weight of ones at `indices`, one list of them or one for each element."""

    def edit(model):
        tensor = model.graph.sparse_initializer.add(dims=dims)
        tensor.values.CopyFrom(onnx.numpy_helper.from_array(np.ones(len(indices), np.float32), "sparse"))
        tensor.indices.CopyFrom(onnx.numpy_helper.from_array(np.array(indices), "indices"))
        model.graph.node[1].input[1] = "sparse"

    return edit


def hard_linked():
    """Load a weight from a file that has a second name."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "outside.bin").write_bytes(np.ones(3, np.float32).tobytes())
        Path(folder, "model").mkdir()
        Path(folder, "model", "w.bin").hardlink_to(Path(folder, "outside.bin"))
        model = parsed("float[2,3] x", "y = Add(x, w)")
        weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[3])
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        path = Path(folder, "model", "model.onnx")
        path.write_bytes(model.SerializeToString())
        return session(str(path))


FAILURES = [
    Failure("empty_bytes", lambda: session(b""), "odel"),
    Failure("bytes_that_are_no_model", lambda: session(b"this is not a model at all"), "odel"),
    Failure("missing_file", lambda: session("/nonexistent/model.onnx"), "/nonexistent/model.onnx"),
    Failure("a_folder_as_model", lambda: session("/tmp"), "/tmp"),
    Failure("truncated_model", lambda: session(relu_bytes()[:-5]), "odel"),
    Failure("model_cut_in_half", lambda: session(relu_bytes()[: len(relu_bytes()) // 2]), "odel"),
    Failure(
        "operator_name_that_is_no_text",
        lambda: session(relu_bytes().replace(b"Relu", b"\xff\xfe\xff\xff"), ["y"]),
        "????",
    ),
    # ---- opsets and graph
    edited("no_opset", lambda m: m.ClearField("opset_import"), "opset"),
    edited("opset_too_old", lambda m: setattr(m.opset_import[0], "version", 5), "too old"),
    edited("opset_negative", lambda m: setattr(m.opset_import[0], "version", -3), "not positive"),
    edited("opset_from_the_future", lambda m: setattr(m.opset_import[0], "version", 1000), "newer than this library"),
    edited("no_graph", lambda m: m.ClearField("graph"), "graph", ["y"]),
    edited("graph_without_nodes", lambda m: m.graph.ClearField("node"), "'y'"),
    edited("node_without_operator", lambda m: m.graph.node[0].ClearField("op_type"), "op"),
    edited("unknown_domain", lambda m: setattr(m.graph.node[0], "domain", "com.nowhere"), "com.nowhere"),
    edited("undefined_input", lambda m: m.graph.node[0].input.__setitem__(0, "nothing"), "nothing"),
    edited("undefined_output", lambda m: setattr(m.graph.output[0], "name", "nothing"), "nothing"),
    edited("two_nodes_make_one_tensor", lambda m: m.graph.node[1].output.__setitem__(0, "h"), "'h' is defined twice"),
    edited("node_makes_a_graph_input", lambda m: m.graph.node[0].output.__setitem__(0, "x"), "'x' is defined twice"),
    edited("node_reads_its_own_output", lambda m: m.graph.node[0].input.__setitem__(0, "h"), "cycle"),
    edited("cycle_of_two_nodes", lambda m: m.graph.node[0].input.__setitem__(0, "y"), "cycle"),
    edited("input_declared_twice", lambda m: m.graph.input.append(m.graph.input[0]), "two inputs are called"),
    edited(
        "initializer_twice", lambda m: m.graph.initializer.append(m.graph.initializer[0]), "two initializers are called"
    ),
    edited("node_without_outputs", lambda m: m.graph.node[0].ClearField("output"), "nothing defines"),
    edited(
        "attribute_twice",
        lambda m: [m.graph.node[0].attribute.add(name="a", i=1, type=2) for _ in "ab"],
        "two attributes are called",
    ),
    edited("attribute_without_type", lambda m: m.graph.node[0].attribute.add(name="alpha"), "alpha"),
    edited("recursive_function", recursive_function, "ecursive"),
    # ---- inputs
    edited("input_without_type", lambda m: m.graph.input[0].ClearField("type"), "expected a dense tensor"),
    edited("input_of_text", lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 8), "string"),
    edited(
        "input_of_undefined_type",
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 0),
        "no element type",
    ),
    edited("input_of_unknown_type", lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 77), "77"),
    edited("input_of_negative_size", input_dim(0, -4), "is negative"),
    edited("input_of_overflowing_size", input_dim(0, 2**62), "too large"),
    edited("input_with_open_shape", open_dim, "InputShapeInfo"),
    edited("input_without_shape", lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"), "InputShapeInfo"),
    edited("input_is_a_sequence", lambda m: m.graph.input[0].type.sequence_type.SetInParent(), "is a sequence of 0"),
    # ---- weights
    edited("weight_without_name", lambda m: weight(m).ClearField("name"), "has no name"),
    edited("weight_without_values", lambda m: weight(m).ClearField("raw_data"), "number of values"),
    edited("weight_with_too_few_bytes", lambda m: setattr(weight(m), "raw_data", b"1234"), "got 4 bytes, expected 12"),
    edited(
        "weight_with_too_many_bytes", lambda m: setattr(weight(m), "raw_data", b"1234" * 9), "got 36 bytes, expected 12"
    ),
    edited("weight_of_negative_size", set_dims(-3), "negative"),
    edited("weight_of_overflowing_size", set_dims(2**40, 2**40), "too large"),
    edited("weight_of_unbacked_size", set_dims(2**33), "raw data does not match"),
    edited("weight_of_unknown_type", lambda m: setattr(weight(m), "data_type", 99), "99"),
    edited("weight_of_undefined_type", lambda m: setattr(weight(m), "data_type", 0), "type number 0"),
    edited("weight_of_text", lambda m: setattr(weight(m), "data_type", 8), "got strings, expected numbers"),
    edited("weight_in_two_fields", lambda m: weight(m).float_data.extend([1, 2, 3]), "twice"),
    edited("sparse_index_out_of_range", sparse([3], [7]), "'sparse': an index is out of range: got 7"),
    edited("sparse_index_below_zero", sparse([3], [-1]), "'sparse': an index is out of range: got -1"),
    edited("sparse_index_out_of_range_in_one_dimension", sparse([2, 3], [[0, 3]]), "an index is out of range: got 3"),
    edited("sparse_index_twice", sparse([3], [1, 1]), "'sparse': indices must ascend"),
    edited("sparse_indices_not_sorted", sparse([3], [2, 0]), "'sparse': indices must ascend"),
    edited("sparse_index_pair_twice", sparse([2, 3], [[0, 1], [0, 1]]), "'sparse': indices must ascend"),
    edited("sparse_index_pairs_not_sorted", sparse([2, 3], [[1, 0], [0, 2]]), "'sparse': indices must ascend"),
    edited("ir_version_of_the_future", lambda m: setattr(m, "ir_version", 99), "there is no such IR version: got 99"),
    edited("ir_version_below_zero", lambda m: setattr(m, "ir_version", -3), "IR version is too old: got -3"),
    Failure("external_file_with_a_second_name", hard_linked, "several names (hard links)"),
    external("missing.bin", "missing.bin", "external_file_missing"),
    external("../w.bin", "..", "external_file_outside"),
    external("/etc/passwd", "/etc/passwd", "external_file_absolute"),
    external("inner/link/passwd", "link", "external_file_through_a_link"),
    external("inner", "inner", "external_file_is_a_folder"),
    external("", "ocation", "external_file_without_name"),
    external("w.bin", "w.bin", "external_data_past_the_end", offset="8"),
    external("w.bin", "offset", "external_data_at_a_negative_offset", offset="-4"),
    external("w.bin", "length", "external_data_of_wrong_length", length="4"),
    external("w.bin", "offset", "external_data_at_no_number", offset="one"),
]
