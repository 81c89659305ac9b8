"""Data parallel training: replicas of one program, each on its share of the batch, add up their gradients.

The same regression three times: on one replica with the whole batch, on several with `popart.SessionOptions`, and on
several with PopXL, where the program says itself where gradients meet. All end with the same weights, up to rounding.
"""

import argparse

import numpy as np
import popart
import popxl
import popxl.ops as ops
from popxl.transforms import autodiff

BATCH, FEATURES, STEPS, RATE = 64, 8, 50, 0.1
TRUTH = np.linspace(-1, 1, FEATURES, dtype=np.float32)[:, None]
DATA = np.random.default_rng(0).normal(size=(STEPS, BATCH, FEATURES)).astype(np.float32)
TARGETS = DATA @ TRUTH


def with_session_options(replicas: int) -> np.ndarray:
    """Weights after training in a `popart.TrainingSession`, which puts the collectives into the program."""
    rows = BATCH // replicas
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [rows, FEATURES], "x")
    t = builder.addInputTensor("FLOAT", [rows, 1], "t")
    w = builder.addInitializedInputTensor(np.zeros((FEATURES, 1), np.float32), "w")
    error = builder.aiOnnx.sub([builder.aiOnnx.matmul([x, w]), t])
    squares = builder.aiOnnx.mul([error, error])
    loss = builder.aiGraphcore.identityloss([squares], reduction=popart.ReductionType.Mean)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = replicas > 1
    options.replicatedGraphCount = replicas
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(STEPS, {loss: popart.AnchorReturnType("Final")}),
        loss,
        popart.ConstSGD(RATE),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    losses = session.initAnchorArrays()  # one loss of each replica
    inputs = {x: DATA.reshape(STEPS, replicas, rows, FEATURES), t: TARGETS.reshape(STEPS, replicas, rows, 1)}
    session.run(popart.PyStepIO(inputs, losses))
    print(f"popart, {replicas} replicas: last losses {np.ravel(losses[loss])}")
    session.weightsToHost()
    result = np.empty((FEATURES, 1), np.float32)
    session.readWeights(popart.PyWeightsIO({w: result}))
    return result


def with_popxl(replicas: int) -> np.ndarray:
    """Weights after training in a `popxl.Session`; the gradients meet where the program says."""
    rows = BATCH // replicas
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((rows, FEATURES), popxl.float32, name="x")
        t = popxl.h2d_stream((rows, 1), popxl.float32, name="t")
        w = popxl.variable(np.zeros((FEATURES, 1), np.float32), name="w")

        def forward(x: popxl.Tensor, t: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
            error = x @ w - t
            return ops.mean(error * error)

        loaded = ops.host_load(x), ops.host_load(t)
        graph = ir.create_graph(forward, *loaded, w)
        backward = autodiff(graph, grads_required=[graph.inputs[2]])
        site = ops.call_with_info(graph, *loaded, w)
        (gradient,) = ops.call_with_info(
            backward.graph, popxl.constant(np.float32(1)), inputs_dict=backward.inputs_dict(site)
        ).outputs
        mean = ops.collectives.replicated_all_reduce(gradient, "mean")
        ops.scaled_add_(w, mean, b=-RATE)
    with popxl.Session(ir, "cpu") as session:
        shares = (replicas, rows) if replicas > 1 else (rows,)
        for data, target in zip(DATA, TARGETS, strict=True):
            session.run({x: data.reshape(*shares, FEATURES), t: target.reshape(*shares, 1)})
        return session.get_tensor_data(w).copy()


def main() -> None:
    """Train in each way and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=4, help="divides 64 (default: 4)")
    replicas = parser.parse_args().replicas
    alone = with_session_options(1)
    for name, weights in (("popart", with_session_options(replicas)), ("popxl", with_popxl(replicas))):
        print(f"{name}: largest difference {np.abs(weights - alone).max():.1e} from one replica")
    print(f"distance from the truth: {np.abs(alone - TRUTH).max():.2f}")


if __name__ == "__main__":
    main()
