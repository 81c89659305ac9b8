"""The report's columns for onnx2torch, which converts an ONNX file into a PyTorch module: load, values, training."""

import numpy as np
import onnx2torch
import torch
from torch import nn
from torch.nn import functional

import onnx
from tests.corpus.checks import (
    ORDER_OVER_STEPS,
    Lesson,
    differences,
    elements,
    is_among,
    lesson,
    module_of_file,
    output_names,
    parameters_used,
    rate_for,
    right_values,
    share,
    train_module,
)
from tests.corpus.files import Array, File, Made, Stored, graph_inputs


def converted(made: Made) -> nn.Module:
    """The module of a file, in evaluation mode as the file is."""
    model = onnx.load(made.source) if isinstance(made.source, str) else onnx.load_from_string(made.source)
    return onnx2torch.convert(model).eval()


def outputs(module: nn.Module, names: list[str], feeds: dict[str, Array]) -> list[torch.Tensor]:
    """The outputs of the module, which takes the inputs of the graph in order."""
    result = module(*(torch.from_numpy(feeds[name]) for name in names))
    return list(result) if isinstance(result, (tuple, list)) else [result]


def loads(made: Made) -> bool:
    """Whether the file becomes a module that runs."""
    feeds = made.draw()
    with torch.no_grad():
        outputs(converted(made), graph_inputs(made.model), feeds)
    return True


def equals_onnx_runtime(file: File, made: Made) -> bool:
    """Whether the module computes what ONNX Runtime does."""
    feeds, names = made.draw(), output_names(made.source)
    with torch.no_grad():
        found = [x.numpy() for x in outputs(converted(made), graph_inputs(made.model), feeds)]
    return not differences(found, right_values(made, feeds, names), file.near, names)


def losses(module: nn.Module, names: list[str], plan: Lesson, rate: float) -> Array:
    """Losses of steps of SGD on what the module says are its parameters."""
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    found = []
    for feeds, target in zip(plan.inputs, plan.targets, strict=True):
        value, right = outputs(module, names, feeds)[plan.output], torch.from_numpy(target)
        loss = (
            functional.cross_entropy(value, right.long())
            if plan.kind == "cross_entropy"
            else functional.mse_loss(value, right)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return np.array(found)


def training_differs(file: File, made: Made) -> list[str]:
    """Whether the module's parameters are those of the network that was exported, and three steps are equal.

    Returns:
        Parameters that the network does not have or has more of, or else steps that differ.
    """
    module, plan = converted(made), lesson(made)
    network, lost = module_of_file(file, made, plan, Stored.of(made.source))
    if lost:
        return [f"the file holds no parameter {name}" for name in lost]
    right = [p.detach().numpy() for p in network.parameters() if p.requires_grad]
    known = elements(right)
    own = {name: p.detach().numpy() for name, p in module.named_parameters()}
    held = elements(list(own.values()))
    faults = [
        f"{name}: not a parameter of the network"
        for name, value in own.items()
        if share(value, known) < 0.5 and not is_among(value, right)
    ]
    faults += [
        f"{name}: not a parameter of the module"
        for name, parameter in parameters_used(network, plan).items()
        if share(parameter.value[parameter.used], held) < 0.5 and not is_among(parameter.value, list(own.values()))
    ]
    if faults:
        return faults
    rate = rate_for(network, plan)
    theirs = train_module(network, plan, rate, list(network.parameters()))
    found = losses(module, graph_inputs(made.model), plan, rate)
    return differences([found], [theirs], ORDER_OVER_STEPS, ["loss"])
