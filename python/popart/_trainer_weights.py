"""Weights of a trainer by name."""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np
import popart_core
from popart_core import PyWeightsIO, popart_runtime_error

from popart._names import nearest_names
from popart.session import _numpy_dtype

if TYPE_CHECKING:
    from popart.trainer import Trainer


class Weights(MutableMapping[str, np.ndarray]):
    """Weights of a trainer by name: all floating-point initializers of the file, like ``state_dict()`` of PyTorch.

    Reading returns a copy of the current value; setting an item changes the weight. Frozen weights are constants of the
    program: they can be read; setting one raises an error.
    """

    def __init__(self, trainer: "Trainer") -> None:
        self._trainer = trainer

    def _infos(self) -> dict[str, popart_core.TrainableTensor]:
        """The session's facts about each weight, in the order of the file."""
        infos = {entry.name: entry for entry in self._trainer.session.trainableTensors()}
        # A statistic that the file has as an output of Identity is a tensor of its own in training.
        order = dict.fromkeys([*self._trainer._model.weights, *infos])
        return {name: infos[name] for name in order if name in infos}

    def __getitem__(self, name: str) -> np.ndarray:
        infos = self._infos()
        if name not in infos:
            raise KeyError(f"Trainer: the model has no weight '{name}'{nearest_names(name, infos)}")
        value = np.empty(infos[name].shape, _numpy_dtype(infos[name].type))
        self._trainer.session.readWeights(PyWeightsIO({name: value}))
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        old, new = self[name], np.asarray(value)
        if new.shape != old.shape:
            raise popart_runtime_error(
                f"Trainer: weight '{name}': got shape {list(new.shape)}, expected {list(old.shape)}"
            )
        if name not in self._trainer.session._variableIds():
            raise popart_runtime_error(
                f"Trainer: weight '{name}' does not train ({self._infos()[name].reason}): it is a constant of the "
                "program and cannot be set. Let it train, or make the trainer of a model that has the value "
                "(popart.weights.load)"
            )
        self._trainer._sessions.write({name: np.ascontiguousarray(new.astype(old.dtype))})

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"Trainer: weight '{name}' cannot be deleted. Set it")

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos())

    def __len__(self) -> int:
        return len(self._infos())
