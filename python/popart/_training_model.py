"""A model file with a loss: the model of the sessions of ``popart.Trainer``."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import popart_core
from popart_core import GraphTransformer, RecomputationType, popart_exception

from popart import losses
from popart._arguments import ArgumentError
from popart._loss_parts import LossParts, add_factor
from popart._model_inputs import (
    FileStamps,
    ModelInput,
    declared,
    describe,
    fixed_batch,
    inputs_of,
    source_of,
    with_open_batch,
)
from popart._names import nearest_names
from popart._sample_axes import SampleAxes, axis_to_open, checked, sample_axes
from popart.builder import Builder

_TYPES: dict[str, np.dtype] = {
    "FLOAT": np.dtype(np.float32),
    "DOUBLE": np.dtype(np.float64),
    "FLOAT16": np.dtype(np.float16),
}
# For labels of another shape, by loss.
_ADVICE = {"cross_entropy": "For probabilities of the classes use the loss categorical_cross_entropy"}
_TYPES |= {name: np.dtype(name.lower()) for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT32", "UINT64")}

# A loss as a function: it adds inputs and nodes to the builder's model, and returns the name of the loss tensor.
LossFunction = Callable[[Builder], str]


@dataclass
class TrainingModel:
    """A model with its loss. The batch dimension is open if it is the same in all inputs.

    Args:
        proto: Bytes of the model.
        loss: Tensor to minimise.
        inputs: All of them, in order: the file's, then those of the loss.
        outputs: Names of the file's outputs, without the loss.
        output: The output that the loss reads.
        weights: Names of the initializers.
        source: Bytes of the model without the added loss.
        own: Names of the file's inputs.
        shapes: Shapes of the inputs as the file has them, open dimensions as 1.
        axes: Dimension of samples of each input.
        parts: Factors of the loss, and which losses are sums.
        stamps: Of the model's files, if they include data files, which the first session reads.
        fixed: Shapes in the file of the inputs whose batch was opened.
    """

    proto: bytes
    loss: str
    inputs: list[ModelInput]
    outputs: list[str]
    output: str
    weights: list[str]
    source: bytes
    own: list[str]
    shapes: dict[str, list[int]]
    axes: SampleAxes
    parts: LossParts
    stamps: FileStamps | None
    fixed: dict[str, tuple[int | str, ...]]

    @property
    def is_sum(self) -> bool:
        """Whether the loss is a sum over the samples."""
        return self.loss in self.parts.sums

    def explained(self, error: popart_exception, shapes: Mapping[str, tuple[int, ...]]) -> popart_exception:
        """The error of a program for these shapes, with the reason if the file fixes another batch."""
        got = {name: shapes[name] for name in self.fixed}
        if got == self.fixed or type(error) is not popart_exception:  # such as OutOfMemoryException
            return error
        return fixed_batch("Trainer", got, self.fixed, error)

    @property
    def labels(self) -> str | None:
        """The input that metrics compare with: the first that the loss added, else one with a usual name."""
        added = [i.name for i in self.inputs if i.name not in self.own]
        usual = [name for name in ("labels", "label", "targets", "target") if name in self.own]
        return next(iter([*added, *usual]), None)


def require_samples(model: TrainingModel, accumulation: int, replicas: int) -> None:
    """Check that updates can be cut into parts.

    Args:
        model: The model with its loss.
        accumulation: Number of micro-batches.
        replicas: Number of replicas.

    Raises:
        ArgumentError: No dimension of the inputs counts samples, or it is not known which.
    """
    got = f"Trainer: accumulation and replicas: got {accumulation} and {replicas}, expected 1, as"
    if not any(name in model.own for name in model.axes.by_input):
        shapes = ", ".join(f"'{i.name}' {list(i.shape or ())}" for i in model.inputs)
        raise ArgumentError(
            f"{got} no input has an open dimension of samples: {shapes}. Export the model with an open batch"
        )
    if model.axes.doubt:
        raise ArgumentError(
            f"{got} the input {model.axes.doubt} has two open dimensions, and neither has a name like 'batch'. Say "
            "which one counts samples: batch_axis=0, or batch_axis=1 if time comes first"
        )


def recomputation(kind: bool | str) -> RecomputationType:
    """The way to recompute activations, of the argument ``recompute``.

    Returns:
        The way.

    Raises:
        popart_exception: An unknown name.
    """
    name = {True: "Standard", False: "NoRecompute"}.get(kind, kind) if isinstance(kind, bool) else kind
    known = [entry.name for entry in RecomputationType]
    if name not in known:
        raise popart_exception(
            f"Trainer: recompute: got {kind!r}, expected True, False or one of {', '.join(known)}"
            f"{nearest_names(str(kind), known)}"
        )
    return getattr(RecomputationType, str(name))


def check_names(what: str, patterns: Iterable[str], known: Sequence[str]) -> None:
    """Raise an error for names and globs that match no weight.

    Args:
        what: Name of the argument.
        patterns: Names or globs.
        known: The weights.

    Raises:
        popart_exception: A name or glob matches no weight.
    """
    for pattern in patterns:
        if not any(pattern == name or fnmatchcase(name, pattern) for name in known):
            raise popart_exception(
                f"Trainer: {what}: the model has no weight '{pattern}'{nearest_names(pattern, known)}"
            )


def _shape_of(builder: Builder, entry: losses.LossInput) -> tuple[int | str, ...]:
    declared = popart_core._declaredShape(builder._core, entry.id)
    return tuple(d if isinstance(d, int) else d or f"{entry.id}_{i}" for i, d in enumerate(declared))


def _opened(entry: ModelInput, own: Sequence[ModelInput], opened: Sequence[ModelInput], axis: int) -> ModelInput:
    """An input of a loss; its dimension of samples is open where those of the model are."""
    # It is the batch where it had the batch of the file. Others are rows of all samples, or no batch at all.
    places = [axis if axis < len(i.shape or ()) else 0 for i in own]
    if not entry.shape or not any(i.is_open(at) for i, at in zip(opened, places, strict=True)):
        return entry
    sizes = {old.shape[at] for old, new, at in zip(own, opened, places, strict=True) if old.shape != new.shape}
    at = next((at for at in (axis, 0) if at < len(entry.shape) and entry.shape[at] in sizes), 0)
    if isinstance(entry.shape[at], str):
        return entry
    name = "batch" if entry.shape[at] in sizes else f"{entry.name}_0"
    return replace(entry, shape=(*entry.shape[:at], name, *entry.shape[at + 1 :]))


def _with_open_batch(model: bytes, before: Sequence[ModelInput], after: Sequence[ModelInput]) -> bytes:
    """Declare again the inputs whose shapes have changed."""
    changed = [new for old, new in zip(before, after, strict=True) if old.shape != new.shape]
    return declared(model, changed) if changed else model


def _is_loss(name: str) -> bool:
    return any(name in (known, *others) for known, others in popart_core._lossNames())


def _takes_a_builder(loss: Any) -> bool:
    """Whether a function may be called with a builder alone; losses of PyTorch may not."""
    if not callable(loss) or hasattr(loss, "forward"):
        return False
    try:
        inspect.signature(loss).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function without a signature
        pass
    return True


def training_model(
    model: Any,
    loss: str | LossFunction,
    output: str | None,
    loss_options: Mapping[str, Any],
    train_batch_norm: bool,
    batch_axis: int | str | None,
    are_cut: bool,
) -> TrainingModel:
    """Add a loss to a model.

    Args:
        model: File name, bytes or ``onnx.ModelProto``.
        loss: Name of a loss of ``popart.losses``, a function of a builder that adds one, or a tensor of the model.
        output: Output of the model that a named loss reads; None: its only one, or the first with floats.
        loss_options: Arguments of a named loss, as ``popart.losses.attach`` takes them.
        train_batch_norm: Whether batch norms in inference form are converted to training form.
        batch_axis: Dimension of the inputs that counts samples; None: to be found.
        are_cut: Whether updates are cut into parts.

    Returns:
        The model with its loss.

    Raises:
        popart_exception: A loss or output is unknown.
        TypeError: An argument is unknown to the loss.
        FileNotFoundError: The file does not exist.
    """
    source = source_of(model)
    facts = describe(source)
    stamps = FileStamps(source, facts["dataFiles"]) if facts["dataFiles"] else None
    if not isinstance(loss, str) and not _takes_a_builder(loss):
        raise TypeError(
            f"Trainer: loss: got {loss!r}, expected the name of a loss ({', '.join(losses.names())}), a function that "
            "takes a Builder, adds nodes and returns the loss, or the name of a tensor"
        )
    if train_batch_norm or isinstance(source, str):  # the file may change after this
        transformer = GraphTransformer(source)
        if train_batch_norm:
            transformer.prepareNodesForTraining()
        source = transformer.getModelProto()
    own, names = inputs_of(facts), [entry["name"] for entry in facts["outputs"]]
    builder = Builder(source)
    builder._loss_parts = parts = LossParts(are_cut)
    batch_axis = checked(batch_axis, own)
    axis = axis_to_open(batch_axis, own)
    opened = with_open_batch(own, axis)
    if isinstance(loss, str) and builder.hasTensor(loss):
        tensor, of, added = loss, "", []
    elif isinstance(loss, str) and not _is_loss(loss):
        raise popart_exception(
            f"Trainer: loss: got '{loss}', expected the name of a loss or a tensor of the model"
            f"{nearest_names(loss, [*names, *losses.names()])}. Losses: {', '.join(losses.names())}"
        )
    else:
        attached = losses.attach(builder, loss, output or "", **loss_options)
        tensor, of, added = attached.loss, attached.output, list(attached.inputs)
    plain = [name for name in names if name != tensor]
    if not (isinstance(loss, str) and of):  # not a loss by name
        tensor = add_factor(builder, tensor)
    known = {i.name for i in own} | {factor.id for factor in parts.factors}
    advice = _ADVICE.get(loss, "") if isinstance(loss, str) else ""
    labels = [
        ModelInput(entry.id, _TYPES[entry.dtype], _shape_of(builder, entry), advice=advice)
        for entry in added
        if entry.id not in known
    ]
    inputs = opened + [_opened(entry, own, opened, axis) for entry in labels]
    before = own + labels
    proto = _with_open_batch(builder.getModelProto(), before, inputs)
    return TrainingModel(
        proto,
        tensor,
        inputs,
        plain,
        of or output or next(iter(plain), names[0]),
        list(builder.getTrainableTensorIds()),
        _with_open_batch(source, own, opened),
        [i.name for i in own],
        {i.name: [d if isinstance(d, int) else 1 for d in i.shape or ()] for i in before},
        sample_axes(inputs, opened, batch_axis),
        parts,
        stamps,
        {old.name: old.shape or () for old, new in zip(own, opened, strict=True) if old.shape != new.shape},
    )
