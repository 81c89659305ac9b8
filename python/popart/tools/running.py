"""A model compiled for given inputs, as ``popart-run`` runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from popart_core import DataFlow, DeviceInfo, DeviceManager, InputShapeInfo, PyStepIO, SessionOptions

from popart.session import InferenceSession
from popart.tensorinfo import TensorInfo
from popart.tools import files
from popart.tools.command import UsageError


@dataclass(frozen=True)
class Running:
    """A model that was run once.

    Attributes:
        results: Of that run: outputs and other tensors asked for, those of sequences as "name/0", ….
        run: Runs it again.
        compile_ms: Milliseconds from the file to the program.
        session: That runs it; None for models of text, which the host works on.
    """

    results: dict[str, np.ndarray]
    run: Callable[[], Any]
    compile_ms: float
    session: InferenceSession | None = None


def run_model(
    model: Path,
    facts: Mapping[str, Any],
    feeds: Mapping[str, np.ndarray],
    anchors: Sequence[str] = (),
    threads: int | None = None,
    name: str = "popart-run",
    device: DeviceInfo | None = None,
) -> Running:
    """Compile a model for the shapes of its inputs, and run it once.

    Args:
        model: The file.
        facts: What `files.describe` says of it.
        feeds: An array for each input, and for each tensor of a sequence.
        anchors: Other tensors to return.
        threads: That compute; None: as many as the session chooses.
        name: Of the session.
        device: Where it runs; None: the CPU.

    Returns:
        Results, and what runs it again.

    Raises:
        UsageError: Anchors of a model of text.
    """
    options = SessionOptions()
    if threads is not None:
        options.engineOptions["num_threads"] = str(threads)
    start = time.perf_counter()
    if any(entry["type"] == "string" for entry in [*facts["inputs"], *facts["outputs"]]):
        if anchors:
            raise UsageError("--anchor: a model with text returns only its outputs. Leave the option out")
        return _run_on_host(model, facts, feeds, options, start)
    outputs = files.tensors_of_outputs(model, _infos(feeds), options, anchors)
    names = [tensor for name, lengths in outputs.items() for tensor in (name, *lengths)]
    session = _session(model, facts, list(dict.fromkeys([*names, *anchors])), feeds, options, name, device)
    compile_ms = (time.perf_counter() - start) * 1e3
    results = session.initAnchorArrays()
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in feeds.items()}
    step = PyStepIO(contiguous, results)
    session.run(step)
    all_lengths = {length for lengths in outputs.values() for length in lengths}
    shown = {name: array for name, array in results.items() if name not in all_lengths}
    for name, lengths in outputs.items():  # sizes that depend on data: elements after them have no meaning
        for length, axis in lengths.items():
            shown[name] = shown[name][(slice(None),) * axis + (slice(int(results[length])),)]
    return Running(shown, lambda: session.run(step), compile_ms, session)


def _infos(feeds: Mapping[str, np.ndarray]) -> InputShapeInfo:
    """Types and shapes of arrays."""
    infos = InputShapeInfo()
    for name, array in feeds.items():
        infos.add(name, TensorInfo(array.dtype.names[0] if array.dtype.names else array.dtype.name, array.shape))
    return infos


def _session(
    model: Path,
    facts: Mapping[str, Any],
    outputs: list[str],
    feeds: Mapping[str, np.ndarray],
    options: SessionOptions,
    name: str,
    device: DeviceInfo | None,
) -> InferenceSession:
    """A session ready to run for the shapes of ``feeds``."""
    whole = {entry["name"] for entry in facts["inputs"] if not entry.get("sequence") and not entry.get("optional")}
    whole |= {entry["name"] for entry in facts["inputsWithValues"]}
    infos = _infos({name: array for name, array in feeds.items() if name not in whole})
    options.engineOptions["max_shape_programs"] = "1"
    if device is None:
        device = DeviceManager().createCpuDevice()
    session = InferenceSession(str(model), DataFlow(1, outputs), device, infos, userOptions=options, name=name)
    session.prepareDevice()
    session.setInputShapes(feeds)
    return session


def _run_on_host(
    model: Path, facts: Mapping[str, Any], feeds: Mapping[str, np.ndarray], options: SessionOptions, start: float
) -> Running:
    """Run a model of text, which the host works on."""
    onnx = files.import_onnx()
    from popart.backend import BackendRep  # needs onnx

    backend = BackendRep(onnx.load(str(model)), options)

    def run() -> dict[str, np.ndarray]:
        shown: dict[str, np.ndarray] = {}
        for entry, value in zip(facts["outputs"], backend.run(named_feeds(facts, feeds)), strict=True):
            for name, part in named_parts(entry["name"], value).items():
                shown[name] = part.astype(str) if part.dtype.kind == "O" else part
        return shown

    results = run()  # compiles
    return Running(results, run, (time.perf_counter() - start) * 1e3)


def named_parts(name: str, value: Any) -> dict[str, np.ndarray]:
    """The arrays of a value by name: itself, or those of a sequence as "name/0", ….

    Returns:
        The arrays.
    """
    if isinstance(value, list):
        return {f"{name}/{i}": np.asarray(part) for i, part in enumerate(value)}
    return {name: np.asarray(value)}


def named_feeds(facts: Mapping[str, Any], feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The arrays of sequences as lists."""
    sequences: dict[str, list[np.ndarray]] = {e["name"]: [] for e in facts["inputs"] if e.get("sequence")}
    named: dict[str, Any] = dict(sequences)
    for name, array in feeds.items():
        if name.rpartition("/")[0] not in sequences:
            named[name] = array
    for name, arrays in sequences.items():
        while f"{name}/{len(arrays)}" in feeds:
            arrays.append(feeds[f"{name}/{len(arrays)}"])
    return named
