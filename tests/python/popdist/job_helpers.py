"""What programs of test_sessions.py share; their first line is ``from tests.python.popdist.job_helpers import *``."""

import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import popart
import popdist
import popdist.popart

import onnx
from onnx import numpy_helper

__all__ = ["adam", "digest", "failing_step", "in_parts", "inference", "np", "offline_device", "os", "popart", "popdist"]
__all__ += ["ready", "save", "step", "sys", "time", "training"]

TOTAL, BATCH, CLASSES = 4, 3, 5


def in_parts():
    """Options that cut optimizer state into parts over all replicas."""
    location = popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)
    return {"optimizerStateTensorLocationSettings": popart.TensorLocationSettings(location, 0, 2)}


def options_of_the_job(given):
    options = popart.SessionOptions()
    for name, value in given.items():
        setattr(options, name, value)
    return popdist.popart.configureSessionOptions(options)


def classifier(width, seed):
    rng = np.random.default_rng(seed)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, 6], "x")
    labels = builder.addInputTensor("INT32", [BATCH], "labels")
    for i, (rows, columns) in enumerate([(6, width), (width, CLASSES)]):
        w = builder.addInitializedInputTensor(rng.normal(0, 0.4, (rows, columns)).astype(np.float32), f"w{i}")
        h = builder.aiOnnx.tanh([builder.aiOnnx.matmul([h, w])])
    loss = builder.aiGraphcore.nllloss([builder.aiOnnx.softmax([h]), labels])
    return builder.getModelProto(), loss


def offline_device():
    """For the replicas of this process; programs are compiled for it, and do not run."""
    return popart.DeviceManager().createOfflineIPUDevice({"numIPUs": str(popdist.getNumLocalReplicas())})


def adam(rate=0.01):
    return popart.Adam({"defaultLearningRate": (rate, False)})


def training(seed=7, width=8, model=None, device=None, **given):
    """A session of this process's replicas; of another model's weights and state if one is given."""
    proto, loss = classifier(width, seed)
    return popart.TrainingSession(
        model or proto,
        popart.DataFlow(1, [loss]),
        loss,
        adam(),
        device or popart.DeviceManager().createCpuDevice(),
        userOptions=options_of_the_job(given),
    )


def ready(session):
    session.prepareDevice()
    session.weightsFromHost()
    return session


def of_this_process(values):
    """What its replicas have of the values of all; without the first dimension where there is one."""
    first, count = popdist.getReplicaIndexOffset(), popdist.getNumLocalReplicas()
    return values[first : first + count] if count > 1 else values[first]


def data(number):
    """Inputs of one update, for the replicas of this process."""
    rng = np.random.default_rng(number)
    all_values = {
        "x": rng.normal(size=(TOTAL, BATCH, 6)).astype(np.float32),
        "labels": rng.integers(0, CLASSES, (TOTAL, BATCH)).astype(np.int32),
    }
    return {name: of_this_process(values) for name, values in all_values.items()}


def step(session, number=0):
    """One update."""
    session.run(popart.PyStepIO(data(number), session.initAnchorArrays()))


def failing_step(session, how):
    """One update which this process lets fail, or not (None)."""
    inputs, anchors = data(0), session.initAnchorArrays()
    if how == "callback":

        def give(name, _):
            raise ValueError("no data today")

        done, take = (lambda _: None), (lambda name: next(iter(anchors.values())))
        return session.run(popart.PyStepIOCallback(give, done, take, done))
    if how == "array":
        inputs["x"] = inputs["x"][:, :2].copy()
    if how == "label":
        inputs["labels"][-1, -1] = CLASSES + 3
    return session.run(popart.PyStepIO(inputs, anchors))


def save(session, folder):
    session.modelToHost(str(Path(folder) / f"{popdist.getInstanceIndex()}.onnx"))


def digest(session):
    """Of all weights and optimizer state."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        session.modelToHost(path)
        values = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    assert len(values) > 4
    return hashlib.sha256(b"".join(name.encode() + values[name].tobytes() for name in sorted(values))).hexdigest()


def inference():
    """Sums over pairs of neighbours of the numbers of all replicas."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1], "x")
    group = popart.CommGroup(popart.CommGroupType.Orthogonal, 2)
    y = builder.aiGraphcore.replicatedallreduce([x], 0, group)
    session = popart.InferenceSession(
        builder.getModelProto(),
        popart.DataFlow(1, [y]),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options_of_the_job({}),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": of_this_process(np.arange(TOTAL, dtype=np.float32).reshape(TOTAL, 1))}, anchors))
    return anchors[y].reshape(-1).tolist()
