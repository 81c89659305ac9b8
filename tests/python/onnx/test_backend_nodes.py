"""ONNX's own operator and model cases: every case passes or is refused with a reason; none gives wrong values."""

import json

import numpy as np
import popart
import popart.backend
import popart_core
import pytest

import onnx
from onnx import helper
from tests.python.onnx.node_suite import KINDS, REFUSED, all_cases, compare, outcomes, refused_by_reason, table


def test_no_case_fails(capsys):
    """Values are right wherever a model is taken; refusals are typed."""
    failed = [f"{r.name}: {r.reason[:200]}" for r in outcomes().values() if r.outcome == "fail"]
    with capsys.disabled():
        print("\n" + table(outcomes()))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_are_those_on_record(kind):
    """refused.json lists the refusals: a case that passes now, or no longer does, has to be noted there (--update)."""
    noted = {name: reason for reason, names in json.loads(REFUSED.read_text()).items() for name in names}
    results = {name: result for name, result in outcomes().items() if result.kind == kind}
    refused = {name: reason for reason, names in refused_by_reason(results).items() for name in names}
    noted = {name: reason for name, reason in noted.items() if name in results}
    assert refused == noted


def test_refusals_say_what_to_do_about_which_node():
    """A reason names what is wrong in full sentences, never an empty text."""
    for result in outcomes().values():
        if result.outcome == "refused":
            assert len(result.reason) > 20, result.name


def test_complex_results_are_compared_whole():
    """Both parts of a number count."""
    case = next(iter(all_cases().values()))
    expected = np.array([1 + 2j, 3 - 4j], np.complex64)
    assert compare(case, [expected.copy()], [expected]) == ""
    for part in (expected.conj(), -expected.conj(), np.array([1 + 2j, np.nan], np.complex64)):
        assert "values differ" in compare(case, [part], [expected])


def test_a_refusal_is_known_by_its_kind(monkeypatch):
    """What cannot run is built once, whatever words stand in its message; what needs constants is tried again."""
    built = []
    build = popart.backend.BackendRep._build
    monkeypatch.setattr(popart.backend.BackendRep, "_build", lambda self, *a: built.append(a[1]) or build(self, *a))
    name = "must be known when the graph is built"
    node = helper.make_node("MatMul", ["a", "b"], [name])
    x = np.ones((2, 3), np.float32)
    with pytest.raises(popart.popart_exception, match=name):
        popart.backend.run_node(node, [x, x])
    assert len(built) == 1
    built.clear()
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    (y,) = popart.backend.run_node(node, [x, np.array([3, 2])])
    assert y.shape == (3, 2) and built[0] == set() and len(built) > 1
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [2]),
    ]
    graph = helper.make_graph([node], "reshape", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    device = popart.DeviceManager().createCpuDevice()
    with pytest.raises(popart_core.unknown_value_error):
        popart.InferenceSession(model.SerializeToString(), popart.DataFlow(1, ["y"]), device)
