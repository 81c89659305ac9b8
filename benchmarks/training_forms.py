"""Forms of training: different ways to run the same updates of a network, with their sessions, without PyTorch.

A `Form` says how many batches, micro-batches and replicas a run has, which options differ from their defaults and how
the model is edited; `transforms` lists the forms that are measured. All forms of a network get the samples of its
benchmark: cut if a model has only a share of the batch, repeated if a run takes more of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import exported_programs as programs
import numpy as np
import popart

Arrays = dict[str, np.ndarray]
Edit = Callable[[programs.Program, Arrays], tuple[programs.Program, Arrays]]


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment with these variables, inside the block."""
    former = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in former.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@dataclass(frozen=True)
class Form:
    """One way to train.

    Attributes:
        name: For people; unique among the forms that others are compared with.
        batches: Updates of one run.
        micro_batches: Micro-batches of one update, on each replica.
        replicas: Replicas that take part in each update.
        share: The model's batch is that of the benchmark divided by this.
        threads: Threads of all replicas together; 0: as many as there are cores.
        options: Session options that differ from their defaults, by name.
        engine: Engine options, by name.
        environment: Environment variables while the session is made and loaded.
        optimizer: Further values of the optimizer, by name.
        make_optimizer: The optimizer, from the rule of the benchmark and these values.
        returns: How the loss is returned.
        edits: Edits of the model and its inputs, one after the other.
        slow_host: Data come by callback, and providing those of a batch takes as long as computing it.
        spared_activations: A memory limit is below the plan of the plain form by this share of its activations …
        spared: … and by this share of its total.
    """

    name: str
    batches: int = 1
    micro_batches: int = 1
    replicas: int = 1
    share: int = 1
    threads: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    make_optimizer: Callable[[Mapping[str, Any], Mapping[str, Any]], popart.Optimizer] = programs.optimizer
    returns: popart.AnchorReturnType | None = None
    edits: tuple[Edit, ...] = ()
    slow_host: bool = False
    spared_activations: float = 0
    spared: float = 0

    def limit(self, plain: Mapping[str, int]) -> int:
        """Bytes of the memory limit, from the plan of the plain form; 0: none."""
        if not self.spared and not self.spared_activations:
            return 0
        total = plain["planned_total_bytes"]
        return int(total - self.spared * total - self.spared_activations * plain["planned_activations_bytes"])

    def open(self, program: programs.Program, limit: int = 0) -> popart.TrainingSession:
        """A session, with its weights on the device."""
        engine = dict(self.engine)
        if self.threads:
            engine["num_threads"] = str(self.threads)
        if limit:
            engine["max_memory"] = str(limit)

        def adapt(options: popart.SessionOptions) -> None:
            for name, value in self.options.items():
                setattr(options, name, value)
            options.engineOptions = engine

        counts = {"batches": self.batches, "micro_batches": self.micro_batches, "replicas": self.replicas}
        rule = self.make_optimizer(program.rule or {}, self.optimizer)
        with environment(self.environment):
            session = programs.training_session(program, **counts, adapt=adapt, rule=rule, returns=self.returns)
            session.weightsFromHost()
        return session

    def load(self, folder: Path, network: str) -> tuple[programs.Program, Arrays]:
        """The program of this form and the data of one run, from the folder of exported networks."""
        return self.edited(*programs.load(folder / f"{network}_{self.share}"))

    def edited(self, program: programs.Program, inputs: Arrays) -> tuple[programs.Program, Arrays]:
        """The program and the data of one run; `inputs`: all samples of the benchmark."""
        for edit in self.edits:
            program, inputs = edit(program, inputs)
        parts = self.batches * self.micro_batches * self.replicas
        return program, {name: self._data(value, parts) for name, value in inputs.items()}

    def _data(self, samples: np.ndarray, parts: int) -> np.ndarray:
        if parts == 1:
            return samples
        repeated = np.concatenate([samples] * (parts // self.share))
        return np.ascontiguousarray(repeated.reshape(parts, -1, *samples.shape[1:]))


class SlowHost:
    """Provides inputs and takes losses by callback; sleeps before the first input of a batch."""

    def __init__(self, data: Arrays, losses: np.ndarray, seconds: float) -> None:
        self._data, self._losses, self._seconds = data, losses, seconds
        self._given, self._taken = dict.fromkeys(data, 0), 0

    def stepio(self) -> popart.PyStepIOCallback:
        """The step IO for a session; it keeps this object."""
        return popart.PyStepIOCallback(self._give, lambda _name: None, self._take, lambda _name: None)

    def _give(self, name: str, _is_prefetch: bool) -> np.ndarray:
        number = self._given[name] % len(self._data[name])
        self._given[name] += 1
        if name == next(iter(self._data)):
            time.sleep(self._seconds)
        return self._data[name][number]

    def _take(self, _name: str) -> np.ndarray:
        number = self._taken % len(self._losses)
        self._taken += 1
        return self._losses[number : number + 1]


class Training:
    """A form that is ready to run."""

    def __init__(self, form: Form, program: programs.Program, data: Arrays, limit: int = 0) -> None:
        self.batches = form.batches
        self.session = form.open(program, limit)
        anchors = self.session.initAnchorArrays()
        self._losses = anchors[program.loss]
        self._stepio = popart.PyStepIO(data, anchors)
        if form.slow_host:
            seconds = min(self._timed() for _ in range(4)) / form.batches
            self._stepio = SlowHost(data, self._losses, seconds).stepio()

    def _timed(self) -> float:
        start = time.perf_counter()
        self.call()
        return time.perf_counter() - start

    def call(self) -> None:
        """Run once."""
        self.session.run(self._stepio)

    def losses(self, updates: int) -> np.ndarray:
        """The loss of each of the next updates, float64, a mean over micro-batches and replicas."""
        found: list[float] = []
        while len(found) < updates:
            self.call()
            found += list(self._losses.astype(np.float64).reshape(self.batches, -1).mean(1))
        return np.array(found[:updates])


def planned_bytes(session: popart.TrainingSession) -> dict[str, int]:
    """The session's plan: bytes of activations, and of everything on the device."""
    report = session.getSummaryReport()
    found = {what: re.search(rf"{what}: (\d+) bytes", report) for what in ("activations", "total")}
    return {f"planned_{what}_bytes": int(match[1]) for what, match in found.items() if match}
