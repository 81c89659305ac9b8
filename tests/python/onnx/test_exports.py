"""Networks exported by PyTorch, by both of its exporters, against ONNX Runtime."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import popart
import pytest

import onnx

torch = pytest.importorskip("torch")
nn = torch.nn
functional = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
EXPORTERS = [pytest.param(False, id="torchscript"), pytest.param(True, id="dynamo")]


@dataclass(frozen=True)
class TransformerSize:
    """Sizes of a transformer."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int


SMALL = TransformerSize(layers=2, width=32, heads=4, vocabulary=100, positions=16)
BERT_BASE = TransformerSize(layers=12, width=768, heads=12, vocabulary=30522, positions=512)


class Attention(nn.Module):
    """Multi-head self-attention with a mask that is added to the scores."""

    def __init__(self, size: TransformerSize):
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network; norms after (BERT) or before (GPT) them."""

    def __init__(self, size: TransformerSize, norm_first: bool):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(size)
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in range(2))
        approximate = "tanh" if norm_first else "none"
        self.feed = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(approximate), nn.Linear(4 * size.width, size.width)
        )

    def forward(self, x, mask):
        if self.norm_first:
            x = x + self.attention(self.norms[0](x), mask)
            return x + self.feed(self.norms[1](x))
        x = self.norms[0](x + self.attention(x, mask))
        return self.norms[1](x + self.feed(x))


class Bert(nn.Module):
    """Encoder: token, position and segment embeddings, blocks, pooled first token."""

    def __init__(self, size: TransformerSize):
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.positions, size.width)
        self.segments = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width)
        self.blocks = nn.ModuleList(Block(size, norm_first=False) for _ in range(size.layers))
        self.pool = nn.Linear(size.width, size.width)

    def forward(self, ids, segments, present):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.tokens(ids) + self.positions(places) + self.segments(segments))
        mask = (1.0 - present[:, None, None, :].float()) * -10000.0
        for block in self.blocks:
            x = block(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


class Gpt(nn.Module):
    """Decoder with a causal mask and tied output weights."""

    def __init__(self, size: TransformerSize):
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.positions, size.width)
        self.blocks = nn.ModuleList(Block(size, norm_first=True) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.tokens(ids) + self.positions(torch.arange(length, device=ids.device))
        mask = torch.full((length, length), float("-inf"), device=ids.device).triu(1)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) @ self.tokens.weight.T


class ConvNet(nn.Module):
    """Strided, grouped and depthwise convolutions, batch norm, pools, a residual and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.mix = nn.Conv2d(8, 8, 1, groups=2)
        self.pool = nn.MaxPool2d(3, 2, 1, ceil_mode=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        x = functional.hardswish(x + self.mix(self.depthwise(x)))
        x = functional.adaptive_avg_pool2d(self.pool(x), 1)
        return functional.log_softmax(self.head(x.flatten(1)), dim=1)


def exported(module, inputs, dynamo, opset=None) -> bytes:
    """The module as a serialised ONNX model."""
    module.eval()
    if dynamo:
        pytest.importorskip("onnxscript")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            module, inputs, str(path), dynamo=dynamo, verbose=False, opset_version=opset, external_data=False
        )
        return path.read_bytes()


def input_names(model: onnx.ModelProto) -> list[str]:
    known = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in known]


def peer_outputs(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime's results."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def our_outputs(model: bytes, feeds: dict[str, np.ndarray], names: list[str]) -> list[np.ndarray]:
    """Ours, from an InferenceSession on the CPU device."""
    anchors = {name: popart.AnchorReturnType("All") for name in names}
    session = popart.InferenceSession(model, popart.DataFlow(1, anchors), popart.DeviceManager().createCpuDevice())
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, arrays))
    return [arrays[name] for name in names]


def check(module, inputs, dynamo, rtol=1e-3, atol=1e-5):
    """Export, run here and in ONNX Runtime, compare every output; rtol as for long float32 sums."""
    model = exported(module, inputs, dynamo)
    proto = onnx.load_from_string(model)
    feeds = dict(zip(input_names(proto), (value.numpy() for value in inputs), strict=True))
    names = [value.name for value in proto.graph.output]
    for got, expected in zip(our_outputs(model, feeds, names), peer_outputs(model, feeds), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


def bert_inputs(size: TransformerSize, batch: int, length: int):
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, size.vocabulary, (batch, length), generator=generator)
    segments = torch.randint(0, 2, (batch, length), generator=generator)
    present = (torch.arange(length)[None] < torch.tensor([[length]] + [[length - 3]] * (batch - 1))).long()
    return ids, segments, present


@pytest.fixture(autouse=True)
def fixed_weights():
    """The same random weights whatever ran before."""
    torch.manual_seed(0)


@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_conv_net(dynamo):
    """Convolutions and batch norm."""
    check(ConvNet(), (torch.randn(2, 3, 17, 17),), dynamo)


@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_small_bert(dynamo):
    """Two encoder layers, masked tokens in one row."""
    check(Bert(SMALL), bert_inputs(SMALL, 2, 9), dynamo)


@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_small_gpt(dynamo):
    """Two decoder layers with a causal mask."""
    ids = torch.randint(0, SMALL.vocabulary, (2, 11), generator=torch.Generator().manual_seed(1))
    check(Gpt(SMALL), (ids,), dynamo)


@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_lstm_free_recurrence(dynamo):
    """Slices, concatenation, an unrolled recurrence and comparisons."""

    class Recurrence(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.Linear(7, 4)

        def forward(self, x):
            state = torch.zeros(x.shape[0], 4)
            for step in range(x.shape[1]):
                state = torch.tanh(self.cell(torch.cat([x[:, step], state], dim=1)))
            return torch.where(state > 0, state, state * 0.1), state.argmax(1)

    check(Recurrence(), (torch.randn(3, 5, 3),), dynamo)


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_bert_base(dynamo):
    """All of BERT base, as long as a model fits one message."""
    check(Bert(BERT_BASE), bert_inputs(BERT_BASE, 1, 32), dynamo, atol=1e-4)


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_alexnet(dynamo):
    """Torchvision's AlexNet with random weights."""
    models = pytest.importorskip("torchvision").models
    check(models.alexnet(weights=None), (torch.randn(2, 3, 224, 224),), dynamo)


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("dynamo", EXPORTERS)
def test_resnet18(dynamo):
    """Torchvision's ResNet-18: batch norms with running statistics."""
    models = pytest.importorskip("torchvision").models
    check(models.resnet18(weights=None), (torch.randn(1, 3, 64, 64),), dynamo)


def session_on(kind, model, anchors, *more, bps=1):
    """A prepared session with the model's weights, which may change."""
    options = popart.SessionOptions()
    options.constantWeights = False
    device = popart.DeviceManager().createCpuDevice()
    session = kind(model, popart.DataFlow(bps, anchors), *more, device, userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    return session


def test_weights_trained_and_saved_load_in_onnx_runtime(tmp_path):
    """An exported network is trained; its saved weights give the same results in both runtimes."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), nn.Softmax(dim=1))
    x = torch.randn(4, 6)
    base = onnx.load_from_string(exported(module, (x,), dynamo=False, opset=11))
    (name,), probs = input_names(base), base.graph.output[0].name
    builder = popart.Builder(base.SerializeToString())
    labels = builder.addInputTensor(popart.TensorInfo("INT32", [4]), "labels")
    loss = builder.aiGraphcore.nllloss([probs, labels])
    training = session_on(popart.TrainingSession, builder.getModelProto(), [loss], loss, popart.ConstSGD(0.5), bps=3)
    feeds = {name: np.stack([x.numpy()] * 3), labels: np.array([[0, 1, 2, 0]] * 3, np.int32)}
    training.run(popart.PyStepIO(feeds, training.initAnchorArrays()))
    training.weightsToHost()
    training.modelToHost(str(tmp_path / "trained.onnx"))

    inference = session_on(popart.InferenceSession, base.SerializeToString(), [probs])
    before = inference.initAnchorArrays()
    inference.run(popart.PyStepIO({name: x.numpy()}, before))
    inference.resetHostWeights(str(tmp_path / "trained.onnx"), True)
    inference.weightsFromHost()
    inference.modelToHost(str(tmp_path / "inference.onnx"))
    anchors = inference.initAnchorArrays()
    inference.run(popart.PyStepIO({name: x.numpy()}, anchors))

    assert not np.allclose(before[probs], anchors[probs], atol=1e-3)
    (expected,) = peer_outputs((tmp_path / "inference.onnx").read_bytes(), {name: x.numpy()})
    np.testing.assert_allclose(anchors[probs], expected, rtol=1e-5, atol=1e-6)
