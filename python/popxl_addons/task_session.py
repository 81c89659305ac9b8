"""TaskSession: a session with named streams, whose state can be saved and restored."""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import popdist
import popxl
from popart._files import replacing
from popxl.session import h2dStreamBufferMaps

from popxl_addons.named_tensors import NamedTensorData, NamedTensors
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.utils import timer

__all__ = ["TaskSession", "write_variables_pb"]

_WANDB = "wandb://"
_REPORTS = ("none", "warn", "error")


def write_variables_pb(session: popxl.Session, weights: Mapping[popxl.Tensor, np.ndarray]) -> None:
    """Set the values of variables, with one copy to the device if the session is attached.

    Args:
        session: the session.
        weights: values by variable, of its element type and host shape; they are not converted.

    Raises:
        TypeError: a key is not a variable, or an element type differs.
        ValueError: a shape differs.
    """
    session.write_variables_data(dict(weights))


def initialise_memmap_dir_from_checkpoint(checkpoint_dir: str | Path, memmap_dir: str | Path) -> None:
    """Copy the memory-mapped variables of a checkpoint to the folder that `NamedVariableFactories.init` reads.

    Args:
        checkpoint_dir: folder that `TaskSession.save_checkpoint` wrote.
        memmap_dir: folder of the files, created if it does not exist.
    """
    Path(memmap_dir).mkdir(parents=True, exist_ok=True)
    for file in sorted((Path(checkpoint_dir) / "model").glob("*.npy")):
        shutil.copyfile(file, Path(memmap_dir) / file.name)


class TaskSession(popxl.Session):
    """A session for one task, such as training or validation.

    Args:
        inputs: streams to the device.
        outputs: streams from the device.
        state: variables to store in checkpoints.
        max_checkpoints: number of checkpoints of this session to keep.
        *args: as in `popxl.Session`.
        **kwargs: as in `popxl.Session`.

    Attributes:
        session_state: facts to store in checkpoints, initially ``{"steps": 0}``.
    """

    def __init__(
        self,
        inputs: Iterable[popxl.HostToDeviceStream],
        outputs: Iterable[popxl.DeviceToHostStream],
        state: NamedTensors,
        max_checkpoints: int = 1,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        with timer("PopXL compilation"):
            super().__init__(*args, **kwargs)
        self.inputs = inputs if isinstance(inputs, InputStreams) else InputStreams.from_streams(inputs)
        self.outputs = outputs if isinstance(outputs, OutputStreams) else OutputStreams.from_streams(outputs)
        self.state = state
        self.max_checkpoints = max_checkpoints
        self.session_state: dict[str, Any] = {"steps": 0}
        self._dataloader: Any = None
        self._saved: list[Path] = []

    def run(
        self, inputs: h2dStreamBufferMaps | None = None, downcast_inputs: bool = True
    ) -> dict[popxl.DeviceToHostStream, np.ndarray]:
        """Increment the steps in `session_state`, and execute the main graph once; see `popxl.Session.run`.

        Args:
            inputs: array for each expected stream.
            downcast_inputs: narrow 64-bit data to 32 bits.

        Returns:
            Array for each device-to-host stream.
        """
        self.session_state["steps"] += 1
        return super().run(inputs, downcast_inputs)

    # ---- state
    @property
    def dataloader(self) -> Any:
        """Data source to store in checkpoints, by its ``save(path)`` and ``resume(filename=path)``; None if unset.

        Raises:
            ValueError: on setting, the object does not have these methods.
        """
        if self._dataloader is None:
            logging.warning("TaskSession: the dataloader is not set; checkpoints do not hold it.")
        return self._dataloader

    @dataloader.setter
    def dataloader(self, value: Any) -> None:
        if missing := [name for name in ("save", "resume") if not hasattr(value, name)]:
            raise ValueError(
                f"TaskSession.dataloader: {type(value).__name__} has no {' and no '.join(missing)}: expected an object "
                "with the methods save and resume."
            )
        self._dataloader = value

    def add_session_state_info(self, info: dict[str, Any]) -> None:
        """Add facts to `session_state`.

        Args:
            info: facts by name; checkpoints store them as JSON.
        """
        self.session_state.update(info)

    def get_named_tensors_data(self) -> NamedTensorData:
        """Return the values of the state under the same names."""
        data = self.get_tensors_data(self.state.to_dict().values())
        return NamedTensorData.from_dict({name: data[t] for name, t in self.state.to_dict().items()})

    def load_from_session(self, src: "TaskSession", report_missing: str = "none") -> None:
        """Copy the values of another session's state, for the names that both have.

        Args:
            src: the other session.
            report_missing: as in `load_checkpoint`.

        Raises:
            ValueError: as `load_checkpoint`.
        """
        data, own = src.get_named_tensors_data().to_dict(), self.state.to_dict()
        self._report(report_missing, own, data)
        self.write_variables_data({t: data[name] for name, t in own.items() if name in data})

    @staticmethod
    def _report(report_missing: str, own: Iterable[str], given: Iterable[str]) -> None:
        if report_missing not in _REPORTS:
            raise ValueError(f"report_missing: got {report_missing!r}, expected one of {_REPORTS}.")
        absent, unknown = sorted(set(own) - set(given)), sorted(set(given) - set(own))
        if report_missing == "none" or not (absent or unknown):
            return
        text = f"TaskSession: names of the state that are not given: {absent}; given names not in the state: {unknown}."
        if report_missing == "error":
            raise ValueError(text)
        logging.warning(text)

    # ---- checkpoints
    def save_checkpoint(self, checkpoint_dir: str | Path) -> None:
        """Write the state: ``model/<name>.npz`` for each variable, ``dataloader.bin``, ``session_info.json``.

        Variables in memory-mapped files are copied as files (``.npy``, without header). Each file is written completely
        or not at all. If there are then more than `max_checkpoints`, the oldest checkpoint of this session is removed.

        Args:
            checkpoint_dir: the folder; ``wandb://<name>`` logs an artifact of type "checkpoints" instead.

        Raises:
            ImportError: an artifact is requested, and wandb is not installed.
        """
        data = self.get_named_tensors_data()
        if popdist.getInstanceIndex() != 0:
            return
        if str(checkpoint_dir).startswith(_WANDB):
            import wandb

            with tempfile.TemporaryDirectory() as folder:
                self._write(Path(folder), data)
                artifact = wandb.Artifact(str(checkpoint_dir)[len(_WANDB) :], type="checkpoints")
                artifact.add_dir(folder)
                wandb.log_artifact(artifact)
            return
        path = Path(os.path.relpath(Path(checkpoint_dir).expanduser()))
        self._write(path, data)
        self._saved = [*(p for p in self._saved if p != path), path]
        while len(self._saved) > max(1, self.max_checkpoints):
            oldest = self._saved.pop(0)
            if oldest not in path.parents:
                shutil.rmtree(oldest, ignore_errors=True)

    def _write(self, path: Path, data: NamedTensorData) -> None:
        model, facts = path / "model", json.dumps(self.session_state)
        model.mkdir(parents=True, exist_ok=True)
        for name, value in data.to_dict().items():
            if isinstance(value, np.memmap) and value.filename is not None:
                value.flush()
                with open(value.filename, "rb") as values, replacing(model / Path(value.filename).name) as file:
                    shutil.copyfileobj(values, file)
            else:
                with replacing(model / f"{name}.npz") as file:
                    np.savez(file, **{name: value})
        if self._dataloader is not None:
            self._dataloader.save(str(path / "dataloader.bin"))
        with replacing(path / "session_info.json") as file:
            file.write(facts.encode())

    def load_checkpoint(
        self, checkpoint_dir: str | Path, report_missing: str = "warn", skip_memmap: bool = False
    ) -> None:
        """Restore the state of a checkpoint, including the data loader if one is set.

        Variables in memory-mapped files are not read: see `initialise_memmap_dir_from_checkpoint`.

        Args:
            checkpoint_dir: the folder; ``wandb://<name>`` downloads an artifact.
            report_missing: what to do if names differ: ``"none"``, ``"warn"`` (log) or ``"error"``.
            skip_memmap: has no effect.

        Raises:
            ValueError: names differ and `report_missing` is "error"; unknown `report_missing`; a file cannot be read,
                or a value has another shape. The session then stays as it was.
            TypeError: a value has another element type.
            ImportError: an artifact is requested, and wandb is not installed.
        """
        with _downloaded(checkpoint_dir) as path:
            own = self.state.to_dict()
            files = {file.stem: file for file in sorted((path / "model").glob("*.npz"))}
            mapped = {t.name for t in (path / "model").glob("*.npy")}
            found = [name for name, t in own.items() if name in files or f"{t.name}.npy" in mapped]
            self._report(report_missing, own, [*files, *found])
            facts = _facts_of(path / "session_info.json")
            values = {t: _value_of(files[name], name) for name, t in own.items() if name in files}
            try:
                self.write_variables_data(values)
            except (TypeError, ValueError) as e:
                raise type(e)(f"load_checkpoint: {path}: {e}") from e
            if self._dataloader is not None:
                self._dataloader.resume(filename=str(path / "dataloader.bin"))
                if hasattr(self._dataloader, "get_state"):
                    logging.info("TaskSession: the dataloader continues from %s.", self._dataloader.get_state())
            self.session_state = facts

    # ---- W&B
    def wandb_histogram(self, name: str, step: int, data: np.ndarray) -> None:
        """Log a histogram of the finite values of an array, and the number of others.

        Args:
            name: logged as ``<name>:histogram`` and ``<name>:not_finite``.
            step: step of the log.
            data: the array.

        Raises:
            ImportError: wandb is not installed.
        """
        import wandb

        finite = np.isfinite(data)
        histogram = wandb.Histogram(data[finite])
        wandb.log({f"{name}:histogram": histogram, f"{name}:not_finite": int(np.sum(~finite))}, step=step)

    def wandb_variable_histograms(self, step: int = 0) -> None:
        """Log `wandb_histogram` for each variable of the state.

        Args:
            step: step of the log.
        """
        for name, value in self.get_named_tensors_data().to_dict().items():
            self.wandb_histogram(name, step, value)


def _value_of(file: Path, name: str) -> np.ndarray:
    try:
        with np.load(file) as arrays:
            return arrays[name]
    except Exception as e:  # a damaged archive fails in many ways
        raise ValueError(f"load_checkpoint: {file}: expected an archive with the array {name!r}: {e}") from e


def _facts_of(file: Path) -> dict[str, Any]:
    """Return the facts of a session; if there is no file, or it has no number of steps, the initial facts."""
    try:
        facts = json.loads(file.read_text()) if file.exists() else {}
    except ValueError as e:
        raise ValueError(f"load_checkpoint: {file}: expected JSON: {e}") from e
    if not isinstance(facts, dict) or not isinstance(facts.get("steps", 0), int):
        raise ValueError(
            f"load_checkpoint: {file}: expected an object with a whole number of steps: got {facts!r:.80}."
        )
    return {"steps": 0, **facts}


@contextmanager
def _downloaded(checkpoint_dir: str | Path) -> Iterator[Path]:
    if not str(checkpoint_dir).startswith(_WANDB):
        yield Path(checkpoint_dir)
        return
    import wandb

    with tempfile.TemporaryDirectory() as folder:
        api = wandb.Api() if wandb.run is None else None
        artifact = str(checkpoint_dir)[len(_WANDB) :]
        source = wandb.run.use_artifact(artifact) if api is None else api.artifact(artifact)
        yield Path(source.download(folder))
