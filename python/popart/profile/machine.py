"""Measured limits of the machine: the fastest matrix product and the fastest pass over large arrays.

Both are programs of this library with as many threads as the profiled one, in FLOAT. So a step can nearly reach
them; a step in 16 bits, or with operands in a cache, can exceed them.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
from popart_core import DataFlow, DeviceManager, PyStepIO, SessionOptions

PRODUCT = 1024  # rows, columns and inner dimension of the product
LONG = 1 << 24  # elements of the array: 64 MiB, more than most caches hold
SECONDS, RUNS = 0.2, 8  # at least, per measurement: the first runs touch memory for the first time


@cache
def limits(threads: int) -> dict[str, Any]:
    """Measure the machine, once for each number of threads.

    Args:
        threads: Number of threads that compute.

    Returns:
        "flopsPerSecond" and "bytesPerSecond" with "processor", "threads" and "measured", which says how.
    """
    from popart.tools.info import processor_name

    ones = np.ones((PRODUCT, PRODUCT), np.float32)
    product = _shortest("matmul", {"a": ones, "b": ones}, threads)
    passed = _shortest("neg", {"x": np.ones(LONG, np.float32)}, threads)
    return {
        "processor": processor_name(),
        "threads": threads,
        "flopsPerSecond": 2.0 * PRODUCT**3 / product,
        "bytesPerSecond": 2.0 * 4 * LONG / passed,
        "measured": f"product of {PRODUCT} x {PRODUCT} matrices, and negation of {4 * LONG >> 20} MiB, in FLOAT",
    }


def _shortest(operator: str, arrays: dict[str, np.ndarray], threads: int) -> float:
    """Seconds of the fastest run of a program of one operator."""
    from popart.builder import Builder
    from popart.session import InferenceSession

    builder = Builder()
    names = [builder.addInputTensor("FLOAT", list(array.shape), name) for name, array in arrays.items()]
    result = getattr(builder.aiOnnx, operator)(names)
    options = SessionOptions()
    options.engineOptions = {"num_threads": str(threads), "profile": "none"}
    device = DeviceManager().createCpuDevice()
    session = InferenceSession(
        builder.getModelProto(), DataFlow(1, [result]), device, userOptions=options, name="machine"
    )
    session.prepareDevice()
    step = PyStepIO(dict(zip(names, arrays.values(), strict=True)), session.initAnchorArrays())
    times: list[float] = []
    while sum(times) < SECONDS or len(times) < RUNS:
        start = time.perf_counter()
        session.run(step)
        times.append(time.perf_counter() - start)
    return min(times)


def with_machine(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a report with the limits of the machine: programs run on its processors for every device."""
    return {**facts, "machine": limits(facts["threads"])}
