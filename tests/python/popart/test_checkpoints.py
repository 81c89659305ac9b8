"""Training that stops and goes on from a saved model: the same bits, for every optimizer and with other replicas."""

import numpy as np
import popart
import pytest

from tests.python.popart.optimizer_formulas import Reduction
from tests.python.popart.test_optimizers import CASES, FIRST, model_bytes, read, session_for
from tests.python.popart.training_runs import ready, training_session

UPDATES, SAVED_AFTER = 6, 3
DATA = np.random.default_rng(41).normal(size=(UPDATES, 4, 5, 6)).astype(np.float32)


def train(session, first, last, reduction):
    """Updates ``first`` to ``last``: each of four micro-batches, or of as many as the reduction takes."""
    lead = reduction.factor, reduction.replicas
    for update in range(first, last):
        data = DATA[update, : lead[0] * lead[1]].reshape(*lead, 5, 6)
        session.run(popart.PyStepIO({"x": data}, {}))


def optimizer(name, constant):
    case = CASES[name]
    return case.optimizer(case.values, case.scale, constant)


@pytest.mark.parametrize("reduction", [Reduction(), Reduction(2, 2, mean=True)], ids=["one", "both"])
@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_goes_on_with_the_same_bits(name, reduction, tmp_path):
    constant = reduction.factor > 1  # so that both kinds of values are tried
    whole = session_for(model_bytes(), optimizer(name, constant), reduction)
    train(whole, 0, UPDATES, reduction)
    begun = session_for(model_bytes(), optimizer(name, constant), reduction)
    train(begun, 0, SAVED_AFTER, reduction)
    path = str(tmp_path / "saved.onnx")
    begun.modelToHost(path)
    resumed = session_for(path, optimizer(name, constant), reduction)
    train(resumed, SAVED_AFTER, UPDATES, reduction)
    for key, value in read(whole).items():
        np.testing.assert_array_equal(read(resumed)[key], value)
        assert not np.array_equal(value, FIRST[key])
    train(begun, SAVED_AFTER, UPDATES, reduction)  # saving leaves the session itself as it was
    for key, value in read(whole).items():
        np.testing.assert_array_equal(read(begun)[key], value)


# Clipping of a velocity that replicas accumulate sees it times the replicas (docs/compat/optimizers.md), so that its
# limit means something else with another number of them.
PER_REPLICA = {"combined_clip"}


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "sum"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in PER_REPLICA])
def test_other_replicas_go_on_at_the_same_global_batch(name, mean, tmp_path):
    path = str(tmp_path / "saved.onnx")
    results = {}
    for replicas in (1, 2, 4):
        reduction = Reduction(4 // replicas, replicas, mean=mean)
        if replicas == 1:
            begun = session_for(model_bytes(), optimizer(name, True), reduction)
            train(begun, 0, SAVED_AFTER, reduction)
            begun.modelToHost(path)
        session = session_for(path, optimizer(name, True), reduction)
        train(session, SAVED_AFTER, UPDATES, reduction)
        results[replicas] = read(session)
    for replicas in (2, 4):
        for key, value in results[1].items():
            # sums over replicas are rounded in another order; state of FLOAT16 has 11 bits
            moved = np.abs(value - FIRST[key]).max()
            bound = (1e-2 if CASES[name].half else 1e-4) * moved + 2e-6
            np.testing.assert_allclose(results[replicas][key], value, rtol=0, atol=bound)


def test_random_numbers_go_on_with_the_seed(tmp_path):
    builder = popart.Builder(model_bytes())
    (dropped,) = builder.aiOnnx.dropout([builder.getInputTensorIds()[0]], 1, 0.5)
    w = builder.addInitializedInputTensor(np.ones((6, 4), np.float32), "w2")
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([dropped, w])], 1.0, popart.ReductionType.Sum)

    def session_of(model):
        session = ready(training_session(model, loss, popart.ConstSGD(0.1)))
        return session

    def losses(session, first, last):
        anchors = session.initAnchorArrays()
        found = []
        for update in range(first, last):
            session.run(popart.PyStepIO({"x": DATA[update, 0]}, anchors))
            found.append(anchors[loss].copy())
        return found

    whole = session_of(builder.getModelProto())
    whole.setRandomSeed(5)
    expected = losses(whole, 0, UPDATES)
    begun = session_of(builder.getModelProto())
    begun.setRandomSeed(5)
    first = losses(begun, 0, SAVED_AFTER)
    path = str(tmp_path / "saved.onnx")
    begun.modelToHost(path)
    resumed = session_of(path)
    resumed.setRandomSeed(begun.getRandomSeed())
    np.testing.assert_array_equal(first + losses(resumed, SAVED_AFTER, UPDATES), expected)
