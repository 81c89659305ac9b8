"""Losses by name: the function of each, the inputs that it adds to a model, and the output that it reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from popart_core import _addLossInputs, _lossInput, _lossNamed, _lossNames, _lossOutput, popart_exception

from popart import loss_functions

Loss = str | Callable[[Any], str]


@dataclass(frozen=True)
class LossInput:
    """An input that a loss reads: id, element type ("INT32"), shape with -1 for open dimensions."""

    id: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class AttachedLoss:
    """The result of `attach`: the loss, the output that it reads ("" for a function), and the inputs that it reads."""

    loss: str
    output: str
    inputs: tuple[LossInput, ...]


def names() -> list[str]:
    """List the names of losses that `attach` and `popart.Trainer` accept.

    Returns:
        ``cross_entropy``, ``mse`` and so on; the guide on losses lists their other spellings.
    """
    return [name for name, _ in _lossNames()]


def function(name: str) -> Callable[..., str]:
    """Find the function of a loss.

    Args:
        name: One of `names`, or another spelling such as ``"bce"``.

    Returns:
        The function of this module of that name.

    Raises:
        popart_exception: The name is unknown; the message suggests similar ones.
    """
    return getattr(loss_functions, _lossNamed(name))


def attach(builder: Any, loss: Loss, output: str = "", *, inputs: Sequence[str] = (), **settings: Any) -> AttachedLoss:
    """Add a loss to a model, with the inputs that it needs.

    Example::

        builder = popart.Builder("resnet18.onnx")
        attached = popart.losses.attach(builder, "cross_entropy", label_smoothing=0.1)
        session = popart.TrainingSession(builder.getModelProto(), loss=attached.loss, ...)

    Args:
        builder: The model.
        loss: Name of a loss, or a function that takes the builder, adds inputs and nodes and returns the id of the
            loss.
        output: The tensor that the loss reads; default: the only output of the model, else its first output with
            floats.
        inputs: Ids of tensors that the loss reads instead of inputs that are added, in their order. "" adds a new
            input.
        **settings: Arguments of the loss function.

    Returns:
        The ids, and the types and shapes of the inputs. Class numbers are INT32 with the shape of the output without
        the class dimension; other labels are FLOAT with the shape of the output. Open dimensions keep their names. The
        first input is called ``labels`` unless the model has a tensor of that name.

    Raises:
        popart_exception: The name is unknown, the model has no float output, or the shape of the output is not known.
        TypeError: A setting is unknown to the loss function, or `output`, `inputs` or settings are given with a
            function.
    """
    if callable(loss):
        if output or inputs or settings:
            raise TypeError("attach: a loss that is a function takes no output, inputs or settings: they are its own")
        before = set(builder.getInputTensorIds())
        result = loss(builder)
        if not isinstance(result, str):
            raise popart_exception(f"Loss: the function gave {result!r}, expected the id of the loss")
        added = [id for id in builder.getInputTensorIds() if id not in before and not builder.isInitializer(id)]
        return AttachedLoss(result, "", tuple(_described(_lossInput(builder._core, id)) for id in added))
    of = output or _lossOutput(builder._core)
    rows = _addLossInputs(builder._core, loss, of, list(inputs))
    described = tuple(_described(row) for row in rows)
    result = function(loss)(builder, of, *(i.id for i in described), **settings)
    return AttachedLoss(result, of, described)


def _described(row: tuple[str, str, list[int]]) -> LossInput:
    return LossInput(row[0], row[1], tuple(row[2]))
