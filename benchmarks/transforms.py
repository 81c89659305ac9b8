"""Training steps with a transform beside the same steps without it; both are ours, so these names need no peer.

``recompute_gpt``, ``recompute_resnet18``, ``recompute_bert_tiny``: the networks of ``gpt_train_b8`` and so on with
``autoRecomputation`` Standard. ``plain`` keeps all activations. Both report the planned bytes of activations.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import exported_programs as programs
import implementations
import networks
import numpy as np
import popart


class Recomputation(implementations.Runner):
    """One optimizer step of the network ``name``."""

    def __init__(self, implementation: str, name: str) -> None:
        self.recomputes = implementation == "ours"
        self._program, self._inputs = implementations.training_program(networks.BENCHMARKS[name])

    def open(self) -> None:
        """Construct the session."""
        rule = popart.RecomputationType.Standard if self.recomputes else popart.RecomputationType.NoRecompute
        self.session = programs.training_session(self._program, recomputation=rule)
        self.session.weightsFromHost()
        anchors = self.session.initAnchorArrays()
        self.loss = anchors[self._program.loss]
        self._stepio = popart.PyStepIO(self._inputs, anchors)

    def call(self) -> np.ndarray:
        """Run one step; returns its loss."""
        self.session.run(self._stepio)
        return self.loss

    def facts(self) -> dict[str, Any]:
        """Planned bytes of activations."""
        found = re.search(r"activations: (\d+) bytes", self.session.getSummaryReport())
        return {"activation_bytes": int(found[1])} if found else {}


NETWORKS = {"gpt": "gpt_train_b8", "resnet18": "resnet18_train_b8", "bert_tiny": "bert_tiny_train_b8"}
RUNNERS = {f"recompute_{short}": partial(Recomputation, name=name) for short, name in NETWORKS.items()}
