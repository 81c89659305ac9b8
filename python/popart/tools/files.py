"""What the commands share about models: shapes from the command line, arrays in files, and results as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import zipfile
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import popart_core

from popart._files import replacing
from popart._names import nearest_names
from popart.session import _numpy_dtype as numpy_dtype
from popart.tools.command import UsageError

LARGEST = 2**48  # elements of a tensor
MOST_NAMES = 20  # in a message

# What NumPy and onnx raise for files that are no arrays, or damaged ones.
NOT_ARRAYS = (ValueError, EOFError, TypeError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error)


def add_shape_arguments(made: argparse.ArgumentParser, otherwise: str = "(default 1)") -> None:
    """``--shape`` and ``--dim``; ``otherwise`` says what an open dimension is that nothing names."""
    made.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=D,D",
        help="shape of an input, for example x=1,3,64,64; of the tensors of a sequence: s/0=2,3 s/1=4,3",
    )
    made.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help=f"size of an open dimension, by its name {otherwise}",
    )


def json_text(value: Any) -> str:
    """JSON, with null for numbers that are not finite: JSON has no text for them."""
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def require_file(path: Path, holds: str = "an ONNX model") -> None:
    """Raise `UsageError` unless there is such a file; `holds` says what it should be a file of."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name of file {str(path)!r} is not valid UTF-8. Rename it") from None
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "it does not exist"
        raise UsageError(f"file '{path}': {what}, expected a file with {holds}")


def unknown_name(option: str, name: str, known: Iterable[str], kind: str = "") -> UsageError:
    """The error for a name that the model does not have: the nearest names, or all if none is near and they are few.

    Args:
        option: That gave the name.
        name: What was given.
        known: Names that there are.
        kind: What they are the names of, with a space behind it.

    Returns:
        The error, to be raised.
    """
    names = list(known)
    near = nearest_names(name, names)
    if not near:
        near = f". It has {', '.join(names) or 'none'}" if len(names) <= MOST_NAMES else f". It has {len(names):,}"
    return UsageError(f"{option}: the model has no {kind}'{name}'{near}")


def shape_infos(shapes: dict[str, tuple[str, list[int]]]) -> popart_core.InputShapeInfo:
    """Types and shapes as sessions take them."""
    infos = popart_core.InputShapeInfo()
    for name, (dtype, shape) in shapes.items():
        upper = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
        kind = getattr(popart_core.DataType, upper, None)
        if kind is None or dtype in ("string", "undefined"):
            raise UsageError(f"input '{name}' holds {dtype}: the command takes numbers and booleans")
        infos.add(name, popart_core._TensorInfoCore(kind, shape))
    return infos


def describe(model: Path, shapes: dict[str, tuple[str, list[int]]] | None = None) -> dict[str, Any]:
    """What the file holds, see ``describeModel`` in popart/graphtransformer.hpp."""
    return json.loads(popart_core._describeModel(str(model), shape_infos(shapes or {})))


def tensors_of_outputs(
    model: Path,
    infos: popart_core.InputShapeInfo,
    options: popart_core.SessionOptions,
    returned: Collection[str] = (),
) -> dict[str, dict[str, int]]:
    """The tensors that the outputs are, several for a sequence, none for what is absent; and those of ``returned``.

    Returns:
        By name: of each size that depends on data the name of the tensor that holds it, and its dimension.
    """
    outputs = popart_core._output_tensors(str(model), infos, options.constantWeights, set(returned))
    return {name: dict(lengths) for parts in outputs.values() for name, lengths in parts}


def input_shapes(
    inputs: list[dict[str, Any]], shape_texts: Sequence[str], dim_texts: Sequence[str]
) -> tuple[dict[str, tuple[str, list[int]]], list[str]]:
    """What random inputs need.

    Returns:
        Type and shape of every input, and a note on each open dimension that nothing says. The tensors of a sequence
        are "name/0", "name/1", …, as many as ``--shape`` names; an optional input is there when ``--shape`` names it.

    Raises:
        popart_exception: Names that the model does not have, and inputs without a rank.
    """
    found, notes = popart_core._input_sizes(json.dumps(inputs), list(shape_texts), list(dim_texts))
    return found, notes


def given_sizes(
    inputs: list[dict[str, Any]], shape_texts: Sequence[str], dim_texts: Sequence[str]
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The sizes of open dimensions by name, from ``--dim`` and from the shapes of ``--shape``.

    Returns:
        The sizes, and the shapes of ``--shape`` by input.

    Raises:
        popart_exception: Names that the model does not have.
        UsageError: Sizes that contradict the model or one another.
    """
    sizes, shapes = popart_core._given_sizes(json.dumps(inputs), list(shape_texts), list(dim_texts))
    for entry in inputs:
        shape, declared = shapes.get(entry["name"]), entry["shape"]
        if shape is None or declared is None:
            continue
        fits = len(shape) == len(declared)
        for dimension, size in zip(declared, shape, strict=False):
            expected = size if dimension == "?" else dimension
            if isinstance(expected, str):
                expected = sizes.setdefault(expected, size)
            fits = fits and expected == size
        if not fits:
            chosen = "".join(f", {name} = {size}" for name, size in sizes.items())
            raise UsageError(f"--shape: '{entry['name']}': got {shape}, expected {shape_text(entry)}{chosen}")
    return sizes, shapes


def read_array(path: Path) -> np.ndarray:
    """Read a .npy or .pb (TensorProto) file.

    Returns:
        The array.

    Raises:
        UsageError: A file that holds something else.
    """
    require_file(path, "an array: .npy or .pb (TensorProto)")
    try:
        if path.suffix == ".pb":
            onnx = import_onnx()
            tensor = onnx.TensorProto.FromString(path.read_bytes())
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                raise UsageError(f"'{path}' holds no array: its values are in another file")
            return np.asarray(onnx.numpy_helper.to_array(tensor))
        array = np.load(path, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise UsageError(f"'{path}' holds several arrays: give it without a name")
        return array
    except NOT_ARRAYS as problem:
        raise UsageError(f"'{path}' holds no array: {problem}") from None
    except Exception as problem:  # protobuf's own classes differ by version
        if type(problem).__name__ != "DecodeError":
            raise
        raise UsageError(f"'{path}' holds no TensorProto: {problem}") from None


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file.

    Returns:
        The arrays by name.

    Raises:
        UsageError: A file that holds something else.
    """
    require_file(path, "arrays: .npz")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (*NOT_ARRAYS, OSError, AttributeError) as problem:  # the last one: an array, no archive
        raise UsageError(f"'{path}' holds no arrays: {problem}") from None


def write_arrays(target: Path, arrays: dict[str, np.ndarray]) -> list[Path]:
    """Write arrays to one .npz file, or into a folder as one .npy file each.

    Returns:
        The files.
    """
    if target.suffix == ".npz":
        with replacing(target) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return [target]
    target.mkdir(parents=True, exist_ok=True)
    files: dict[Path, None] = {}
    for name, array in arrays.items():
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        while target / f"{stem}.npy" in files:  # another name with other signs that files do not take
            stem += "_"
        files[target / f"{stem}.npy"] = None
        with replacing(target / f"{stem}.npy") as file:
            np.save(file, array)
    return list(files)


def random_arrays(shapes: dict[str, tuple[str, list[int]]], seed: int, integers: tuple[int, int]) -> dict[str, Any]:
    """Standard normal floats, whole numbers from ``integers[0]`` to below ``integers[1]``, random booleans."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, (dtype, shape) in shapes.items():
        if math.prod(shape) > LARGEST:
            raise UsageError(f"input '{name}': more than 2^48 elements: got shape {shape}")
        if dtype == "string":
            raise UsageError(
                f"input '{name}' holds text, which is not made at random. Give it with --input {name}=FILE"
            )
        kind = numpy_dtype(dtype)
        if kind.kind in "iu":
            arrays[name] = generator.integers(*integers, size=shape).astype(kind)
        elif kind.kind == "b":
            arrays[name] = generator.integers(0, 2, size=shape).astype(bool)
        else:
            arrays[name] = generator.normal(size=shape).astype(kind)
    return arrays


def import_onnx() -> Any:
    """Import the package onnx, which not every command needs.

    Returns:
        The package.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise UsageError("the package onnx is needed for this. Install it: pip install onnx") from None


def shape_text(entry: dict[str, Any]) -> str:
    """``float32 [batch, 3]``."""
    shape = "any shape" if entry["shape"] is None else "[" + ", ".join(str(d) for d in entry["shape"]) + "]"
    kind = f"{entry['type'] or 'any type'} {shape}"
    return ("optional " if entry.get("optional") else "") + ("sequence of " if entry.get("sequence") else "") + kind
