"""Training under a memory limit that weights and optimizer state exceed: they lie off chip, loaded layer by layer.

The same network three times: all in memory, under ``max_memory``, where the compiler chooses what is computed again or
kept off chip, and with weights, Adam state and activations in remote memory by hand. Losses and weights are the same
bits. With ``--folder`` remote memory is files there.
"""

import argparse
import os

import numpy as np
import popart

WIDTH, LAYERS, BATCH, STEPS = 512, 12, 32, 5


def model() -> tuple[bytes, str]:
    """A deep network with its loss."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT", [BATCH, WIDTH], "x")
    for layer in range(LAYERS):
        values = rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
        h = builder.aiOnnx.tanh([builder.aiOnnx.matmul([h, builder.addInitializedInputTensor(values, f"w{layer}")])])
    loss = builder.aiGraphcore.l1loss([h], 1.0, reduction=popart.ReductionType.Mean)
    return builder.getModelProto(), loss


def train(options: popart.SessionOptions) -> tuple[np.ndarray, np.ndarray, popart.TrainingSession]:
    """Losses of all steps, the first weight afterwards and the session."""
    proto, loss = model()
    session = popart.TrainingSession(
        proto,
        popart.DataFlow(STEPS, [loss]),
        loss,
        popart.Adam({"defaultLearningRate": (1e-3, False)}),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = np.random.default_rng(1).normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)
    session.run(popart.PyStepIO({"x": data}, anchors))
    session.weightsToHost()
    weight = np.empty((WIDTH, WIDTH), np.float32)
    session.readWeights(popart.PyWeightsIO({"w0": weight}))
    return anchors[loss], weight, session


def limited(limit: str) -> popart.SessionOptions:
    """Options with a limit of memory."""
    options = popart.SessionOptions()
    options.engineOptions = {"max_memory": limit}
    return options


def off_chip(limit: str) -> popart.SessionOptions:
    """Options that keep weights, optimizer state and activations in remote memory."""
    options = limited(limit)
    settings = popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 2, 8192)
    options.weightTensorLocationSettings = settings
    options.optimizerStateTensorLocationSettings = settings
    options.activationTensorLocationSettings = settings
    return options


def main() -> None:
    """Train in both ways and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", default="9M", help="memory on the device (default: 9M)")
    parser.add_argument("--folder", help="keep remote memory in files of this folder")
    args = parser.parse_args()
    if args.folder:
        os.environ["POPART_REMOTE_MEMORY"] = args.folder
    print(f"weights and Adam state: {3 * LAYERS * WIDTH * WIDTH * 4 / 2**20:.0f} MiB, limit: {args.limit}")
    losses, weight, _ = train(popart.SessionOptions())
    for way, options in (("chosen by the compiler", limited(args.limit)), ("by hand", off_chip(args.limit))):
        moved_losses, moved_weight, session = train(options)
        same = np.array_equal(losses, moved_losses) and np.array_equal(weight, moved_weight)
        report = session.getSummaryReport()
        print(f"{way}: {'the same bits' if same else 'other bits'} as with all in memory")
        print(report.split("  host copies")[0] + "  remote memory" + report.split("  remote memory")[1].splitlines()[0])
        fit = session.memoryFit()
        for choice in fit.choices if fit else []:
            print(f"  {choice.what}: {choice.tensors} tensors, {choice.bytes} bytes")
    print(f"losses {np.ravel(losses)}")


if __name__ == "__main__":
    main()
