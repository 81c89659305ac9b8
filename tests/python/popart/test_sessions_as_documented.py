"""Statements of popart-python.md, sections 4, 6, 7, 9, 11 and 13, each as a program would rely on it."""

import json

import numpy as np
import popart
import pytest
from popart import popart_exception, popart_runtime_error

X, W = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
MANAGER = popart.DeviceManager()


def options_with(**values):
    options = popart.SessionOptions()
    for name, value in values.items():
        setattr(options, name, value)
    return options


class Program:
    """x · w, its loss, and sessions on it."""

    def __init__(self, name=""):
        builder = popart.Builder()
        x, w = builder.addInputTensor("FLOAT", [2, 3], "x"), builder.addInitializedInputTensor(W, "w")
        self.y = builder.aiOnnx.matmul([x, w])
        self.loss = builder.aiGraphcore.l1loss([self.y], 0.1)
        builder.addOutputTensor(self.y)
        builder.setGraphName(name)
        self.proto = builder.getModelProto()

    def inference(self, device=None, batches=1, **options):
        flow = popart.DataFlow(batches, [self.y])
        return popart.InferenceSession(
            self.proto, flow, device or MANAGER.createCpuDevice(), userOptions=options_with(**options)
        )

    def training(self, batches=1, **options):
        return popart.TrainingSession(
            self.proto,
            popart.DataFlow(batches, [self.loss]),
            self.loss,
            popart.ConstSGD(0.5),
            MANAGER.createCpuDevice(),
            userOptions=options_with(**options),
        )


def step(session, inputs=None):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X} if inputs is None else inputs, anchors))
    return anchors


# ---- 4 and 6


@pytest.mark.parametrize("model", ["/no/such/model.onnx", b"no model"])
def test_a_bad_model_is_reported_before_a_missing_anchor(model):
    with pytest.raises(popart_exception) as caught:
        popart.InferenceSession(model, popart.DataFlow(1, {}), MANAGER.createCpuDevice())
    assert "odel" in str(caught.value) and "anchor" not in str(caught.value)


@pytest.mark.parametrize("constant", [True, False])
def test_a_weight_among_the_inputs_counts_in_that_step(constant):
    program = Program()
    session = program.inference(constantWeights=constant)
    session.prepareDevice()
    if not constant:
        session.weightsFromHost()
    for w in (3 * W, W):
        results = step(session, {"x": X, "w": w} if w is not W else {"x": X})
        np.testing.assert_allclose(results[program.y], X @ w, rtol=1e-6)
    with pytest.raises(popart_runtime_error, match=r"'w'.*expected"):
        step(session, {"x": X, "w": np.zeros((9, 9), np.float32)})


def test_arrays_of_unknown_names_are_refused_with_the_nearest():
    session = Program().training()
    session.prepareDevice()
    session.weightsFromHost()
    w = np.zeros((3, 4), np.float32)
    arrays = popart.PyWeightsIO({"w": w, "ww": np.full(3, 7, np.float32)})
    for call in (session.writeWeights, session.readWeights):
        with pytest.raises(
            popart_runtime_error, match=r"'ww': the session has no weight of that name.*Nearest names: w"
        ):
            call(arrays)
    assert (w == 0).all()


@pytest.mark.parametrize("constant", [True, False])
def test_weights_that_are_constants_are_left_alone_by_reading(constant):
    session = Program().inference(constantWeights=constant)
    session.prepareDevice()
    w = np.full((3, 4), 7, np.float32)
    session.readWeights(popart.PyWeightsIO({"w": w}))
    np.testing.assert_array_equal(w, np.full((3, 4), 7) if constant else W)


@pytest.mark.parametrize("shape", [(4, 3), (12,), (2, 6), (3, 4, 1)])
def test_weights_of_another_shape_are_refused(shape):
    session = Program().training()
    session.prepareDevice()
    session.weightsFromHost()
    for call in (session.writeWeights, session.readWeights):
        with pytest.raises(popart_runtime_error) as caught:
            call(popart.PyWeightsIO({"w": np.zeros(shape, np.float32)}))
        assert "'w'" in str(caught.value) and str(list(shape)) in str(caught.value).replace(" ", "").replace(",", ", ")


def test_a_second_prepare_device_keeps_what_is_on_the_device():
    session = Program().training()
    session.prepareDevice()
    session.weightsFromHost()
    step(session)
    before, after = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    session.readWeights(popart.PyWeightsIO({"w": before}))
    session.prepareDevice()
    session.readWeights(popart.PyWeightsIO({"w": after}))
    np.testing.assert_array_equal(after, before)
    assert not np.array_equal(after, W)
    step(session)  # without another weightsFromHost


@pytest.mark.parametrize("call", ["getSummaryReport", "weightsFromHost", "weightsToHost", "getReport"])
def test_reports_and_transfers_need_prepare_device(call):
    with pytest.raises(popart_runtime_error):
        getattr(Program().inference(), call)()


def test_whether_host_weights_are_those_of_the_device():
    session = Program().inference(constantWeights=False)
    session.prepareDevice()
    session.weightsFromHost()
    assert session.areHostWeightsInSync()
    step(session)
    assert not session.areHostWeightsInSync()
    session.copyDeviceWeightsToHost()
    assert session.areHostWeightsInSync()
    session.markHostWeightsOutOfSync()
    assert not session.areHostWeightsInSync()
    session.markHostWeightsInSync()
    assert session.areHostWeightsInSync()


# ---- 7


@pytest.mark.parametrize("version", ["ipu1", "ipu2", "ipu21"])
@pytest.mark.parametrize("make", ["createIpuModelDevice", "createSimDevice", "createOfflineIPUDevice"])
def test_version_of_a_device_is_that_of_its_ipus(make, version):
    device = getattr(MANAGER, make)({"ipuVersion": version})
    assert device.version == device.ipuVersion == version


def test_devices_by_default():
    assert MANAGER.createIpuModelDevice({}).version == MANAGER.createOfflineIPUDevice({}).version == "ipu2"
    simulation = MANAGER.createSimDevice({})
    assert (simulation.numIpus, simulation.tilesPerIPU) == (1, 4)


def test_enumeration_has_devices_with_that_many_ipus():
    assert len(MANAGER.enumerateDevices(deviceType=popart.DeviceType.Cpu)) == 1
    assert MANAGER.enumerateDevices(numIpus=2, deviceType=popart.DeviceType.Cpu) == []
    assert {device.numIpus for device in MANAGER.enumerateDevices(numIpus=4)} == {4}


# ---- 9 and 11


def test_messages_of_options_that_conflict():
    for name, needed in [
        ("aliasZeroCopy", "explicitRecomputation"),
        ("enablePipelining", "virtualGraphMode"),
        ("createImplicitPipeliningFwdOnlyProgram", "enablePipelining"),
        ("enableExplicitMainLoops", "useHostCopyOps"),
    ]:
        with pytest.raises(popart_exception, match=rf"^SessionOptions: {name} .*{needed}"):
            Program().training(**{name: True})


def test_local_replication_of_one_replica_in_a_distributed_program():
    with pytest.raises(popart_exception, match="replicatedGraphCount"):
        Program().training(enableDistributedReplicatedGraphs=True, enableReplicatedGraphs=True, replicatedGraphCount=1)


def test_mandatory_patterns_may_be_off_without_runtime_asserts():
    patterns = popart.Patterns().enableRuntimeAsserts(False).enablePattern("MatMulOp", False)
    assert not patterns.MatMulOp
    with pytest.raises(popart_exception, match="MatMulOp"):
        popart.Patterns().enablePattern("MatMulOp", False)


# ---- 13


def serialised(session):
    return json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))


def test_the_root_is_called_as_the_graph():
    assert list(serialised(Program().inference())) == ["maingraph"]
    assert list(serialised(Program("mine").inference())) == ["mine"]


@pytest.mark.parametrize("batches", [1, 3])
def test_transfers_and_loops_are_shown_where_options_ask(batches):
    (ops,) = serialised(Program().inference(batches=batches)).values()
    assert [op["type"] for op in ops] == ["MatMul"] and ops[0]["inputs"][0]["name"] == "x"
    (ops,) = serialised(Program().inference(batches=batches, useHostCopyOps=True)).values()
    assert [op["type"] for op in ops] == ["HostLoad", "MatMul", "HostStore"]
    graphs = serialised(Program().inference(batches=batches, useHostCopyOps=True, enableExplicitMainLoops=True))
    assert len(graphs) == (1 if batches == 1 else 2)
    types = {op["type"] for op in serialised(Program().training(batches=batches))["maingraph"]}
    assert {"MatMul", "L1", "L1Grad"} < types and not types & {"Loop", "HostLoad", "HostStore"}


def test_the_ir_of_a_loaded_program_is_not_serialised(tmp_path):
    Program().inference().compileAndExport(str(tmp_path / "x.popef"))
    session = Program().inference()
    session.loadExecutable(str(tmp_path / "x.popef"))
    session.prepareDevice()
    assert session._serializeIr(popart.IrSerializationFormat.JSON) == ""


@pytest.mark.parametrize("batches", [1, 3])
def test_inputs_may_be_the_only_anchors(batches):
    program = Program()
    session = popart.InferenceSession(program.proto, popart.DataFlow(batches, ["x"]), MANAGER.createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    data = np.arange(batches * X.size, dtype=np.float32).reshape(batches, *X.shape)
    session.run(popart.PyStepIO({"x": data}, anchors))
    np.testing.assert_array_equal(anchors["x"].reshape(data.shape), data)
