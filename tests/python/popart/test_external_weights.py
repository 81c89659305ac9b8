"""Sessions train and save models whose weights lie in data files as those that hold their weights.

Whatever way the files came there and wherever the model goes; onnx and ONNX Runtime read what is saved.
"""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import popart
import pytest

import onnx
from onnx import numpy_helper

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
WEIGHTS = ("w0", "w1", "w2")


def network():
    builder = popart.Builder()
    y = builder.addInputTensor("FLOAT", [2, 4], "x")
    for i, name in enumerate(WEIGHTS):
        values = np.arange(16, dtype=np.float32).reshape(4, 4) / 16 - i / 4
        y = builder.aiOnnx.tanh([builder.aiOnnx.matmul([y, builder.addInitializedInputTensor(values, name)])])
    number = builder.addInitializedInputTensor(np.arange(4, dtype=np.int64), "number")
    y = builder.aiOnnx.add([y, builder.aiOnnx.cast([number], "FLOAT")])
    loss = builder.aiOnnx.reducesum([y], keepdims=0)
    builder.addOutputTensor(loss)
    return builder, loss


OPTIMIZERS = {
    "plain": lambda: popart.ConstSGD(0.1),
    "momentum": lambda: popart.SGD({"defaultMomentum": (0.9, True)}),
    "adam": lambda: popart.Adam({"defaultLearningRate": (0.01, True)}),
}


def session_of(model, loss, optimizer="momentum"):
    session = popart.TrainingSession(
        model, popart.DataFlow(1, [loss]), loss, OPTIMIZERS[optimizer](), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def train(session, steps=2):
    anchors = session.initAnchorArrays()
    for _ in range(steps):
        session.run(popart.PyStepIO({"x": X}, anchors))
    return float(next(iter(anchors.values())))


def initializers(path, external=True):
    return {t.name: t for t in onnx.load(str(path), load_external_data=external).graph.initializer}


def arrays(path):
    """As onnx reads them: it takes no absolute locations."""
    return {name: numpy_helper.to_array(tensor) for name, tensor in initializers(path).items()}


def places(path):
    """(location, offset, length) of each tensor in a data file."""
    found = {}
    for name, tensor in initializers(path, external=False).items():
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entry = {e.key: e.value for e in tensor.external_data}
            found[name] = entry["location"], int(entry["offset"]), int(entry["length"])
    return found


def by_builder(names, file="w.bin"):
    def write(builder, path):
        builder.saveInitializersExternally(list(names), file)
        builder.saveModelProto(path)

    return write


def by_builder_twice(builder, path):
    builder.saveInitializersExternally(["w0"], "w.bin")
    builder.saveInitializersExternally(["w2", "number"], "w.bin")
    builder.saveModelProto(path)


def by_transformer(builder, path):
    transformer = popart.GraphTransformer(builder.getModelProto())
    transformer.saveInitializersExternally(list(WEIGHTS), "w.bin")
    with open(path, "wb") as file:
        file.write(transformer.getModelProto())


def by_onnx(one_file):
    def write(builder, path):
        model = onnx.load_from_string(builder.getModelProto())
        location = "all.bin" if one_file else None
        onnx.save_model(
            model,
            path,
            save_as_external_data=True,
            all_tensors_to_one_file=one_file,
            location=location,
            size_threshold=0,
        )

    return write


WRITERS = {
    "all": by_builder(WEIGHTS),
    "some": by_builder(["w1"]),
    "in_a_folder": by_builder(WEIGHTS, "data/w.bin"),
    "twice": by_builder_twice,
    "transformer": by_transformer,
    "onnx_one_file": by_onnx(True),
    "onnx_files": by_onnx(False),
}
TARGETS = ("m.onnx", "trained.onnx", "../elsewhere/trained.onnx", "data/trained.onnx")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a folder `data` in it and `elsewhere` beside it."""
    here = tmp_path / "here"
    (here / "data").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize("moves", [False, True], ids=["here", "from_another_folder"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("writer", WRITERS)
def test_files_hold_what_models_hold(folder, monkeypatch, writer, target, moves):
    builder, loss = network()
    plain = session_of(builder.getModelProto(), loss)
    WRITERS[writer](builder, "m.onnx")
    if moves:
        monkeypatch.chdir("/")
    session = session_of(str(folder / "m.onnx"), loss)
    for repeat in range(2):  # the second time files hold state already
        assert train(session) == train(plain), repeat
        path = os.path.normpath(folder / target)
        session.modelToHost(path)
        plain.modelToHost(str(folder / "plain.onnx"))
        expected = arrays(folder / "plain.onnx")
        for name, value in arrays(path).items():
            np.testing.assert_array_equal(value, expected.pop(name), name)
        assert not expected
    # A new session goes on, and saves over the model that it was made from.
    again, plain_again = session_of(path, loss), session_of(str(folder / "plain.onnx"), loss)
    assert train(again) == train(plain_again)
    again.modelToHost(path)
    plain_again.modelToHost(str(folder / "plain.onnx"))
    expected = arrays(folder / "plain.onnx")
    for name, value in arrays(path).items():
        np.testing.assert_array_equal(value, expected[name], name)


@pytest.mark.parametrize("writer", WRITERS)
def test_onnx_runtime_reads_the_files(folder, writer):
    runtime = pytest.importorskip("onnxruntime")
    builder, loss = network()
    WRITERS[writer](builder, "m.onnx")
    session = session_of("m.onnx", loss)
    for path in ("m.onnx", "trained.onnx"):
        session.modelToHost(path)
        (result,) = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run([loss], {"x": X})
        np.testing.assert_allclose(result, train(session, 1), rtol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_state_follows_the_weights_in_order(folder, optimizer):
    builder, loss = network()
    by_builder(["w2", "w0"])(builder, "m.onnx")
    session = session_of("m.onnx", loss, optimizer)
    for _ in range(3):
        train(session)
        session.modelToHost("trained.onnx")
    found = places("trained.onnx")
    state = sorted(name for name in found if "___" in name)
    kinds = {"plain": (), "momentum": ("Accl",), "adam": ("Accl1", "Accl2", "Step")}[optimizer]
    assert state == [f"{kind}___{weight}" for kind in kinds for weight in ("w0", "w2")]
    assert "w1" not in found and not any(name.endswith("___w1") for name in found)
    at = 0
    for name in ["w2", "w0", *state]:
        assert found[name][:2] == ("w.bin", at), name
        at += found[name][2]
    assert os.path.getsize("w.bin") == at


def test_a_file_named_by_its_path_stays_in_use(folder):
    builder, loss = network()
    data = str(folder.parent / "elsewhere" / "w.bin")
    builder.saveInitializersExternally(["w0"], data)
    before = np.fromfile(data, np.float32)
    session = session_of(builder.getModelProto(), loss)
    train(session)
    session.modelToHost("trained.onnx")
    assert places("trained.onnx")["w0"] == (data, 0, 64)
    weight = np.zeros((4, 4), np.float32)
    session.readWeights(popart.PyWeightsIO({"w0": weight}))
    np.testing.assert_array_equal(np.fromfile(data, np.float32)[:16].reshape(4, 4), weight)
    assert (before != weight.ravel()).any()
    assert train(session_of("trained.onnx", loss)) == train(session)


def test_a_builder_continues_a_model_with_files(folder, monkeypatch):
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    expected = train(session_of("m.onnx", loss))
    monkeypatch.chdir("/")
    for model in (
        popart.Builder(str(folder / "m.onnx")).getModelProto(),
        popart.GraphTransformer(str(folder / "m.onnx")).getModelProto(),
    ):
        assert train(session_of(model, loss)) == expected
    target = folder.parent / "elsewhere" / "whole.onnx"
    continued = popart.Builder(str(folder / "m.onnx"))
    continued.saveModelProto(str(target))  # nothing there names the files
    assert not places(target)
    assert train(session_of(str(target), loss)) == expected
    continued.saveInitializersExternally(["number"], str(folder / "data" / "number.bin"))
    continued.saveModelProto(str(folder / "n.onnx"))
    assert train(session_of(str(folder / "n.onnx"), loss)) == expected


def test_a_model_and_its_files_move_together(folder):
    builder, loss = network()
    by_builder(WEIGHTS, "data/w.bin")(builder, "m.onnx")
    expected = train(session_of("m.onnx", loss))
    new = folder.parent / "elsewhere"
    shutil.move("m.onnx", new / "m.onnx")
    shutil.move("data", new / "data")
    assert train(session_of(str(new / "m.onnx"), loss)) == expected


@pytest.mark.parametrize("absolute", [False, True])
def test_values_move_to_a_new_file(folder, absolute):
    builder, loss = network()
    first, second = (str(folder / name) if absolute else name for name in ("w.bin", "new.bin"))
    by_builder(WEIGHTS, first)(builder, "m.onnx")
    session = session_of("m.onnx", loss)
    before = Path("w.bin").read_bytes()
    session.updateExternallySavedTensorLocations(first, second)
    train(session)
    session.modelToHost("trained.onnx")
    assert Path("w.bin").read_bytes() == before != Path("new.bin").read_bytes()[: len(before)]
    assert {place[0] for place in places("trained.onnx").values()} == {second}


def test_a_model_without_weights_comes_out_as_it_went_in(folder):
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2, 4], "x")])
    builder.addOutputTensor(y)
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.modelToHost("out.onnx")
    assert Path("out.onnx").read_bytes() == builder.getModelProto()


def test_what_is_no_weight_stays_in_its_form(folder):
    builder, loss = network()
    model = onnx.load_from_string(builder.getModelProto())
    (number,) = [t for t in model.graph.initializer if t.name == "number"]
    number.ClearField("raw_data")
    number.int64_data.extend(range(4))
    session = session_of(model.SerializeToString(), loss)
    session.modelToHost("out.onnx")
    assert initializers("out.onnx")["number"] == number


def refused(call, *names):
    with pytest.raises(popart.popart_exception) as info:
        call()
    for name in names:
        assert name in str(info.value)
    return info.value


def test_missing_files_are_named(folder):
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    session = session_of("m.onnx", loss)
    os.remove("w.bin")
    refused(lambda: session.modelToHost("trained.onnx"), "w.bin")
    assert not os.path.exists("trained.onnx") and not os.path.exists("w.bin")
    for call in (
        lambda: popart.Builder("m.onnx"),
        lambda: popart.GraphTransformer("m.onnx"),
        lambda: session_of("m.onnx", loss),
        lambda: session.resetHostWeights("m.onnx"),
    ):
        assert isinstance(refused(call, "w.bin"), RuntimeError)


def test_a_short_file_is_named(folder):
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    os.truncate("w.bin", 100)
    refused(lambda: session_of("m.onnx", loss), "w.bin", "w1", "100")


def test_a_model_does_not_replace_its_data(folder):
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    before = Path("w.bin").read_bytes()
    session = session_of("m.onnx", loss)
    refused(lambda: session.modelToHost("w.bin"), "w.bin")
    refused(lambda: builder.saveModelProto("w.bin"), "w.bin")
    assert Path("w.bin").read_bytes() == before


def test_a_file_that_cannot_be_written_is_named(folder):
    """As on a full disk: the old file stays whole."""
    builder, loss = network()
    by_builder(WEIGHTS, "data/w.bin")(builder, "m.onnx")
    session = session_of("m.onnx", loss)
    before = Path("data/w.bin").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        refused(lambda: session.modelToHost("trained.onnx"), "data/w.bin")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert Path("data/w.bin").read_bytes() == before and not os.path.exists("trained.onnx")


def test_refusals_of_the_builder(folder):
    builder, _ = network()
    refused(lambda: builder.saveInitializersExternally(["w3"], "w.bin"), "w3", "w0")
    refused(lambda: builder.saveInitializersExternally(["w0"], "none/w.bin"), "none")
    refused(lambda: builder.saveInitializersExternally(["w0", "w0"], "w.bin"), "w0")
    assert not os.path.exists("w.bin")
    builder.saveInitializersExternally(["w0"], "w.bin")
    refused(lambda: builder.saveInitializersExternally(["w0"], "v.bin"), "w0")


def external(model, name, **entries):
    """Put the values of an initializer of `model`, or of its branches, at another place."""
    graphs = [model.graph, *(a.g for node in model.graph.node for a in node.attribute if a.HasField("g"))]
    (tensor,) = [t for graph in graphs for t in graph.initializer if t.name == name]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


def test_weights_that_share_bytes_move_to_the_end(folder):
    """Both are trained; a number that lies in the first one's bytes is not, and keeps its value."""
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    model = onnx.load("m.onnx", load_external_data=False)
    external(model, "w1", location="w.bin", offset=places("m.onnx")["w0"][1], length=64)
    number = np.frombuffer(Path("w.bin").read_bytes(), np.int64, 4)
    external(model, "number", location="w.bin", offset=0, length=32)
    onnx.save(model, "m.onnx")
    inside = onnx.load("m.onnx")
    onnx.external_data_helper.convert_model_from_external_data(inside)
    whole = session_of(inside.SerializeToString(), loss)
    session = session_of("m.onnx", loss)
    for path in ("trained.onnx", "again.onnx"):
        assert train(session) == train(whole)
        session.modelToHost(path)
        whole.modelToHost("whole.onnx")
        expected = arrays("whole.onnx")
        assert np.array_equal(expected["number"], number)
        assert not np.array_equal(expected["w0"], expected["w1"])
        for name, array in arrays(path).items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
        if path == "trained.onnx":
            size = os.path.getsize("w.bin")
    assert os.path.getsize("w.bin") == size


def branching_model():
    """Makes x * w where the condition holds, else x + w; the branches have a `w` each."""
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    branches = [
        onnx.helper.make_graph(
            [node(kind, ["x", f"{kind}_w"], [f"{kind}_y"])],
            kind,
            [],
            [value(f"{kind}_y", 1, [4])],
            [numpy_helper.from_array(np.arange(4, dtype=np.float32) + i, f"{kind}_w")],
        )
        for i, kind in enumerate(["Mul", "Add"])
    ]
    graph = onnx.helper.make_graph(
        [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        "branches",
        [value("x", 1, [4]), value("c", onnx.TensorProto.BOOL, [])],
        [value("y", 1, [4])],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def values_of_branches(model):
    return {a.g.name: numpy_helper.to_array(a.g.initializer[0]) for a in model.graph.node[0].attribute}


@pytest.mark.parametrize("target", TARGETS)
def test_values_of_branches_go_with_the_model(folder, target):
    model = branching_model()
    values = values_of_branches(model)
    Path("data/w.bin").write_bytes(b"".join(values[name].tobytes() for name in ("Mul", "Add")))
    for i, kind in enumerate(["Mul", "Add"]):
        external(model, f"{kind}_w", location="data/w.bin", offset=16 * i, length=16)
    onnx.save(model, "m.onnx")

    def run(path):
        session = popart.InferenceSession(path, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice())
        session.prepareDevice()
        anchors = session.initAnchorArrays()
        for condition in (True, False):
            session.run(popart.PyStepIO({"x": X[0], "c": np.array(condition)}, anchors))
            yield anchors["y"].copy()
        session.modelToHost(target)

    before = list(run("m.onnx"))
    np.testing.assert_array_equal(before, [X[0] * values["Mul"], X[0] + values["Add"]])
    for name, array in values_of_branches(onnx.load(target)).items():
        np.testing.assert_array_equal(array, values[name])
    refused(lambda: popart.Builder("m.onnx").saveModelProto("data/w.bin"), "data/w.bin")
    if "elsewhere" in target:  # the values are in the model, for its file cannot name theirs
        shutil.rmtree("data")
    np.testing.assert_array_equal(list(run(target)), before)


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ([("offset", "no number")], "no number"),
        ([("offset", "-4")], "-4"),
        ([("offset", "99999999999999999999")], "99999999999999999999"),
        ([("length", "0x40")], "0x40"),
        ([("location", "other.bin")], "'location' twice"),
    ],
)
@pytest.mark.parametrize("where", ["model", "branch"])
def test_damaged_places_are_refused(folder, where, entries, part):
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    model, name = branching_model(), "Mul_w"
    if where == "model":
        model, name = onnx.load("m.onnx", load_external_data=False), "w1"
    external(model, name, location="w.bin")
    graphs = [model.graph, *(a.g for node in model.graph.node for a in node.attribute)]
    (tensor,) = [t for graph in graphs for t in graph.initializer if t.name == name]
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    onnx.save(model, "m.onnx")
    outputs = [loss if where == "model" else "y"]
    for call in (
        lambda: popart.GraphTransformer("m.onnx"),
        lambda: popart.InferenceSession(
            "m.onnx", popart.DataFlow(1, outputs), popart.DeviceManager().createCpuDevice()
        ),
    ):
        refused(call, name, part)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_state_stays_in_its_place_when_the_file_moves(folder, optimizer):
    """It is not appended again: the size of the file and all places stay."""
    builder, loss = network()
    by_builder(["w2", "w0"])(builder, "m.onnx")
    session = session_of("m.onnx", loss, optimizer)
    train(session)
    session.modelToHost("trained.onnx")
    before, size = places("trained.onnx"), os.path.getsize("w.bin")
    session.updateExternallySavedTensorLocations("w.bin", "moved.bin")
    for _ in range(2):
        train(session)
        session.modelToHost("trained.onnx")
        assert os.path.getsize("moved.bin") == size
        assert {n: p[1:] for n, p in places("trained.onnx").items()} == {n: p[1:] for n, p in before.items()}
        assert {p[0] for p in places("trained.onnx").values()} == {"moved.bin"}
    again = session_of("trained.onnx", loss, optimizer)
    assert train(again) == train(session)


LATER = """
import popart, sys
loss, call = sys.argv[1:3]
session = popart.InferenceSession("m.onnx", popart.DataFlow(1, [loss]), popart.DeviceManager().createCpuDevice())
if call != "prepareDevice":
    session.prepareDevice(call != "loadEngineAndConnectStreams")
with open("w.bin", "r+b") as file:
    if sys.argv[3] == "cut":
        file.truncate(0)
    else:
        file.write(bytes(64))
try:
    getattr(session, call)(*(["saved.onnx"] if call == "modelToHost" else []))
except popart.popart_exception as e:
    print(e)
"""


@pytest.mark.parametrize("change", ["cut", "overwritten"])
@pytest.mark.parametrize("call", ["prepareDevice", "loadEngineAndConnectStreams", "weightsFromHost", "modelToHost"])
def test_a_data_file_that_is_written_to_later_is_refused(folder, call, change):
    """Reading the end of a file that was cut would end the process."""
    builder, loss = network()
    by_builder(WEIGHTS)(builder, "m.onnx")
    result = subprocess.run([sys.executable, "-c", LATER, loss, call, change], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "External data file 'w.bin' in folder" in result.stdout and "has changed since the model" in result.stdout
