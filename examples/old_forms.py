"""Programs of PopART's first releases: dataFeed=, loss objects, and shapes that the model leaves open.

The loss objects add the loss to the model, so that its labels appear nowhere in the file: inputShapeInfo describes
them.
"""

import numpy as np
import popart

BATCH, FEATURES, CLASSES = 4, 6, 3


def model() -> bytes:
    """A linear classifier without a loss."""
    rng = np.random.default_rng(0)
    builder = popart.Builder()
    data = builder.addInputTensor(popart.TensorInfo("FLOAT", [BATCH, FEATURES]), "data")
    weight = builder.addInitializedInputTensor(rng.normal(0, 0.1, (FEATURES, CLASSES)).astype(np.float32), "weight")
    probabilities = builder.aiOnnx.softmax([builder.aiOnnx.matmul([data, weight])], debugContext="probabilities")
    builder.addOutputTensor(probabilities)
    return builder.getModelProto()


def main() -> None:
    """Train with the old keywords."""
    proto = model()
    output = popart.Builder(proto).getOutputTensorIds()[0]
    shapes = popart.InputShapeInfo()
    shapes.add("labels", popart.TensorInfo("INT32", [BATCH]))
    session = popart.TrainingSession(
        proto,
        dataFeed=popart.DataFlow(10, {"loss": popart.AnchorReturnType("ALL")}),
        losses=[popart.NllLoss(output, "labels", "loss")],
        optimizer=popart.ConstSGD(0.1),
        inputShapeInfo=shapes,
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = np.random.default_rng(1).normal(size=(10, BATCH, FEATURES)).astype(np.float32)
    labels = data[:, :, :CLASSES].argmax(-1).astype(np.int32)
    stepio = popart.PyStepIO({"data": data, "labels": labels}, anchors)
    for _ in range(5):
        session.run(stepio)
        print(f"loss of the step: {anchors['loss'].sum():.4f}")


if __name__ == "__main__":
    main()
