"""Losses by name: which function, which inputs it adds to a model, and which output it reads."""

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
    """What `attach` added: the loss, the output that it reads ("" for a function), and the inputs that it reads."""

    loss: str
    output: str
    inputs: tuple[LossInput, ...]


def names() -> list[str]:
    """Names that `attach` and `popart.Trainer` take for a loss.

    Returns:
        ``cross_entropy``, ``mse`` and so on; the guide on losses lists their other spellings.
    """
    return [name for name, _ in _lossNames()]


def function(name: str) -> Callable[..., str]:
    """The function of a loss.

    Args:
        name: One of `names`, or another spelling such as ``"bce"``.

    Returns:
        The function of this module of that name.

    Raises:
        popart_exception: An unknown name; the nearest ones are said.
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
        loss: Name of a loss, or a function that gets the builder, adds what it needs and returns the id of the loss.
        output: The tensor that the loss reads; default: the model's only output, else its first of a float type.
        inputs: Ids of tensors that the loss reads instead of inputs that are added, in their order. "" for one to add.
        **settings: Arguments of the loss's function.

    Returns:
        The ids, and types and shapes of the inputs: class numbers are INT32 of the output's shape without the class
        dimension; other labels FLOAT of the output's shape. Open dimensions keep their names. The first one is called
        ``labels`` unless the model has that name.

    Raises:
        popart_exception: An unknown name, a model without float output, an output whose shape is not known.
        TypeError: Settings that the function does not have, or `output`, `inputs` or settings with a function.
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
