"""The table of options tells the truth: each row against what sessions do, and docs/options.md against the table."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import popart
import pytest

import onnx
from tests.python.popart import option_walk
from tests.python.popart.training_runs import types_of

ROOT = Path(__file__).parents[3]
ROWS = {}  # name -> state -> values in words
for _name, _kind, _values, _ in popart._optionRows():
    ROWS.setdefault(_name, {})[_kind] = _values
# pattern -> where its work is done
STATES = {name: state for names, state, _ in popart._patternNotes() for name in names.split(", ")}
KEYS = {f"{name}[{key}]": kind for name, key, kind, _ in popart._optionKeys()}


def rows_of(option):
    """States of an option: its own row, or that of the struct it is in."""
    return ROWS.get(option) or ROWS[option.split(".")[0]]


@pytest.fixture(scope="module")
def happened(tmp_path_factory):
    """What every attempt of option_walk.py led to."""
    folder = tmp_path_factory.mktemp("walk")
    env = os.environ | {"POPART_LOG_DEST": str(folder / "log"), "POPART_NUM_THREADS": "1", "POPART_LOG_LEVEL": "WARN"}
    env.pop("POPART_CACHE_DIR", None)
    program = subprocess.run(
        [sys.executable, "-m", "tests.python.popart.option_walk"],
        cwd=folder,
        env=env | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert program.returncode == 0, program.stderr
    return json.loads(program.stdout)


def option_of(title):
    return title.split("=")[0]


def test_every_option_has_a_row():
    names = [name for name, _ in option_walk.leaves(popart.SessionOptions())]
    for name in names:
        assert rows_of(name), name
    tops = {name.split(".")[0] for name in names}
    assert {name.split(".")[0] for name in ROWS} == tops
    for name in ROWS:
        assert name in names or any(leaf.startswith(name + ".") for leaf in names), f"{name} is no option"


def test_every_option_is_tried(happened):
    tried = {option_of(title) for title in happened}
    for name, value in option_walk.leaves(popart.SessionOptions()):
        if name in option_walk.MAPS or name in option_walk.OLD_NAMES or name == "compilationProgressLogger":
            continue
        assert name in tried, f"{name} = {value!r}: give option_walk.py a value to try"


def test_refused_values_are_refused_by_name(happened):
    refused = {name for name, states in ROWS.items() if "refused" in states}
    seen = set()
    for title, what in happened.items():
        if not what["error"] or set(rows_of(option_of(title))) == {"built"}:
            continue
        found = re.match(r"SessionOptions::([\w.]+) is not supported yet: ", what["error"])
        # the two options of one refusal are named by the first of them
        assert found and found[1] in refused, f"{title}: {what['error']}"
        assert option_of(title) in refused, title
        seen.add(option_of(title))
    assert seen == refused


def test_warned_values_warn_once_by_name(happened):
    warned = {name for name, states in ROWS.items() if "warned" in states}
    lines = [line for what in happened.values() for line in what["warnings"]]
    for name in warned:
        said = [line for line in lines if f"SessionOptions::{name} has no effect here: " in line]
        assert len(said) == 1, (name, said)
        (setting,) = [what["sets"] for what in happened.values() if said[0] in what["warnings"]]
        assert any(option.startswith(name) for option in setting), (name, setting)
    for line in lines:
        assert re.search(r"SessionOptions::([\w.]+)(\['[^']*'\])? has no effect", line), line


def test_options_without_effect_change_neither_results_nor_memory(happened):
    for title, what in happened.items():
        states = set(rows_of(option_of(title))) if "=" in title else {KEYS.get(title, "warned")}
        if what["error"] or "built" in states:
            continue
        assert what["same"], f"{title}: results, planned memory or the serialised IR differ"
        if states == {"no effect"}:
            assert not any(f"::{option_of(title)} " in line for line in what["warnings"]), title


def test_keys_of_option_maps(happened):
    for title, kind in KEYS.items():
        if title in happened:
            assert len(happened[title]["warnings"]) == (kind == "warned"), title
    for name in option_walk.MAPS:
        (line,) = happened[f"{name}[max_memroy]"]["warnings"]
        assert "key is not known" in line
    assert "Nearest known key: max_memory" in happened["engineOptions[max_memroy]"]["warnings"][0]


def test_pages_say_what_the_tables_say():
    check = subprocess.run(
        [sys.executable, ROOT / "tools/make_docs.py", "--check"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_environment_is_read_in_one_place():
    patterns = ["src/**/*.?pp", "python/**/*.?pp", "python/**/*.py", "include/**/*.hpp"]
    sources = [path for pattern in patterns for path in ROOT.glob(pattern)]
    reading = [str(path.relative_to(ROOT)) for path in sources if "getenv(" in path.read_text()]
    assert reading == ["src/base/environment.cpp"]
    named = {name for name, _, _ in popart._environmentVariables()}
    for path in sources:
        assert set(re.findall(r"\bPOP(?:ART|XL|DIST)_[A-Z_]+(?=\"|'\])", path.read_text())) <= named, path


def test_engine_options_of_the_environment(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"max_memory": "1K"}')
    with pytest.raises(popart.OutOfMemoryException):
        option_walk.run(popart.SessionOptions(), False)
    options = popart.SessionOptions()
    options.engineOptions["max_memory"] = "1G"  # the program's own comes first
    option_walk.run(options, False)
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "max_memory")
    with pytest.raises(popart.popart_exception, match="expected a JSON object"):
        option_walk.run(popart.SessionOptions(), False)


def test_every_pattern_has_a_note():
    tool = ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-opt"
    passes = subprocess.run([tool, "--list-passes"], capture_output=True, text=True, check=True).stdout
    rewriting = set(re.findall(r"^\s*(\w+)\s+pattern$", passes, re.MULTILINE))
    assert {name for name, state in STATES.items() if state == "rewrite"} == rewriting
    patterns = popart.Patterns(popart.PatternsLevel.All)
    for name in STATES:
        patterns.isPatternEnabled(name)  # throws for unknown names
    assert len(STATES) == 55 + 2  # those of PopART, InPlace and UpdateInplacePrioritiesForIpu


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_patterns_that_do_not_rewrite_change_neither_results_nor_memory(training):
    expected = option_walk.run(popart.SessionOptions(), training)
    enabled = {name for name in STATES if popart.Patterns().isPatternEnabled(name)}
    for name, state in STATES.items():
        if state == "rewrite":
            continue
        patterns = popart.Patterns(sorted(enabled ^ {name}))
        patterns.enableRuntimeAsserts(False)  # mandatory ones may be missing
        assert option_walk.run(popart.SessionOptions(), training, patterns) == expected, name


MARKED = """
import numpy as np
import popart

for mark in ("", "recomputeOutput", "setSerializeMatMul", "outputTensorLocation"):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 4], "x")
    w = builder.addInitializedInputTensor(np.ones((4, 4), np.float32), "w")
    body = builder.createSubgraphBuilder()
    square = body.aiOnnx.matmul([body.addInputTensor("FLOAT", [4, 4])] * 2)
    body.addOutputTensor(square)
    if mark == "recomputeOutput":
        body.recomputeOutputInBackwardPass(square, popart.RecomputeType.Recompute)
    (w,) = builder.aiGraphcore.call([w], 1, body)
    y = builder.aiOnnx.relu([builder.aiOnnx.matmul([x, w])])
    if mark == "setSerializeMatMul":
        builder.setSerializeMatMul({y}, "output_channels", 2)
    elif mark == "outputTensorLocation":
        sharded = popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)
        builder.outputTensorLocation(y, sharded)
    for _ in range(2):
        session = popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
        )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.arange(8, dtype=np.float32).reshape(2, 4)}, anchors))
    print(session.getSummaryReport().split("host copies")[0], anchors[y])
"""


def test_marks_of_nodes_warn_once_and_change_nothing():
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = subprocess.run([sys.executable, "-c", MARKED], env=env, capture_output=True, text=True, check=True)
    results = program.stdout.split("Memory")[1:]
    assert len(results) == 4 and len(set(results)) == 1
    lines = re.findall(r"Builder::(\w+) on '[^']*(?:MatMul|Relu):0[^']*' has no effect here: ", program.stderr)
    assert lines == [method for method, _ in popart._nodeMarks()]


def shared_weight_session(decompose, terms=5):
    """Training of a weight that is used several times, with large gradients."""
    rng = np.random.default_rng(2)
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(rng.standard_normal((96, 96)).astype(np.float32), "w")
    x = builder.addInputTensor("FLOAT", [4, 96], "x")
    value = x
    for _ in range(terms):
        value = builder.aiOnnx.tanh([builder.aiOnnx.matmul([value, w])])
    loss = builder.aiGraphcore.l1loss([value], 0.1)
    options = popart.SessionOptions()
    options.decomposeGradSum = decompose
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, {"Gradient___w": popart.AnchorReturnType("ALL")}),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (0.1, True)}),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": rng.standard_normal((4, 96)).astype(np.float32)}, anchors))
    arena = int(re.search(r"activations: (\d+)", session.getSummaryReport())[1])
    return session, anchors["Gradient___w"], arena


def test_decompose_grad_sum_adds_gradients_one_by_one():
    session, gradient, arena = shared_weight_session(True)
    kept, expected, largest = shared_weight_session(False)
    types = types_of(session)
    assert "Sum" not in types and types.count("Add") == 4
    assert "Sum" in types_of(kept)
    np.testing.assert_array_equal(gradient, expected)
    assert arena <= largest - 2 * 96 * 96 * 4  # two gradients at a time instead of five


@pytest.mark.parametrize(
    "kept", [set(), {"Grad"}, {"Optimizer"}, {"Grad", "Optimizer"}], ids=lambda kept: "+".join(sorted(kept))
)
def test_state_that_stays_on_the_device(kept, tmp_path):
    """Streams of accumulators and of the other state: neither read back, nor saved, nor reset by weightsFromHost."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    w = builder.addInitializedInputTensor(np.zeros(2, np.float32), "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], reduction=popart.ReductionType.Sum)
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 2
    options.disableGradAccumulationTensorStreams = "Grad" in kept
    options.disableOptimizerStateTensorStreams = "Optimizer" in kept
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, []),
        loss,
        popart.Adam({"defaultLearningRate": (0.5, True)}, mode=popart.AdamMode.AdamNoBias),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    feeds = {"x": np.ones((2, 2), np.float32)}
    session.run(popart.PyStepIO(feeds, {}))
    session.weightsToHost()
    read = {name: np.full(2, 7, np.float32) for name in ("Accum___w", "Accl1___w", "w")}
    session.readWeights(popart.PyWeightsIO(read))
    first_moment = 0 if "Optimizer" in kept else 0.2  # of a gradient of 2: the host's value is the first one
    assert read["Accl1___w"].tolist() == pytest.approx([first_moment] * 2)
    assert (read["w"] < 0).all()
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    saved = {i.name for i in onnx.load(path).graph.initializer}
    assert ("Accum___w" in saved) == ("Grad" not in kept)
    assert ("Accl1___w" in saved) == ("Optimizer" not in kept)
    if "Optimizer" in kept:  # a step from what the device has
        session.writeWeights(popart.PyWeightsIO({"Accl1___w": np.full(2, 100, np.float32)}))
        session.weightsFromHost()
        before = read["w"].copy()
        session.run(popart.PyStepIO(feeds, {}))
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(read))
        assert (np.abs(read["w"] - before) < 10).all()


def sums_of_constants(builder, x):
    """Adds constants that others read too, in the model and in a body, and gives a result of them and x."""
    onnx_, body = builder.aiOnnx, builder.createSubgraphBuilder()
    one = onnx_.constant(np.ones(3, np.float32))
    two = onnx_.add([one, onnx_.constant(np.ones(3, np.float32))])
    body.addOutputTensor(body.aiOnnx.sum([body.addInputTensor("FLOAT", [3]) for _ in range(2)]))
    (y,) = builder.aiGraphcore.call([x, one], 1, body)
    return onnx_.mul([y, two])


@pytest.mark.parametrize("folds", [True, False])
def test_constants_with_several_readers(folds):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3], "x")
    y = sums_of_constants(builder, x)
    # shapes are known all the same, also of what is computed of shared constants
    two = builder.aiOnnx.constant(np.array([2], np.int64))
    shape = builder.aiOnnx.concat([builder.aiOnnx.mul([two, two]), two], 0)
    rows = builder.aiOnnx.expand([builder.aiOnnx.constant(np.array([[5.0]], np.float32)), shape])
    z = builder.aiOnnx.mul([builder.aiOnnx.reducesum([y], [0], 0), rows])
    options = popart.SessionOptions()
    options.enableOutlining = False
    options.enableConstantFoldingOfMultipleConsumers = folds
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [z]), device, userOptions=options)
    assert types_of(session).count("Add") == (1 if folds else 2)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.array([1, 2, 3], np.float32)}, anchors))
    np.testing.assert_array_equal(anchors[z], np.full((4, 2), 5 * 2 * 9, np.float32))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("groups", "channels"), [(1, 4), (2, 6), (3, 6), (6, 6)])
def test_groups_of_strided_channels(groups, channels, training):
    """They are the groups of neighbours of channels in another order; statistics come by group."""
    rng = np.random.default_rng(groups)
    scale, bias = rng.normal(size=(2, channels)).astype(np.float32)
    data = rng.normal(size=(2, channels, 3, 2)).astype(np.float32)

    def run(strided, order):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", list(data.shape), "x")
        s, b = (builder.addInitializedInputTensor(v[order], n) for v, n in ((scale, "s"), (bias, "b")))
        y, mean, deviation = builder.aiGraphcore.groupnormalization([x, s, b], groups)
        options = popart.SessionOptions()
        options.groupNormStridedChannelGrouping = strided
        device, model = popart.DeviceManager().createCpuDevice(), builder.getModelProto
        if training:
            loss = builder.aiGraphcore.l1loss([builder.aiOnnx.mul([y, y])], 0.5)
            gradients = [f"Gradient___{name}" for name in "xsb"]
            flow = popart.DataFlow(1, [y, *gradients])
            session = popart.TrainingSession(model(), flow, loss, popart.ConstSGD(0.1), device, userOptions=options)
        else:
            flow = popart.DataFlow(1, [y, mean, deviation])
            session = popart.InferenceSession(model(), flow, device, userOptions=options)
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.ascontiguousarray(data[:, order])}, anchors))
        return {name: value.copy() for name, value in anchors.items()}

    plain = np.arange(channels)
    order = plain.reshape(channels // groups, groups).T.ravel()  # channels of one group next to one another
    strided, neighbours = run(True, plain), run(False, order)
    for name, value in neighbours.items():
        back = np.argsort(order)
        axis = 1 if value.ndim == 4 else 0
        expected = value if "GroupNormalization:1" in name or "GroupNormalization:2" in name else value.take(back, axis)
        np.testing.assert_allclose(strided[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    if 1 < groups < channels:
        assert not np.allclose(run(False, plain)["GroupNormalization:0"], strided["GroupNormalization:0"])


def test_values_of_engine_options_may_be_numbers():
    options = popart.SessionOptions()
    options.engineOptions = {"num_threads": 2, "max_seconds": 1.5, "autoReport.all": True, "max_memory": "1G"}
    assert dict(options.engineOptions.items()) == {
        "num_threads": "2",
        "max_seconds": "1.5",
        "autoReport.all": "true",
        "max_memory": "1G",
    }
    options.engineOptions["num_threads"] = np.int64(3)
    options.engineOptions.update({"autoReport.all": False})
    assert options.engineOptions["num_threads"] == "3"
    assert options.engineOptions["autoReport.all"] == "false"
    with pytest.raises(TypeError, match="None"):
        options.engineOptions["num_threads"] = None
