"""What the commands share: shapes from the command line, arrays in files, tables, errors and results as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import popart_core

from popart.session import _numpy_dtype


class UsageError(Exception):
    """What the user can mend on the command line or in a file; the command ends with status 2."""


def parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser with what every command takes: the model and ``--json``."""
    made = argparse.ArgumentParser(
        program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("model", type=Path, help="ONNX file")
    made.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return made


def add_shape_arguments(made: argparse.ArgumentParser) -> None:
    """``--shape`` and ``--dim``."""
    made.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=D,D", help="shape of an input, for example x=1,3,64,64"
    )
    made.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of an open dimension, by its name (default 1)",
    )


def run_command(
    program: str, main: Callable[[Sequence[str] | None], int], arguments: Sequence[str] | None = None
) -> int:
    """The status of ``main``; errors that people can mend are one line on stderr, with status 2."""
    try:
        return main(arguments)
    except (UsageError, popart_core.popart_exception, OSError) as problem:
        print(f"{program}: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1


def require_file(path: Path) -> None:
    """Raise `UsageError` unless there is such a file."""
    if not path.is_file():
        raise UsageError(f"there is no file '{path}'. Give an ONNX file")


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """The parts in front of and behind the last ``=`` of each text."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option}: got '{text}', expected NAME=VALUE")
        found[name] = value
    return found


def whole_numbers(text: str, option: str) -> list[int]:
    """Sizes of dimensions, with commas between them."""
    try:
        numbers = [int(part) for part in text.split(",")] if text else []
    except ValueError:
        numbers = [-1]
    if any(number < 0 for number in numbers):
        raise UsageError(f"{option}: got '{text}', expected whole numbers of 0 or more with commas between them")
    return numbers


def shape_infos(shapes: dict[str, tuple[str, list[int]]]) -> popart_core.InputShapeInfo:
    """Types and shapes as sessions take them."""
    infos = popart_core.InputShapeInfo()
    for name, (dtype, shape) in shapes.items():
        upper = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
        infos.add(name, popart_core._TensorInfoCore(getattr(popart_core.DataType, upper), shape))
    return infos


def describe(model: Path, shapes: dict[str, tuple[str, list[int]]] | None = None) -> dict[str, Any]:
    """What the file holds, see ``describeModel`` in popart/graphtransformer.hpp."""
    return json.loads(popart_core._describeModel(str(model), shape_infos(shapes or {})))


def input_shapes(
    inputs: list[dict[str, Any]], shape_texts: Sequence[str], dim_texts: Sequence[str]
) -> tuple[dict[str, tuple[str, list[int]]], list[str]]:
    """What random inputs need.

    Returns:
        Type and shape of every input, and a note on each open dimension that nothing says.

    Raises:
        UsageError: Names that the model does not have, and inputs without a rank.
    """
    shapes = {name: whole_numbers(text, "--shape") for name, text in pairs(shape_texts, "--shape").items()}
    dims = {name: whole_numbers(text, "--dim") for name, text in pairs(dim_texts, "--dim").items()}
    names = [entry["name"] for entry in inputs]
    symbols = {d for entry in inputs for d in entry["shape"] or [] if isinstance(d, str)}
    for option, given, known in (("--shape", shapes, names), ("--dim", dims, sorted(symbols - {"?"}))):
        for name in given:
            if name not in known:
                raise UsageError(f"{option}: the model has no '{name}'. It has {', '.join(known) or 'none'}")
    for name, size in dims.items():
        if len(size) != 1:
            raise UsageError(f"--dim: '{name}' is one dimension: got {size}, expected one number")
    found, notes = {}, []
    for entry in inputs:
        name = entry["name"]
        shape = shapes.get(name, entry["shape"])
        if shape is None or entry["type"] is None:
            raise UsageError(
                f"input '{name}': the model does not say its type and shape. Use --shape, or another export"
            )
        sizes = []
        for position, dimension in enumerate(shape):
            if isinstance(dimension, int):
                sizes.append(dimension)
                continue
            if dimension not in dims:
                how = f"--dim {dimension}=N" if dimension != "?" else f"--shape {name}=..."
                notes.append(
                    f"input '{name}': open dimension {position} ({dimension}) is taken as 1; say it with {how}"
                )
            sizes.append(dims.get(dimension, [1])[0])
        found[name] = (entry["type"], sizes)
    return found, list(dict.fromkeys(notes))


def read_array(path: Path) -> np.ndarray:
    """Read a .npy or .pb (TensorProto) file.

    Returns:
        The array.

    Raises:
        UsageError: A file that holds something else.
    """
    require_file(path)
    try:
        if path.suffix == ".pb":
            onnx = import_onnx()
            return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, TypeError) as problem:
        raise UsageError(f"'{path}' holds no array: {problem}") from None
    except Exception as problem:  # protobuf's own classes differ by version
        if type(problem).__name__ != "DecodeError":
            raise
        raise UsageError(f"'{path}' holds no TensorProto: {problem}") from None


def write_arrays(target: Path, arrays: dict[str, np.ndarray]) -> list[Path]:
    """Write arrays to one .npz file, or into a folder as one .npy file each.

    Returns:
        The files.
    """
    if target.suffix == ".npz":
        part = target.with_name(target.name + ".part")
        with part.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        part.replace(target)
        return [target]
    target.mkdir(parents=True, exist_ok=True)
    files = []
    for name, array in arrays.items():
        files.append(target / ("".join(c if c.isalnum() or c in "-_." else "_" for c in name) + ".npy"))
        np.save(files[-1], array)
    return files


def random_arrays(shapes: dict[str, tuple[str, list[int]]], seed: int, integers: tuple[int, int]) -> dict[str, Any]:
    """Standard normal floats, whole numbers from ``integers[0]`` to below ``integers[1]``, random booleans."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, (dtype, shape) in shapes.items():
        kind = _numpy_dtype(dtype)
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


def table(rows: Sequence[Sequence[Any]], titles: Sequence[str]) -> str:
    """Columns side by side; numbers to the right."""
    texts = [list(titles)] + [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(titles))]
    right = [all(isinstance(row[i], int | float) for row in rows) and bool(rows) for i in range(len(titles))]
    lines = []
    for row in texts:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def shape_text(entry: dict[str, Any]) -> str:
    """``float32 [batch, 3]``."""
    shape = "any shape" if entry["shape"] is None else "[" + ", ".join(str(d) for d in entry["shape"]) + "]"
    return f"{entry['type'] or 'any type'} {shape}"
