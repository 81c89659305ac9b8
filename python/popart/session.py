"""Inference and training sessions."""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import popart_core
from popart_core import DataFlow, DataType, DeviceInfo, DeviceType, InputShapeInfo, Optimizer, Patterns, SessionOptions

from popart._arrays import as_shape
from popart._files import replacing
from popart._names import explain_keywords
from popart.losses import Loss
from popart.tensorinfo import _NUMPY_TO_POPART

if TYPE_CHECKING:
    import pva


class OutOfMemoryException(popart_core.popart_exception):
    """Raised by ``prepareDevice`` if the program does not fit into the memory limit."""

    def __init__(self, error: "popart_core.OutOfMemoryError") -> None:
        """Keep the report of ``error``."""
        super().__init__(str(error))
        self._error = error

    def getSummaryReport(self) -> str:
        """Return the memory use of the program as text."""
        return self._error.getSummaryReport()

    def getProfilePath(self) -> str:
        """Return the folder of the profile; empty if none was written."""
        return self._error.getProfilePath()


def _numpy_dtype(name: str) -> Any:
    """NumPy's element type for a lower-case popart type name."""
    if name in ("float8_143", "float8_152"):
        return np.dtype([(name, "u1")])
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _data_type(value: Any) -> DataType:
    """Element type of an array of NumPy, PyTorch or a similar library; UNDEFINED for other objects."""
    dtype = getattr(value, "dtype", None)
    known = _NUMPY_TO_POPART.get(getattr(dtype, "type", None))
    if known is not None or dtype is None:
        return known or DataType.UNDEFINED
    name = str(dtype).rpartition(".")[2].upper()  # torch.bfloat16, or bfloat16 of ml_dtypes
    return getattr(DataType, {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}.get(name, name), DataType.UNDEFINED)


_EXPECTED: dict[str, tuple[type, str]] = {
    "dataFlow": (DataFlow, "popart.DataFlow(1, [names of tensors])"),
    "optimizer": (Optimizer, "an optimizer, such as popart.ConstSGD(0.1) or popart.optim.AdamW(lr=1e-3)"),
    "deviceInfo": (DeviceInfo, "a device, such as popart.DeviceManager().createCpuDevice()"),
    "device": (DeviceInfo, "a device, such as popart.DeviceManager().createCpuDevice()"),
    "inputShapeInfo": (InputShapeInfo, "popart.InputShapeInfo"),
    "patterns": (Patterns, "popart.Patterns"),
    "userOptions": (SessionOptions, "popart.SessionOptions"),
}


def _require_kinds(session: str, **arguments: Any) -> None:
    """Check the arguments of a session.

    Raises:
        TypeError: An argument has the wrong type. None passes: the caller checks it.
    """
    for name, value in arguments.items():
        kind, expected = _EXPECTED[name]
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{session}: {name}: got {value!r}, expected {expected}")


class _SessionMixin:
    """The Python methods that both kinds of sessions add to the core."""

    _data_flow: DataFlow
    _name: str
    _options: SessionOptions
    _device_type: DeviceType | None

    @property
    def dataFlow(self) -> DataFlow:
        """The data flow the session was made with."""
        return self._data_flow

    @property
    def replicationFactor(self) -> int:
        """Replicas in this process; 1 when replication is off."""
        return self._options.replicatedGraphCount if self._options.enableReplicatedGraphs else 1

    @property
    def accumulationFactor(self) -> int:
        """Micro-batches per weight update; 1 when gradient accumulation is off."""
        return self._options.accumulationFactor if self._options.enableGradientAccumulation else 1

    def setInputShapes(self, shapes: InputShapeInfo | Mapping[str, Any]) -> None:
        """Continue with the program for these input shapes; for sessions whose input shapes are open.

        A session has open shapes if ``engineOptions["max_shape_programs"]`` is set and the model leaves dimensions
        open.
        Weights, optimizer state and random numbers are kept. ``run`` does the same for the shapes of its arrays.

        Args:
            shapes: Shapes of one micro-batch: `InputShapeInfo`, or a mapping from names to shapes or to arrays (of
                NumPy, PyTorch, or any library whose arrays have a shape). Leave out inputs whose shape follows from
                named dimensions.

        Raises:
            TypeError: A size that is not an integer.
            popart_exception: The shapes do not fit the model; the session stays as it was.
        """
        if not isinstance(shapes, InputShapeInfo):
            given, shapes = shapes, InputShapeInfo()
            for name, value in given.items():
                # the type in the model is used if there is one
                shape = as_shape(getattr(value, "shape", value), f"setInputShapes '{name}'")
                shapes.add(name, popart_core._TensorInfoCore(_data_type(value), shape))
        self._setInputShapes(shapes)  # type: ignore[attr-defined]

    def initAnchorArrays(self) -> dict[str, np.ndarray]:
        """Make one array for every anchor.

        With open input shapes, the arrays are for the shapes of the last run or of ``setInputShapes``.

        Returns:
            Arrays of shape ``[bps, af, rf, *tensor]`` for All, ``[bps // N, af, rf, *tensor]`` for EveryN and
            ``[rf, *tensor]`` for Final and Sum. Leading dimensions of size 1 are left out.
        """
        arrays = {}
        for anchor in self._data_flow.anchors():
            returned = self._data_flow.art(anchor)
            info = self.getInfo(anchor)  # type: ignore[attr-defined]
            steps = self._data_flow.batchesPerStep()
            if returned.id() == popart_core.AnchorReturnTypeId.EveryN:
                steps //= returned.rp()
            prefix = [steps, self.accumulationFactor, self.replicationFactor]
            if returned.id() in (popart_core.AnchorReturnTypeId.Final, popart_core.AnchorReturnTypeId.Sum):
                prefix = [self.replicationFactor]
            shape = [dim for dim in prefix if dim != 1] + info.shape()
            try:
                arrays[anchor] = np.zeros(shape, dtype=_numpy_dtype(info.data_type_lcase()))
            except ValueError as problem:  # NumPy's limit of dimensions
                raise popart_core.popart_exception(
                    f"initAnchorArrays '{anchor}': NumPy has no array of its shape: got {len(shape)} dimensions, "
                    f"{problem}"
                ) from None
        return arrays

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compile the program and load it.

        Args:
            loadEngine: Whether to load the program; if not, call ``loadEngineAndConnectStreams`` later.

        Raises:
            OutOfMemoryException: The program does not fit the memory limit.
        """
        result = popart_core.OutOfMemoryError()
        super().prepareDevice(loadEngine, result)  # type: ignore[misc]
        if not result.isSuccessful():
            raise OutOfMemoryException(result)
        if folder := _profile_folder(self._options):
            from popart.profile.recording import follow

            follow(self, folder, self._name)

    def compileAndExport(self, filename: str) -> None:
        """Compile the program and save it, without loading it.

        Args:
            filename: File to write; a folder means ``<folder>/executable.popef``. Missing parent folders are created.

        Raises:
            OSError: The folder cannot be made or written to.
            popart_exception: The device is an IPU model, which cannot run exported programs.
            OutOfMemoryException: The program does not fit the memory limit.
        """
        if self._device_type == DeviceType.IpuModel:
            raise popart_core.popart_exception(
                f"compileAndExport: a device of type {self._device_type} takes no exported programs. Use one of type "
                "cpu, ipu or offline-ipu"
            )
        folder = filename if os.path.isdir(filename) else os.path.dirname(os.path.abspath(filename))
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"compileAndExport: the folder '{folder}' cannot be written to")
        self.prepareDevice(loadEngine=False)
        self.saveExecutable(str(filename))  # type: ignore[attr-defined]

    def saveLoweredModel(self, filename: "str | os.PathLike[str]", values: bool = False) -> None:
        """Write the program that the device runs as an ONNX model to look at, for example in Netron.

        It has a node for each operator of the program, with kernel, layer and phase as attributes, and cannot be run:
        the file of ``popart-opt --onnx`` (guide "Profiling").

        Args:
            filename: The file.
            values: Whether it has the values of constants of more than 16 elements.

        Raises:
            popart_runtime_error: Before ``prepareDevice``.
            popart_exception: The model exceeds 2 GiB.
            OSError: The file cannot be written.
        """
        with replacing(filename) as file:
            file.write(super()._loweredModel(values))  # type: ignore[misc]

    def updateEngineCache(self) -> None:
        """Do nothing: every ``prepareDevice`` searches the folder of compiled programs again."""

    def getReport(self) -> "pva.Report":
        """Return a report on the memory and time of the program.

        Returns:
            A ``pva.Report``. Its execution part is empty unless engineOptions ask for a profile (``autoReport.all``,
            ``profile``). ``session.profile`` runs the session and returns a report with all details.

        Raises:
            popart_runtime_error: ``prepareDevice`` was not called.
        """
        import pva  # here: json and the rest are loaded only for programs that call this

        return pva.Report(super()._report())  # type: ignore[misc]

    def profile(
        self,
        step: "popart_core.IStepIO | Callable[[], Any]",
        runs: int = 5,
        warmUp: int = 2,
        folder: "str | os.PathLike[str] | None" = None,
    ) -> "pva.Report":
        """Run the session several times and record where the time goes: which step, on which thread.

        Example::

            report = session.profile(popart.PyStepIO(inputs, anchors))
            report.to_html("profile.html")

        For the recording the program is loaded again with clocks, afterwards without them; values on the device are
        kept.
        The guide "Profiling" describes the page. For a model of IPUs it also has estimates (guide "The model of an
        IPU").

        In a job of several processes all of them call it. Each gets a report of its own replicas, and the names of its
        files have their numbers: ``profile-replicas-2-3.html``.

        Args:
            step: Data of a run, or a function that runs the session once.
            runs: That are recorded; in a job as many in all processes.
            warmUp: Number of runs before them, which are not recorded.
            folder: Where ``profile.html``, ``profile.trace.json`` and ``profile.json`` are written; None: no files.

        Returns:
            The report; its methods ``to_html``, ``to_trace`` and ``save`` write files.

        Raises:
            ValueError: ``runs`` is below 1, or ``warmUp`` below 0.
            popart_runtime_error: The program is not loaded: call ``prepareDevice``.
            OSError: The folder cannot be written to.
        """
        from popart.profile.recording import record

        run = step if callable(step) else lambda: self.run(step)  # type: ignore[attr-defined]
        return record(self, run, runs, warmUp, folder)

    def __repr__(self) -> str:
        return f"<{_facts_of(self)}>"

    def _repr_html_(self) -> str:
        """A table in a notebook."""
        from popart._notebook import facts_html, listed

        flow = self._data_flow
        facts = [
            ("state", "prepared" if self._isPrepared() else "not prepared"),
            ("device", self._device_type.name if self._device_type is not None else ""),
            ("batches a step", flow.batchesPerStep()),
            ("anchors", listed(flow.anchors())),
        ]
        return facts_html(f"{type(self).__name__} '{self._name}'", facts)

    def connectStreamToCallback(self, streamHandle: str, callback: Callable[..., None], index: int = 0) -> None:
        """Always raise an error: host reductions are not supported.

        Raises:
            popart_runtime_error: Always.
        """
        raise popart_core.popart_runtime_error(
            f"Session: connectStreamToCallback: there is no stream '{streamHandle}' for callbacks. "
            "Pass inputs and outputs to run"
        )


def _profile_folder(options: SessionOptions) -> str:
    """Folder in which a session writes its profile, from its options or POPART_PROFILE; empty if it writes none."""
    folder = popart_core._profileFolder(options)
    return "" if folder == "none" else folder


def _facts_of(session: Any) -> str:
    """Describe a session in one line."""
    flow = session._data_flow
    anchors = flow.anchors()
    named = ", ".join(anchors[:3]) + (f" and {len(anchors) - 3} more" if len(anchors) > 3 else "")
    state = "prepared" if session._isPrepared() else "not prepared"
    return (
        f"{type(session).__name__} '{session._name}', {state}, {flow.batchesPerStep()} batches a step, anchors: {named}"
    )


_SHORTER = "or use popart.load(path)(x) or popart.Trainer, which make sessions themselves"
_OTHER_KEYWORDS = {  # of ONNX Runtime
    "providers": f"give deviceInfo=popart.DeviceManager().createCpuDevice(), {_SHORTER}",
    "provider_options": f"give userOptions=popart.SessionOptions(), {_SHORTER}",
    "sess_options": f"give userOptions=popart.SessionOptions(), {_SHORTER}",
    "path_or_bytes": f"give fnModel, {_SHORTER}",
}


def _patterns(given: str | Sequence[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _resolve_data_flow(dataFlow: DataFlow | None, dataFeed: DataFlow | None) -> DataFlow:
    # compat: very old programs say dataFeed= (tests/python/popart/test_session.py).
    given = dataFlow if dataFlow is not None else dataFeed
    if given is None:
        raise TypeError(
            f"session: the argument dataFlow is missing: give popart.DataFlow(1, [names of tensors]), {_SHORTER}"
        )
    return given


class InferenceSession(_SessionMixin, popart_core._InferenceSessionCore):
    """Runs a model without training it."""

    @explain_keywords(_OTHER_KEYWORDS)
    def __init__(
        self,
        fnModel: str | bytes,
        dataFlow: DataFlow | None = None,
        deviceInfo: DeviceInfo | None = None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
        *,
        dataFeed: DataFlow | None = None,
    ) -> None:
        """Build the program.

        Args:
            fnModel: File name or bytes of an ONNX model.
            dataFlow: Batches per step and anchors.
            deviceInfo: Device from ``DeviceManager``.
            inputShapeInfo: Shapes of inputs that the model leaves open.
            patterns: Rewrites to run; None means the default ones.
            userOptions: Session options.
            name: Name in log lines.
            dataFeed: Old spelling of ``dataFlow``.

        Raises:
            TypeError: An argument has a wrong type.
            popart_exception: The model, an anchor or an option is not usable.
        """
        self._data_flow = _resolve_data_flow(dataFlow, dataFeed)
        _require_kinds(
            "InferenceSession", dataFlow=self._data_flow, deviceInfo=deviceInfo, inputShapeInfo=inputShapeInfo,
            patterns=patterns, userOptions=userOptions,
        )  # fmt: skip
        self._options = userOptions if userOptions is not None else SessionOptions()
        self._device_type = getattr(deviceInfo, "type", None)
        self._name = name
        super().__init__(
            fnModel,
            self._data_flow,
            deviceInfo,
            inputShapeInfo if inputShapeInfo is not None else InputShapeInfo(),
            patterns if patterns is not None else Patterns(),
            self._options,
            name,
        )

    @classmethod
    def fromIr(cls, ir: Any, deviceInfo: DeviceInfo, name: str = "fromIr") -> "InferenceSession":
        """Make a session for a hand-written program.

        Args:
            ir: ``ir._pb_ir`` of a popart.ir program, with its data flow set.
            deviceInfo: Device from ``DeviceManager``.
            name: Name in log lines.

        Returns:
            The session; its anchors are those of the data flow.
        """
        session = cls.__new__(cls)
        session._data_flow = ir.getDataFlow()
        session._options = ir.getSessionOptions()
        session._device_type = getattr(deviceInfo, "type", None)
        session._name = name
        popart_core._InferenceSessionCore.__init__(session, ir, deviceInfo, name, session._data_flow.batchesPerStep())
        return session


class TrainingSession(_SessionMixin, popart_core._TrainingSessionCore):
    """Trains a model: each run executes ``batchesPerStep`` weight updates."""

    @explain_keywords(_OTHER_KEYWORDS)
    def __init__(
        self,
        fnModel: str | bytes,
        dataFlow: DataFlow | None = None,
        loss: str | None = None,
        optimizer: Optimizer | None = None,
        deviceInfo: DeviceInfo | None = None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
        *,
        dataFeed: DataFlow | None = None,
        losses: Sequence[Loss] | None = None,
        trainable: str | Sequence[str] | None = None,
        frozen: str | Sequence[str] | None = None,
    ) -> None:
        """Build the program: forward, backward and weight updates.

        Args:
            fnModel: File name or bytes of an ONNX model.
            dataFlow: Weight updates per step and anchors.
            loss: Id of the scalar tensor to minimise.
            optimizer: Rule of the weight updates.
            deviceInfo: Device from ``DeviceManager``.
            inputShapeInfo: Shapes of inputs that the model leaves open.
            patterns: Rewrites to run; None means the default ones.
            userOptions: Session options.
            name: Name in log lines.
            dataFeed: Old spelling of ``dataFlow``.
            losses: Old form of ``loss``: loss objects, which are summed.
            trainable: Names or patterns (``*``, ``?``, ``[1-3]``) of the tensors that train; all others are frozen. A
                pattern means the parameters among its matches. None: as ``trainableTensors()`` says.
            frozen: Names or patterns of tensors that do not train: they have no gradient and no optimizer state.

        Raises:
            TypeError: Neither ``loss`` nor ``losses`` is given, or no optimizer; an argument has a wrong type.
            popart_exception: The model, the loss, an anchor or an option is not usable, or a name or pattern of
                ``trainable`` or ``frozen`` matches no floating-point initializer.
        """
        if optimizer is None:
            raise TypeError("TrainingSession: the argument optimizer is missing")
        if (loss is None) == (losses is None):
            raise TypeError("TrainingSession: give either loss=<tensor id> or losses=[<loss objects>]")
        self._data_flow = _resolve_data_flow(dataFlow, dataFeed)
        _require_kinds(
            "TrainingSession", dataFlow=self._data_flow, optimizer=optimizer, deviceInfo=deviceInfo,
            inputShapeInfo=inputShapeInfo, patterns=patterns, userOptions=userOptions,
        )  # fmt: skip
        self._options = userOptions if userOptions is not None else SessionOptions()
        if trainable is not None or frozen is not None:
            self._options = copy.copy(self._options)
            self._options.trainableTensors = [*self._options.trainableTensors, *_patterns(trainable)]
            self._options.frozenTensors = [*self._options.frozenTensors, *_patterns(frozen)]
        self._device_type = getattr(deviceInfo, "type", None)
        self._name = name
        super().__init__(
            fnModel,
            self._data_flow,
            loss if losses is None else [item._core() for item in losses],
            optimizer,
            deviceInfo,
            inputShapeInfo if inputShapeInfo is not None else InputShapeInfo(),
            patterns if patterns is not None else Patterns(),
            self._options,
            name,
        )
