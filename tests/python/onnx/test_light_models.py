"""The classic networks that the onnx package carries, with weights made by ConstantOfShape, against stored outputs."""

from pathlib import Path

import numpy as np
import onnx.backend.test
import onnx.numpy_helper
import popart
import pytest

import onnx

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
MODELS = sorted(FOLDER.glob("light_*.onnx"))
QUICK = {"light_shufflenet", "light_squeezenet"}


def model_input(model: onnx.ModelProto) -> tuple[str, np.ndarray]:
    """Name and value of the one graph input: the numbers the stored outputs were made with."""
    known = {tensor.name for tensor in model.graph.initializer}
    (value,) = [value for value in model.graph.input if value.name not in known]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    return value.name, (np.arange(size, dtype=np.float32) / size).reshape(shape)


def parameter(path: Path):
    """The path, marked slow unless it runs in a second or two."""
    marks = [pytest.mark.models] if path.stem in QUICK else [pytest.mark.models, pytest.mark.slow]
    return pytest.param(path, id=path.stem.removeprefix("light_"), marks=marks)


@pytest.mark.parametrize("path", [parameter(path) for path in MODELS])
def test_light_model_gives_the_stored_output(path):
    """Through InferenceSession on the CPU device."""
    model = onnx.load(path)
    name, x = model_input(model)
    output = model.graph.output[0].name
    session = popart.InferenceSession(
        str(path),
        popart.DataFlow(1, {output: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({name: x}, anchors))
    stored = onnx.numpy_helper.to_array(onnx.load_tensor(path.with_name(path.stem + "_output_0.pb")))
    np.testing.assert_allclose(anchors[output], stored, rtol=1e-3, atol=1e-6)


def test_models_are_found():
    """The onnx package has them."""
    assert len(MODELS) >= 8
