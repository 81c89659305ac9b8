"""Updates whose gradients overflow are left out whole in every program: replicas, pipelines, shards, off chip."""

import numpy as np
import popart
import pytest

from tests.python.popart.test_frozen_weights import BATCH, OPTIMIZERS, PROGRAMS, VALUES, WIDTH, model
from tests.python.popart.training_runs import options_with, ready, saved_state, training_session

# Every way in which the optimizers keep state, SGD's velocity that gradients are added to among them.
MAKERS = {
    **{name: make for name, (make, _) in OPTIMIZERS.items()},
    "separate": lambda: popart.SGD(
        {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "nesterov": lambda: popart.SGD(
        {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True), "nesterov": (True, True)}
    ),
    "lamb": lambda: popart.Adam({"defaultLearningRate": (0.01, False)}, mode=popart.AdamMode.Lamb),
    "adamax": lambda: popart.Adam({"defaultLearningRate": (0.01, False)}, mode=popart.AdamMode.AdaMax),
    "rmsprop": lambda: popart.Adaptive({"defaultLearningRate": (0.01, False), "defaultMomentum": (0.5, True)}),
    "adadelta": lambda: popart.Adaptive({"defaultLearningRate": (0.01, False)}, mode=popart.AdaptiveMode.AdaDelta),
    "torch adamw": lambda: popart.optim.AdamW(lr=0.01, amsgrad=True),
    "torch sgd": lambda: popart.optim.SGD(lr=0.05, momentum=0.9, dampening=0.1),
    "torch adagrad": lambda: popart.optim.Adagrad(lr=0.05, lr_decay=0.1),
}


def session_of(program, optimizer):
    factor, replicas, more = PROGRAMS[program]
    pipelines = "enablePipelining" in more
    proto, loss = model(pipelines)
    options = options_with(factor, replicas, precision="float16", **more)
    if pipelines:
        options.virtualGraphMode = popart.VirtualGraphMode.Manual
        order = popart.AccumulateOuterFragmentSchedule.Scheduler
        options.accumulateOuterFragmentSettings = popart.AccumulateOuterFragmentSettings(order)
    return ready(training_session(proto, loss, MAKERS[optimizer](), options, [loss, "finalLossScale"])), loss


def states(session, folder):
    return {name: value for name, value in saved_state(session, folder).items() if "ossScale" not in name}


@pytest.mark.parametrize(
    ("program", "optimizer"),
    [
        *((program, name) for program in PROGRAMS for name in ("adam", "momentum", "lamb")),
        *((program, name) for program in ("plain", "replicas and accumulation") for name in MAKERS),
    ],
)
def test_neither_weights_nor_states_change(program, optimizer, tmp_path):
    session, _ = session_of(program, optimizer)
    factor, replicas, _ = PROGRAMS[program]
    rng = np.random.default_rng(3)
    anchors, scales, kept = session.initAnchorArrays(), [], [states(session, tmp_path)]
    for i in range(4):
        data = rng.normal(size=(factor, replicas, BATCH, WIDTH)).astype(np.float32)
        if i in (1, 2):  # in one sample of one micro-batch and replica: the last, and the first
            data[0 if i == 2 else -1, -1 if i == 1 else 0, 1, 2] = np.inf
        data = data.reshape(*[n for n in (factor, replicas) if n > 1], BATCH, WIDTH)
        session.run(popart.PyStepIO({"x": data}, anchors))
        scales.append(float(anchors["finalLossScale"].flat[0]))
        kept.append(states(session, tmp_path))
    assert scales[2] == scales[1] / 2 and scales[3] == scales[2] / 2
    assert kept[1] == kept[2] == kept[3]
    for before, after in ((kept[0], kept[1]), (kept[3], kept[4])):
        for name in VALUES:
            assert np.isfinite(np.frombuffer(after[name], np.float32)).all(), name
            assert before[name] != after[name], name
