"""Writes a model with the Builder, saves it, and continues the file.

Shows name scopes, placement and reading back what the model holds.
"""

import tempfile
from pathlib import Path

import numpy as np
import popart


def write_model(path: str) -> None:
    """A dense layer with ReLU; its operators are named under ``encoder`` and placed on virtual graph 0."""
    builder = popart.Builder(opsets={"ai.onnx": 10, "ai.onnx.ml": 1, "ai.graphcore": 1})
    data = builder.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "data")
    weight = builder.addInitializedInputTensor(np.full((3, 4), 0.5, np.float32), "weight")
    with builder.nameScope("encoder"), builder.virtualGraph(0):
        product = builder.aiOnnx.matmul([data, weight], debugContext="product")
        result = builder.aiOnnx.relu([product], debugContext="result")
    builder.addOutputTensor(result)
    builder.saveModelProto(path)


def main() -> None:
    """Write, continue, run."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        write_model(path)
        builder = popart.Builder(path)
    (encoded,) = builder.getOutputTensorIds()
    print(f"the file reads {builder.getInputTensorIds()} and gives {encoded} {builder.getTensorShape(encoded)}")
    scaled = builder.aiGraphcore.scale([encoded], 2.0, debugContext="scaled")
    builder.addOutputTensor(scaled)

    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [scaled]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"data": np.arange(6, dtype=np.float32).reshape(2, 3)}, anchors))
    print(anchors[scaled])


if __name__ == "__main__":
    main()
