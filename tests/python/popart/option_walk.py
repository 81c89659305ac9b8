"""Tries every value of every session option on a training and an inference program.

Run as a program with POPART_LOG_DEST set to a file: prints one JSON object from "<option>=<value>" to what happened:
sets (options), error (text or null), warnings (new log lines), same (results, planned memory and the serialised IR are
those of the default options).
"""

import enum
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import popart

RNG = np.random.default_rng(1)
X = RNG.standard_normal((2, 8, 6)).astype(np.float32)  # two batches
LABELS = RNG.integers(0, 4, (2, 8)).astype(np.int32)
W1, W2 = (RNG.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5, 4)))

# Values for options whose type alone does not give any.
VALUES = {
    "logDir": ["."],
    "dotChecks": [{"Final"}],
    "hardwareInstrumentations": [set(), {popart.Instrumentation.Inner}],
    "bufferingDepthMap": [{"x": 2}],
    "accumulateOuterFragmentSettings.excludedVirtualGraphs": [[0]],
    "automaticLossScalingSettings.toTrackTensors": [["w1"]],
    "virtualGraphSplitRatios": [[0.5]],
    "customCodelets": [["codelet.cpp"]],
    "customCodeletCompileFlags": ["-O3"],
    "updatableNamedBuffers": [["w1"]],
    "trainableTensors": [["w1"]],
    "frozenTensors": [["w2*"]],
    "cachePath": ["elsewhere"],
    "executionPhaseSettings.phases": [1, 2],
    "batchSerializationSettings.factor": [1, 2],
    "precision": ["bfloat16", "float16", "float32"],
    "partialsTypeMatMuls": ["float", "half"],
    "kahnTieBreaker": ["fifo", "random"],
    "serializedPoprithmsShiftGraphsDir": ["graphs"],
    "tensorLocationSettingsOverride": [
        {"w1": popart.TensorLocation(popart.TensorStorage.OffChip)},
        {"w1": popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)},
    ],
    "experimentalSettings.customTransformApplierSettings": [{"Fwd0": ["Prune"], "Final": ["Prune"]}],
}
# Options that must be set together with an option, because contradictions are refused.
COMPANIONS = {
    "aliasZeroCopy": {"explicitRecomputation": True},
    "enableExplicitMainLoops": {"useHostCopyOps": True},
    "enablePipelining": {"virtualGraphMode": popart.VirtualGraphMode.Manual},
    "executionPhaseSettings.phases": {"virtualGraphMode": popart.VirtualGraphMode.ExecutionPhases},
    "batchSerializationSettings.method": {
        "batchSerializationSettings.factor": 2,
        "batchSerializationSettings.transformContext": popart.BatchSerializationTransformContext.Bwd,
    },
    "batchSerializationSettings.transformContext": {"batchSerializationSettings.factor": 2},
    "enableReplicatedGraphs": {"replicatedGraphCount": 2},
    "replicatedGraphCount": {"enableReplicatedGraphs": True},
    "globalReplicaOffset": {"globalReplicationFactor": 2},
    "accumulationFactor": {"enableGradientAccumulation": True},
    **{
        f"{kind}TensorLocationSettings.location.{tiles}": {"numIOTiles": 32}
        for kind in ("activation", "weight", "optimizerState", "accumulator")
        for tiles in ("loadTileSet", "storageTileSet")
    },
    "createImplicitPipeliningFwdOnlyProgram": {
        "enablePipelining": True,
        "virtualGraphMode": popart.VirtualGraphMode.Manual,
        "enableGradientAccumulation": True,
    },
}
MAPS = ("engineOptions", "convolutionOptions", "lstmOptions", "matmulOptions", "reportOptions", "gclOptions")
OLD_NAMES = ("defaultPrefetchBufferingDepth", "prefetchBufferingDepthMap", "serializedPoprithmsAnnealGraphsDir")


def members(settings: object) -> list[str]:
    """Names of the public values of an options object."""
    names = [name for name in dir(settings) if not name.startswith("__")]
    return [name for name in names if not callable(getattr(settings, name))]


def is_struct(value: object) -> bool:
    """Whether a value has members of its own."""
    return type(value).__module__ == "popart_core" and not isinstance(value, enum.Enum) and not hasattr(value, "items")


def leaves(settings: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted name and value of every option that is no struct."""
    for name in members(settings):
        value = getattr(settings, name)
        if is_struct(value):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def other_values(name: str, value: object) -> list[object]:
    """Values of an option apart from its default."""
    if name in VALUES:
        return VALUES[name]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, enum.Enum):
        return [other for other in type(value) if other != value and other.name != "N"]
    if isinstance(value, int | float):
        return [value + 1]
    return []


def assign(options: popart.SessionOptions, name: str, value: object) -> None:
    """Set an option by its dotted name."""
    *path, last = name.split(".")
    for part in path:
        options = getattr(options, part)
    setattr(options, last, value)


def model(training: bool) -> tuple[popart.Builder, list[str]]:
    """A network of two layers with dropout and, in training, its loss."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 6], "x")
    w1 = builder.addInitializedInputTensor(W1, "w1")
    w2 = builder.addInitializedInputTensor(W2, "w2")
    with builder.virtualGraph(0):
        hidden = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w1])])
        hidden = builder.aiOnnx.dropout([hidden], 1, 0.25)[0]
    with builder.virtualGraph(1):
        # three uses of w2, so that its gradient is a sum
        scores = builder.aiOnnx.sum([builder.aiOnnx.matmul([hidden, w2]) for _ in range(3)])
        probs = builder.aiOnnx.softmax([scores])
        if not training:
            return builder, [probs]
        labels = builder.addInputTensor("INT32", [8], "labels")
        return builder, [probs, builder.aiGraphcore.nllloss([probs, labels])]


def run(options: popart.SessionOptions, training: bool, patterns: popart.Patterns | None = None) -> list[bytes | str]:
    """Results, weights and planned memory of one of the two programs."""
    return run_and_show(options, training, patterns)[0]


def run_and_show(
    options: popart.SessionOptions, training: bool, patterns: popart.Patterns | None = None
) -> tuple[list[bytes | str], str]:
    """The same, and the serialised IR."""
    builder, outputs = model(training)
    common = {
        "fnModel": builder.getModelProto(),
        "dataFlow": popart.DataFlow(2, {outputs[-1]: popart.AnchorReturnType("ALL")}),
        "deviceInfo": popart.DeviceManager().createCpuDevice(),
        "userOptions": options,
        "patterns": patterns,
    }
    if training:
        optimizer = popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})
        session = popart.TrainingSession(loss=outputs[-1], optimizer=optimizer, **common)
    else:
        session = popart.InferenceSession(**common)
    shown = session._serializeIr(popart.IrSerializationFormat.JSON)
    session.prepareDevice()
    if training:
        session.setRandomSeed(7)
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    feeds = {"x": X, "labels": LABELS} if training else {"x": X}
    for _ in range(2):
        session.run(popart.PyStepIO(feeds, anchors))
    results = [np.asarray(value).tobytes() for value in anchors.values()]
    if training:
        weights = {"w1": np.empty_like(W1), "w2": np.empty_like(W2)}
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(weights))
        results += [value.tobytes() for value in weights.values()]
    # the host's copies hold names of operations, which count up within a process
    memory = [line for line in session.getSummaryReport().splitlines() if not re.search("host copies|peak", line)]
    return [*results, *memory], shown


def plan(options: popart.SessionOptions) -> list[tuple[list[bytes | str], str]]:
    """Both programs."""
    return [run_and_show(options, training) for training in (False, True)]


def attempts() -> Iterator[tuple[str, dict[str, object]]]:
    """Name of each attempt and the options it sets."""
    for name, default in leaves(popart.SessionOptions()):
        if name.split(".")[0] in OLD_NAMES:
            continue
        for value in other_values(name, default):
            yield f"{name}={value}", {**COMPANIONS.get(name, {}), name: value}
    for name, key, _, _ in popart._optionKeys():
        if key not in (
            "max_memory",
            "max_shape_programs",
            "max_stacked_iterations",
            "max_loop_iterations",
            "max_run_seconds",
            "replicas.timeout",
            "replicas.compare",
            "disable_passes",
            "num_threads",
            "pipeline.concurrent",
            "autoReport.executionProfileProgramRunCount",
        ):
            yield f"{name}[{key}]", {name: {key.replace("*", "x"): "true"}}
    for name in MAPS:
        yield f"{name}[max_memroy]", {name: {"max_memroy": "1G"}}


def main() -> None:
    """Try everything; print what happened."""
    log = Path(os.environ["POPART_LOG_DEST"])
    expected = plan(popart.SessionOptions())
    assert plan(popart.SessionOptions()) == expected, "the programs themselves are not repeatable"
    happened = {}
    for title, settings in attempts():
        seen = len(log.read_text().splitlines()) if log.exists() else 0
        error, same = None, None
        training_only = "enableGradientAccumulation" in settings
        try:
            options = popart.SessionOptions()
            for name, value in settings.items():
                assign(options, name, value)
            same = plan(options) == expected if not training_only else run_and_show(options, True) == expected[1]
        except popart.popart_exception as refused:
            error = str(refused)
        lines = log.read_text().splitlines()[seen:] if log.exists() else []
        lines = [line for line in lines if " E: " not in line]  # the error is kept separately
        happened[title] = {"sets": list(settings), "error": error, "same": same, "warnings": lines}
    json.dump(happened, sys.stdout)


if __name__ == "__main__":
    main()
