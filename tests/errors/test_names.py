"""Names that do not exist: the error suggests the nearest; wrong shapes: it prints both."""

import subprocess
import sys

import numpy as np
import popart
import popxl
import popxl_addons
import pytest
from popxl import ops

NAMES = [  # whose, a wrong name, the one that was meant
    (popart, "InferenceSesion", "InferenceSession"),
    (popart, "anchorreturntype", "AnchorReturnType"),
    (popxl, "remote_vairable", "remote_variable"),
    (popxl.ops, "gelo", "gelu"),
    (popxl.ops.var_updates, "acumulate_", "accumulate_"),
    (popxl.ops.collectives, "replicated_allreduce", "replicated_all_reduce"),
    (popxl.transforms, "auto_diff", "autodiff"),
    (popxl_addons, "NamedTensor", "NamedTensors"),
    (popart.SessionOptions(), "enablePipelinig", "enablePipelining"),
    (popart.SessionOptions().batchSerializationSettings, "facto", "factor"),
    (popart.DeviceManager(), "createCPUDevice", "createCpuDevice"),
    (popart.Builder(), "addInputTenso", "addInputTensor"),
    (popart.Builder().aiOnnx, "sofmax", "softmax"),
    (popart.Builder().aiGraphcore, "nlloss", "nllloss"),
    (popart.TensorInfo("FLOAT", [1]), "shap", "shape"),
    (popxl.Ir().replica_grouping(), "group_siz", "group_size"),
]


def of(owner):
    return getattr(owner, "__name__", type(owner).__name__)


@pytest.mark.parametrize(("owner", "wrong", "meant"), NAMES, ids=[f"{of(row[0])}.{row[1]}" for row in NAMES])
def test_an_unknown_attribute_suggests_the_nearest(owner, wrong, meant):
    with pytest.raises(AttributeError) as said:
        getattr(owner, wrong)
    assert f"has no attribute '{wrong}'" in str(said.value)
    assert meant in str(said.value).partition("Nearest names: ")[2].split(", ")
    assert not hasattr(owner, wrong) and getattr(owner, wrong, None) is None
    assert hasattr(owner, meant)


SESSION = """
import popart
builder = popart.Builder()
y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
device = popart.DeviceManager().createCpuDevice()
popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device).prepareDevic()
"""
TENSOR = """
import popxl
with popxl.Ir().main_graph:
    popxl.variable(1.0).shap
"""


@pytest.mark.parametrize(
    ("program", "wrong", "meant"),
    [
        (SESSION, "prepareDevic", "prepareDevice"),
        ("import popxl; popxl.Ir().replication_facto", "replication_facto", "replication_factor"),
        ("import popxl; popxl.Ir().main_graph.input", "input", "inputs"),
        (TENSOR, "shap", "shape"),
    ],
    ids=["session", "ir", "graph", "tensor"],
)
def test_tracebacks_suggest_names_where_no_hook_does(program, wrong, meant):
    """Look-ups of ``run``, and the many of a build, take as little as they can: a hook makes each slower."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert f"has no attribute '{wrong}'. Did you mean: '{meant}'?" in run.stderr


def test_private_names_get_no_suggestion():
    for owner in (popart, popxl, popxl.ops, popart.SessionOptions(), popxl.Ir()):
        with pytest.raises(AttributeError) as said:
            getattr(owner, "_shap")  # noqa: B009
        assert "Nearest" not in str(said.value)


def test_options_that_do_not_exist_cannot_be_set():
    options = popart.SessionOptions()
    with pytest.raises(AttributeError, match=r"'enableReplicatedGraph'\. Nearest names: enableReplicatedGraphs"):
        options.enableReplicatedGraph = True
    with pytest.raises(AttributeError, match="Nearest names: minElementsForOffChip"):
        options.weightTensorLocationSettings.minElementForOffChip = 2
    with pytest.raises(TypeError, match=r"SessionOptions.accumulationFactor: got 'two' of type str, expected int"):
        options.accumulationFactor = "two"
    options.accumulationFactor = 3
    assert options.accumulationFactor == 3


def session(count=2):
    """A session of a product of a stream and a weight, and what it is made of."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "samples")
    w = builder.addInitializedInputTensor(np.ones((3, 4), np.float32), "weight")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([y])
    made = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(count, {y: popart.AnchorReturnType("All")}),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    made.prepareDevice()
    made.weightsFromHost()
    return made, y


SHAPES = [  # input shape, output shape, what the message says
    ((2, 2, 4), (2, 2, 4), ("samples", r"shape [2, 2, 4]", "[2, 2, 3]")),
    ((2, 2, 3), (2, 4), ("MatMul:0", r"shape [2, 4]", "[2, 2, 4]")),
]


@pytest.mark.parametrize(("given", "taken", "words"), SHAPES)
def test_a_wrong_shape_prints_both(given, taken, words):
    made, y = session()
    stepio = popart.PyStepIO({"samples": np.ones(given, np.float32)}, {y: np.ones(taken, np.float32)})
    with pytest.raises(popart.popart_runtime_error) as said:
        made.run(stepio)
    assert all(word in str(said.value) for word in words), said.value


def test_a_wrong_shape_from_a_callback_prints_both():
    made, y = session()
    arrays = {"samples": np.ones((3, 3), np.float32), y: np.ones((2, 4), np.float32)}
    stepio = popart.PyStepIOCallback(
        lambda name, _: arrays[name], lambda _: None, lambda name: arrays[name], lambda _: None
    )
    with pytest.raises(popart.popart_runtime_error, match=r"samples.*shape \[3, 3\], a micro-batch \[2, 3\]"):
        made.run(stepio)


@pytest.mark.parametrize(("inputs", "outputs", "near"), [
    ({"sample": np.ones((2, 2, 3), np.float32)}, {}, r"'sample'.*Nearest input streams: samples"),
    ({"samples": np.ones((2, 2, 3), np.float32)}, {"MatMul": np.ones(16, np.float32)},
     r"Nearest anchors: MatMul:0"),
])  # fmt: skip
def test_step_io_suggests_the_nearest_tensor(inputs, outputs, near):
    made, _ = session()
    with pytest.raises(popart.popart_runtime_error, match=near):
        made.run(popart.PyStepIO(inputs, outputs))


def test_weights_suggest_the_nearest_tensor_and_print_both_shapes():
    made, _ = session()
    made.weightsToHost()
    for transfer in (made.readWeights, made.writeWeights):
        with pytest.raises(popart.popart_runtime_error, match=r"'weigth': .* no weight .*Nearest names: weight"):
            transfer(popart.PyWeightsIO({"weigth": np.ones((3, 4), np.float32)}))
        with pytest.raises(popart.popart_runtime_error, match=r"float32\[4, 4\], expected float32\[3, 4\]"):
            transfer(popart.PyWeightsIO({"weight": np.ones((4, 4), np.float32)}))


def test_popxl_prints_both_shapes():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.h2d_stream((2, 3), popxl.float32, name="x")
        y = popxl.d2h_stream((2, 4), popxl.float32, name="y")
        w = popxl.variable(np.ones((3, 4), np.float32), name="w")
        ops.host_store(y, ops.host_load(x) @ w)
    with popxl.Session(ir, "cpu") as made:
        with pytest.raises(ValueError, match=r"got \(3, 3\), expected \(2, 3\)"):
            made.run({x: np.ones((3, 3), np.float32)})
        with pytest.raises(ValueError, match=r"got data of shape \(4, 4\), expected \(3, 4\)"):
            made.write_variable_data(w, np.ones((4, 4), np.float32))


def placed():
    """A builder with a product of `image` and `weights`, and the product."""
    builder = popart.Builder()
    image = builder.addInputTensor("FLOAT", [2, 3], "image")
    weights = builder.addInitializedInputTensor(np.ones((3, 4), np.float32), "weights")
    return builder, builder.aiOnnx.matmul([image, weights])


def clipped(weight):
    builder, y = placed()
    loss = builder.aiGraphcore.identityloss([y])
    clip = popart.ClipNormSettings.clipWeights([weight], 1.0)
    device = popart.DeviceManager().createCpuDevice()
    popart.TrainingSession(builder.getModelProto(), popart.DataFlow(1, [loss]), loss, popart.SGD({}, [clip]), device)


def model_that_reads(name):
    import onnx

    builder, _ = placed()
    model = onnx.load_from_string(builder.getModelProto())
    model.graph.node[0].input[0] = name
    popart.Builder(model.SerializeToString())


WITH_TENSORS = [  # a program that takes the wrong name, the name, the one that was meant
    (lambda name: placed()[0].virtualGraph(name, 1), "MatMull:0", "MatMul:0"),
    (lambda name: placed()[0].getInt64NodeAttribute(name, {"MatMul:0"}), "__debug_inf_id", "__debug_info_id"),
    (lambda name: placed()[0].addInputTensor(name, [1]), "FLOOT16", "FLOAT16"),
    (lambda name: placed()[0].saveInitializersExternally([name], "w.bin"), "weight", "weights"),
    (clipped, "weight", "weights"),
    (model_that_reads, "imgae", "image"),
]


@pytest.mark.parametrize(("program", "wrong", "meant"), WITH_TENSORS)
def test_an_unknown_name_of_a_model_suggests_the_nearest(program, wrong, meant):
    with pytest.raises(popart.popart_exception) as said:
        program(wrong)
    assert wrong in str(said.value)
    assert meant in str(said.value).partition("Nearest names: ")[2]
