"""Every operator of every version that the onnx package has a schema for is read, or has a reason here."""

from collections import defaultdict

import numpy as np
import popart.backend
import popart_core
import pytest
from popart._host_ops import ALWAYS, ON_TEXT

from onnx import defs, helper

OLDEST_OPSET = 6  # of ai.onnx that is read

# (domain, operator, version) -> why it is not listed as read.
REASONS = {
    ("ai.onnx", "Upsample", 1): "experimental, so in no table of versions; it is read (test_upsample_of_opset_6)",
}


def in_force():
    """(domain, operator, version) of every schema that a model of an operator set which is read may mean."""
    schemas = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        schemas[schema.domain or "ai.onnx", schema.name].append(schema)
    for (domain, name), versions in schemas.items():
        for schema in versions:
            oldest = OLDEST_OPSET if domain == "ai.onnx" else 1
            replaced = [s.since_version for s in versions if schema.since_version < s.since_version <= oldest]
            if not replaced and not schema.deprecated:
                yield domain, name, schema.since_version


def read_by_programs():
    return {(o.domain, o.type, o.version) for o in popart_core.getSupportedOperations(False)}


def read_by_the_host():
    return {(domain or "ai.onnx", name) for domain, name in ALWAYS.keys() | ON_TEXT.keys()}


def test_every_operator_is_read_or_has_a_reason():
    every = set(in_force())
    assert len(every) > 400 and {domain for domain, _, _ in every} >= {"ai.onnx", "ai.onnx.ml"}
    programs, host = read_by_programs(), read_by_the_host()
    missing = {o for o in every if o not in programs and o[:2] not in host}
    assert missing == set(REASONS)


def test_each_reason_says_why():
    assert all(len(reason) > 20 for reason in REASONS.values())


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsample_of_opset_6(mode):
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0, mode=mode)
    given = helper.make_tensor_value_info("x", 1, [1, 1, 2, 2])
    result = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph([node], "g", [given], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=8)
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    (y,) = popart.backend.prepare(model).run([x])
    assert y.shape == (1, 1, 4, 6)
    np.testing.assert_array_equal(y[:, :, ::2, ::3], x)
    if mode == "nearest":
        np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(3, 3))
