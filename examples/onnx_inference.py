"""Runs a torchvision network through ONNX and compares the result with PyTorch's.

PyTorch exports with its older tracer or with torch.export; a session takes both kinds of files.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import popart
import torch
import torchvision


def main() -> None:
    """Export, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="alexnet", help="name of a torchvision classifier (default: alexnet)")
    parser.add_argument("--batch", type=int, default=4, help="images per batch (default: 4)")
    parser.add_argument("--style", choices=["tracer", "export"], default="tracer", help="kind of export")
    args = parser.parse_args()

    torch.manual_seed(0)
    network = torchvision.models.get_model(args.network, weights=None).eval()
    images = torch.randn(args.batch, 3, 224, 224)

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"{args.network}.onnx")
        names = {"input_names": ["images"], "output_names": ["scores"]}
        torch.onnx.export(network, (images,), path, dynamo=args.style == "export", **names)
        session = popart.InferenceSession(
            path,
            dataFlow=popart.DataFlow(1, {"scores": popart.AnchorReturnType("All")}),
            deviceInfo=popart.DeviceManager().createCpuDevice(),
        )
        session.prepareDevice()

    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"images": images.numpy()}, anchors))

    with torch.inference_mode():
        expected = network(images).numpy()
    difference = np.abs(anchors["scores"] - expected).max() / np.abs(expected).max()
    print(f"{args.network}: classes {anchors['scores'].argmax(1)}, largest relative difference {difference:.1e}")
    if difference > 1e-3:
        raise SystemExit("the results differ")


if __name__ == "__main__":
    main()
