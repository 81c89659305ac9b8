"""Gather at one position that the model knows is a copy of a part, as exporters write `x[i]`."""

import json

import numpy as np
import popart_core
import pytest

from onnx import TensorProto, helper, numpy_helper
from tests.inference import prepare, run_once

RNG = np.random.default_rng(31)


def gather(shape: tuple[int, ...], position: np.ndarray, axis: int) -> bytes:
    """A model of the input x and the result y."""
    graph = helper.make_graph(
        [helper.make_node("Gather", ["x", "position"], ["y"], axis=axis)],
        "gather",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(position, "position")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    "shape, axis", [((5, 7, 9), 0), ((5, 7, 9), 1), ((5, 7, 9), -1), ((3, 600, 513), 0), ((4,), 0)]
)
@pytest.mark.parametrize("position", [np.array(2), np.array(-1), np.array([1], np.int32), np.array([[-3]])])
def test_the_part_is_copied(shape, axis, position):
    x = RNG.normal(size=shape).astype(np.float32)
    session = prepare(gather(shape, position, axis), ["y"])
    (y,) = run_once(session, {"x": x}, ["y"])
    np.testing.assert_array_equal(y, np.take(x, position, axis))
    assert "gather" not in json.dumps(json.loads(popart_core._Session._report(session))["programs"])


@pytest.mark.parametrize("position", [5, -6])
def test_a_position_beyond_the_axis_ends_the_run(position):
    session = prepare(gather((5, 3), np.array(position), 0), ["y"])
    with pytest.raises(Exception, match=f"out of range: got {position}"):
        run_once(session, {"x": np.ones((5, 3), np.float32)}, ["y"])
