"""Prepares a model of the popart API and runs it once, in tests."""

import json
from typing import Any

import numpy as np
import popart
import popart_core


def prepare(model: bytes, names: list[str], **session: Any) -> popart.InferenceSession:
    """A session on the CPU with the anchors `names`; `session` goes to InferenceSession."""
    device = popart.DeviceManager().createCpuDevice()
    prepared = popart.InferenceSession(model, popart.DataFlow(1, names), device, **session)
    prepared.prepareDevice()
    return prepared


def run_once(session: popart.InferenceSession, feeds: dict[str, np.ndarray], names: list[str]) -> list[np.ndarray]:
    """The anchors `names` of one run."""
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    return [anchors[name] for name in names]


def infer(model: bytes, feeds: dict[str, np.ndarray], names: list[str], **session: Any) -> list[np.ndarray]:
    """The anchors `names` of one run of `model` on the CPU; `session` goes to InferenceSession."""
    return run_once(prepare(model, names, **session), feeds, names)


def on_reference(session: popart.InferenceSession | popart.TrainingSession) -> dict[str, str]:
    """Operators of a prepared session that the CPU backend leaves to the reference backend: operator → reason."""
    report = json.loads(popart_core._Session._report(session))
    return {row["op"]: row["reason"] for row in report["fallbacks"]}
