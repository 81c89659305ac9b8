"""Layers of files of PyTorch's exporter with dynamo=True are those of its older exporter: modules are in metadata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import popart
import pytest
from popart.profile.facts import Profile
from popart.tools.layers import layers_of

import onnx
from onnx import TensorProto, helper

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
KEY = "pkg.torch.onnx.name_scopes"


class Block(nn.Module):
    """A residual block whose one activation is called twice."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)  # which both exporters fold
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.bn2(self.conv2(self.act(self.bn1(self.conv1(x))))) + x)


class Residual(nn.Module):
    """A stem, blocks in a Sequential, and a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.layer1 = nn.Sequential(Block(8), Block(8))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.layer1(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    """Self-attention of one head."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return self.out(torch.softmax(scores / 4.0, -1) @ self.value(x))


class Layer(nn.Module):
    """Attention and a feed-forward network behind norms."""

    def __init__(self, width: int):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Transformer(nn.Module):
    """Layers in a ModuleList, which is not called itself."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(16), Layer(16)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


MODELS = {"residual": (Residual, (2, 3, 8, 8)), "transformer": (Transformer, (2, 6, 16))}


def exported(name: str, dynamo: bool, folder: Path) -> Path:
    make, shape = MODELS[name]
    torch.manual_seed(1)
    network = make().eval()
    for weight in network.parameters():  # the older exporter stores equal ones once
        nn.init.normal_(weight, 0, 0.2)
    path = folder / f"{name}-{dynamo}.onnx"
    torch.onnx.export(network, (torch.zeros(shape),), path, dynamo=dynamo, opset_version=18)
    return path


def names_of(path: Path, shape) -> list[str]:
    name = onnx.load(path, load_external_data=False).graph.input[0].name
    return [layer.name for layer in layers_of(path, {name: ("FLOAT", list(shape))})]


def scopes(names: list[str]) -> list[str]:
    """The modules of layers, each once, in the order in which they run."""
    return list(dict.fromkeys(name.rpartition("/")[0] for name in names))


@pytest.mark.parametrize("name", MODELS)
def test_both_exporters_give_the_same_layers(name, tmp_path):
    """Their operators may differ, but the modules, and how often each is called, do not."""
    older, newer = (names_of(exported(name, dynamo, tmp_path), MODELS[name][1]) for dynamo in (False, True))
    assert scopes(newer) == scopes(older)
    assert {"residual": "/layer1/layer1.1/act_1", "transformer": "/layers.1/feed/feed.2"}[name] in scopes(newer)
    products = ("Conv", "MatMul", "Gemm", "Relu")
    assert [one for one in newer if one.endswith(products)] == [one for one in older if one.endswith(products)]
    assert len(set(newer)) == len(newer)


def test_the_tree_of_a_profile_is_that_of_the_older_exporter(tmp_path):
    trees = []
    for dynamo in (False, True):
        path = exported("residual", dynamo, tmp_path)
        network = popart.load(str(path))
        network(np.zeros(MODELS["residual"][1], np.float32))
        report = network.session.profile(
            lambda network=network: network(np.zeros(MODELS["residual"][1], np.float32)), runs=1, warmUp=1
        )
        root = Profile(report._facts).scopes()
        blocks = root.children["layer1"].children
        trees.append((set(root.children), {name: set(block.children) for name, block in blocks.items()}))
    assert trees[0] == trees[1]
    assert set(trees[0][1]) == {"layer1.0", "layer1.1"}


def test_a_training_step_of_both_has_the_same_layers(tmp_path):
    layers = []
    for dynamo in (False, True):
        trainer = popart.Trainer(str(exported("transformer", dynamo, tmp_path)), "mse", popart.optim.SGD(lr=0.1))
        x = np.zeros(MODELS["transformer"][1], np.float32)
        trainer.step((x, x))
        steps = Profile(trainer.session.getReport()._facts).program
        layers.append({(step.layer.rpartition("/")[0], step.phase) for step in steps})
    assert layers[0] == layers[1]
    assert ("/layers.0/attention/query", "backward") in layers[0]


# ---- metadata


def graph_of(*scopes_of_nodes: str | None) -> onnx.ModelProto:
    """A chain of Relu nodes, n0, n1 and so on, each with this metadata or none."""
    nodes = []
    for i, text in enumerate(scopes_of_nodes):
        node = helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name=f"n{i}")
        if text is not None:
            entry = node.metadata_props.add()
            entry.key, entry.value = KEY, text
        nodes.append(node)
    ends = [helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, [4]) for i in (0, len(nodes))]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["['', 'a', 'x']", "['', 'a', 'y']"], ["/a/Relu", "/a/Relu_1"]),
        (["['', 'a', 'x']", "['', 'b', 'y']", "['', 'a', 'z']"], ["/a/Relu", "/b/Relu", "/a_1/Relu"]),
        (["['', 'x']", "['', 'a', 'y']"], ["/Relu", "/a/Relu"]),
        (["['', 'a', 'a.b', 'a.b.0', 'a.b.0.c', 'x']"], ["/a/b/b.0/c/Relu"]),
        (["['', 'a.0', 'a.0.1', 'x']"], ["/a.0/a.0.1/Relu"]),
        (["['', '7', 'x']"], ["/7/Relu"]),
        (["['', 'a', 'x']", None, "['', 'a', 'y']"], ["/a/Relu", "n1", "/a/Relu_1"]),
        (["['', 'a', 'x']", "['', 'a_1', 'y']", "['', 'a', 'z']"], ["/a/Relu", "/a_1/Relu", "/a_2/Relu"]),
        (['["", "a", "it\'s"]'], ["/a/Relu"]),
    ],
)
def test_names_of_nodes(texts, expected, tmp_path):
    onnx.save(graph_of(*texts), tmp_path / "chain.onnx")
    assert names_of(tmp_path / "chain.onnx", (4,)) == expected


@pytest.mark.parametrize(
    "text", ["", "[]", "a", "[", "['a", "['a' 'b']", "['a',]", "['\\x41', 'b']", "[a, b]", "['', 'a', x]", "]["]
)
def test_a_node_with_other_metadata_keeps_its_name(text, tmp_path):
    onnx.save(graph_of(text), tmp_path / "chain.onnx")
    assert names_of(tmp_path / "chain.onnx", (4,)) == ["n0"]


def test_messages_have_the_name_that_the_file_has(tmp_path):
    model = graph_of("['', 'a', 'x']")
    model.graph.node[0].op_type = "Unknown"
    onnx.save(model, tmp_path / "chain.onnx")
    with pytest.raises(popart.popart_exception, match="'n0'"):
        names_of(tmp_path / "chain.onnx", (4,))
