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


def test_infos_of_tensors():
    model, x, y = linear()
    session = inference(model, [y])
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


def values_of(session):
    session.weightsToHost()
    result = np.empty((16, 4), np.float32)
    session.readWeights(popart.PyWeightsIO({"w": result}))
    return result


def trained(scale=1.0):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 16])
    w = builder.addInitializedInputTensor(np.full((16, 4), scale, np.float32), "w")
    y = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, w])])
    loss = builder.aiGraphcore.identityloss([y])
    session = trainer(builder.getModelProto(), loss)
    return session, x, loss


def test_exported_program_gives_its_values_to_a_session_of_the_same_program(tmp_path):
    session, x, loss = trained()
    session.prepareDevice()
    session.weightsFromHost()
    run(session, x, loss, 0.125)
    file = tmp_path / "new" / "program.popef"
    session.saveExecutable(str(file))
    other, _, _ = trained(0.5)
    other.prepareDevice()
    other.loadExecutable(str(file))
    with pytest.raises(popart.popart_runtime_error, match="weightsFromHost"):
        run(other, x, loss, 0.125)
    other.weightsFromHost()
    np.testing.assert_array_equal(values_of(session), values_of(other))
    np.testing.assert_array_equal(run(session, x, loss, 0.25), run(other, x, loss, 0.25))


def test_export_into_a_folder_has_the_documented_names(tmp_path):
    session, _, _ = trained()
    session.compileAndExport(str(tmp_path))
    session.saveVariables(str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {"executable.popef", "variables.popef"}
    with pytest.raises(popart.popart_runtime_error):  # compiled, not loaded
        session.weightsFromHost()


def test_export_where_nothing_can_be_written_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    session, _, _ = trained()
    with pytest.raises(OSError):
        session.compileAndExport(str(tmp_path / "file" / "program.popef"))


def test_damaged_and_foreign_executables_are_refused(tmp_path):
    session, _x, _loss = trained()
    session.prepareDevice()
    with pytest.raises(popart.popart_exception, match="cannot be opened for reading"):
        session.loadExecutable(str(tmp_path / "missing.popef"))
    file = tmp_path / "program.popef"
    session.saveExecutable(str(file))
    good = file.read_bytes()
    for size in range(0, len(good), 7):
        file.write_bytes(good[:size])
        with pytest.raises(popart.popart_exception):
            session.loadExecutable(str(file))
    rng = np.random.default_rng(5)
    for _ in range(200):  # one bit of the header
        bad = bytearray(good)
        bad[rng.integers(0, 64)] ^= 1 << rng.integers(0, 8)
        file.write_bytes(bad)
        with pytest.raises(popart.popart_exception):
            session.loadExecutable(str(file))
    file.write_bytes(good)
    session.loadExecutable(str(file))
    model, _, y = linear()
    with pytest.raises(popart.popart_exception, match="another program"):
        inference(model, [y]).loadExecutable(str(file))


def test_saving_before_prepare_is_refused(tmp_path):
    session, _, _ = trained()
    with pytest.raises(popart.popart_runtime_error, match="prepareDevice first"):
        session.saveExecutable(str(tmp_path / "program.popef"))


@pytest.mark.parametrize(("total", "load"), [(100, True), (7, True), (100, False)])
def test_progress_of_compilation_starts_at_zero_and_ends_at_the_total(total, load):
    model, _, y = linear()
    calls = []
    options = popart.SessionOptions()
    options.compilationProgressTotal = total
    options.compilationProgressLogger = lambda done, steps: calls.append((done, steps))
    session = inference(model, [y], options)
    assert calls == []
    session.prepareDevice(load)
    assert calls == [(0, total), *([(total - 1, total)] if load else []), (total, total)]
