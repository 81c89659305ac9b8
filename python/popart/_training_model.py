"""A model file with a loss: the model of the sessions of ``popart.Trainer``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from popart_core import GraphTransformer, RecomputationType, popart_exception

from popart import losses
from popart._model_inputs import ModelInput, declared, describe, inputs_of, source_of, with_open_batch
from popart._names import nearest_names
from popart.builder import Builder

_TYPES: dict[str, np.dtype] = {
    "FLOAT": np.dtype(np.float32),
    "DOUBLE": np.dtype(np.float64),
    "FLOAT16": np.dtype(np.float16),
}
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

    @property
    def labels(self) -> str | None:
        """The input that metrics compare with: the first that the loss added, else one with a usual name."""
        added = [i.name for i in self.inputs if i.name not in self.own]
        usual = [name for name in ("labels", "label", "targets", "target") if name in self.own]
        return next(iter([*added, *usual]), None)


def names_of(given: Sequence[str] | str | None) -> list[str]:
    """Names of a list, or one name.

    Returns:
        The names.
    """
    return [given] if isinstance(given, str) else list(given or ())


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


def _shape_of(entry: losses.LossInput) -> tuple[int | str, ...]:
    return tuple(f"{entry.id}_{i}" if size < 0 else size for i, size in enumerate(entry.shape))


def _opened(entry: losses.LossInput, own: Sequence[ModelInput], opened: Sequence[ModelInput]) -> ModelInput:
    """An input of a loss; its first dimension is open where those of the model are."""
    # It is the batch where it had the batch of the file. Others are rows of all samples, or no batch at all, as behind
    # a network whose inputs have time first.
    shape = list(_shape_of(entry))
    if shape and isinstance(shape[0], int) and any(i.shape and isinstance(i.shape[0], str) for i in opened):
        is_batch = any(
            old.shape != new.shape and old.shape[0] == shape[0] for old, new in zip(own, opened, strict=True)
        )
        shape[0] = "batch" if is_batch else f"{entry.id}_0"
    return ModelInput(entry.id, _TYPES[entry.dtype], tuple(shape))


def _with_open_batch(model: bytes, before: Sequence[ModelInput], after: Sequence[ModelInput]) -> bytes:
    """Declare the inputs whose shapes have changed anew."""
    changed = [new for old, new in zip(before, after, strict=True) if old.shape != new.shape]
    return declared(model, changed) if changed else model


def _is_loss(name: str) -> bool:
    try:
        losses.function(name)
    except popart_exception:
        return False
    return True


def training_model(
    model: Any,
    loss: str | LossFunction,
    output: str | None,
    loss_options: Mapping[str, Any],
    train_batch_norm: bool,
) -> TrainingModel:
    """Add a loss to a model.

    Args:
        model: File name, bytes or ``onnx.ModelProto``.
        loss: Name of a loss of ``popart.losses``, a function of a builder that adds one, or a tensor of the model.
        output: Output of the model that a named loss reads; None: its only one, or the first with floats.
        loss_options: Arguments of a named loss, as ``popart.losses.attach`` takes them.
        train_batch_norm: Whether batch norms in inference form are converted to training form.

    Returns:
        The model with its loss.

    Raises:
        popart_exception: A loss or output is unknown.
        TypeError: An argument is unknown to the loss.
        FileNotFoundError: The file does not exist.
    """
    source = source_of(model)
    facts = describe(source)
    if not isinstance(loss, str) and (not callable(loss) or hasattr(loss, "forward")):
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
    opened = with_open_batch(own)
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
    known = {i.name for i in own}
    labels = [entry for entry in added if entry.id not in known]
    inputs = opened + [_opened(entry, own, opened) for entry in labels]
    before = own + [ModelInput(entry.id, None, _shape_of(entry)) for entry in labels]
    proto = _with_open_batch(builder.getModelProto(), before, inputs)
    return TrainingModel(
        proto,
        tensor,
        inputs,
        [name for name in names if name != tensor],
        of or output or next((name for name in names if name != tensor), names[0]),
        list(builder.getTrainableTensorIds()),
        _with_open_batch(source, own, opened),
        [i.name for i in own],
        {i.name: [d if isinstance(d, int) else 1 for d in i.shape or ()] for i in before},
    )
