"""The inputs of a model, and the conversion of arrays to them. A batch size that the model fixes can be opened."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import popart_core
from popart_core import GraphTransformer, InputShapeInfo, popart_exception, popart_runtime_error

from popart._arrays import as_input
from popart._names import nearest_names
from popart.session import _numpy_dtype

Source = str | bytes  # name of a file, or bytes of a model


def source_of(model: Any) -> Source:
    """A model in the form that the core reads.

    Args:
        model: File name, bytes, ``onnx.ModelProto``, or what ``torch.onnx.export`` returns.

    Returns:
        The file name, or bytes.

    Raises:
        TypeError: `model` has another type.
    """
    proto = getattr(model, "model_proto", model)  # a torch.onnx.ONNXProgram has this attribute
    if hasattr(proto, "SerializeToString"):
        return proto.SerializeToString()
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    raise TypeError(
        f"model: got {type(model).__name__}, expected a file name, bytes, onnx.ModelProto or torch.onnx.ONNXProgram"
    )


# Operators whose results may have sizes that depend on data, some only if an operand has such a size.
SIZES_FROM_DATA = frozenset({
    "Compress", "ConstantOfShape", "If", "Loop", "NonMaxSuppression", "NonZero", "Range", "Slice", "TopK", "Unique",
})  # fmt: skip


# Names of open dimensions that count samples, as exporters and programs write them.
SAMPLES = re.compile(r"batch|^(n|b|bs|samples?|examples?)$", re.IGNORECASE)


@dataclass(frozen=True)
class ModelInput:
    """An input of a model.

    Args:
        name: Name of the tensor.
        dtype: Element type; None: the model does not say.
        shape: Numbers, and names of open dimensions; None: the model does not say.
        plain: Whether it is one tensor of numbers: no sequence, no optional value, no text.
        time_first: Whether a recurrent operator reads it whose dimension 1 counts samples.
        advice: What to do if an array has another shape; empty: nothing in particular.
    """

    name: str
    dtype: np.dtype | None
    shape: tuple[int | str, ...] | None
    plain: bool = True
    time_first: bool = False
    advice: str = ""

    def __str__(self) -> str:
        """Type and shape, as far as the model says: ``float32 (batch, 3, 224, 224)``."""
        shape = "of any shape" if self.shape is None else f"({', '.join(map(str, self.shape))})"
        return f"{self.dtype if self.dtype is not None else 'any type'} {shape}"

    def is_open(self, axis: int) -> bool:
        """Whether it has this dimension, and the dimension is open."""
        return self.shape is not None and axis < len(self.shape) and isinstance(self.shape[axis], str)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether an array of this shape can be the input."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            isinstance(d, str) or d == n for d, n in zip(self.shape, shape, strict=True)
        )

    def array(self, value: Any, what: str) -> np.ndarray:
        """`value` as an array of this type, in C order.

        Args:
            value: An array of any library, or nested lists.
            what: The name of the caller, for messages.

        Returns:
            The array; the caller's own memory if its type and order are right.

        Raises:
            popart_runtime_error: The kind of numbers, the rank or a size is wrong, or an integer does not fit the type.
        """
        array = as_input(value)
        if not self.fits(array.shape):
            raise popart_runtime_error(
                f"{what} '{self.name}': got shape {list(array.shape)}, expected {_shape_text(self.shape or ())}"
                + (f". {self.advice}" if self.advice else "")
            )
        if self.dtype is None or array.dtype == self.dtype:
            return np.ascontiguousarray(array).reshape(array.shape)
        if not _converts(array.dtype, self.dtype):
            raise popart_runtime_error(
                f"{what} '{self.name}': got {array.dtype}, expected {self.dtype}. Convert the array"
            )
        made = array.astype(self.dtype)
        if self.dtype.kind in "iu" and not np.array_equal(made, array):
            raise popart_runtime_error(
                f"{what} '{self.name}': got whole numbers from {array.min()} to {array.max()}, expected ones that fit "
                f"{self.dtype}"
            )
        return np.ascontiguousarray(made)


def _converts(given: np.dtype, wanted: np.dtype) -> bool:
    """Whether a conversion is allowed: between numbers of the same kind, and from integers to floats."""
    floats = given.kind == "f" or given.name in ("bfloat16",)
    if wanted.kind in "iu":
        return given.kind in "iub"
    return (floats or given.kind in "iub") and wanted.kind != "b"


def _shape_text(shape: Iterable[int | str]) -> str:
    return "[" + ", ".join(str(d) for d in shape) + "]"


def describe(model: Source) -> dict[str, Any]:
    """Describe a model: inputs, outputs, operators, parameters (see ``describeModel``).

    Returns:
        The facts.

    Raises:
        popart_exception: The file or bytes are not a model.
        OSError: The file does not exist.
    """
    if isinstance(model, str) and not Path(model).is_file():
        raise FileNotFoundError(f"popart: there is no file '{model}'. Give an ONNX file or its bytes")
    return json.loads(popart_core._describeModel(model, InputShapeInfo()))


class FileStamps:
    """The state of a model's files when it was described."""

    def __init__(self, model: Source, data_files: Iterable[str]) -> None:
        """Note the state.

        Args:
            model: The model's file; there is nothing to note for bytes.
            data_files: Files with values of its tensors, relative to the folder of its file.
        """
        paths = [Path(model), *(Path(model).parent / name for name in data_files)] if isinstance(model, str) else []
        self._stamps = {path: _stamp(path) for path in paths}

    def require_unchanged(self, what: str) -> None:
        """Check that the files are the same.

        Args:
            what: The name of the caller, for the message.

        Raises:
            popart_runtime_error: A file has changed or is gone.
        """
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                raise popart_runtime_error(
                    f"{what}: the file '{path}' has changed or is gone since the model was loaded. Load it again"
                )


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes with the content of a file; None if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def inputs_of(facts: Mapping[str, Any]) -> list[ModelInput]:
    """The inputs that `describe` found.

    Returns:
        The inputs in order.
    """
    return [
        ModelInput(
            entry["name"],
            None if entry["type"] in (None, "string") else _numpy_dtype(entry["type"]),
            None if entry["shape"] is None else tuple(entry["shape"]),
            not (entry.get("sequence") or entry.get("optional") or entry["type"] == "string"),
            entry.get("batchAxis") == 1,
        )
        for entry in facts["inputs"]
    ]


def with_open_batch(inputs: Sequence[ModelInput], axis: int = 0) -> list[ModelInput]:
    """Open the dimension of samples if all inputs have it with the same size, and no other one counts samples.

    Args:
        inputs: Inputs of a model.
        axis: Number of the dimension; inputs with fewer dimensions have it first.

    Returns:
        The inputs; unchanged if there is nothing to open.
    """
    if any(isinstance(d, str) and SAMPLES.search(d) for i in inputs for d in i.shape or ()):
        return list(inputs)
    opened, sizes = [], set()
    for i in inputs:
        at = axis if axis < len(i.shape or ()) else 0
        if not i.shape or isinstance(i.shape[at], str):
            return list(inputs)
        sizes.add(i.shape[at])
        opened.append(replace(i, shape=(*i.shape[:at], "batch", *i.shape[at + 1 :])))
    return opened if len(sizes) == 1 else list(inputs)


def fixed_batch(
    what: str, got: Mapping[str, Sequence[int]], fixed: Mapping[str, Sequence[Any]], error: Exception
) -> popart_exception:
    """The error where a model does not compute another batch than that of its file, although its inputs were opened.

    Args:
        what: The name of the caller.
        got: Shapes of a run.
        fixed: Shapes in the file.
        error: What the model says.

    Returns:
        The error.
    """
    shapes, own = ({name: list(shape) for name, shape in all_of.items()} for all_of in (got, fixed))
    return popart_exception(
        f"{what}: the file fixes its batch, and does not compute another one: got {shapes}, the file has {own}. Export "
        f"it with an open batch. {error}"
    )


def declared(model: Source, inputs: Iterable[ModelInput]) -> bytes:
    """Give the inputs of a model these shapes.

    Returns:
        The bytes of the model.
    """
    transformer = GraphTransformer(model)
    shapes = {i.name: [str(d) for d in i.shape] for i in inputs if i.shape is not None}
    transformer.declareInputs(shapes)
    return transformer.getModelProto()


def _keys(what: str, names: Any) -> list[str]:
    if names is not None and (isinstance(names, str) or not isinstance(names, Iterable)):
        raise TypeError(f"{what}: inputs: got {names!r}, expected a list of names, or a dictionary of names by key")
    return list(names or ())


def _is_tuple_of_arrays(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and bool(value) and all(hasattr(one, "shape") for one in value)


class Feed:
    """Assigns the values of calls and batches to inputs, and converts them to arrays of the inputs' types."""

    def __init__(
        self, what: str, inputs: Sequence[ModelInput], names: Sequence[str] | Mapping[Any, str] | None = None
    ) -> None:
        """Keep the inputs.

        Args:
            what: The name of the caller, for messages.
            inputs: Inputs of the model.
            names: Inputs in the order of the values of tuples, or by key of dictionaries; None: the model's names in
                its order.

        Raises:
            popart_runtime_error: A name that is not an input.
        """
        self.what, self.inputs = what, {i.name: i for i in inputs}
        keys = _keys(what, names.values() if isinstance(names, Mapping) else names) or list(self.inputs)
        for name in keys:
            if name not in self.inputs:
                raise popart_runtime_error(
                    f"{what}: the model has no input '{name}'{nearest_names(str(name), self.inputs)}"
                )
        self.order = keys
        self.keys = dict(names) if isinstance(names, Mapping) else {name: name for name in keys}

    def named(self, batch: Any) -> dict[str, Any]:
        """Assign the values of a batch to inputs.

        A batch is a dictionary by key; a tuple of values in the order of the inputs; or a single value. In a tuple, a
        dictionary gives the inputs that it names, and a tuple of arrays gives one value for each of them:
        ``({"ids": ids, "mask": mask}, labels)``, ``((ids, mask), labels)``.

        Returns:
            The values; entries of dictionaries that are not inputs are ignored.

        Raises:
            popart_runtime_error: An input has no value, or there are too many values.
        """
        if isinstance(batch, Mapping):
            for key in self.keys:
                if key not in batch:
                    raise popart_runtime_error(
                        f"{self.what}: the data has no '{key}'{nearest_names(str(key), map(str, batch))}"
                    )
            return {name: batch[key] for key, name in self.keys.items()}
        values = batch if isinstance(batch, (tuple, list)) else (batch,)
        given = {
            self.keys[key]: part[key]
            for part in values
            if isinstance(part, Mapping)
            for key in part
            if key in self.keys
        }
        rest = [value for value in values if not isinstance(value, Mapping)]
        order = [name for name in self.order if name not in given]
        if len(rest) != len(order):
            rest = [value for part in rest for value in (part if _is_tuple_of_arrays(part) else (part,))]
        if len(rest) != len(order):
            raise popart_runtime_error(
                f"{self.what}: the data gives {len(given) + len(rest)} values"
                + (f" ({', '.join(given)} by name)" if given else "")
                + f": got {len(self.order)} inputs: {', '.join(self.order)}. Give one value for each"
            )
        return given | dict(zip(order, rest, strict=True))

    def arrays(self, batch: Any) -> dict[str, np.ndarray]:
        """The arrays of a batch by input.

        Returns:
            The arrays.

        Raises:
            popart_runtime_error: As `named` and `ModelInput.array`.
        """
        return {name: self.inputs[name].array(value, self.what) for name, value in self.named(batch).items()}
