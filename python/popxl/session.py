"""popxl.Session: compiles an Ir and runs it.

The Ir stores host values of variables. Entering the session copies them to the device, leaving it copies them back; in
between they are fetched when the program asks for one and it is out of date.
"""

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from popart._arrays import require_apart
from popart._files import replacing
from popart.session import _profile_folder
from popart_core import (
    DeviceInfo,
    DeviceType,
    RunStatistics,
    popart_runtime_error,
)
from popart_core import _ir as _core

from popxl import _session_options, dtypes
from popxl._fragments import order_fragments
from popxl._session_device import SessionDevice
from popxl.ir import Ir
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import Constant, HostScalarTensor, Tensor, Variable
from popxl.utils import to_numpy
from popxl.variables import bytes_view

if TYPE_CHECKING:
    import pva

_DEVICES = {"ipu_hw": DeviceType.Ipu, "ipu_model": DeviceType.IpuModel, "cpu": DeviceType.Cpu}
h2dStreamBufferMaps = Mapping[HostToDeviceStream, HostScalarTensor]
d2hStreamBufferMaps = Mapping[DeviceToHostStream, np.ndarray]


class _Engine:
    """The compiled program and its streams in the order of the core."""

    def __init__(self, ir: Ir, device: DeviceType) -> None:
        options = ir._options
        self.core = _core.IrSession(ir._pb_ir, device, ir.num_host_transfers, ir.instance_replication_factor, options)
        self._keeps_rng_state = options.enableLoadAndOffloadRNGState
        self.loaded = False
        self.inputs: list[HostToDeviceStream] = [ir._streams[s[0]] for s in self.core.inputs()]
        self.outputs: list[DeviceToHostStream] = [ir._streams[s[0]] for s in self.core.outputs()]

    def setRandomSeed(self, seedValue: int) -> None:
        """Set the state of stochastic rounding to that of a 64-bit seed; random operators have their own seeds."""
        self.core.setRngState([seedValue & 0xFFFFFFFF, seedValue >> 32 & 0xFFFFFFFF])

    def getRNGState(self) -> list[int]:
        """Return the state of stochastic rounding, which every run advances.

        Raises:
            popart_runtime_error: The option enableLoadAndOffloadRNGState is off, or the session is not attached.
        """
        self._require_rng_state("getRNGState")
        return self.core.rngState()

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        """Set the state of stochastic rounding to one that `getRNGState` returned.

        Raises:
            popart_runtime_error: As `getRNGState`, or the number of words is wrong.
        """
        self._require_rng_state("setRNGState")
        if len(rngValue) != 2:
            raise popart_runtime_error(f"setRNGState: the state has the wrong length: got {len(rngValue)}, expected 2.")
        self.core.setRngState(list(rngValue))

    def _require_rng_state(self, what: str) -> None:
        if not self._keeps_rng_state:
            raise popart_runtime_error(
                f"{what}: SessionOptions.enableLoadAndOffloadRNGState is off. Turn it on before the session is made."
            )

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Return a report on the memory of the program and on operators without a fast kernel."""
        return self.core.summary()

    def setEngineIsLoaded(self, value: bool) -> None:
        """Mark the weights on the device as valid or not."""
        self.loaded = value


class Session:
    """Compiles and runs an Ir. The Ir must not change afterwards.

    Args:
        ir: the program.
        device_desc: ``"ipu_hw"``, ``"ipu_model"``, ``"cpu"`` or a `popart.DeviceInfo`. The environment variable
            POPXL_OFFLINE_DEVICE replaces it by another of these names.
        weights_to_host_on_exit: download variables when the outermost ``with session`` ends without an exception.

    Raises:
        ValueError: the device is unknown.
        RuntimeError: the program has no ops.
        popart_exception: the program is not valid.
        OutOfMemoryException: the program does not fit POPART_MAX_MEMORY.
    """

    def __init__(self, ir: Ir, device_desc: Any = "cpu", weights_to_host_on_exit: bool = True) -> None:
        device_desc = os.environ.get("POPXL_OFFLINE_DEVICE") or device_desc
        self._require_known_device(device_desc)
        self.ir_ = ir
        self.weights_to_host_on_exit = weights_to_host_on_exit and not ir._read_only_memmap
        if not ir._pb_ir.getMainGraph().getOpIds():
            raise RuntimeError("The program has no ops. Add ops to the main graph before making a Session.")
        if unheeded := _session_options.unheeded_options(ir._pb_ir):
            logging.getLogger("popxl").warning(
                "Session: these session options do nothing here: %s.", ", ".join(unheeded)
            )
        order_fragments(ir._pb_ir.getMainGraph())
        self._was_attached_stack: list[Any] = []
        for check in ("PreAlias", "Final"):  # the program is the same at both
            if _session_options.dot_checks(ir._options) & {"ALL", check.upper()}:
                ir.dot_checkpoint(check)
        device_type = device_desc.type if isinstance(device_desc, DeviceInfo) else _DEVICES[device_desc]
        self._pb_session = _Engine(ir, device_type)
        self._device = SessionDevice(device_desc, self._pb_session.core, ir.instance_replication_factor)
        self._set_stale(False)
        ir._is_prepared = True
        self._resolve_layouts()
        if folder := _profile_folder(ir._options):
            from popart.profile.recording import follow

            follow(self, folder, "popxl", "_execute", lambda session: session._pb_session.core)
        if self.is_attached:
            self.weights_from_host()

    def _resolve_layouts(self) -> None:
        self._input_layout = [(s, self._full_input_shape(s.shape), s.dtype.as_numpy()) for s in self._pb_session.inputs]
        self._output_layout = [
            (s, self._full_input_shape(s.shape), s.dtype.as_numpy()) for s in self._pb_session.outputs
        ]
        self._input_set = set(self._pb_session.inputs)

    def _set_stale(self, stale: bool) -> None:
        """Record whether the host values are older than those on the device."""
        self._host_is_stale = self.ir_._host_is_stale = stale

    # ---- facts
    @property
    def ir(self) -> Ir:
        """The program."""
        return self.ir_

    @property
    def device(self) -> DeviceInfo | None:
        """The device that the session holds, or None. Set it before the session attaches."""
        return self._device.info

    @device.setter
    def device(self, device: str | DeviceInfo) -> None:
        if self.is_attached:
            raise ValueError(
                "Session.device: the session is attached to a device. Assign another one outside of `with`."
            )
        self._require_known_device(device)
        self._device = SessionDevice(device, self._pb_session.core, self.ir_.instance_replication_factor)
        if self.is_attached:
            self.weights_from_host()

    @staticmethod
    def _require_known_device(device: Any) -> None:
        if not isinstance(device, DeviceInfo) and device not in _DEVICES:
            raise ValueError(
                f"Unknown device: got {device!r}, expected {', '.join(map(repr, _DEVICES))} or a DeviceInfo."
            )

    @property
    def is_attached(self) -> bool:
        """Whether the session holds its device."""
        return self._device.is_attached

    def expected_inputs(self) -> set[HostToDeviceStream]:
        """Return the host-to-device streams that `run` needs."""
        return set(self._pb_session.inputs)

    def _full_input_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `shape` after dimensions for transfers and replicas, where their numbers are above 1."""
        lead = (self.ir_.num_host_transfers, self.ir_.instance_replication_factor)
        return (*(n for n in lead if n > 1), *shape)

    def create_host_outputs(self) -> dict[DeviceToHostStream, np.ndarray]:
        """Return an array of zeros for every device-to-host stream; parts that no host_store writes stay zero."""
        return {stream: np.zeros(shape, dtype) for stream, shape, dtype in self._output_layout}

    def save_lowered_model(self, filename: str | os.PathLike[str], values: bool = False) -> None:
        """Write the program that the device runs as an ONNX model to look at, as `saveLoweredModel` of popart does.

        Args:
            filename: the file.
            values: whether it has the values of constants of more than 16 elements.

        Raises:
            popart_exception: the model exceeds 2 GiB.
            OSError: the file cannot be written.
        """
        with replacing(filename) as file:
            file.write(self._pb_session.core._loweredModel(values))

    def _repr_html_(self) -> str:
        """A table of the streams in a notebook."""
        from popart._notebook import rows_html

        streams = [("input", self._input_layout), ("output", self._output_layout)]
        rows = [
            (what, stream.tensor_id, np.dtype(dtype), shape)
            for what, layout in streams
            for stream, shape, dtype in layout
        ]
        state = "attached" if self.is_attached else "not attached"
        return rows_html(f"popxl.Session, {state}", ("stream", "name", "type", "shape"), rows)

    # ---- attaching
    def __enter__(self) -> "Session":
        """Attach to the device and copy the weights to it, unless this is done; leaving the context detaches."""
        attached = self.is_attached
        self._was_attached_stack.append(attached)
        if not attached:
            try:
                self._device.attach()
                self.weights_from_host()
            except BaseException:
                self._device.detach()
                self._was_attached_stack.pop()
                raise
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if self._was_attached_stack.pop():
            return
        try:
            if exc_type is None and self.weights_to_host_on_exit:
                self.weights_to_host()
        finally:
            self._device.detach()
            self._pb_session.loaded = False

    def _require_attached(self, what: str) -> None:
        if not self._device.is_attached:
            raise ValueError(
                f"Session.{what}: the session is not attached to a device. Call it inside `with session:`."
            )

    # ---- running
    def run(
        self, inputs: h2dStreamBufferMaps | None = None, downcast_inputs: bool = True
    ) -> dict[DeviceToHostStream, np.ndarray]:
        """Execute the main graph once.

        Args:
            inputs: array for each expected stream, shape ([transfers,] [replicas,] *stream.shape).
            downcast_inputs: narrow 64-bit data to 32 bits.

        Returns:
            Array for each device-to-host stream.

        Raises:
            ValueError: the session is not attached, streams are missing or unexpected, or shapes are wrong.
        """
        outputs = self.create_host_outputs()
        ins, outs = self._arrays_of_run(inputs, outputs, downcast_inputs)
        self._execute(ins, outs)
        return outputs

    def run_with_outputs(
        self,
        inputs: h2dStreamBufferMaps | None = None,
        outputs: d2hStreamBufferMaps | None = None,
        downcast_inputs: bool = True,
    ) -> None:
        """Execute the main graph once and fill the caller's arrays.

        Args:
            inputs: as in `run`.
            outputs: writable array for every device-to-host stream, of any layout; arrays may share memory with
                inputs, but not with one another.
            downcast_inputs: as in `run`.

        Raises:
            ValueError: as `run`, also for the outputs; two outputs, or two elements of one, share memory.
        """
        outputs = {} if outputs is None else outputs
        ins, outs = self._arrays_of_run(inputs, outputs, downcast_inputs)
        require_apart({str(stream): outputs[stream] for stream, _, _ in self._output_layout}, "Session.run: output")
        ins = [x.copy() if any(np.may_share_memory(x, y) for y in outs) else x for x in ins]
        self._execute(ins, outs)
        for (stream, _, _), filled in zip(self._output_layout, outs, strict=True):
            if not outputs[stream].flags.c_contiguous:
                np.copyto(outputs[stream], filled.view(outputs[stream].dtype).reshape(outputs[stream].shape))

    def _arrays_of_run(
        self, inputs: h2dStreamBufferMaps | None, outputs: d2hStreamBufferMaps, downcast_inputs: bool
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the arrays of a run in the program's order; outputs with another memory layout are copied.

        Raises:
            ValueError: as `run` and `run_with_outputs`.
        """
        self._require_attached("run")
        inputs = {} if inputs is None else inputs
        if len(inputs) != len(self._input_layout) or not all(s in inputs for s in self._pb_session.inputs):
            self._raise_stream_mismatch("inputs", inputs, self._pb_session.inputs)
        if len(outputs) != len(self._output_layout) or not all(s in outputs for s in self._pb_session.outputs):
            self._raise_stream_mismatch("outputs", outputs, self._pb_session.outputs)
        ins = [self._input_array(s, shape, dtype, inputs[s], downcast_inputs) for s, shape, dtype in self._input_layout]
        outs = [self._output_array(s, shape, dtype, outputs[s]) for s, shape, dtype in self._output_layout]
        return ins, outs

    def _execute(self, ins: list[np.ndarray], outs: list[np.ndarray]) -> None:
        self._set_stale(True)  # also if the run fails
        self._pb_session.core.run(ins, outs)

    def profile(
        self,
        step: h2dStreamBufferMaps | Callable[[], Any] | None = None,
        runs: int = 5,
        warm_up: int = 2,
        folder: "str | os.PathLike[str] | None" = None,
    ) -> "pva.Report":
        """Run the program several times and record where the time goes, as `profile` of popart's sessions does.

        Example::

            with session:
                report = session.profile({stream: array})
            report.to_html("profile.html")

        For the recording the program is loaded again with clocks, afterwards without them; variables on the device keep
        their values. `statistics` starts anew. The guide "Profiling" describes the page.

        Args:
            step: the inputs of `run`, or a function that runs the session once; None: `run` without inputs.
            runs: number of runs that are recorded; in a job of several processes the same in all.
            warm_up: number of runs before them, which are not recorded.
            folder: where ``profile.html``, ``profile.trace.json`` and ``profile.json`` are written; None: no files.

        Returns:
            The report; its methods ``to_html``, ``to_trace`` and ``save`` write files.

        Raises:
            ValueError: the session is not attached; as `run`; ``runs`` is below 1, or ``warm_up`` below 0.
            TypeError: ``runs`` or ``warm_up`` is no whole number.
            OSError: the folder cannot be written to.
        """
        from popart.profile.recording import record

        self._require_attached("profile")
        run = step if callable(step) else functools.partial(self.run, step)
        return record(self._pb_session.core, run, runs, warm_up, folder, "warm_up")

    def statistics(self) -> RunStatistics:
        """Return the transfers and the time of all runs since the program was loaded.

        Returns:
            A `RunStatistics`: successful runs, transfers from and to the host with their bytes, and seconds in runs. A
            transfer is one value of one stream of one replica.
        """
        return self._pb_session.core.statistics()

    @staticmethod
    def _raise_stream_mismatch(what: str, given: Mapping[Any, Any], expected: Iterable[Any]) -> None:
        missing = [str(s) for s in expected if s not in given]
        unexpected = [str(s) for s in given if s not in set(expected)]
        raise ValueError(
            f"Session.run: the {what} do not match the program: missing {missing}, unexpected {unexpected}."
        )

    def _input_array(
        self, stream: Any, shape: tuple[int, ...], dtype: np.dtype, value: Any, downcast: bool
    ) -> np.ndarray:
        if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape and value.flags.c_contiguous:
            return value if dtype.names is None else value.view(np.uint8)
        array = to_numpy(value, downcast=downcast, copy=False)
        self._check_shape(stream, array.shape, shape, "input")
        if array.dtype != dtype:
            if dtype.names is not None or not np.can_cast(array.dtype, dtype, "same_kind"):
                raise ValueError(f"Session.run: input {stream}: got element type {array.dtype}, expected {dtype}.")
            array = array.astype(dtype)
        array = np.ascontiguousarray(array)
        if self.ir_.num_host_transfers > 1:
            array = array[: self.ir_.num_host_transfers]
        return array if dtype.names is None else array.view(np.uint8)

    def _output_array(self, stream: Any, shape: tuple[int, ...], dtype: np.dtype, value: Any) -> np.ndarray:
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            got = getattr(value, "dtype", type(value).__name__)
            raise ValueError(f"Session.run: output {stream}: got {got}, expected an array of {dtype}.")
        if value.shape != shape:
            self._check_shape(stream, value.shape, shape, "output")
        if not value.flags.writeable:
            raise ValueError(f"Session.run: output {stream}: the array must be writable.")
        value = np.ascontiguousarray(value)  # for another layout the run fills a copy
        return value if dtype.names is None else value.view(np.uint8)

    def _check_shape(self, stream: Any, got: tuple[int, ...], expected: tuple[int, ...], what: str) -> None:
        transfers = self.ir_.num_host_transfers
        if transfers > 1:
            if not got or got[0] < transfers:
                raise ValueError(
                    f"Session.run: {what} {stream}: too few transfers: got shape {got}, expected a first dimension of "
                    f"at least {transfers} (ir.num_host_transfers)."
                )
            got, expected = got[1:], expected[1:]
        same_values = [n for n in got if n != 1] == [n for n in expected if n != 1]
        if got != expected and not same_values:
            raise ValueError(f"Session.run: {what} {stream}: wrong shape: got {got}, expected {expected}.")

    # ---- weights
    def weights_from_host(self) -> None:
        """Copy the host values of all variables to the device.

        Raises:
            ValueError: the session is not attached.
        """
        self._require_attached("weights_from_host")
        for tensor_id, value in self.ir_._variable_data.items():
            self._upload(self._variable(tensor_id), value)
        self._pb_session.loaded = True
        self._set_stale(False)

    def weights_to_host(self) -> None:
        """Copy all variables from the device to their host values.

        Raises:
            ValueError: the session is not attached.
            Exception: the Ir has a read-only memory map.
        """
        self._require_attached("weights_to_host")
        if self.ir_._read_only_memmap:
            raise Exception("Session.weights_to_host: a variable is a read-only memory map; it cannot be written.")
        for tensor_id, value in self.ir_._variable_data.items():
            self._download(self._variable(tensor_id), value)
        self._set_stale(False)

    def _variable(self, tensor_id: str) -> Variable:
        return self.ir_._variables[tensor_id]

    def _in_program(self, variable: Variable) -> bool:
        return self._pb_session.core.hasVariable(variable._row.buffer._core_id if variable._row else variable.id)

    def _upload(self, variable: Variable, host: np.ndarray) -> None:
        core = self._pb_session.core
        if not self._in_program(variable):
            return
        if variable._row is not None:
            core.writeRow(
                variable._row.buffer._core_id, variable._row.offset, bytes_view(variable._holding.split(host))
            )
        else:
            core.writeVariable(variable.id, bytes_view(variable._groups_on_device(host)))

    def _download(self, variable: Variable, host: np.ndarray) -> None:
        """Read the values of all groups into `host`; if the variable returns all replicas, their values too."""
        core, on_host = self._pb_session.core, variable.replica_grouping.to_host_map
        if not self._in_program(variable):
            return
        if variable._row is not None or variable._holding.is_sharded or variable._returns_all_replicas:
            held = self._read_replicas(variable, host.dtype)
            variable._holding.join(held, host)
            if variable._returns_all_replicas:
                self.ir_._replica_data[variable.id] = variable._holding.join_by_replica(held)
        elif on_host is None:
            core.readVariable(variable.id, bytes_view(host))
        else:
            groups = np.empty((variable.replica_grouping.const_rg.num_groups, *variable.shape), host.dtype)
            core.readVariable(variable.id, bytes_view(groups))
            np.copyto(host, groups[on_host])
        if isinstance(host, np.memmap):
            host.flush()

    def _read_replicas(self, variable: Variable, dtype: np.dtype) -> np.ndarray:
        held = np.empty((self.ir_.replication_factor, *variable.shape), dtype)
        if variable._row is not None:
            self._pb_session.core.readRow(variable._row.buffer._core_id, variable._row.offset, bytes_view(held))
        else:
            self._pb_session.core.readReplicas(variable.id, bytes_view(held))
        return held

    def get_tensor_data(self, tensor: Variable | Constant) -> np.ndarray:
        """Return the value of a variable or constant; for variables a view of the host value.

        Raises:
            TypeError: `tensor` is neither variable nor constant.
        """
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(self, tensors: Iterable[Variable | Constant]) -> dict[Tensor, np.ndarray]:
        """Return the values of variables and constants, with at most one copy from the device.

        Args:
            tensors: variables and constants.

        Returns:
            Values by tensor.

        Raises:
            TypeError: a tensor is neither variable nor constant.
        """
        tensors = list(tensors)
        for t in tensors:
            if not isinstance(t, (Variable, Constant)):
                raise TypeError(f"Only a popxl.tensor.Variable or Constant has data: got {_described(t)}.")
        if self.is_attached and self._host_is_stale and any(isinstance(t, Variable) for t in tensors):
            self.weights_to_host()
        return {t: self._host_value(t) for t in tensors}

    def _host_value(self, tensor: Variable | Constant) -> np.ndarray:
        if isinstance(tensor, Variable):
            value = self.ir_._variable_data[tensor.id]
            if not tensor._returns_all_replicas:
                return value
            known = self.ir_._replica_data.get(tensor.id)
            return tensor._holding.join_by_replica(tensor._holding.split(value)) if known is None else known
        return np.frombuffer(tensor._pb_tensor.bytes(), tensor.dtype.as_numpy()).reshape(tensor.shape)

    def write_variable_data(self, tensor: Variable, data: HostScalarTensor) -> None:
        """Set the value of one variable; an attached session then copies all variables to the device.

        Args:
            tensor: the variable.
            data: its new value, of its shape and element type.

        Raises:
            TypeError: `tensor` is not a variable, or the dtype differs.
            ValueError: the shape differs.
        """
        self.write_variables_data({tensor: data})

    def write_variables_data(self, tensors_to_data: Mapping[Variable, HostScalarTensor]) -> None:
        """Set the values of several variables; an attached session then copies all variables to the device, once.

        Args:
            tensors_to_data: new values by variable, each of its shape and element type.

        Raises:
            TypeError: a key is not a variable, or a dtype differs.
            ValueError: a shape differs.
        """
        values = {t: self._checked_value(t, data) for t, data in tensors_to_data.items()}
        if self.is_attached and self._host_is_stale:
            self.weights_to_host()
        for tensor, value in values.items():
            np.copyto(self.ir_._variable_data[tensor.id], value)
            self.ir_._replica_data.pop(tensor.id, None)
        if self.is_attached:
            self.weights_from_host()

    def _checked_value(self, tensor: Variable, data: HostScalarTensor) -> np.ndarray:
        if not isinstance(tensor, Variable):
            raise TypeError(f"Only a popxl.tensor.Variable can be written: got {_described(tensor)}.")
        if tensor._returns_all_replicas:
            raise NotImplementedError(f"{tensor}: variables with retrieval mode 'all_replicas' cannot be written.")
        if isinstance(data, (int, float, bool)):
            if tensor.dtype in (dtypes.float8_143, dtypes.float8_152):
                raise TypeError(f"{tensor}: a Python number cannot be written to a float8 variable.")
            data = np.full((), data, tensor.dtype.as_numpy())
        array = to_numpy(data, downcast=False, copy=False)
        if array.dtype != tensor.dtype.as_numpy():
            raise TypeError(f"{tensor}: got data of type {array.dtype}, expected {tensor.dtype.as_numpy()}.")
        if array.shape != tensor.shape_on_host:
            raise ValueError(f"{tensor}: got data of shape {array.shape}, expected {tensor.shape_on_host}.")
        return array


def _described(value: Any) -> str:
    return f"{type(value).__name__} {value}"
