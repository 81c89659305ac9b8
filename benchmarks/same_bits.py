"""Whether a program gives the same bits for every number of threads, in every repetition, and as another checkout.

A repetition starts from the first weights and optimizer state, runs a few steps and compares every bit of the losses or
results, the weights and the optimizer state.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import exported_programs as programs
import numpy as np
import popart


def digests_of(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """Digest of each array's bytes."""
    return {name: hashlib.blake2b(np.ascontiguousarray(a), digest_size=16).hexdigest() for name, a in arrays.items()}


def repeat(folder: Path, repetitions: int, steps: int) -> tuple[dict[str, str], dict[str, int]]:
    """Run the program in `folder` (`programs.save`) in this process.

    Args:
        folder: Where the program is.
        repetitions: How often it starts again.
        steps: Runs of a repetition; a training program updates its weights in each.

    Returns:
        The digest of every tensor after the first repetition, and for tensors that later had another result the first
        repetition with such a result.
    """
    program, inputs = programs.load(folder)
    session = programs.open_session(program)
    anchors = session.initAnchorArrays()
    stepio = popart.PyStepIO(inputs, anchors)
    values = {}
    for name in session._variableIds() if program.rule else ():
        info = session.getInfo(name)
        values[name] = np.empty(info.shape(), np.dtype(info.data_type_lcase()))
    weights = popart.PyWeightsIO(values)
    first: dict[str, str] = {}
    different: dict[str, int] = {}
    for repetition in range(repetitions):
        session.weightsFromHost()
        results = {}
        for step in range(steps):
            session.run(stepio)
            results |= {f"{name} of step {step}": value.copy() for name, value in anchors.items()}
        if values:
            session.weightsToHost()
            session.readWeights(weights)
        digests = digests_of(values | results)
        first = first or digests
        for name, digest in digests.items():
            if digest != first[name]:
                different.setdefault(name, repetition)
    return first, different
