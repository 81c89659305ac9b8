"""In-place variants and merged transfers in the serialised IR: what is shown, and what programs say about it."""

import itertools

import numpy as np
import popart
import pytest

from tests.python.popart.training_runs import graphs_of, inference_session, options_with, ready, training_session

X = np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)
W = np.random.default_rng(6).normal(size=(8, 8)).astype(np.float32)


class Layers:
    """y = sin(relu(x·w) + b), and its parts."""

    def __init__(self):
        self.builder = builder = popart.Builder()
        self.x = builder.addInputTensor("FLOAT", [4, 8], "x")
        w = builder.addInitializedInputTensor(W, "w")
        b = builder.addInitializedInputTensor(W[0], "b")
        self.product = builder.aiOnnx.matmul([self.x, w])
        self.relu = builder.aiOnnx.relu([self.product])
        self.sum = builder.aiOnnx.add([self.relu, b])
        self.y = builder.aiOnnx.sin([self.sum])

    def inference(self, anchors=None, patterns=None, batches=1, **given):
        return popart.InferenceSession(
            self.builder.getModelProto(),
            popart.DataFlow(batches, anchors or [self.y]),
            popart.DeviceManager().createCpuDevice(),
            patterns=patterns,
            userOptions=options_with(**given),
        )

    def training(self, **given):
        loss = self.builder.aiGraphcore.l1loss([self.y], 0.1)
        options = options_with(**given)
        return training_session(self.builder.getModelProto(), loss, popart.ConstSGD(0.1), options, [loss, self.relu])


def types(session):
    return [op["type"] for ops in graphs_of(session).values() for op in ops]


PLAIN = ["MatMul", "Relu", "Add", "Sin"]
IN_PLACE = ["MatMul", "ReluInplace", "AddLhsInplace", "SinInplace"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (popart.PatternsLevel.NoPatterns, PLAIN),
        (popart.PatternsLevel.Minimal, PLAIN),
        (popart.PatternsLevel.Default, IN_PLACE),
        (popart.PatternsLevel.All, IN_PLACE),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_levels(level, expected):
    patterns = popart.Patterns(level)
    patterns.enableRuntimeAsserts(False)
    assert types(Layers().inference(patterns=patterns)) == expected
    patterns.InPlace = expected == PLAIN
    assert types(Layers().inference(patterns=patterns)) == (IN_PLACE if expected == PLAIN else PLAIN)


def test_anchors_keep_their_values():
    layers = Layers()
    session = layers.inference([layers.y, layers.product, layers.sum])
    assert types(session) == ["MatMul", "Relu", "AddLhsInplace", "Sin"]
    anchors = ready(session).initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    np.testing.assert_allclose(anchors[layers.product], X @ W, rtol=1e-5, atol=1e-6)
    assert (anchors[layers.product] < 0).any()
    np.testing.assert_allclose(anchors[layers.y], np.sin(anchors[layers.sum]), rtol=1e-5, atol=1e-6)


def test_preferences_and_exclusions():
    layers = Layers()
    layers.builder.setInplacePreferences(layers.sum, {"AddLhsInplace": -1.0})
    layers.builder.excludePatterns(layers.y, ["InPlace"])
    assert types(layers.inference()) == ["MatMul", "ReluInplace", "Add", "Sin"]


def test_training_overwrites_nothing_that_gradients_read():
    """The gradient of Sin reads its operand, that of Relu its result."""
    ops = types(Layers().training())
    assert "ReluInplace" in ops and "Sin" in ops and "SinInplace" not in ops
    assert "Add" in ops  # its operand is what Relu gave


def test_in_place_programs_are_not_ambiguous():
    layers = Layers()
    session = ready(layers.inference(enableInplaceAmbiguityChecking=True))
    session.checkInplacingAmbiguity()
    ready(Layers().training(enableInplaceAmbiguityChecking=True))


# ---- merged transfers


def two_inputs(**given):
    builder = popart.Builder()
    x, y = (builder.addInputTensor("FLOAT", [4, 8], name) for name in "xy")
    total, product = builder.aiOnnx.add([x, y]), builder.aiOnnx.mul([x, y])
    options = options_with(useHostCopyOps=True, **given)
    return inference_session(builder.getModelProto(), [total, product], options, batches=3), total, product


def test_transfers_next_to_one_another_are_one_exchange():
    session, total, product = two_inputs()
    loads, *computed, stores = graphs_of(session)["maingraph"]
    assert loads["type"] == stores["type"] == "MultiExchange" and len(computed) == 2
    assert [t["index"] for t in loads["outputs"]] == ["0", "1"] and loads["inputs"] == []
    assert [t["name"] for t in loads["outputs"]] == ["x___loaded", "y___loaded"]
    assert sorted(t["name"] for t in stores["inputs"]) == sorted([total, product]) and stores["outputs"] == []
    apart, *_ = two_inputs(enableMergeExchange=False)
    assert types(apart).count("HostLoad") == types(apart).count("HostStore") == 2


def test_exchanges_in_loops():
    loops, *_ = two_inputs(enableExplicitMainLoops=True)
    (body,) = [ops for name, ops in graphs_of(loops).items() if name != "maingraph"]
    assert body[0]["type"] == body[-1]["type"] == "MultiExchange"


def steps_of(session):
    """Kinds of the steps of the compiled program, in their order."""
    programs = session.getReport().compilation.programs
    return [program.name.split(".")[0] for step in programs for program in step if not list(program.children)]


def test_parts_of_exchanges_run_next_to_one_another():
    """As compiled: nothing comes between the transfers that the IR shows as one."""
    session, *_ = two_inputs(enableExplicitMainLoops=True)
    kinds = [kind for kind, _ in itertools.groupby(steps_of(ready(session)))]
    assert kinds.count("HostLoad") == kinds.count("HostStore") == 1


@pytest.mark.parametrize("readers", [1, 2])
def test_transfers_of_remote_memory_for_one_operation(readers):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 8], "x")
    v, w = (builder.addInitializedInputTensor(W, name) for name in "vw")
    if readers == 1:
        y = builder.aiOnnx.add([builder.aiOnnx.sub([v, w]), x])
    else:
        y = builder.aiOnnx.sub([builder.aiOnnx.add([v, x]), w])
    settings = popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 0, 0)
    options = options_with(weightTensorLocationSettings=settings, constantWeights=False)
    session = inference_session(builder.getModelProto(), [y], options)
    shown = types(session)
    expected = {"MultiExchange": 1, "RemoteLoad": 0} if readers == 1 else {"MultiExchange": 0, "RemoteLoad": 2}
    assert {kind: shown.count(kind) for kind in expected} == expected
    kinds = [kind for kind, _ in itertools.groupby(steps_of(ready(session)))]
    assert readers == 2 or kinds.count("RemoteLoad") == 1


def test_merging_changes_no_bits():
    results = []
    for merges in (False, True):
        session, *_ = two_inputs(enableMergeExchange=merges)
        anchors = ready(session).initAnchorArrays()
        data = np.arange(96, dtype=np.float32).reshape(3, 4, 8)
        session.run(popart.PyStepIO({"x": data, "y": data + 1}, anchors))
        results.append([value.tobytes() for value in anchors.values()])
    assert results[0] == results[1]
