"""getSupportedOperations and its kin: what is written with other operators stands in them too."""

import re
from pathlib import Path

import popart
import popart_core
import pytest

from onnx import defs

SOURCES = Path(__file__).parents[3] / "src" / "onnx" / "import"
RULES = {
    match.groups()
    for file in SOURCES.glob("*.cpp")
    for match in re.finditer(r'\{"(ai\.[a-z.]+)",\s*"(\w+)",\s*import', file.read_text())
}


def listed():
    return {(o.domain, o.type, o.version) for o in popart_core.getSupportedOperations(False)}


def test_every_import_rule_is_listed():
    assert len(RULES) > 60
    assert {("ai.onnx", "LSTM"), ("ai.onnx", "Attention"), ("ai.graphcore", "LSTM")} <= RULES
    names = {(domain, type) for domain, type, _ in listed()}
    assert RULES - names == set()


def test_rules_are_listed_in_every_version():
    """An operator of ai.onnx without a row of its own has the versions that ONNX has."""
    versions = {s.since_version for s in defs.get_all_schemas_with_history() if s.name == "LSTM" and s.domain == ""}
    assert {version for domain, type, version in listed() if (domain, type) == ("ai.onnx", "LSTM")} == versions


@pytest.mark.parametrize("opset", [6, 11, 17, defs.onnx_opset_version()])
def test_an_operator_is_listed_once(opset):
    """What is not supported is not listed as supported in the same operator set."""
    refused = {(o.domain, o.type, o.version) for o in popart_core.getUnsupportedOperations(opset)}
    assert refused & listed() == set()


def test_definitions_name_operands_and_attributes():
    definitions = popart_core.getSupportedOperationsDefinition(False)
    assert set(definitions) == set(popart_core.getSupportedOperations(False))
    lstm = definitions[popart_core.OperatorIdentifier("ai.onnx", "LSTM", 7)]
    assert [i.name for i in lstm.inputs] == ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    assert [o.name for o in lstm.outputs] == ["Y", "Y_h", "Y_c"]
    assert "hidden_size" in lstm.attributes
    own = definitions[popart_core.OperatorIdentifier("ai.graphcore", "SplineBasis", 1)]
    assert [i.name for i in own.inputs] == ["pseudo", "kernel_size", "is_open_spline"]
    assert popart.DataType.FLOAT in own.inputs[0].supportedTensors
