"""The programs of the published documents run as printed and print what the documents show.

Data sets are replaced by Fashion-MNIST in the files where torchvision looks for MNIST: the programs do not change.
"""

import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import Document, find_document, run_program

TUTORIAL = find_document("003")
GUIDE = find_document("004")
FASHION = Path("/usr/share/datasets/fashion-mnist")


def write_idx(source: Path, target: Path, items: int) -> None:
    """Write the first `items` of a gzipped IDX file."""
    data = gzip.decompress(source.read_bytes())
    dims = data[3]
    header = 4 + 4 * dims
    size = int(np.prod([int.from_bytes(data[4 + 4 * d : 8 + 4 * d], "big") for d in range(1, dims)]))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data[:4] + items.to_bytes(4, "big") + data[8:header] + data[header : header + items * size])


def write_mnist(home: Path, training_images: int, test_images: int) -> None:
    """Write MNIST's files where torchvision looks for them, holding the first images of Fashion-MNIST."""
    if not FASHION.is_dir():
        pytest.skip("needs the Debian package dataset-fashion-mnist")
    raw = home / ".torch" / "datasets" / "MNIST" / "raw"
    for part, items in (("train", training_images), ("t10k", test_images)):
        write_idx(FASHION / f"{part}-images-idx3-ubyte.gz", raw / f"{part}-images-idx3-ubyte", items)
        write_idx(FASHION / f"{part}-labels-idx1-ubyte.gz", raw / f"{part}-labels-idx1-ubyte", items)


class Tutorial:
    """The PopXL tutorial, read section by section into one namespace; sections may be left out."""

    def __init__(self):
        self.document = Document(TUTORIAL)
        self.namespace = {"__name__": "tutorial"}
        self.run("from tqdm import tqdm", "import popxl")
        self.run("class Linear(addons.Module):", "return y", [("def build", 1), ("if self.bias", 2), ("return y", 2)])
        self.run("ir = popxl.Ir(replication=1)", "ir = popxl.Ir(replication=1)")

    def run(self, first: str, last: str, dedents=()) -> list:
        return run_program(self.document.program(first, last, dedents), self.namespace)

    def simple_example(self) -> list:
        return self.run("with ir.main_graph:", "out = bound_graph.call(input_tensor)")

    def network(self, name: str) -> list:
        dedents = [("def build", 1), ("ir = popxl.Ir()", 0)]
        return self.run(f"class {name}(addons.Module):", 'print("\\n", net_graph.print_schedule())', dedents)


@pytest.fixture
def tutorial():
    """The tutorial up to the definition of its linear layer."""
    if TUTORIAL is None:
        pytest.skip("needs the document 003 (set POPART_SEEDS)")
    pytest.importorskip("torchvision")
    return Tutorial()


def test_tutorial_simple_example_prints_as_published(tutorial: Tutorial):
    """Factories, schedule and variables of one linear layer."""
    got = tutorial.simple_example()
    assert got == tutorial.document.output("factories:", tutorial.document.next_line("{'bias': Tensor[bias"))
    tutorial.run("ir.num_host_transfers = 1", "session.run()")


def test_tutorial_bound_graphs(tutorial: Tutorial):
    """One graph bound to two sets of variables."""
    got = tutorial.run("ir = popxl.Ir()", "out = bound_graph1.call(input_tensor)")
    assert got == tutorial.document.output(
        "two different bound graphs:", tutorial.document.next_line("<popxl_addons.graph.Bound")
    )


@pytest.mark.parametrize("name", ["Net", "NetOutlined"])
def test_tutorial_networks_print_as_published(tutorial: Tutorial, name: str):
    """Names and schedules of inlined and outlined networks."""
    got = tutorial.network(name)
    assert got == tutorial.document.output(tutorial.document.next_line("dict_keys"), "}")


def test_tutorial_dot_tree_prints_as_published(tutorial: Tutorial):
    """Nested collections of tensors."""
    tutorial.simple_example()
    tutorial.network("NetOutlined")
    last = tutorial.document.next_line("print(collection.tensors)")
    got = tutorial.run("ir = popxl.Ir(replication=1)", last, [('print("----- DotTree', 0)])
    tensors = tutorial.document.next_line("(Tensor[bias popxl")
    assert got == tutorial.document.output("----- DotTree functionalities -----", tensors)


# (training images, test images, least accuracy); the second row is the whole data set, as in the document.
DATA_SETS = [(16000, 2000, 75), (60000, 10000, 80)]


@pytest.mark.parametrize("training_images, test_images, least_accuracy", DATA_SETS)
def test_tutorial_trains_and_validates(
    tutorial: Tutorial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, training_images, test_images, least_accuracy
):
    """The MNIST program, as printed, on images of the same format."""
    write_mnist(tmp_path, training_images, test_images)
    monkeypatch.setenv("HOME", str(tmp_path))
    tutorial.namespace["torch"].manual_seed(0)
    tutorial.network("Net")
    tutorial.run("def get_mnist_data(test_batch_size: int, batch_size: int):", "return training_data, validation_data")
    tutorial.run("def train_program(batch_size, device, learning_rate):",
                 "return popxl.Session(ir, device), [img_stream, label_stream], variables, loss_stream",
                 [("ir.num_host_transfers", 1)])  # fmt: skip
    tutorial.run("train_batch_size = 8", ")")
    printed = tutorial.run("num_batches = len(training_data)", 'bar.set_description(f"Loss:{loss:0.4f}")')
    assert printed == ["Epoch 1/1"]
    tutorial.run("train_vars_to_data = train_session.get_tensors_data(train_variables.tensors)",
                 "train_vars_to_data = train_session.get_tensors_data(train_variables.tensors)")  # fmt: skip
    tutorial.run("def test_program(test_batch_size, device):",
                 "return popxl.Session(ir, device), [in_stream], variables, out_stream",
                 [("ir.num_host_transfers", 1)])  # fmt: skip
    tutorial.run("test_session, test_input_streams, test_variables, out_stream = test_program(", ")")
    tutorial.run("# dictionary { train_session variables : test_session variables }", "}")
    tutorial.run("# Copy trained weights to the program, with a single host to device transfer",
                 "assert (array == test_vars_to_data[test_var]).all()")  # fmt: skip
    printed = tutorial.run("def accuracy(predictions: np.ndarray, labels: np.ndarray):",
                           'print(f"Accuracy on test set: {test_set_accuracy:0.2f}%")',
                           [("num_batches", 0), ("test_set_accuracy", 0)])  # fmt: skip
    accuracy = re.fullmatch(r"Accuracy on test set: ([0-9.]+)%", printed[-1])
    assert accuracy and float(accuracy.group(1)) >= least_accuracy, printed


@pytest.fixture
def guide() -> Document:
    """The user guide of popart.ir."""
    if GUIDE is None:
        pytest.skip("needs the document 004 (set POPART_SEEDS)")
    return Document(GUIDE)


def run_pir(ir, inputs: dict, outputs: list) -> dict:
    """Run a popart.ir program the way its users did."""
    import popart

    pb = ir._pb_ir
    pb.setDataFlow(popart.DataFlow(1, {o.tensor_id(): popart.AnchorReturnType("All") for o in outputs}))
    pb.updateVertices()
    session = popart.InferenceSession.fromIr(ir=pb, deviceInfo=popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.weightsFromHost()
    session.run(popart.PyStepIO({s.tensor_id(): np.asarray(v) for s, v in inputs.items()}, anchors))
    return {o.tensor_id(): np.asarray(anchors[o.tensor_id()]) for o in outputs}


def test_guide_simple_addition(guide: Document):
    """Two loaded tensors are added and stored."""
    namespace = {"__name__": "guide"}
    guide.text("import popart.ir as pir", "import popart.ir as pir")
    run_program(guide.text("import popart.ir as pir", "ops.host_store(o_d2h, o)"), namespace)
    a, b = np.array([2.0], np.float32), np.array([0.5], np.float32)
    ir, out = namespace["ir"], namespace["o_d2h"]
    assert [op.opType() for op in ir._pb_ir.getMainGraph().getOps()] == [
        "Init", "HostLoad", "Init", "HostLoad", "Add", "HostStore",
    ]  # fmt: skip
    assert run_pir(ir, {namespace["input0"]: a, namespace["input1"]: b}, [out])[out.tensor_id()] == [2.5]


def test_guide_tensor_addition(guide: Document):
    """A variable plus a constant, and plus a Python number, give the variable's type."""
    import popart.ir as pir

    ir = pir.Ir()
    namespace = {"pir": pir, "main": ir.main_graph()}
    guide.text("files/simple_addition_popart_ir.py", "files/simple_addition_popart_ir.py")
    run_program(guide.text("with main:", "o = a + b"), namespace)
    assert namespace["o"].dtype == pir.int8
    with ir.main_graph():
        run_program(guide.text("o = a + 1", "o = a + 1"), namespace)
    assert namespace["o"].dtype == pir.int8 and namespace["o"].name == "add_out__t0"
