"""Interrupts training, saves, resumes in a new session and gets the same bits as without the interruption.

The saved model holds weights and optimizer state. Also changes the learning rate between steps and reads weights back.
"""

import tempfile
from pathlib import Path

import numpy as np
import popart

BATCH, FEATURES = 8, 10
STEPS = 6


def model() -> tuple[bytes, str]:
    """Linear regression with an L1 loss; returns the model and the id of the loss."""
    builder = popart.Builder()
    data = builder.addInputTensor("FLOAT", [BATCH, FEATURES], "data")
    weight = builder.addInitializedInputTensor(np.zeros((FEATURES, 1), np.float32), "weight")
    error = builder.aiOnnx.sub(
        [builder.aiOnnx.matmul([data, weight]), builder.addInputTensor("FLOAT", [BATCH, 1], "y")]
    )
    loss = builder.aiGraphcore.l1loss([error], 1.0, popart.ReductionType.Mean, debugContext="loss")
    return builder.getModelProto(), loss


def optimizer(learning_rate: float) -> popart.Adam:
    """Adam whose learning rate may change between steps."""
    return popart.Adam({"defaultLearningRate": (learning_rate, False)})


def make_session(proto: bytes | str, loss: str) -> popart.TrainingSession:
    """A session ready to train."""
    session = popart.TrainingSession(
        proto,
        dataFlow=popart.DataFlow(1, [loss]),
        loss=loss,
        optimizer=optimizer(0.05),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def train(session: popart.TrainingSession, steps: range) -> None:
    """Run some steps; the learning rate falls with the step."""
    anchors = session.initAnchorArrays()
    for step in steps:
        session.updateOptimizerFromHost(optimizer(0.05 / (1 + step)))
        data = np.random.default_rng(step).normal(size=(BATCH, FEATURES)).astype(np.float32)
        target = data.sum(1, keepdims=True)
        session.run(popart.PyStepIO({"data": data, "y": target}, anchors))


def read_weight(session: popart.TrainingSession) -> np.ndarray:
    """The weight as it is on the device."""
    weight = np.empty((FEATURES, 1), np.float32)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"weight": weight}))
    return weight


def main() -> None:
    """Train through and with an interruption; compare."""
    proto, loss = model()
    through = make_session(proto, loss)
    train(through, range(STEPS))

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "checkpoint.onnx")
        first = make_session(proto, loss)
        train(first, range(STEPS // 2))
        first.modelToHost(path)
        resumed = make_session(path, loss)
        # A session that exists already takes the values over instead:
        first.resetHostWeights(path)
        first.weightsFromHost()
    train(resumed, range(STEPS // 2, STEPS))
    train(first, range(STEPS // 2, STEPS))
    same = all(np.array_equal(read_weight(through), read_weight(session)) for session in (resumed, first))
    print(f"weights after resuming are {'bit-identical' if same else 'different'}")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
