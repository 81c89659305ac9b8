"""Operators and patterns of users, in a library compiled against the public headers alone."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import popart
import popart_core
import popxl
import pytest
import torch

from tests.inference import infer

SOURCE = Path(__file__).parent / "custom_op" / "leaky_relu.cpp"
INCLUDE = Path(__file__).parents[3] / "include"


def library_folder() -> Path:
    """Folder of the libpopart.so this process uses."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libpopart.so" in line:
            return Path(line.split()[-1]).parent
    raise AssertionError("libpopart.so is not loaded")


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> ctypes.CDLL:
    target = tmp_path_factory.mktemp("custom_op") / "libleaky_relu.so"
    folder = library_folder()
    name = next(folder.glob("libpopart.so*"))
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    command = ["g++", *flags, str(SOURCE), "-o", str(target), f"-L{folder}", f"-l:{name.name}"]
    subprocess.run(command, check=True)
    return ctypes.cdll.LoadLibrary(str(target))


def custom(builder, name, inputs, attributes):
    return builder.customOp(
        opName=name, opVersion=1, domain="custom.ops", inputs=inputs, attributes=attributes, numOutputs=1, name=name
    )[0]


def output_of(builder, output, feeds, **session):
    (value,) = infer(builder.getModelProto(), feeds, [output], **session)
    return value


@pytest.mark.parametrize("alpha", [None, 0.25])
def test_forward_with_attribute_and_default(library, alpha):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 5])
    y = custom(builder, "LeakyRelu", [x], {} if alpha is None else {"alpha": alpha})
    data = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    expected = np.where(data >= 0, data, np.float32(0.01 if alpha is None else alpha) * data)
    np.testing.assert_array_equal(output_of(builder, y, {x: data}), expected)


def test_builder_knows_shapes_of_custom_ops(library):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 5])
    y = custom(builder, "LeakyRelu", [x], {"alpha": 0.5})
    assert builder.getTensorShape(y) == [3, 5]
    assert builder.getTensorShape(custom(builder, "Twice", [y], {})) == [2, 3, 5]


@pytest.mark.parametrize("alpha", [0.25, 0.5])
def test_in_a_graph_of_popxl(library, alpha):
    data = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)

    def leaky(t):
        return popxl.custom_op("LeakyRelu", t, domain="custom.ops", attributes={"alpha": alpha})[0]

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(data)
        graph = ir.create_graph(leaky, x)
        info = popxl.transforms.autodiff(graph)
        call = popxl.ops.call_with_info(graph, x)
        seed = popxl.constant(np.ones((3, 5), np.float32))
        results = [*call.outputs, *popxl.ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))]
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, t in zip(streams, results, strict=True):
            popxl.ops.host_store(stream, t)
    with popxl.Session(ir) as session:
        got = session.run()
    np.testing.assert_array_equal(got[streams[0]], np.where(data >= 0, data, np.float32(alpha) * data))
    np.testing.assert_array_equal(got[streams[1]], np.where(data >= 0, 1, np.float32(alpha)))


def test_operator_with_shape_function_only(library):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    y = custom(builder, "Twice", [x], {"bias": 1.5})
    data = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(output_of(builder, y, {x: data}), np.stack([data + 1.5, data + 1.5]))


def test_training_through_custom_op_agrees_with_torch(library):
    rng = np.random.default_rng(2)
    weights, data = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=(3, 6)).astype(np.float32)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 6])
    w = builder.addInitializedInputTensor(weights, "w")
    y = custom(builder, "LeakyRelu", [builder.aiOnnx.matmul([x, w])], {"alpha": 0.1})
    loss = builder.aiGraphcore.l1loss([y], 0.5, reduction=popart.ReductionType.Sum)
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [loss, popart.reservedGradientPrefix() + x]),
        loss=loss,
        optimizer=popart.ConstSGD(0.1),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    reference = torch.tensor(weights, requires_grad=True)
    for _ in range(3):
        session.run(popart.PyStepIO({x: data}, anchors))
        input_ = torch.tensor(data, requires_grad=True)
        torch_loss = 0.5 * torch.nn.functional.leaky_relu(input_ @ reference, 0.1).abs().sum()
        gradient, data_gradient = torch.autograd.grad(torch_loss, [reference, input_])
        np.testing.assert_allclose(anchors[loss], torch_loss.item(), rtol=1e-5)
        np.testing.assert_allclose(
            anchors[popart.reservedGradientPrefix() + x], data_gradient.numpy(), rtol=1e-5, atol=1e-6
        )
        reference = (reference - 0.1 * gradient).detach().requires_grad_(True)
    session.weightsToHost()
    result = np.empty_like(weights)
    session.readWeights(popart.PyWeightsIO({"w": result}))
    np.testing.assert_allclose(result, reference.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_own_operator_of_the_same_type_name_stays_what_it_is(library):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    y = builder.aiOnnx.leakyrelu([x], alpha=0.5)
    data = np.array([-2, -1, 0, 1], np.float32)
    np.testing.assert_array_equal(output_of(builder, y, {x: data}), np.array([-1, -0.5, 0, 1], np.float32))


def test_supported_operations_list_the_custom_op(library):
    assert popart_core.OperatorIdentifier("custom.ops", "LeakyRelu", 1) in popart_core.getSupportedOperations(False)


def test_wrong_number_of_inputs_is_refused(library):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    with pytest.raises(popart.popart_exception, match="wrong number of inputs: got 2, expected 1"):
        custom(builder, "LeakyRelu", [x, x], {})


def test_operator_that_nobody_registered_is_refused(library):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    y = custom(builder, "Nothing", [x], {})
    with pytest.raises(popart.popart_exception, match=r"custom\.ops\.Nothing"):
        output_of(builder, y, {x: np.zeros(4, np.float32)})


def test_user_pattern_runs_when_it_is_on(library):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4], "replaced")
    y = builder.aiOnnx.relu([x])
    data = np.array([-2, -1, 0, 1], np.float32)
    np.testing.assert_array_equal(output_of(builder, y, {x: data}), np.maximum(data, 0))
    patterns = popart.Patterns(popart.PatternsLevel.Default)
    patterns.enablePattern("ReplaceReluWithNeg", True)
    np.testing.assert_array_equal(output_of(builder, y, {x: data}, patterns=patterns), -data)


CHECKPOINTS = ["Fwd0", "Fwd1", "Bwd0", "PreAlias", "MainLoops", "Final"]


def transformed_session(checkpoints, training):
    """Relu of an input times a weight of ones, and in training its gradient; data that Relu and Neg tell apart."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4], "transformed")
    w = builder.addInitializedInputTensor(np.ones(4, np.float32), "w")
    y = builder.aiOnnx.mul([builder.aiOnnx.relu([x]), w])
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.experimentalSettings.customTransformApplierSettings = checkpoints
    flow = popart.DataFlow(1, [y, "Gradient___transformed"] if training else [y])
    common = (builder.getModelProto(), flow)
    if training:
        return popart.TrainingSession(*common, loss, popart.ConstSGD(0.0001), device(), userOptions=options)
    return popart.InferenceSession(*common, device(), userOptions=options)


def device():
    return popart.DeviceManager().createCpuDevice()


def values_of(session):
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"transformed": np.array([-2, -1, 1, 2], np.float32)}, anchors))
    return [value.tolist() for _, value in sorted(anchors.items())]


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_transform_runs_at_its_checkpoint(library, checkpoint):
    assert values_of(transformed_session({}, False)) == [[0, 0, 1, 2]]
    assert values_of(transformed_session({checkpoint: ["NegateTransformed"]}, False)) == [[2, 1, -1, -2]]
    gradient, result = values_of(transformed_session({checkpoint: ["NegateTransformed"]}, True))
    assert result == [2, 1, -1, -2]
    # later than differentiation the gradient is that of Relu, which reads what the result is then
    assert gradient == ([-1] * 4 if checkpoint in ("Fwd0", "Fwd1") else [1, 1, 0, 0])


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("name", ["Prune", "DecomposeGradSum"])
@pytest.mark.parametrize("training", [False, True])
def test_own_transforms_change_no_result(checkpoint, name, training):
    plain = values_of(transformed_session({}, training))
    assert values_of(transformed_session({checkpoint: [name, name]}, training)) == plain


def test_transforms_are_known_by_name(library):
    nearest = r"\['Bwd0'\]: 'NegateTransforme' is not a transform .*Nearest names: NegateTransformed"
    with pytest.raises(popart.popart_exception, match=nearest):
        transformed_session({"Bwd0": ["NegateTransforme"]}, False)
    with pytest.raises(popart.popart_exception, match="'MergeExchange' is not a transform that runs at a checkpoint"):
        transformed_session({"Fwd0": ["MergeExchange"]}, False)
    with pytest.raises(popart.popart_exception, match=r"checkpoint 'FWD0', expected one of .*Fwd0"):
        transformed_session({"FWD0": ["Prune"]}, False)
