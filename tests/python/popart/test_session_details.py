"""Sessions at their edges: memory limit, names, order of calls, seeds, saved executables."""

import numpy as np
import popart
import pytest


def linear(name="x"):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 16], name)
    w = builder.addInitializedInputTensor(np.ones((16, 4), np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    builder.addOutputTensor(y)
    return builder.getModelProto(), x, y


def inference(model, anchors, options=None):
    return popart.InferenceSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, anchors),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )


def trainer(model, loss, options=None):
    return popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, [loss]),
        loss=loss,
        optimizer=popart.ConstSGD(0.1),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )


def run(session, x, y, value):
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: np.full((8, 16), value, np.float32)}, anchors))
    return anchors[y]


def limited(text):
    options = popart.SessionOptions()
    options.engineOptions = {"max_memory": text}
    return options


def test_program_above_the_memory_limit_names_its_largest_tensors():
    model, _, y = linear()
    session = inference(model, [y], limited("64"))
    with pytest.raises(popart.OutOfMemoryException, match="does not fit the memory limit") as caught:
        session.prepareDevice()
    assert "Largest tensors" in str(caught.value)
    assert y in str(caught.value) or "w" in str(caught.value)
    assert "expected at most 64" in caught.value.getSummaryReport()


@pytest.mark.parametrize("text", ["1000000", "4096K", "16M", "1G"])
def test_program_below_the_memory_limit_runs(text):
    model, x, y = linear()
    session = inference(model, [y], limited(text))
    session.prepareDevice()
    np.testing.assert_array_equal(run(session, x, y, 1.0), np.full((8, 4), 16.0, np.float32))


@pytest.mark.parametrize("text", ["", "much", "-1", "5T", "99999999999G"])
def test_bad_memory_limit_is_refused(text):
    model, _, y = linear()
    with pytest.raises(popart.popart_exception, match="max_memory"):
        inference(model, [y], limited(text)).prepareDevice()


def test_session_works_again_after_a_failed_prepare():
    model, x, y = linear()
    session = inference(model, [y], limited("64"))
    with pytest.raises(popart.OutOfMemoryException):
        session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="prepareDevice"):
        run_anchors = {y: np.empty((8, 4), np.float32)}
        session.run(popart.PyStepIO({x: np.zeros((8, 16), np.float32)}, run_anchors))


@pytest.mark.parametrize("name", ["Gradient___x", "my_Accl___x", "lossScaling_FLOAT"])
def test_inputs_with_reserved_names_are_refused(name):
    model, _, y = linear(name)
    with pytest.raises(popart.popart_exception, match="reserved prefix"):
        inference(model, [y])


def test_input_shape_info_with_reserved_name_is_refused():
    model, _, y = linear()
    shapes = popart.InputShapeInfo()
    shapes.add("Step___x", popart.TensorInfo("FLOAT", [1]))
    with pytest.raises(popart.popart_exception, match="reserved prefix"):
        popart.InferenceSession(
            fnModel=model,
            dataFlow=popart.DataFlow(1, [y]),
            deviceInfo=popart.DeviceManager().createCpuDevice(),
            inputShapeInfo=shapes,
        )


def test_infos_need_a_prepared_device():
    model, x, y = linear()
    session = inference(model, [y])
    for call in (lambda: session.getInfo(x), session.getAllTensorIds):
        with pytest.raises(popart.popart_runtime_error, match="Try calling Session::prepareDevice first"):
            call()
    session.prepareDevice()
    assert session.getInfo(y).shape() == [8, 4]
    assert {x, y, "w"} <= session.getAllTensorIds()
    with pytest.raises(popart.popart_exception):
        session.getInfo("nothing")


def test_programs_of_sessions_have_no_ambiguity():
    model, _, y = linear()
    session = inference(model, [y])
    session.prepareDevice()
    session.checkInplacingAmbiguity()


def dropout_model():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 16])
    w = builder.addInitializedInputTensor(np.ones((16, 4), np.float32), "w")
    (y,) = builder.aiOnnx.dropout([x], 1, 0.5)
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.matmul([y, w])])
    return builder.getModelProto(), x, loss


def test_same_seed_gives_the_same_numbers():
    model, x, loss = dropout_model()
    values = []
    for seed in (11, 11, 12):
        session = trainer(model, loss)
        session.prepareDevice()
        session.setRandomSeed(seed)
        session.weightsFromHost()
        assert session.getRandomSeed() == seed
        values.append([run(session, x, loss, 1.0).copy() for _ in range(3)])
    np.testing.assert_array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])
    assert len({float(v) for v in values[0]}) > 1


def test_seed_before_prepare_and_rng_state_are_refused():
    model, _, loss = dropout_model()
    session = trainer(model, loss)
    with pytest.raises(popart.popart_runtime_error, match="setRandomSeed"):
        session.setRandomSeed(1)
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="enableLoadAndOffloadRNGState"):
        session.getRNGState()
    with pytest.raises(popart.popart_runtime_error, match="enableLoadAndOffloadRNGState"):
        session.setRNGState([1, 2])


def test_seed_without_random_operation_is_zero():
    model, _, y = linear()
    session = inference(model, [y])
    session.prepareDevice()
    session.setRandomSeed(3)
    assert session.getRandomSeed() == 0
