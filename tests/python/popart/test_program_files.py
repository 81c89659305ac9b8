"""Compiled programs in files: exported, loaded again, kept in a folder that processes share."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import popart
import pytest

KEY = re.compile(r"[0-9a-f]{32}\.popef")


def layers(seed=0, width=48, convolution=False):
    """Model with weights and constants large enough to be packed: its bytes, input and result."""
    rng = np.random.default_rng(seed)
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, 64])
    value = x
    if convolution:
        value = builder.reshape_const(builder.aiOnnx, [value], [2, 4, 8, 8])
        filters = builder.addInitializedInputTensor(rng.normal(size=(20, 4, 3, 3)).astype(np.float32) / 6, "filters")
        value = builder.aiOnnx.conv([value, filters], pads=[1, 1, 1, 1])
        value = builder.reshape_const(builder.aiOnnx, [builder.aiOnnx.relu([value])], [8, 320])
        first = 320
    else:
        first = 64
    for i, (rows, columns) in enumerate([(first, width), (width, 40)]):
        weights = rng.normal(size=(rows, columns)).astype(np.float32) / 8
        w = builder.addInitializedInputTensor(weights, f"w{i}")
        b = builder.addInitializedInputTensor(rng.normal(size=columns).astype(np.float32), f"b{i}")
        value = builder.aiOnnx.tanh([builder.aiOnnx.gemm([value, w, b])])
    return builder.getModelProto(), x, value


def options_for(folder=None, **fields):
    options = popart.SessionOptions()
    if folder is not None:
        options.enableEngineCaching = True
        options.cachePath = str(folder)
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def inference(model, anchor, options, batches=1):
    return popart.InferenceSession(
        fnModel=model,
        dataFlow=popart.DataFlow(batches, {anchor: popart.AnchorReturnType("All")}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )


def training(model, result, options, optimizer=None):
    builder = popart.Builder(model)
    loss = builder.aiGraphcore.identityloss([result])
    return popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, [loss]),
        loss=loss,
        optimizer=optimizer or popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    ), loss


def step(session, x, y, seed=3, prepare=True):
    if prepare:
        session.prepareDevice()
        session.weightsFromHost()
    anchors = session.initAnchorArrays()
    values = np.random.default_rng(seed).normal(size=(8, 64)).astype(np.float32)
    session.run(popart.PyStepIO({x: values}, anchors))
    return anchors[y].copy()


def kept(folder):
    return sorted(path for path in Path(folder).iterdir() if KEY.fullmatch(path.name))


@pytest.fixture
def passes(tmp_path, monkeypatch):
    """Names of the compiler passes that ran since the last call."""
    folder = tmp_path / "passes"
    monkeypatch.setenv("POPART_PASS_DUMP", str(folder))

    def names():
        files = sorted(folder.iterdir()) if folder.exists() else []
        for file in files:
            file.unlink()
        return [file.stem.split("-", 1)[1] for file in files]

    return names


@pytest.mark.parametrize("convolution", [False, True])
def test_a_kept_program_runs_without_passes_and_gives_the_same_bits(tmp_path, passes, convolution):
    model, x, y = layers(convolution=convolution)
    plain = step(inference(model, y, options_for()), x, y)
    session = inference(model, y, options_for(tmp_path / "cache"))
    passes()
    first = step(session, x, y)
    assert "flatten" in passes()
    assert len(kept(tmp_path / "cache")) == 1
    again = inference(model, y, options_for(tmp_path / "cache"))
    passes()
    second = step(again, x, y)
    assert passes() == []
    np.testing.assert_array_equal(plain, first)
    np.testing.assert_array_equal(plain, second)
    assert session.getSummaryReport().split("host copies")[0] == again.getSummaryReport().split("host copies")[0]


def test_training_from_a_kept_program_starts_with_the_values_of_its_own_model(tmp_path, passes):
    folder = tmp_path / "cache"
    results = []
    for seed in (1, 2):  # the same program with other weights
        model, x, y = layers(seed)
        expected, loss = training(model, y, options_for())
        session, _ = training(model, y, options_for(folder))
        passes()
        losses = [[step(s, x, loss, seed=i, prepare=i == 0) for i in range(3)] for s in (expected, session)]
        results.append("packConstants" in passes()[len(losses) :])
        np.testing.assert_array_equal(*losses)
    assert len(kept(folder)) == 1


def test_what_changes_the_program_changes_its_key(tmp_path):
    model, x, y = layers()
    step(inference(model, y, options_for(tmp_path)), x, y)
    inference(layers(seed=5)[0], y, options_for(tmp_path)).prepareDevice()  # weights are constants of inference
    inference(layers(width=50)[0], y, options_for(tmp_path)).prepareDevice()
    threads = options_for(tmp_path)
    threads.engineOptions = {"num_threads": "13"}  # as no machine has by itself
    inference(model, y, threads).prepareDevice()
    training(model, y, options_for(tmp_path))[0].prepareDevice()
    training(model, y, options_for(tmp_path), popart.ConstSGD(0.1))[0].prepareDevice()
    training(model, y, options_for(tmp_path), popart.ConstSGD(0.2))[0].prepareDevice()
    inference(model, y, options_for(tmp_path), batches=2).prepareDevice()
    assert len(kept(tmp_path)) == 8
    inference(model, y, options_for(tmp_path)).prepareDevice()
    assert len(kept(tmp_path)) == 8


def test_a_damaged_file_is_warned_about_and_replaced(tmp_path, capfd):
    model, x, y = layers()
    good = step(inference(model, y, options_for(tmp_path)), x, y)
    (file,) = kept(tmp_path)
    content = file.read_bytes()
    flipped = content[:-64] + bytes(byte ^ 1 for byte in content[-64:])
    for damage in (content[: len(content) // 2], flipped, b"", b"x" * 200):
        file.write_bytes(damage)
        np.testing.assert_array_equal(step(inference(model, y, options_for(tmp_path)), x, y), good)
        warning = capfd.readouterr().err
        assert "compiled again" in warning, damage[:10]
        assert file.name in warning
        assert file.read_bytes() == content
    assert "compiled again" not in capfd.readouterr().err


def test_a_file_under_the_name_of_another_program_is_not_used(tmp_path, capfd):
    model, x, y = layers()
    other, _, _ = layers(width=50)
    inference(other, y, options_for(tmp_path)).prepareDevice()
    (foreign,) = kept(tmp_path)
    expected = step(inference(model, y, options_for()), x, y)
    inference(model, y, options_for(tmp_path)).prepareDevice()
    (mine,) = set(kept(tmp_path)) - {foreign}
    mine.write_bytes(foreign.read_bytes())
    np.testing.assert_array_equal(step(inference(model, y, options_for(tmp_path)), x, y), expected)
    assert "its content does not match its name" in capfd.readouterr().err


def test_the_folder_keeps_its_limits_and_what_was_used_last(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_CACHE_MAX_FILES", "2")
    (tmp_path / "mine.popef").write_text("of somebody else")
    models = [layers(width=width) for width in (32, 48, 64)]
    files = []
    for number, (model, _, y) in enumerate(models[:2]):
        inference(model, y, options_for(tmp_path)).prepareDevice()
        (file,) = set(kept(tmp_path)) - set(files)
        files.append(file)
        os.utime(file, (1000 + number, 1000 + number))
    inference(models[0][0], models[0][2], options_for(tmp_path)).prepareDevice()  # used: the other one is older now
    inference(models[2][0], models[2][2], options_for(tmp_path)).prepareDevice()
    left = kept(tmp_path)
    assert len(left) == 2
    assert files[0] in left
    assert files[1] not in left
    monkeypatch.setenv("POPART_CACHE_MAX_BYTES", "1K")  # less than any of them
    inference(models[1][0], models[1][2], options_for(tmp_path)).prepareDevice()
    assert kept(tmp_path) == []
    assert (tmp_path / "mine.popef").read_text() == "of somebody else"


def test_limits_that_are_no_numbers_are_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("POPART_CACHE_MAX_BYTES", "much")
    model, _, y = layers()
    inference(model, y, options_for(tmp_path)).prepareDevice()
    assert "POPART_CACHE_MAX_BYTES" in capfd.readouterr().err


def test_a_folder_that_cannot_be_made_costs_a_warning(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    model, x, y = layers()
    expected = step(inference(model, y, options_for()), x, y)
    np.testing.assert_array_equal(step(inference(model, y, options_for(tmp_path / "file" / "cache")), x, y), expected)
    assert "is not stored" in capfd.readouterr().err


def test_values_of_variables_are_kept_or_not(tmp_path):
    model, _, y = layers(width=512)
    sizes = {}
    for keep in (True, False):
        folder = tmp_path / str(keep)
        training(model, y, options_for(folder, enableVariablesCaching=keep))[0].prepareDevice()
        (file,) = kept(folder)
        sizes[keep] = file.stat().st_size
    assert sizes[True] - sizes[False] > 64 * 512 * 4


WRITER = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import numpy as np
    import test_program_files as t
    for width in (32, 40, 48):
        model, x, y = t.layers(width=width)
        expected = t.step(t.inference(model, y, t.options_for()), x, y)
        for _ in range(4):
            session = t.inference(model, y, t.options_for(sys.argv[2]))
            np.testing.assert_array_equal(t.step(session, x, y), expected)
"""


def test_processes_share_a_folder(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(Path(__file__).parent), str(tmp_path)]
    env = os.environ | {"POPART_CACHE_MAX_FILES": "2"}
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) for _ in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert "compiled again" not in errors
    assert len(kept(tmp_path)) == 2
    assert len(list(tmp_path.iterdir())) == 2  # no temporary file is left


@pytest.mark.parametrize("convolution", [False, True])
@pytest.mark.parametrize("preload", [False, True])
def test_an_exported_program_runs_in_another_session_without_passes(
    tmp_path, passes, monkeypatch, convolution, preload
):
    if preload:
        monkeypatch.setenv("POPART_PRELOAD_POPEF", "full-preload")
    model, x, y = layers(convolution=convolution)
    session, loss = training(model, y, options_for())
    for i in range(3):
        step(session, x, loss, seed=i, prepare=i == 0)
    file = tmp_path / "new" / "program.popef"
    session.saveExecutable(str(file))
    threads = options_for()
    threads.engineOptions = {"num_threads": "3"}  # planned for another number, which is no reason to refuse
    other, _ = training(model, y, threads)
    passes()
    other.loadExecutable(str(file))
    first = step(other, x, loss, seed=3)
    assert passes() == []
    np.testing.assert_array_equal(first, step(session, x, loss, seed=3, prepare=False))
    np.testing.assert_array_equal(
        step(other, x, loss, seed=4, prepare=False), step(session, x, loss, seed=4, prepare=False)
    )


def test_variables_alone_are_taken_and_the_program_is_compiled(tmp_path, passes):
    model, x, y = layers()
    session, loss = training(model, y, options_for())
    step(session, x, loss)
    session.saveVariables(str(tmp_path / "values.popef"))
    other, _ = training(model, y, options_for())
    other.loadExecutable(str(tmp_path / "values.popef"))
    passes()
    np.testing.assert_array_equal(step(other, x, loss), step(session, x, loss, prepare=False))
    assert "flatten" in passes()


def test_every_damaged_byte_of_an_export_is_noticed(tmp_path):
    model, _, y = layers(width=20)
    session = inference(model, y, options_for())
    session.prepareDevice(False)
    file = tmp_path / "program.popef"
    session.saveExecutable(str(file))
    good = file.read_bytes()
    rng = np.random.default_rng(2)
    front = good.index(b"main {")  # header and description wholly, then anywhere
    places = [*range(front), *rng.integers(front, len(good), 300)]
    unnoticed = []
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << rng.integers(0, 8)
        file.write_bytes(bad)
        try:
            session.loadExecutable(str(file))
            unnoticed.append(place)
        except popart.popart_exception:
            pass
    assert all(good[place] == 0 for place in unnoticed)  # in the gaps between values
    assert len(unnoticed) < 0.1 * len(places)
    for size in range(0, len(good), 97):
        file.write_bytes(good[:size])
        with pytest.raises(popart.popart_exception, match=r"damaged|not a file of a compiled program"):
            session.loadExecutable(str(file))
    file.write_bytes(good + b"x")
    with pytest.raises(popart.popart_exception, match="length"):
        session.loadExecutable(str(file))


def test_another_version_and_other_hardware_are_refused_by_name(tmp_path):
    model, _, y = layers()
    session = inference(model, y, options_for())
    session.prepareDevice(False)
    file = tmp_path / "program.popef"
    session.saveExecutable(str(file))
    content = bytearray(file.read_bytes())
    content[8] = 77
    file.write_bytes(content)
    with pytest.raises(popart.popart_exception, match="got 77, expected 2"):
        session.loadExecutable(str(file))


def test_popxl_programs_are_kept_too(tmp_path, passes, monkeypatch):
    import popxl

    def program(value):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            x = popxl.h2d_stream((8, 64), popxl.float32, name="x")
            w = popxl.variable(np.full((64, 32), value, np.float32), name="w")
            y = popxl.ops.matmul(popxl.ops.host_load(x), w)
            popxl.ops.var_updates.accumulate_(w, popxl.constant(np.ones((64, 32), np.float32)))
            out = popxl.d2h_stream(y.shape, y.dtype, name="y")
            popxl.ops.host_store(out, y)
        return ir, x, w, out

    def run(value):
        ir, x, w, out = program(value)
        passes()
        with popxl.Session(ir, "cpu") as session:
            ran = passes()
            outputs = [session.run({x: np.ones((8, 64), np.float32)})[out] for _ in range(2)]
        return outputs, session.get_tensor_data(w), ran

    plain = run(0.25)
    monkeypatch.setenv("POPXL_CACHE_DIR", str(tmp_path / "cache"))
    run(0.5)  # the same program with another value
    outputs, weight, ran = run(0.25)
    assert len(kept(tmp_path / "cache")) == 1
    assert "flatten" not in ran
    np.testing.assert_array_equal(outputs, plain[0])
    np.testing.assert_array_equal(weight, plain[1])
