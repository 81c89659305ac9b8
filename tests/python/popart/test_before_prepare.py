"""What a session knows when it is made: all that the program says, before anything is compiled."""

import json

import numpy as np
import popart
import popart.ir as pir
import popart.ir.ops as ops
import pytest

FACTOR = 2
KINDS = ("All", "Final", "Sum", "EveryN")


def returned(kind):
    return popart.AnchorReturnType(kind, 2) if kind == "EveryN" else popart.AnchorReturnType(kind)


def model():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3, 4], "x")
    w = builder.addInitializedInputTensor(np.full((4, 2), 0.5, np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    builder.addOutputTensor(y)
    return builder.getModelProto(), y, loss


def inference(kind):
    proto, y, _ = model()
    flow = popart.DataFlow(4, {y: returned(kind)})
    return popart.InferenceSession(proto, flow, popart.DeviceManager().createCpuDevice())


def training(kind):
    proto, y, loss = model()
    flow = popart.DataFlow(4, {y: returned(kind), loss: popart.AnchorReturnType("All")})
    return popart.TrainingSession(proto, flow, loss, popart.ConstSGD(0.1), popart.DeviceManager().createCpuDevice())


def accumulating(kind):
    proto, y, loss = model()
    options = popart.SessionOptions()
    options.enableGradientAccumulation = True
    options.accumulationFactor = FACTOR
    flow = popart.DataFlow(4, {y: returned(kind), loss: popart.AnchorReturnType("All")})
    return popart.TrainingSession(
        proto, flow, loss, popart.ConstSGD(0.1), popart.DeviceManager().createCpuDevice(), userOptions=options
    )


def from_ir(kind):
    ir = pir.Ir()
    with ir.main_graph():
        source, target = pir.h2d_stream((3, 4), pir.float32), pir.d2h_stream((3, 4), pir.float32)
        ops.host_store(target, ops.gelu(ops.host_load(source, "x")))
    program = ir._pb_ir
    program.setDataFlow(popart.DataFlow(4, {target.tensor_id(): returned(kind)}))
    return popart.InferenceSession.fromIr(ir=program, deviceInfo=popart.DeviceManager().createCpuDevice())


def facts(session):
    """Everything that can be asked, in a form that can be compared."""
    inference_names = getattr(session, "getAllTensorIds", None)
    names = inference_names() if inference_names else session.getTensorIds()
    arrays = session.initAnchorArrays()
    return {
        "names": names,
        "infos": {name: (session.getInfo(name).shape(), session.getInfo(name).data_type_lcase()) for name in names},
        "anchors": {name: (array.shape, array.dtype.name) for name, array in arrays.items()},
        "flow": (session.dataFlow.batchesPerStep(), session.dataFlow.anchors()),
        "factors": (session.replicationFactor, session.accumulationFactor),
        "serialised": session._serializeIr(popart.IrSerializationFormat.JSON),
        "seed": session.getRandomSeed(),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [inference, training, accumulating, from_ir])
def test_facts_are_the_same_before_and_after_prepare(make, kind):
    session = make(kind)
    before = facts(session)
    json.loads(before["serialised"])
    with pytest.raises(popart.popart_exception, match="nothing"):
        session.getInfo("nothing")
    session.prepareDevice()
    assert facts(session) == before


@pytest.mark.parametrize(
    ("kind", "prefix"), [("All", (4, FACTOR)), ("EveryN", (2, FACTOR)), ("Final", ()), ("Sum", ())]
)
def test_anchor_arrays_made_before_prepare_take_the_results(kind, prefix):
    session = accumulating(kind)
    arrays = session.initAnchorArrays()
    name = next(iter(set(arrays) - {"L1:0"}))
    assert arrays[name].shape == (*prefix, 3, 2)
    session.prepareDevice()
    session.weightsFromHost()
    x = np.random.default_rng(0).standard_normal((4, FACTOR, 3, 4)).astype(np.float32)
    session.run(popart.PyStepIO({"x": x}, arrays))
    assert np.abs(arrays[name]).max() > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda s, path: s.getSummaryReport(),
        lambda s, path: s.weightsFromHost(),
        lambda s, path: s.weightsToHost(),
        lambda s, path: s.readWeights(popart.PyWeightsIO({"w": np.zeros((4, 2), np.float32)})),
        lambda s, path: s.modelToHost(str(path / "m.onnx")),
        lambda s, path: s.saveExecutable(str(path / "m.popef")),
        lambda s, path: s.loadEngineAndConnectStreams(),
        lambda s, path: s.run(popart.PyStepIO({"x": np.zeros((4, 3, 4), np.float32)}, s.initAnchorArrays())),
    ],
)
def test_what_needs_the_compiled_program_is_refused_before_prepare(call, tmp_path):
    session = training("All")
    with pytest.raises(popart.popart_exception, match="prepareDevice"):
        call(session, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_first_run_loads_what_was_only_compiled():
    session = inference("All")
    session.prepareDevice(loadEngine=False)
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((4, 3, 4), np.float32)}, arrays))
    np.testing.assert_array_equal(next(iter(arrays.values())), np.full((4, 3, 2), 2.0, np.float32))


def test_nothing_is_loaded_where_compile_engine_is_off():
    proto, y, _ = model()
    options = popart.SessionOptions()
    options.compileEngine = False
    session = popart.InferenceSession(
        proto, popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice(), userOptions=options
    )
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="before the program is loaded"):
        session.run(popart.PyStepIO({"x": np.ones((3, 4), np.float32)}, session.initAnchorArrays()))


def test_seed_of_a_program_without_random_operation_is_asked_for_at_any_time():
    session = inference("All")
    session.setRandomSeed(5)
    assert session.getRandomSeed() == 0
