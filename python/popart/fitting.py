"""fit: feeds a training session from anything that iterates, with progress, and checkpoints that resume to the bit.

Example::

    from popart.fitting import fit

    fit(session, loader, inputs=["images", "labels"], epochs=3, checkpoint="run.npz", every=100)
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from popart_core import PyStepIO, PyWeightsIO, popart_runtime_error
from tqdm import tqdm

from popart._arrays import as_array
from popart._files import replacing
from popart._names import nearest_names
from popart.session import TrainingSession, _numpy_dtype
from popart.weights import values_of

Data = Iterable[Any] | Callable[[int], Iterable[Any]]


class _Feed:
    """Cuts what the data gives into the arrays of steps: as many micro-batches as one run reads."""

    def __init__(self, session: TrainingSession, inputs: Sequence[str] | Mapping[Any, str] | None) -> None:
        self._session, self._inputs = session, inputs
        self._per_step = session.dataFlow.batchesPerStep() * session.accumulationFactor * session.replicationFactor

    def steps(self, items: Iterable[Any]) -> Iterator[dict[str, np.ndarray]]:
        """Arrays of each whole step; micro-batches that do not fill one are left out."""
        batches = (self._named(item) for item in items)
        while len(chosen := list(itertools.islice(batches, self._per_step))) == self._per_step:
            yield {name: np.stack([batch[name] for batch in chosen]) for name in chosen[0]}

    def _named(self, item: Any) -> dict[str, np.ndarray]:
        if isinstance(item, Mapping):
            names = self._inputs if isinstance(self._inputs, Mapping) else {n: n for n in self._inputs or item}
            if absent := [key for key in names if key not in item]:
                raise popart_runtime_error(f"fit: the data has no '{absent[0]}'{nearest_names(str(absent[0]), item)}")
            return {name: self._array(name, item[key]) for key, name in names.items()}
        values = item if isinstance(item, (tuple, list)) else (item,)
        names = list(self._inputs.values() if isinstance(self._inputs, Mapping) else self._inputs or ())
        if len(names) != len(values):
            raise popart_runtime_error(
                f"fit: the data gives {len(values)} values: got {len(names)} names in inputs. Name one tensor for each"
            )
        return {name: self._array(name, value) for name, value in zip(names, values, strict=True)}

    def _array(self, name: str, value: Any) -> np.ndarray:
        info, array = self._session.getInfo(name), as_array(value)  # throws with the nearest names
        if list(array.shape) != info.shape():
            raise popart_runtime_error(
                f"fit: '{name}': got a micro-batch of shape {list(array.shape)}, expected {info.shape()}. A loader "
                "drops a last one that is smaller with drop_last=True"
            )
        return array.astype(_numpy_dtype(info.data_type_lcase()), copy=False)


class _Checkpoint:
    """A file with weights, optimizer state, random numbers' state and how far training was."""

    def __init__(self, session: TrainingSession, path: str | Path | None) -> None:
        self._session, self._path = session, None if path is None else Path(path)

    def save(self, epoch: int, step: int) -> None:
        """Replace the file, in one move."""
        if self._path is None:
            return
        values = {f"tensor:{name}": _bytes_of(value) for name, value in values_of(self._session).items()}
        seed = self._session.getRandomSeed() if self._draws() else 0
        state = self._session.getRNGState() if self._rounds() else []
        with replacing(self._path) as file:
            np.savez(file, at=np.array([epoch, step, seed, *state], np.uint64), **values)

    def load(self) -> tuple[int, int]:
        """Bring the session where the file is; the epoch and step to go on with."""
        if self._path is None or not self._path.exists():
            return 0, 0
        with np.load(self._path) as file:
            epoch, step, seed, *state = (int(value) for value in file["at"])
            values = {}
            for name in self._session._variableIds():
                if f"tensor:{name}" not in file:
                    raise popart_runtime_error(f"fit: checkpoint '{self._path}' has no tensor '{name}'")
                info = self._session.getInfo(name)
                made = file[f"tensor:{name}"].view(_numpy_dtype(info.data_type_lcase()))
                values[name] = made.reshape(info.shape())
        if self._draws():
            self._session.setRandomSeed(seed)
        if self._rounds():
            self._session.setRNGState(state)
        self._session.writeWeights(PyWeightsIO(values))
        self._session.weightsFromHost()
        return epoch, step

    def _draws(self) -> bool:
        return "randomSeed___fromHost" in self._session.getTensorIds()

    def _rounds(self) -> bool:
        return self._session._options.enableLoadAndOffloadRNGState


def _bytes_of(value: np.ndarray) -> np.ndarray:
    return np.frombuffer(value.tobytes(), np.uint8)


def fit(
    session: TrainingSession,
    data: Data,
    *,
    inputs: Sequence[str] | Mapping[Any, str] | None = None,
    epochs: int = 1,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    every: int = 0,
    on_step: Callable[[int, int, dict[str, np.ndarray]], Any] | None = None,
) -> int:
    """Train a prepared session.

    An existing checkpoint is gone on with: the steps that it has seen are read from the data and left out. The result
    has the bits of uninterrupted training if the data gives the same in each epoch; data that is shuffled by epoch is a
    function of the epoch, or has ``set_epoch``, which is called.

    Args:
        session: Prepared, with its weights on the device.
        data: Iterable of micro-batches, such as a DataLoader or a data set in batches: dictionaries, tuples or single
            arrays of the shapes of the inputs. Or a function of the epoch that gives one.
        inputs: Tensor ids in the order of tuples, the keys to use of dictionaries, or tensor ids by key. Keys of
            dictionaries are tensor ids when absent.
        epochs: How often the data is walked through.
        progress: Whether to show a line with the mean of the first anchor.
        checkpoint: File to write at the end of each epoch and to begin with when it is there.
        every: Also after each of so many steps; 0: not.
        on_step: Called with epoch, step and anchors after each step. The arrays are used again.

    Returns:
        How many steps this call ran.

    Raises:
        popart_runtime_error: The data does not have the names or shapes of the inputs; a checkpoint of another model.
        popart_exception: An input that the model does not have.
    """
    feed, kept, anchors, ran = _Feed(session, inputs), _Checkpoint(session, checkpoint), session.initAnchorArrays(), 0
    first_epoch, first_step = kept.load()
    for epoch in range(first_epoch, epochs):
        if hasattr(data, "set_epoch"):
            data.set_epoch(epoch)
        steps = enumerate(feed.steps(data(epoch) if callable(data) else data))
        if epoch == first_epoch:
            steps = itertools.islice(steps, first_step, None)
        with tqdm(steps, desc=f"epoch {epoch + 1}/{epochs}", unit="step", disable=not progress) as shown:
            for step, arrays in shown:
                session.run(PyStepIO(arrays, anchors))
                ran += 1
                for name, value in itertools.islice(anchors.items(), 1):
                    shown.set_postfix_str(f"{name} {np.mean(value, dtype=np.float64):.4f}", refresh=False)
                if on_step is not None:
                    on_step(epoch, step, anchors)
                if every and (step + 1) % every == 0:
                    kept.save(epoch, step + 1)
        kept.save(epoch + 1, 0)
    return ran
