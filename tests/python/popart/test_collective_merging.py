"""Collectives over replicas: several in one meeting, published before they are met for; the bits stay the same."""

import re
from itertools import pairwise

import numpy as np
import popart
import pytest

from tests.python.popart.test_accumulation import CASES
from tests.python.popart.training_runs import options_with, ready, saved_state, training_session

WIDTHS, BATCH, UPDATES = (96, 192, 96, 192), 4, 5  # weights of 72 KiB: too large to be merged unless asked for
KINDS = ("AllReduce", "ReduceScatter", "AllGather")
STATE_IN_PARTS = {
    "optimizerStateTensorLocationSettings": popart.TensorLocationSettings(
        popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On, popart.CommGroup()), 2, 2
    )
}


def model():
    rng = np.random.default_rng(3)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, WIDTHS[0]], "x")
    for i, (rows, columns) in enumerate(pairwise(WIDTHS)):
        w = builder.addInitializedInputTensor(rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32), f"w{i}")
        b = builder.addInitializedInputTensor(rng.normal(0, 0.1, columns).astype(np.float32), f"b{i}")
        h = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])])
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def merging(*kinds, prepare=False):
    """The options' member: these kinds merged."""
    return popart.ReplicatedCollectivesSettings(prepare, *(kind in kinds for kind in KINDS))


def outcome(settings, folder, monkeypatch, optimizer="adam", factor=1, replicas=2, **given):
    """The lowered program; losses and all that is saved, as bytes."""
    folder.mkdir()
    monkeypatch.setenv("POPART_PASS_DUMP", str(folder))
    proto, loss = model()
    options = options_with(factor, replicas, replicatedCollectivesSettings=settings, **given)
    session = ready(training_session(proto, loss, CASES[optimizer][0](), options))
    monkeypatch.delenv("POPART_PASS_DUMP")
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(8)
    losses = []
    for _ in range(UPDATES):
        shape = ((factor,) if factor > 1 else ()) + (replicas, BATCH, WIDTHS[0])
        session.run(popart.PyStepIO({"x": rng.normal(size=shape).astype(np.float32)}, anchors))
        losses.append(anchors[loss].tobytes())
    program = sorted(folder.glob("*.ir"))[-1].read_text()
    return program, (losses, saved_state(session, folder))


def operands(program, kind):
    """How many operands each collective of the kind has, of those that meet; an update meets for its gradient."""
    updates = [1] * program.count(" = CollectiveUpdate(") if kind == "Reduce" else []
    return sorted(updates + [inner.count("%") for inner in re.findall(rf" = Collective{kind}\(([^)]*)\)", program)])


def test_small_gradients_meet_together_by_default(tmp_path, monkeypatch):
    program, _ = outcome(merging(), tmp_path / "run", monkeypatch)
    assert operands(program, "Reduce") == [1, 1, 1, 3]  # three weights; all biases


def test_replicas_publish_gradients_while_the_backward_pass_goes_on(tmp_path, monkeypatch):
    program, _ = outcome(merging(), tmp_path / "run", monkeypatch)
    assert operands(program, "Publish") == [3, 4, 4, 4]  # all biases; of each weight what the update replaces, too
    channels = [int(c) for c in re.findall(r"channel = (\d+)", program)]
    assert sorted(channels) == [0, 0, 1, 1, 2, 2, 3, 3]
    publishes, meets = program.index("CollectivePublish"), program.index("CollectiveUpdate")
    assert "MatMul" in program[publishes:meets]


@pytest.mark.parametrize("optimizer", sorted(CASES))
@pytest.mark.parametrize("replicas", [2, 3])
def test_bits_do_not_depend_on_what_is_merged(optimizer, replicas, tmp_path, monkeypatch):
    settings = {"none": merging(), "all": merging(*KINDS), "prepared": merging(*KINDS, prepare=True)}
    for factor in (1, 2):
        results = {
            name: outcome(given, tmp_path / f"{name}{factor}", monkeypatch, optimizer, factor, replicas)[1]
            for name, given in settings.items()
        }
        assert results["all"] == results["none"]
        assert results["prepared"] == results["none"]


def test_accumulators_that_are_there_at_one_time_meet_together(tmp_path, monkeypatch):
    plain, bits = outcome(merging(), tmp_path / "plain", monkeypatch, factor=2)
    merged, same = outcome(merging("AllReduce"), tmp_path / "merged", monkeypatch, factor=2)
    assert operands(plain, "Reduce") == [1, 1, 1, 3]
    assert operands(merged, "Reduce") == [6]
    assert same == bits


def test_gradients_wait_for_each_other_when_the_schedule_is_prepared(tmp_path, monkeypatch):
    merged, bits = outcome(merging("AllReduce"), tmp_path / "merged", monkeypatch)
    prepared, same = outcome(merging("AllReduce", prepare=True), tmp_path / "prepared", monkeypatch)
    assert operands(merged, "Reduce") == [1, 1, 1, 3]  # they are not there at one time
    assert operands(prepared, "Reduce") == [6]
    assert same == bits


def test_preparing_alone_changes_nothing(tmp_path, monkeypatch):
    plain, bits = outcome(merging(), tmp_path / "plain", monkeypatch)
    prepared, same = outcome(merging(prepare=True), tmp_path / "prepared", monkeypatch)
    assert prepared == plain
    assert same == bits


@pytest.mark.parametrize(("kind", "device_kind"), [("ReduceScatter", "Scatter"), ("AllGather", "Gather")])
def test_collectives_of_state_in_parts(kind, device_kind, tmp_path, monkeypatch):
    plain, bits = outcome(merging(), tmp_path / "plain", monkeypatch, **STATE_IN_PARTS)
    prepared, same = outcome(merging(kind, prepare=True), tmp_path / "prepared", monkeypatch, **STATE_IN_PARTS)
    assert len(operands(prepared, device_kind)) < len(operands(plain, device_kind))
    assert sum(operands(prepared, device_kind)) == sum(operands(plain, device_kind))
    others = {"Scatter", "Gather", "Reduce"} - {device_kind}
    assert {k: operands(prepared, k) for k in others} == {k: operands(plain, k) for k in others}
    assert same == bits


def test_an_exception_ends_all_replicas_between_the_phases():
    proto, loss = model()
    session = ready(training_session(proto, loss, popart.ConstSGD(0.1), options_with(1, 2), batches=4))
    calls = []

    def give(_name, _prefetch):
        calls.append(1)
        if len(calls) == 5:
            raise ValueError("the data are gone")
        return np.ones((BATCH, WIDTHS[0]), np.float32)

    losses = np.zeros(1, np.float32)
    with pytest.raises(Exception, match="the data are gone"):
        session.run(popart.PyStepIOCallback(give, lambda _n: None, lambda _n: losses, lambda _n: None))
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((4, 2, BATCH, WIDTHS[0]), np.float32)}, anchors))
    assert np.isfinite(anchors[loss]).all()
