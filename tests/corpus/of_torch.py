"""Files of PyTorch's two exporters, and the modules that they come from.

All parameters are changed a little before the export, so that no two share an element and none is 0 or 1. The elements
of an initializer then identify its parameter or buffer, in whatever order they are stored.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import torch
from torch import nn

from tests.corpus import blocks
from tests.corpus.files import Feeds, File, Made, graph_inputs
from tests.models.circulation import of_torchvision, of_transformers, written_out
from tests.models.circulation.exporting import Form, export
from tests.models.circulation.network import Flat, Inputs, Network
from tests.python.onnx import runtime_files


def _runtime_networks() -> dict[str, Network]:
    def network(name: str) -> Network:
        seeds = count(1)
        return Network(
            "runtime",
            runtime_files.NETWORKS[name],
            lambda: tuple(torch.from_numpy(array) for array in runtime_files.inputs_of(name, next(seeds))),
        )

    return {f"runtime_{name}": network(name) for name in runtime_files.NETWORKS}


NETWORKS: dict[str, Network] = (
    written_out.NETWORKS | of_transformers.NETWORKS | of_torchvision.NETWORKS | blocks.NETWORKS | _runtime_networks()
)
TORCHSCRIPT, DYNAMO = range(11, 21), range(18, 25)
SLOW_TORCHSCRIPT, SLOW_DYNAMO = (11, 14, 17, 20), (18, 24)
# These are also exported with unchanged parameters. Otherwise the exporter folds batch norms into the layers before
# them, and functions of parameters into constants.
UNFOLDED = [
    "resnet18", "inverted", "three_branches", "segformer", "swin", "gemma", "wav2vec2", "relative_bias",
    "standardised_weights", "bart", "whisper", "state_space",
]  # fmt: skip
# Exported by the dynamo exporter in every run. The others are slow tests: that exporter takes seconds for each file.
OFTEN_BY_DYNAMO = {
    "gru", "super_resolution_linear", "autoencoder", "bert", "llama", "vit_transformers", "squeezenet", "ssd_heads",
    "squeeze_excite", "response_norm", "inverted", "ghost_planes", "anti_aliased", "normalised_images", "attention",
    "relative_bias", "rotary", "class_token", "mixer", "gated_unit", "experts", "tied_tokens",
}  # fmt: skip
# Trained only in the unfolded form: the folded file holds a function of a parameter, not the parameter.
FOLDED = {
    "gemma": "norms' weights plus one",
    "wav2vec2": "a weight's direction times its length",
    "hubert": "a weight's direction times its length",
    "standardised_weights": "a weight less its mean, divided by its spread",
    "swin": "a table's rows by pairs of places",
    "relative_bias": "a table's rows by pairs of places",
    "bart": "a buffer that has lost its name",
    "whisper": "a parameter that does not train and has lost its name",
}
FOLDED_BY_DYNAMO = {
    "rnn": "a bias added to a product with a state of zeros",
    "mobilebert": "a row of a table for each token",
    "state_space": "decays computed from rates",
    "class_token": "a token for each sample",
    "clip": "a token for each sample",
    "t5": "a table's rows by pairs of places",
    "beit": "a table's rows by pairs of places",
}
# Older files of the exporter do not compute what the module does: a scatter that adds to equal indices keeps one of
# them, and rows that are masked whole are not 0.
TRAINS_FROM = {"graph_network": Form(False, 16), "mistral": Form(True, 23)}
# Buffers that operators read as weights, and parameters that they read as settings: the files do not tell which.
FROZEN = {
    "anti_aliased": ("*filter",),
    "bart": ("*final_logits_bias",),
    "whisper": ("*encoder.embed_positions.weight",),
}
FIXED: dict[str, tuple[str, ...]] = {"clip": ("network.network.logit_scale",)}
# Parameters that the file holds as functions of themselves: those are named, and the others train.
LOST: dict[str, tuple[str, ...]] = {"maxvit": ("*.relative_position_bias_table",)}  # rows by pairs of places
LOST_BY_DYNAMO: dict[str, tuple[str, ...]] = {
    # An exponential, a product with a table of coordinates, and a bias with zeros written into it.
    "swin_v2": ("*.logit_scale", "*.cpb_mlp.0.weight", "*.qkv.bias"),
}


def move_off(network: nn.Module) -> None:
    """Change every parameter and every statistic of a norm a little, at random."""
    with torch.no_grad():
        for parameter in network.parameters():
            spread = float(parameter.std()) if parameter.numel() > 1 else 0.0
            parameter.add_(torch.randn_like(parameter) * (0.1 * spread if spread > 1e-6 else 0.05))
        for module in network.modules():
            if isinstance(getattr(module, "running_var", None), torch.Tensor):
                module.running_mean.add_(0.1 * torch.randn_like(module.running_mean))
                module.running_var.uniform_(0.5, 1.5)


def made_network(make: Callable[[], nn.Module]) -> nn.Module:
    """The module in evaluation mode, with tensors in a flat tuple as outputs."""
    torch.manual_seed(0)
    network = Flat(make())
    move_off(network)
    return network.eval()


def drawer(names: list[str], inputs: Callable[[], Inputs]) -> Callable[[], Feeds]:
    """Draws the inputs in0, in1, ... that a file has: exporters leave out those that nothing reads."""

    def draw() -> Feeds:
        arrays = [tensor.numpy() for tensor in inputs()]
        return {name: arrays[int(name.removeprefix("in"))] for name in names}

    return draw


@cache
def exported(name: str, form: Form, unfolded: bool = False) -> Made:
    """The file of a network by its name in `NETWORKS`."""
    network = made_network(NETWORKS[name].make)
    model = export(network, NETWORKS[name].inputs(), form, unfolded=unfolded)
    return Made(model, drawer(graph_inputs(model), NETWORKS[name].inputs), network)


def _row(name: str, form: Form, unfolded: bool, slow: bool) -> File:
    network = NETWORKS[name]
    folded = name in FOLDED or (form.dynamo and name in FOLDED_BY_DYNAMO)
    first = TRAINS_FROM.get(name)
    is_right = first is None or first.dynamo != form.dynamo or form.opset >= first.opset

    def make(folder: Path) -> Made:
        return exported(name, form, unfolded)

    return File(
        f"{name}-{form}{'-unfolded' if unfolded else ''}",
        "PyTorch, dynamo" if form.dynamo else "PyTorch, TorchScript",
        make,
        trains=(unfolded or not folded) and is_right,
        frozen=FROZEN.get(name, ()),
        fixed=FIXED.get(name, ()),
        lost=LOST.get(name, ()) + (LOST_BY_DYNAMO.get(name, ()) if form.dynamo else ()),
        slow=slow or network.slow,
    )


def rows() -> Iterator[File]:
    """All networks through the TorchScript exporter, with changing opsets, and twenty through the dynamo exporter.

    Other opsets and all other networks through the dynamo exporter are slow.
    """
    for number, (name, network) in enumerate(NETWORKS.items()):
        opsets = [opset for opset in TORCHSCRIPT if opset >= network.oldest]
        usual, turn = opsets[number % len(opsets)], DYNAMO[number % len(DYNAMO)]
        for opset in opsets:
            if opset in (usual, *SLOW_TORCHSCRIPT):
                yield _row(name, Form(False, opset), False, slow=opset != usual)
        if name in UNFOLDED:
            yield _row(name, Form(False, usual), True, slow=False)
        for opset in DYNAMO:
            if opset in (turn, *SLOW_DYNAMO):
                yield _row(name, Form(True, opset), False, slow=opset != turn or name not in OFTEN_BY_DYNAMO)
