"""The checks of a file: its values against ONNX Runtime, its training against the module that it was exported from."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnxruntime
import popart
import torch
from torch import nn
from torch.nn import functional

import onnx
from tests.corpus.files import Array, Feeds, File, Made, Stored
from tests.inference import prepare, run_once

STEPS = 3
# Length of a step of training, relative to that of all parameters: large enough to see, small enough to go down.
STEP_LENGTH = 0.02
FALL_OF_LOSS = 0.3  # of a first step at most, by the slope
# Where the losses of PyTorch's training rise so often, it is repeated with steps so many times shorter.
DIVERGED, SLOWER = 100.0, 10.0
# A difference of rounding grows with each step, and each step multiplies it by little.
ORDER_OVER_STEPS = 2e-4
# Elements of an initializer that are those of parameters: all or none of them, up to chance.
NEARLY_ALL = 0.98
SAMPLED = 2000
# Trainings of a module with changed parameters, and the change: that of a sum of some thousand terms in another order.
CHANGED_TRAININGS = 32
ANOTHER_ORDER = 2.0**-19
# Rows of a table that were picked by index: elements of a parameter, most of them several times.
MOSTLY_DISTINCT = 0.6
# A weight with a batch norm folded into it, as tools compute it and PyTorch does.
ROUNDING_OF_FOLDED = 1e-5


def runtime(source: bytes | str, as_it_is: bool = False) -> onnxruntime.InferenceSession:
    """ONNX Runtime's session on one thread, quiet; it computes the model `as_it_is` or rewrites it first."""
    options = onnxruntime.SessionOptions()
    if as_it_is:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def differences(ours: Sequence[Array], theirs: Sequence[Array], near: float, names: Sequence[str]) -> list[str]:
    """Outputs that differ in type, shape or, by more than `near` of the largest value, in a value."""
    found = []
    for name, a, b in zip(names, ours, theirs, strict=True):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            found.append(f"{name}: {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}")
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        bound = near * np.abs(b[np.isfinite(b)]).max(initial=0)
        if not np.allclose(a, b, rtol=0, atol=bound, equal_nan=True):
            apart = np.abs(a - b).max(initial=0)
            found.append(f"{name}: differs by {apart:.2g}, bound {bound:.2g}")
    return found


# ---- values


def output_names(source: bytes | str) -> list[str]:
    """Names of the outputs, as ONNX declares them."""
    model = onnx.load(source, load_external_data=False) if isinstance(source, str) else onnx.load_from_string(source)
    return [value.name for value in model.graph.output]


def shapes_of(feeds: Feeds) -> popart.InputShapeInfo:
    """The shapes of inputs, for files that leave them open."""
    shapes = popart.InputShapeInfo()
    for name, array in feeds.items():
        shapes.add(name, popart.TensorInfo(array))
    return shapes


def ours(made: Made, feeds: Feeds, names: list[str]) -> list[Array]:
    """The outputs of the file in an inference session."""
    return run_once(prepare(made.source, names, inputShapeInfo=shapes_of(feeds)), feeds, names)


def right_values(made: Made, feeds: Feeds, names: list[str]) -> list[Array]:
    """The outputs as ONNX Runtime computes them, of the file or of its reference."""
    if made.reference is not None:
        return runtime(made.reference).run(None, feeds)
    return runtime(made.source, made.as_it_is).run(names, feeds)


def differs_from_onnx_runtime(file: File, made: Made) -> list[str]:
    """Differences of the outputs from ONNX Runtime's."""
    feeds, names = made.draw(), output_names(made.source)
    return differences(ours(made, feeds, names), right_values(made, feeds, names), file.near, names)


# ---- training


@dataclass
class Lesson:
    """Batches to train on: inputs of the file, and targets of the loss `kind` of its first output of floats."""

    kind: str
    output: int
    inputs: list[Feeds]
    targets: list[Array]

    def loss(self, network: nn.Module, step: int) -> torch.Tensor:
        """The loss of the module in a step."""
        result = outputs_of(network, self.inputs[step])[self.output]
        target = torch.from_numpy(self.targets[step])
        if self.kind == "cross_entropy":
            return functional.cross_entropy(result, target.long())
        return functional.mse_loss(result, target)


def outputs_of(network: nn.Module, feeds: Feeds) -> tuple[torch.Tensor, ...]:
    """The outputs of a module for the inputs in0, in1, ... of its file; one that the file left out is not read."""
    count = 1 + max(int(name.removeprefix("in")) for name in feeds)
    return network(*(torch.from_numpy(feeds[f"in{i}"]) if f"in{i}" in feeds else None for i in range(count)))


def lesson(made: Made) -> Lesson:
    """Random batches: class numbers where the output is rows of classes, else numbers near the output."""
    inputs = [made.draw() for _ in range(STEPS)]
    with torch.no_grad():
        outputs = outputs_of(made.network, inputs[0])
    output = next(i for i, value in enumerate(outputs) if value.is_floating_point())
    value = outputs[output]
    if value.dim() == 2 and value.shape[1] > 1:
        targets = [torch.randint(value.shape[1], (value.shape[0],)).numpy().astype(np.int32) for _ in inputs]
        return Lesson("cross_entropy", output, inputs, targets)
    spread = float(value.std()) or 1.0
    targets = [(value + spread * torch.randn(value.shape)).numpy() for _ in inputs]
    return Lesson("mse", output, inputs, targets)


def rate_for(network: nn.Module, lesson: Lesson) -> float:
    """The rate of a first step of length STEP_LENGTH of the parameters', or less where the loss would fall below 0."""
    network.zero_grad()
    loss = lesson.loss(network, 0)
    loss.backward()
    moved = [p for p in network.parameters() if p.grad is not None]
    size = sum(float(p.detach().square().sum()) for p in moved)
    slope = sum(float(p.grad.square().sum()) for p in moved)
    return min(STEP_LENGTH * (size / slope) ** 0.5, FALL_OF_LOSS * loss.item() / slope)


def train_module(network: nn.Module, lesson: Lesson, rate: float, parameters: Sequence[nn.Parameter]) -> Array:
    """Losses of the steps of SGD, which change the module's parameters."""
    optimizer = torch.optim.SGD(parameters, lr=rate)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = lesson.loss(network, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def train_file(file: File, made: Made, lesson: Lesson, rate: float, saved: Path) -> Array:
    """Losses of a session on the file, to which the loss is attached by name; saves it in inference form."""
    builder = popart.Builder(made.source)
    attached = popart.losses.attach(builder, lesson.kind, output_names(made.source)[lesson.output])
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(STEPS, [attached.loss]),
        attached.loss,
        popart.optim.SGD(lr=rate),
        popart.DeviceManager().createCpuDevice(),
        frozen=file.frozen or None,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    feeds = {name: np.stack([batch[name] for batch in lesson.inputs]) for name in lesson.inputs[0]}
    (labels,) = attached.inputs
    feeds[labels.id] = np.stack(lesson.targets)
    session.run(popart.PyStepIO(feeds, anchors))
    session.modelToHost(str(saved), form="inference")
    return anchors[attached.loss].copy()


def train_by_trainer(file: File, made: Made, lesson: Lesson, rate: float, saved: Path) -> Array:
    """The same by `popart.Trainer`."""
    output = output_names(made.source)[lesson.output]
    optimizer = popart.optim.SGD(lr=rate)
    trainer = popart.Trainer(made.source, lesson.kind, optimizer, output=output, frozen=file.frozen or None)
    labels = trainer.inputs[-1]
    losses = [trainer.step({**feeds, labels: target}) for feeds, target in zip(lesson.inputs, lesson.targets)]
    trainer.save(saved)
    return np.array(losses, np.float32)


# ---- which parameters of the module the file holds


def elements(arrays: Sequence[Array]) -> Array:
    """All elements, sorted, as float32: 0 and 1 left out, which constants have."""
    flat = [np.asarray(array, dtype=np.float32).ravel() for array in arrays]
    joined = np.unique(np.concatenate(flat)) if flat else np.zeros(0, np.float32)
    return joined[(joined != 0) & (joined != 1)]


def has_repeats(array: Array) -> bool:
    """Whether many elements are there several times, as in no parameter: values are random."""
    flat = np.asarray(array, dtype=np.float32).ravel()[:100_000]
    return np.unique(flat).size < MOSTLY_DISTINCT * flat.size


def share(array: Array, known: Array) -> float:
    """Share of an array's elements, of large ones sampled, that are among the sorted `known` ones."""
    flat = np.asarray(array, dtype=np.float32).ravel()
    if not flat.size or not known.size:
        return 0.0
    flat = flat[:: 1 + flat.size // SAMPLED]
    places = np.searchsorted(known, flat).clip(max=known.size - 1)
    return float((known[places] == flat).mean())


@dataclass
class Parameter:
    """A parameter that the loss depends on: its value, and the elements that have a gradient."""

    value: Array
    used: Array


def parameters_used(network: nn.Module, lesson: Lesson) -> dict[str, Parameter]:
    """The parameters that the loss depends on, by name; of tables the rows that the batch reads are used."""
    network.zero_grad()
    lesson.loss(network, 0).backward()
    found = {}
    for name, parameter in network.named_parameters():
        if parameter.grad is not None and bool((parameter.grad != 0).any()):
            found[name] = Parameter(parameter.detach().numpy().copy(), (parameter.grad != 0).numpy())
    return found


def all_parameters(network: nn.Module) -> dict[str, Parameter]:
    """All parameters by name, as a loss that depends on each of their elements would find them."""
    arrays = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    return {name: Parameter(value, np.ones(value.shape, bool)) for name, value in arrays.items()}


def is_among(value: Array, others: Sequence[Array]) -> bool:
    """Whether one of the arrays has this shape and, up to rounding, these values."""
    return any(
        other.shape == value.shape and np.allclose(other, value, rtol=ROUNDING_OF_FOLDED, atol=ROUNDING_OF_FOLDED)
        for other in others
    )


def not_stored(parameters: dict[str, Parameter], stored: Sequence[Array]) -> list[str]:
    """Parameters that the arrays do not hold, in whatever order of elements: they may hold a function of them."""
    held = elements([array for array in stored if not has_repeats(array)])
    return [
        name
        for name, parameter in parameters.items()
        if share(parameter.value[parameter.used], held) < NEARLY_ALL and not is_among(parameter.value, stored)
    ]


def with_folded_norms(network: nn.Module, feeds: Feeds, lost: Sequence[str]) -> nn.Module:
    """A copy in which the batch norms that have `lost` parameters are part of the layer before them."""
    network = deepcopy(network)
    names = {module: name for name, module in network.named_modules()}
    producers: dict[int, tuple[nn.Module, torch.Tensor]] = {}  # id of a tensor -> the layer it comes from
    pairs: list[tuple[nn.Module, nn.Module]] = []

    def made(layer: nn.Module, given: tuple, result: torch.Tensor) -> None:
        producers[id(result)] = layer, result

    def read(norm: nn.Module, given: tuple) -> None:
        if id(given[0]) in producers:
            pairs.append((producers[id(given[0])][0], norm))

    layers = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    hooks = [m.register_forward_hook(made) for m in network.modules() if isinstance(m, layers)]
    hooks += [m.register_forward_pre_hook(read) for m in network.modules() if isinstance(m, norms)]
    with torch.no_grad():
        outputs_of(network, feeds)
    for hook in hooks:
        hook.remove()
    for layer, norm in pairs:
        if f"{names[norm]}.weight" in lost:
            fused = nn.utils.fusion.fuse_conv_bn_eval(layer, norm)
            layer.weight, layer.bias = (nn.Parameter(p.detach()) for p in (fused.weight, fused.bias))
            parent, _, name = names[norm].rpartition(".")
            setattr(network.get_submodule(parent), name, nn.Identity())
    return network


def lost_parameters(file: File, network: nn.Module) -> list[str]:
    """The parameters that the file is expected to hold as functions of themselves alone."""
    return [name for name, _ in network.named_parameters() if any(fnmatchcase(name, lost) for lost in file.lost)]


def module_of_file(file: File, made: Made, lesson: Lesson, stored: Stored) -> tuple[nn.Module, list[str]]:
    """The module whose parameters the file stores, and names of parameters that it stores as functions of themselves.

    Returns:
        A copy of the file's module; its batch norms are folded where the tool did that, and what the file lost as
        expected does not train.
    """
    network, held = deepcopy(made.network), list(stored.values.values())
    for name in (*file.fixed, *lost_parameters(file, network)):
        network.get_parameter(name).requires_grad_(False)
    lost = not_stored(parameters_used(network, lesson), held)
    if not lost:
        return network, []
    network = with_folded_norms(network, lesson.inputs[0], not_stored(all_parameters(network), held))
    return network, not_stored(parameters_used(network, lesson), held)


def training_differs(
    file: File, made: Made, folder: Path, train: Callable[..., Array] = train_file
) -> tuple[list[str], list[str]]:
    """Differences from PyTorch, of training and of the saved file.

    Three steps on the file, by `train`, are compared with three of the module; the file that is then saved in inference
    form is compared, in ONNX Runtime, with the module that was trained.
    """
    plan, stored = lesson(made), Stored.of(made.source)
    network, lost = module_of_file(file, made, plan, stored)
    if lost:
        return [f"the file holds no parameter {name}" for name in lost], []
    saved = folder / "trained.onnx"
    with torch.no_grad():
        before = [x.numpy() for x in outputs_of(network, plan.inputs[0])]
    untrained, rate = network, rate_for(network, plan)
    while True:
        network = deepcopy(untrained)
        their_losses = train_module(network, plan, rate, list(network.parameters()))
        if np.isfinite(their_losses).all() and their_losses[-1] < DIVERGED * their_losses[0]:
            break
        rate /= SLOWER
    our_losses = train(file, made, plan, rate, saved)
    faults = differences([our_losses.astype(np.float64)], [their_losses], ORDER_OVER_STEPS, ["loss"])
    with torch.no_grad():
        after = [x.numpy() for x in outputs_of(network, plan.inputs[0])]
    moved = np.abs(after[plan.output] - before[plan.output]).max() / np.abs(after[plan.output]).max()
    assert moved > 10 * ORDER_OVER_STEPS, f"the steps changed the output by {moved:.2g} only"
    saved_faults = saved_differs(made, saved, plan.inputs[0], after)
    if saved_faults:
        for change in changes_by_order(untrained, plan, rate, after[plan.output]):
            saved_faults = saved_differs(made, saved, plan.inputs[0], after, ORDER_OVER_STEPS + change)
            if not saved_faults:
                break
    return faults, saved_faults


def changes_by_order(network: nn.Module, plan: Lesson, rate: float, trained: Array) -> Iterator[float]:
    """How far the output of a trained module moves, of its largest value, if parameters change as sums do by order.

    Networks have points at which a ReLU or a pool switches. Where a batch is near one, each order of sums trains to
    results of its own, and all of them are right. One training after another is tried; the farthest so far counts.
    """
    farthest = 0.0
    for seed in range(CHANGED_TRAININGS):
        changed, random = deepcopy(network), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in changed.parameters():
                parameter.mul_(1 + ANOTHER_ORDER * (2 * torch.rand(parameter.shape, generator=random) - 1))
        train_module(changed, plan, rate, list(changed.parameters()))
        with torch.no_grad():
            output = outputs_of(changed, plan.inputs[0])[plan.output].numpy()
        farthest = max(farthest, float(np.abs(output - trained).max() / np.abs(trained).max()))
        yield farthest


def is_valid(source: bytes | str) -> bool:
    """Whether ONNX's checker takes the model."""
    try:
        onnx.checker.check_model(source)
    except onnx.checker.ValidationError:
        return False
    return True


def saved_differs(
    made: Made, saved: Path, feeds: Feeds, right: Sequence[Array], near: float = ORDER_OVER_STEPS
) -> list[str]:
    """Differences of a saved file, in ONNX Runtime, from the outputs of the module that was trained."""
    names = output_names(str(saved))[: len(right)]
    if made.reference is None:
        values = runtime(str(saved), made.as_it_is).run(names, feeds)
    else:  # what ONNX Runtime refuses in the file is in the saved one too
        values = ours(Made(b"", made.draw, path=saved), feeds, names)
    invalid = ["the file is not valid"] if is_valid(made.source) and not is_valid(str(saved)) else []
    return invalid + differences(values, right, near, names)


# ---- what trains


def classification_differs(file: File, made: Made) -> list[str]:
    """Initializers that are said to train and hold no parameter, or the other way round."""
    plan, stored = lesson(made), Stored.of(made.source)
    network, lost = module_of_file(file, made, plan, stored)
    own = [p.detach().numpy() for p in network.parameters() if p.requires_grad]
    known, trained = elements(own), []
    faults = [f"{name}: not in the file" for name in lost]
    tensors = popart.trainable_tensors(made.source, frozen=list(file.frozen))
    for tensor in tensors:
        value = stored.values[tensor.name]
        is_parameter = (share(value, known) > 0.5 and not has_repeats(value)) or is_among(value, own)
        if is_parameter:
            trained.append(value)
        if tensor.trains != is_parameter:
            faults.append(f"{tensor.name}: trains {tensor.trains}, expected {is_parameter}: {tensor.reason}")
    faults += [
        f"{name}: no initializer that trains holds it"
        for name in not_stored(parameters_used(network, plan), trained)
        if name not in lost
    ]
    warned = [tensor for tensor in tensors if tensor.doubtful and not tensor.trains]
    for name in lost_parameters(file, network):
        known = elements([network.get_parameter(name).detach().numpy()])
        stored_of_it = [share(stored.values[t.name], known) > NEARLY_ALL for t in warned]
        if not any(stored_of_it) and not any(f"parameter '{name}'" in t.reason for t in warned):
            faults.append(f"{name}: no warning names it or what is stored of it")
    return faults
