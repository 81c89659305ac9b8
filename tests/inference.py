"""Runs a model of the popart API once, in tests."""

from typing import Any

import numpy as np
import popart


def infer(model: bytes, feeds: dict[str, np.ndarray], names: list[str], **session: Any) -> list[np.ndarray]:
    """The anchors `names` of one run of `model` on the CPU; `session` goes to InferenceSession."""
    device = popart.DeviceManager().createCpuDevice()
    runner = popart.InferenceSession(model, popart.DataFlow(1, names), device, **session)
    runner.prepareDevice()
    anchors = runner.initAnchorArrays()
    runner.run(popart.PyStepIO(feeds, anchors))
    return [anchors[name] for name in names]
