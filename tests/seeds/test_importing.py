"""The programs of "Importing graphs" (documents 000 and 002), as printed, with both styles of torch.onnx.export.

The printed programs make a session; each test then runs it and compares with PyTorch and ONNX Runtime. Pretrained
weights are replaced by random ones: nothing else of a program changes. `torch.onnx.export` is wrapped to choose its
style and to export in evaluation mode, which the older style does by itself: otherwise dropout is random in the file.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import Document, find_document, run_program

GUIDE, OLD_GUIDE = find_document("000"), find_document("002")
STEPS = 100  # batches per step of every printed program
# The newer style makes the same graph from every printed call: one program shows it by default, the others are slow.
BOTH_STYLES = pytest.mark.parametrize("exporter", ["tracer", "export"], indirect=True)
TRACER_FIRST = pytest.mark.parametrize(
    "exporter", ["tracer", pytest.param("export", marks=pytest.mark.slow)], indirect=True
)

pytestmark = pytest.mark.models


@pytest.fixture
def exporter(request, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The style of torch.onnx.export; the current folder is empty and random numbers start from a fixed seed."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    original = torch.onnx.export

    def export(model, *args, **kwargs):
        model.eval()
        original(model, *args, dynamo=request.param == "export", **kwargs)
        model.train()

    monkeypatch.setattr(torch.onnx, "export", export)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return request.param


def printed_program(path, number: int, last: str) -> str:
    """Program `number` of a document, with random weights."""
    if path is None:
        pytest.skip("needs the documents 000 and 002 (set POPART_SEEDS)")
    document = Document(path)
    for _ in range(number):
        document.program("import popart", document.next_line("session = popart."))
    return document.program("import popart", last).replace("pretrained=True", "pretrained=False")


def onnx_runtime(x: np.ndarray) -> np.ndarray:
    """The exported file's result in ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession("alexnet.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def exported_input() -> str:
    """Name of the exported file's input."""
    import onnx

    return onnx.load("alexnet.onnx").graph.input[0].name


def check_inference(namespace: dict) -> None:
    """Run all batches of a step; every batch equals PyTorch's and ONNX Runtime's result."""
    import popart
    import torch

    session, different = namespace["session"], 4
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    assert {name: array.shape for name, array in anchors.items()} == {"output": (STEPS, 4, 1000)}
    assert session.getInfo("output").shape() == [4, 1000]
    images = np.random.default_rng(1).standard_normal((different, 4, 3, 224, 224)).astype(np.float32)
    session.run(popart.PyStepIO({exported_input(): np.tile(images, (STEPS // different, 1, 1, 1, 1))}, anchors))
    with torch.no_grad():
        expected = [namespace["model"].eval()(torch.from_numpy(x)).numpy() for x in images]
    for i, got in enumerate(anchors["output"]):
        np.testing.assert_allclose(got, expected[i % different], rtol=1e-4, atol=1e-6)
    for x, want in zip(images, expected, strict=True):
        np.testing.assert_allclose(onnx_runtime(x), want, rtol=1e-4, atol=1e-6)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3


def check_training(namespace: dict, labels_name: str, reduction: str) -> None:
    """Train all batches of a step; the outputs before the first updates equal PyTorch's.

    `reduction` is the default of the loss: mean for the Builder's method, sum for loss objects.
    """
    import popart
    import torch

    session, model, x = namespace["session"], namespace["model"].eval(), namespace["input_"]
    # The loss is -log(output) of the labelled class: it is finite where the output is positive.
    labels = model(x).argmax(-1)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    assert {name: array.shape for name, array in anchors.items()} == {"output": (STEPS, 4, 1000)}
    images = np.tile(x.numpy(), (STEPS, 1, 1, 1, 1))
    targets = np.tile(labels.numpy().astype(np.int32), (STEPS, 1))
    session.run(popart.PyStepIO({exported_input(): images, labels_name: targets}, anchors))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    rows, losses = torch.arange(4), []
    for step, got in enumerate(anchors["output"][:8]):
        output = model(x)
        # Gradients are 1 / output, so the first updates are large. From the third step on, one ReLU on the other side
        # of zero moves the outputs by some 1e-4; PyTorch differs from itself as much when its input changes by 3e-6.
        scale = (1e-5 if step < 2 else 1e-3) * output.abs().max().item()
        np.testing.assert_allclose(got, output.detach().numpy(), rtol=0, atol=scale)
        loss = getattr(-torch.log(output[rows, labels]), reduction)()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] - 1
    final = -np.log(np.take_along_axis(anchors["output"], targets[..., None].astype(np.int64), -1)).sum((1, 2))
    assert np.isfinite(final).all() and (np.diff(final) < 0).all()


@BOTH_STYLES
def test_importing_graphs(exporter: str):
    """Document 000, files/importing_graphs.py."""
    program = printed_program(GUIDE, 0, 'session = popart.InferenceSession("alexnet.onnx", dataFlow, device)')
    namespace = {"__name__": "document"}
    run_program(program, namespace)
    check_inference(namespace)


@TRACER_FIRST
def test_importing_graphs_without_output_names(exporter: str, capfd: pytest.CaptureFixture):
    """Document 002, first program: `output` is the only result, whatever the exporter called it."""
    program = printed_program(OLD_GUIDE, 0, 'session = popart.InferenceSession("alexnet.onnx", dataFeed, device)')
    namespace = {"__name__": "document"}
    run_program(program, namespace)
    assert "the model has no tensor 'output': taken as its only output" in capfd.readouterr().err
    check_inference(namespace)


@TRACER_FIRST
def test_executing_an_imported_graph(exporter: str):
    """Document 000, last program: names of inputs and outputs are printed, a PyStepIO is made."""
    last = "stepio = popart.PyStepIO({'input.1': input_1}, session.initAnchorArrays())"
    program = printed_program(GUIDE, 2, last)
    namespace = {"__name__": "document"}
    printed = run_program(program, namespace)
    assert printed[-2:] == [f"Iputs name: {[exported_input()]}", "Outputs name: ['output']"]
    # The document's names are those of the tracer.
    assert exporter == "export" or exported_input() == "input.1"
    assert isinstance(namespace["stepio"], type(namespace["popart"].PyStepIO({}, {})))
    check_inference(namespace)


@TRACER_FIRST
def test_creating_a_training_session(exporter: str):
    """Document 000, files/importing_session.py: a loss is added with the Builder."""
    program = printed_program(GUIDE, 1, "optimizer=optimizer)")
    namespace = {"__name__": "document"}
    run_program(program, namespace)
    check_training(namespace, namespace["labels"], "mean")


@TRACER_FIRST
def test_creating_a_training_session_with_loss_objects(exporter: str):
    """Document 002, second program: dataFeed, losses, inputShapeInfo, and `output` as the loss's input."""
    program = printed_program(OLD_GUIDE, 1, "inputShapeInfo=inputShapeInfo)")
    namespace = {"__name__": "document"}
    run_program(program, namespace)
    check_training(namespace, "labels", "sum")
