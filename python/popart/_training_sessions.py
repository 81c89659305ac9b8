"""The sessions of a trainer: one for each division of a batch into micro-batches and replicas.

Weights, optimizer state and random numbers are in the session in use; they are copied when another one is used.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from popart_core import PyWeightsIO, popart_runtime_error

from popart._files import replacing
from popart.session import TrainingSession
from popart.weights import values_of

_RANDOM = "randomSeed___fromHost"  # the variable that sessions with random operators have


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "Trainer: the package 'safetensors' is needed for files of state: pip install safetensors"
        ) from None
    return safetensors


class TrainingSessions:
    """Makes sessions when batches need them, and copies the state from one to the next."""

    def __init__(self, make: Callable[[int, int], TrainingSession], seed: int | None) -> None:
        """Start without a session.

        Args:
            make: Makes a session, prepared and with the file's weights, for a number of micro-batches per update and of
                replicas.
            seed: Seed of random numbers; None: a different one for each trainer.
        """
        self._make, self._seed = make, seed
        self._sessions: dict[tuple[int, int], TrainingSession] = {}
        self.shapes: dict[str, Any] = {}  # of `current`
        self.current: TrainingSession | None = None
        self.version = 0  # grows when weights change

    def use(self, shapes: Mapping[str, Any], accumulation: int, replicas: int) -> TrainingSession:
        """Use the session for these shapes of a micro-batch.

        Returns:
            The session, with the state of the previous one.

        Raises:
            popart_exception: The model does not take these shapes.
        """
        key = accumulation, replicas
        session = self._sessions.get(key)
        if session is None:
            session = self._make(accumulation, replicas)
            self._sessions[key] = session
        if session is self.current and shapes == self.shapes:
            return session
        session.setInputShapes(shapes)
        self.shapes = dict(shapes)
        if session is not self.current:
            if self.current is not None:
                self._give(session, *self._state(self.current))
            elif self._seed is not None and _draws(session):
                session.setRandomSeed(self._seed)
            self.current = session
        return session

    def session(self) -> TrainingSession:
        """The session in use.

        Returns:
            The session.

        Raises:
            popart_runtime_error: There is none yet.
        """
        if self.current is None:
            raise popart_runtime_error("Trainer: no batch was seen yet. Call prepare(batch), step or fit first")
        return self.current

    def _state(self, session: TrainingSession) -> tuple[dict[str, np.ndarray], list[int]]:
        rounds = session._options.enableLoadAndOffloadRNGState
        numbers = [session.getRandomSeed() if _draws(session) else 0, *(session.getRNGState() if rounds else ())]
        return values_of(session), numbers

    def _give(self, session: TrainingSession, values: Mapping[str, np.ndarray], numbers: list[int]) -> None:
        seed, *state = numbers
        if _draws(session):
            session.setRandomSeed(seed)
        if state and session._options.enableLoadAndOffloadRNGState:
            session.setRNGState(state)
        known = set(session._variableIds())
        session.writeWeights(PyWeightsIO({name: value for name, value in values.items() if name in known}))
        session.weightsFromHost()
        self.version += 1

    def copy_to(self, session: TrainingSession, shapes: Mapping[str, Any]) -> None:
        """Copy weights, optimizer state and random numbers to a session that is not one of these.

        Args:
            session: The session.
            shapes: Shapes of its inputs.
        """
        session.setInputShapes(shapes)
        self._give(session, *self._state(self.session()))

    def values(self) -> dict[str, np.ndarray]:
        """All variables of the session in use: weights and optimizer state."""
        return values_of(self.session())

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Change some of the variables.

        Raises:
            popart_runtime_error: Unknown names, other types or shapes.
        """
        session = self.session()
        session.weightsToHost()
        whole = {**values_of(session), **values}
        session.writeWeights(PyWeightsIO(whole))
        session.weightsFromHost()
        self.version += 1

    def save(self, path: str | Path, facts: Mapping[str, Any]) -> None:
        """Write the state to a safetensors file, completely or not at all.

        Args:
            path: The file.
            facts: Further facts to store, as JSON values.
        """
        values, numbers = self._state(self.session())
        whole = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in values.items()}
        text = json.dumps({**facts, "random": numbers})
        data = _safetensors().numpy.save(whole, {"popart.trainer": text})
        with replacing(path) as file:
            file.write(data)

    def load(self, path: str | Path) -> dict[str, Any]:
        """Restore the state of a file into the session in use.

        Returns:
            The facts that were stored.

        Raises:
            popart_runtime_error: The file is of another model or optimizer, or other weights trained.
        """
        session = self.session()
        facts = facts_of(path)
        values = _safetensors().numpy.load_file(str(path))
        if missing := sorted(name for name in session._variableIds() if name not in values and not _is_sum(name)):
            raise popart_runtime_error(
                f"Trainer: the state in '{path}' has no tensor '{missing[0]}': it is another model's"
            )
        if extra := sorted(name for name in set(values) - set(session._variableIds()) if not _is_sum(name)):
            raise popart_runtime_error(
                f"Trainer: the state in '{path}' has a tensor '{extra[0]}' that this trainer does not have: it is of "
                "another optimizer, or other weights trained. Make the trainer with the same arguments, or set "
                "trainer.weights"
            )
        self._give(session, values, [int(number) for number in facts["random"]])
        return facts


def facts_of(path: str | Path) -> dict[str, Any]:
    """Read the facts that `TrainingSessions.save` stored with the tensors.

    Returns:
        The facts.

    Raises:
        popart_runtime_error: The file was not written by `save`.
    """
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            text = (file.metadata() or {}).get("popart.trainer")
    except safetensors.SafetensorError:  # another kind of file
        text = None
    if text is None:
        raise popart_runtime_error(f"Trainer: '{path}' holds no state of a trainer. Give a file of save_state or fit")
    return json.loads(text)


def _is_sum(name: str) -> bool:
    """Whether a variable is a sum over micro-batches: it is 0 between updates, and some sessions do not have it."""
    return name.startswith("Accum___") or name.endswith("_nesterovGrad")


def _draws(session: TrainingSession) -> bool:
    return _RANDOM in session.getTensorIds()
