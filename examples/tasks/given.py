"""The data and files of the tasks: networks as PyTorch has them (.pt) and as its exporters write them (.onnx).

    python examples/tasks/given.py      # writes the files into the current folder

Each file ends in logits and has an open batch.
"""

import warnings
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

_generator = torch.Generator().manual_seed(0)


def _rows(count: int, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of four classes: noise around a centre for each class."""
    centres = torch.randn(4, *shape, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(0, 4, (count,), generator=_generator)
    return centres[labels] + torch.randn(count, *shape, generator=_generator), labels


def _loader(inputs: torch.Tensor, labels: torch.Tensor, batch: int = 16) -> DataLoader:
    return DataLoader(TensorDataset(inputs, labels), batch_size=batch)


images = _loader(*_rows(64, 3, 32, 32))
training = _loader(*_rows(128, 20))
held_out = _loader(*_rows(48, 20))
x, labels = next(iter(held_out))
requests = [value.numpy() for value, _ in _loader(*_rows(40, 20), batch=8)]
texts = _loader(torch.randint(0, 99, (32, 12), generator=_generator), torch.randint(0, 2, (32,), generator=_generator))


class _Logits(nn.Module):
    """A model of transformers that returns its logits alone, to be exported."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens).logits


def _networks() -> dict[str, nn.Module]:
    from torchvision.models.resnet import BasicBlock, ResNet
    from transformers import BertConfig, BertForSequenceClassification

    layers = {"layer1": nn.Linear(20, 32), "relu1": nn.ReLU(), "layer2": nn.Linear(32, 32), "relu2": nn.ReLU()}
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(**sizes, intermediate_size=64, max_position_embeddings=12)
    return {
        "mlp": nn.Sequential(OrderedDict(**layers, head=nn.Linear(32, 4))).eval(),
        "dropout": nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4)),
        "resnet": ResNet(BasicBlock, [1, 1, 1, 1], num_classes=4),
        "bert": BertForSequenceClassification(config).eval(),
    }


def _export(name: str, network: nn.Module) -> None:
    """By the exporter of today, or by the older one where the network is exported in training form."""
    example = {"resnet": torch.randn(2, 3, 32, 32), "bert": next(iter(texts))[0]}.get(name, x)
    options = {"input_names": ["x"], "output_names": ["logits"]}
    if network.training:
        form = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
        axes = {"x": {0: "batch"}, "logits": {0: "batch"}}
        torch.onnx.export(network, (example,), f"{name}.onnx", dynamo=False, dynamic_axes=axes, **form, **options)
    else:
        shapes = ({0: "batch", 1: "length"} if name == "bert" else {0: "batch"},)
        network = _Logits(network) if name == "bert" else network
        torch.onnx.export(
            network, (example,), f"{name}.onnx", dynamo=True, dynamic_shapes=shapes, verbose=False, **options
        )


def write_files() -> None:
    """Write NAME.pt and NAME.onnx of each network, and the quantised MLP, into the current folder."""
    from onnxruntime import quantization

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, network in _networks().items():
            _export(name, network)  # in training form it runs the network, which changes statistics of batch norms
            torch.save(network, f"{name}.pt")

    class Ranges(quantization.CalibrationDataReader):
        rows = ({"x": value} for value in requests)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rows, None)

    quantization.quantize_static("mlp.onnx", "quantised.onnx", Ranges())


if __name__ == "__main__":
    write_files()
