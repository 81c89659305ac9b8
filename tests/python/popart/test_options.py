"""docs/options.md tells the truth about every option."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import popart
import pytest

TABLE = Path(__file__).parents[3] / "docs" / "options.md"
OPTIONS, PATTERNS = TABLE.read_text().split("\n## Patterns\n")
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([a-z ]+) \|", OPTIONS, re.MULTILINE))
# Values that a refused option does not take, with what must be set beside it.
REFUSED = {
    "syntheticDataMode": (popart.SyntheticDataMode.Zeros, {}),
    "enableReplicatedGraphs": (True, {"replicatedGraphCount": 2}),
    "replicatedGraphCount": (2, {"enableReplicatedGraphs": True}),
    "enableDistributedReplicatedGraphs": (True, {"globalReplicationFactor": 2}),
    "globalReplicationFactor": (2, {"enableDistributedReplicatedGraphs": True}),
    "updatableNamedBuffers": (["w"], {}),
    "customCodelets": (["codelet.cpp"], {}),
}


def session(options):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    w = builder.addInitializedInputTensor(np.ones((3, 4), np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    return popart.InferenceSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [y]),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )


def test_every_option_has_a_row():
    options = popart.SessionOptions()
    members = {name for name in dir(options) if not name.startswith("__") and not callable(getattr(options, name))}
    aliases = {"defaultPrefetchBufferingDepth", "prefetchBufferingDepthMap", "serializedPoprithmsAnnealGraphsDir"}
    assert members - aliases - {"compilationProgressTotal", "compilationProgressLogger"} == set(ROWS)
    assert set(ROWS.values()) == {"supported", "no effect", "refused"}


def test_every_pattern_has_a_row():
    rows = re.findall(r"^\| (`.*?) \| ([a-z ]+) \|", PATTERNS, re.MULTILINE)
    states = {name: state for names, state in rows for name in re.findall(r"`(\w+)`", names)}
    tool = Path(__file__).parents[3] / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-opt"
    passes = subprocess.run([tool, "--list-passes"], capture_output=True, text=True, check=True).stdout
    rewriting = set(re.findall(r"^\s*(\w+)\s+pattern$", passes, re.MULTILINE))
    assert {name for name, state in states.items() if state == "rewrite"} == rewriting
    patterns = popart.Patterns(popart.PatternsLevel.All)
    for name in states:
        patterns.isPatternEnabled(name)  # throws for unknown names
    assert set(str(patterns).split()) <= set(states)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, state in ROWS.items() if state == "refused"])
def test_refused_options_are_refused_by_name(name):
    options = popart.SessionOptions()
    if name == "automaticLossScalingSettings":
        options.automaticLossScalingSettings.enabled = True
    elif name == "experimentalSettings":
        options.experimentalSettings.customTransformApplierSettings = {"Fwd0": ["Mine"]}
    else:
        value, others = REFUSED.get(name, (True, {}))
        for other, setting in {name: value, **others}.items():
            setattr(options, other, setting)
    with pytest.raises(popart.popart_exception, match="SessionOptions"):
        session(options)


def switches_without_effect():
    """Boolean options without effect; pipelining needs a model with virtual graphs."""
    names = [name for name, state in ROWS.items() if state == "no effect" and name != "enablePipelining"]
    return [name for name in names if isinstance(getattr(popart.SessionOptions(), name), bool)]


@pytest.mark.parametrize("name", switches_without_effect())
def test_switches_without_effect_are_accepted(name):
    options = popart.SessionOptions()
    contradicts = {"aliasZeroCopy": "explicitRecomputation", "enableExplicitMainLoops": "useHostCopyOps"}
    setattr(options, name, not getattr(options, name))
    if name in contradicts:
        setattr(options, contradicts[name], True)
    session(options).prepareDevice()
