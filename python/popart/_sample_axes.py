"""The dimension of each input that counts samples. A trainer cuts updates along it."""

from collections.abc import Sequence
from dataclasses import dataclass

from popart._arguments import ArgumentError, whole
from popart._model_inputs import SAMPLES, ModelInput
from popart._names import nearest_names


@dataclass(frozen=True)
class SampleAxes:
    """The dimensions of samples.

    Args:
        by_input: Number of the dimension for each input that has one.
        doubt: An input that does not say which of two open dimensions counts samples; empty: there is none.
    """

    by_input: dict[str, int]
    doubt: str = ""


def checked(given: int | str | None, inputs: Sequence[ModelInput]) -> int | str | None:
    """Check the argument ``batch_axis``.

    Args:
        given: Number or name of a dimension; None: to be found.
        inputs: Inputs of the file.

    Returns:
        The argument.

    Raises:
        TypeError: It is no whole number and no name.
        ArgumentError: No input has the dimension.
    """
    if given is None:
        return None
    if not isinstance(given, str):
        axis = whole("Trainer: batch_axis", given, 0)
        if not any(i.shape is None or axis < len(i.shape) for i in inputs):
            shapes = ", ".join(map(str, inputs))
            raise ArgumentError(f"Trainer: batch_axis: got {axis}, expected a dimension of an input: {shapes}")
        return axis
    known = sorted({d for i in inputs for d in i.shape or () if isinstance(d, str)})
    if given not in known:
        raise ArgumentError(
            f"Trainer: batch_axis: got '{given}', expected the name of an open dimension, one of "
            f"{', '.join(known) or 'none'}, or the number of a dimension{nearest_names(given, known)}"
        )
    return given


def axis_to_open(given: int | str | None, inputs: Sequence[ModelInput]) -> int:
    """The dimension of samples in a file that fixes all sizes.

    Returns:
        Its number.
    """
    if isinstance(given, int):
        return given
    return 1 if any(i.time_first for i in inputs) else 0


def sample_axes(inputs: Sequence[ModelInput], own: Sequence[ModelInput], given: int | str | None) -> SampleAxes:
    """Find the dimension of samples of each input.

    The first rule that gives an answer decides: the argument; recurrent operators, which have time first; names such as
    ``batch`` or ``N``; the first dimension. If two dimensions of an input are open, names are needed.

    Args:
        inputs: Inputs of the file and of its loss.
        own: Those of the file.
        given: As `checked` returns it.

    Returns:
        The dimensions.
    """
    names, doubt = _names(own, given)
    axes = {i.name: axis for i in inputs if (axis := _axis_of(i, names, given)) is not None}
    # What is first where samples are second does not count samples.
    other = {i.shape[0] for i in inputs if i.shape and axes.get(i.name)} - names
    for i in inputs:
        if i.shape and axes.get(i.name) == 0 and i.shape[0] in other:
            del axes[i.name]
    if names or given is not None or any(i.time_first for i in own):
        return SampleAxes(axes)
    return SampleAxes(axes, doubt)


def _names(own: Sequence[ModelInput], given: int | str | None) -> tuple[set[int | str], str]:
    """Names of dimensions of samples, and an input that leaves a doubt if there are none."""
    if isinstance(given, str):
        return {given}, ""
    axis = given if given is not None else 1 if any(i.time_first for i in own) else None
    if axis is not None:
        chosen = own if given is not None else [i for i in own if i.time_first]
        return {i.shape[axis] for i in chosen if i.shape and i.is_open(axis)}, ""
    open_names = {d for i in own for d in i.shape or () if isinstance(d, str)}
    two = next((i for i in own if i.is_open(0) and i.is_open(1)), None)
    return {d for d in open_names if SAMPLES.search(d)}, "" if two is None else f"'{two.name}' {two}"


def _axis_of(i: ModelInput, names: set[int | str], given: int | str | None) -> int | None:
    if i.shape is None:
        return given if isinstance(given, int) else 0
    named = next((axis for axis, d in enumerate(i.shape) if d in names), None)
    if named is not None or i.time_first:
        return named
    if isinstance(given, int) and i.is_open(given):
        return given
    return 0 if i.is_open(0) else None
