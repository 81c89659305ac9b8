"""Data parallel training beside the same global batch on one replica with all threads; both are ours.

``replicas2_gpt`` and the like: the network of ``gpt_train_b8`` on two replicas, each with half of the batch and half of
the threads. ``one_replica`` stands in the place of peers. Networks whose result depends on how a batch is split (batch
norm) are left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import exported_programs as programs
import implementations
import networks
import numpy as np
import popart


class DataParallel(implementations.Runner):
    """One optimizer step of the network ``name`` on the batch of its benchmark."""

    def __init__(self, implementation: str, name: str, replicas: int) -> None:
        benchmark = networks.BENCHMARKS[name]
        self.replicas = replicas if implementation == "ours" else 1
        rows = len(benchmark.inputs()) // self.replicas
        self._program, self._inputs = implementations.training_program(
            replace(benchmark, inputs=lambda: benchmark.inputs()[:rows])
        )
        if self.replicas > 1:
            _, inputs, labels = networks.instantiate(benchmark)
            shares = {"input": inputs.numpy(), "labels": labels.numpy().astype(np.int32).reshape(-1)}
            self._inputs = {key: value.reshape(self.replicas, -1, *value.shape[1:]) for key, value in shares.items()}

    def open(self) -> None:
        """Construct the session."""
        self.session = programs.training_session(self._program, replicas=self.replicas)
        self.session.weightsFromHost()
        anchors = self.session.initAnchorArrays()
        self.losses = anchors[self._program.loss]
        self._stepio = popart.PyStepIO(self._inputs, anchors)

    def call(self) -> np.ndarray:
        """Run one step; returns the mean of the replicas' losses."""
        self.session.run(self._stepio)
        return self.losses.mean()


NETWORKS = {"mlp": "mlp_train_b80", "bert_tiny": "bert_tiny_train_b8", "gpt": "gpt_train_b8"}
RUNNERS = {
    f"replicas{count}_{short}": partial(DataParallel, name=name, replicas=count)
    for count in (2, 4)
    for short, name in NETWORKS.items()
}
