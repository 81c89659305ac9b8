"""Models above 2 GiB, the limit of one protobuf message: their weights lie in files of their own, here sparse ones."""

import resource

import numpy as np
import popart
import pytest

import onnx
from onnx import TensorProto, helper

ROWS, COLUMNS = 300_000, 2_000  # of float32: 2.4 GB


@pytest.fixture
def model(tmp_path):
    """A file that gathers rows of a table; row 7 counts up, the last row is all fives, the others are zero."""
    with open(tmp_path / "table.bin", "wb") as file:
        file.seek(7 * COLUMNS * 4)
        file.write(np.arange(COLUMNS, dtype=np.float32).tobytes())
        file.seek((ROWS - 1) * COLUMNS * 4)
        file.write(np.full(COLUMNS, 5, np.float32).tobytes())
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS])
    table.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "table.bin"), ("offset", "0"), ("length", str(ROWS * COLUMNS * 4))):
        table.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["rows"])],
        "rows_of_a_table",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, [2])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [2, COLUMNS])],
        [table],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8), path)
    return path


def rows_of(session):
    """What a session gives for rows 7 and the last."""
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"ids": np.array([7, ROWS - 1], np.int32)}, anchors))
    return anchors["rows"]


def open_session(path):
    flow = popart.DataFlow(1, {"rows": popart.AnchorReturnType("All")})
    return popart.InferenceSession(str(path), flow, popart.DeviceManager().createCpuDevice())


def check(rows):
    np.testing.assert_array_equal(rows, [np.arange(COLUMNS), np.full(COLUMNS, 5)])


def test_weights_are_mapped_not_copied(model):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check(rows_of(open_session(model)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024  # KiB; the table has 2.3 million


@pytest.mark.slow
def test_saved_model_puts_its_weights_next_to_itself(model, tmp_path):
    session = open_session(model)
    check(rows_of(session))
    saved = tmp_path / "saved" / "model.onnx"
    saved.parent.mkdir()
    session.modelToHost(str(saved))
    assert saved.stat().st_size < 1 << 20
    assert (saved.parent / "model.onnx.data").stat().st_size == ROWS * COLUMNS * 4
    check(rows_of(open_session(saved)))
    onnx.checker.check_model(str(saved))
