"""load: an ONNX file as a function of arrays.

Example::

    model = popart.load("resnet18.onnx")
    logits = model(images)
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import popart_core
from popart_core import (
    AnchorReturnType,
    DataFlow,
    DeviceInfo,
    DeviceManager,
    PyStepIO,
    PyWeightsIO,
    SessionOptions,
    popart_exception,
    popart_runtime_error,
)

from popart._arguments import ArgumentError, mapping, names, one_of, optional, whole
from popart._model_inputs import (
    SIZES_FROM_DATA,
    Feed,
    FileStamps,
    Source,
    declared,
    describe,
    fixed_batch,
    inputs_of,
    source_of,
    with_open_batch,
)
from popart._names import explain_keywords, nearest_names
from popart.session import InferenceSession, _require_kinds
from popart.tensorinfo import TensorInfo

_PRECISIONS = ("float32", "bfloat16", "float16")


def session_options(
    options: Mapping[str, Any] | None = None,
    *,
    max_memory: int | str | None = None,
    num_threads: int | None = None,
    max_shapes: int = 8,
    precision: str | None = None,
    what: str = "load",
) -> SessionOptions:
    """Session options from the arguments that `load` and ``Trainer`` share.

    Args:
        options: Members of ``SessionOptions`` by name; ``engineOptions`` as a dictionary.
        max_memory: Limit of device memory in bytes, or text such as ``"2G"``.
        num_threads: Number of compute threads.
        max_shapes: Number of programs to keep, one for each set of input shapes.
        precision: Element type of products and convolutions.
        what: The name of the caller, for messages.

    Returns:
        New options.

    Raises:
        AttributeError: There is no such option.
        TypeError: A value has the wrong type.
        ArgumentError: A number is out of range.
        popart_exception: `max_memory` is text that says no size.
    """
    made = SessionOptions()
    engine = {"max_shape_programs": str(whole(f"{what}: max_shapes", max_shapes, 1))}
    if isinstance(max_memory, str):
        engine["max_memory"] = str(popart_core._bytes_from_text(max_memory, f"{what}: max_memory"))
    elif max_memory is not None:
        engine["max_memory"] = str(whole(f"{what}: max_memory", max_memory, 1))
    if num_threads is not None:
        engine["num_threads"] = str(whole(f"{what}: num_threads", num_threads, 1))
    if precision is not None:
        made.precision = one_of(f"{what}: precision", precision, _PRECISIONS)  # type: ignore[attr-defined]
    for name, value in mapping(f"{what}: options", options, "members of SessionOptions").items():
        if name == "engineOptions":
            engine.update({key: str(one) for key, one in mapping(f"{what}: engineOptions", value, "options").items()})
        else:
            setattr(made, name, value)
    made.engineOptions = engine
    return made


class _OpenedModel:
    """A model as it was when it was opened: a later change of its file is not read.

    The content of a file is kept until `forget`. Then, and if values of tensors are in other files, the files are read
    when they are needed, and must be the same.
    """

    def __init__(self, model: Source, data_files: Sequence[str] = ()) -> None:
        """Read the model.

        Args:
            model: Its file or bytes.
            data_files: Files with values of its tensors, relative to the folder of its file.
        """
        self._path = model if isinstance(model, str) else None
        self._content = model if isinstance(model, bytes) else None
        if isinstance(model, str):
            self._stamps = FileStamps(model, data_files)
            self._content = None if data_files else Path(model).read_bytes()

    def source(self) -> Source:
        """Read the model, as it was when it was opened.

        Returns:
            Bytes, or the name of the unchanged file.

        Raises:
            popart_runtime_error: A file that must be read again is another one, or is gone.
        """
        if self._content is not None:
            return self._content
        assert self._path is not None
        self._stamps.require_unchanged("load")
        return self._path

    def forget(self) -> None:
        """Drop the content if there is a file."""
        if self._path is not None:
            self._content = None


class Model:
    """A model that computes its outputs from arrays; `load` makes it. Threads may call it at the same time."""

    def __init__(
        self,
        model: Source,
        outputs: Sequence[str] | None = None,
        options: SessionOptions | None = None,
        device: DeviceInfo | None = None,
        name: str = "load",
    ) -> None:
        """Read the model; the first call compiles it.

        Args:
            model: File name or bytes of an ONNX model.
            outputs: Tensors to return; None: the outputs of the model.
            options: Session options, as `session_options` makes them.
            device: Device to run on; None: the CPU.
            name: Name in log lines and messages.

        Raises:
            popart_exception: The file or bytes are not a model.
            FileNotFoundError: The file does not exist.
        """
        facts = describe(model)
        self._model = _OpenedModel(model, facts["dataFiles"])
        self._inputs = inputs_of(facts)
        self._feed = Feed(name, self._inputs)
        self._outputs = list(outputs) if outputs is not None else [entry["name"] for entry in facts["outputs"]]
        self._options = options if options is not None else session_options()
        self._device, self._name = device, name
        self._session: InferenceSession | None = None
        self._lengths: dict[str, list[tuple[str, int]]] = {}  # of outputs whose sizes depend on data
        self._backend: Any = None
        plain = all(i.plain for i in self._inputs) and all(_is_tensor(entry) for entry in facts["outputs"])
        self._by_backend = not plain and outputs is None
        self._sizes_from_data = not SIZES_FROM_DATA.isdisjoint(facts["operators"])
        self._opened = self._weights_set = False
        self._lock = threading.Lock()

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs, in the order of the call's arguments."""
        return list(self._feed.order)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return list(self._outputs)

    @property
    def session(self) -> InferenceSession | None:
        """The session that runs; None before the first call and for models that the ONNX backend runs."""
        return self._session

    def __repr__(self) -> str:
        return f"<popart model: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def _repr_html_(self) -> str:
        """A table in a notebook: inputs with types and shapes, and outputs."""
        from popart._notebook import facts_html, listed

        inputs = [(f"input {one.name}", one) for one in self._feed.inputs.values()]
        return facts_html("popart model", [*inputs, ("outputs", listed(self.outputs))])

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Compute the outputs.

        Args:
            *args: One value for each input, in order; or one dictionary by name.
            **named: Values by the inputs' names.

        Returns:
            The array of the only output, or a dictionary by name, in the model's order, if there are several.

        Raises:
            popart_runtime_error: An input is missing or unknown, or has the wrong type or shape.
            popart_exception: The model is not supported, or its operators do not take these shapes.
        """
        results = self.run(args[0] if len(args) == 1 and isinstance(args[0], Mapping) else _joined(self, args, named))
        return next(iter(results.values())) if len(results) == 1 else results

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the outputs from a dictionary by name; returns a dictionary by name."""
        if unknown := [name for name in values if name not in self._feed.inputs]:
            raise popart_runtime_error(
                f"{self._name}: the model has no input '{unknown[0]}', its inputs are {', '.join(self.inputs)}"
                f"{nearest_names(unknown[0], self._feed.inputs)}"
            )
        if self._by_backend:
            return self._run_backend(values)
        named = self._feed.named(values)
        with self._lock:
            arrays = self._arrays(named)
            try:
                return self._run(arrays)
            except popart_core.unknown_value_error:
                if self._weights_set:
                    raise
            self._by_backend = True
        return self._run_backend(values)

    def _arrays(self, named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Convert values to the inputs' types. If the batch has another size than in the file, open its dimension."""
        inputs = self._feed.inputs
        try:
            return {name: inputs[name].array(value, self._name) for name, value in named.items()}
        except popart_runtime_error:
            opened = {i.name: i for i in with_open_batch(self._inputs)}
            if self._opened or opened == inputs:
                raise
            made = {name: opened[name].array(value, self._name) for name, value in named.items()}
        self._model, self._opened = _OpenedModel(declared(self._model.source(), opened.values())), True
        self._session, self._feed.inputs = None, opened
        return made

    def _run(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self._session is None:
            self._session = self._session_of(arrays)
        try:
            self._session.setInputShapes(arrays)
        except popart_exception as error:
            if not self._opened or type(error) is not popart_exception:  # such as OutOfMemoryException
                raise
            got = {name: array.shape for name, array in arrays.items()}
            raise fixed_batch(self._name, got, {i.name: i.shape or () for i in self._inputs}, error) from None
        anchors = self._session.initAnchorArrays()
        self._session.run(PyStepIO(arrays, anchors))
        results = {}
        for name in self._outputs:
            array = anchors[name]
            for length, axis in self._lengths.get(name, ()):
                array = array[(slice(None),) * axis + (slice(0, int(anchors[length])),)]
            results[name] = array
        return results

    def _session_of(self, arrays: dict[str, np.ndarray]) -> InferenceSession:
        anchors, model = list(self._outputs), self._model.source()
        if self._sizes_from_data:
            shapes = popart_core.InputShapeInfo()
            for name, array in arrays.items():
                shapes.add(name, TensorInfo(array.dtype.name, array.shape))
            found = popart_core._output_tensors(model, shapes, self._options.constantWeights, set(self._outputs))
            self._lengths = {name: parts[0][1] for name, parts in found.items() if parts and parts[0][1]}
            anchors += [length for of in self._lengths.values() for length, _ in of]
        session = InferenceSession(
            model,
            DataFlow(1, {name: AnchorReturnType("All") for name in anchors}),
            self._device if self._device is not None else DeviceManager().createCpuDevice(),
            userOptions=self._options,
            name=self._name,
        )
        session.prepareDevice()
        self._model.forget()
        return session

    def set_weights(self, values: Mapping[str, np.ndarray], *args: Any, **named: Any) -> None:
        """Replace the weights of the model; this needs the option ``constantWeights`` to be off.

        Args:
            values: Values by name; names that are not weights of the model are ignored.
            *args: Values of the inputs of the next call: the program is compiled for their shapes.
            **named: The same values, by name.

        Raises:
            popart_runtime_error: A shape or type is wrong, or the weights are constants.
        """
        arrays = _joined(self, args, named)
        with self._lock:
            made = self._arrays(self._feed.named(arrays))
            if self._session is None:
                self._session = self._session_of(made)
            self._session.setInputShapes(made)
            known = set(self._session._variableIds())
            self._session.writeWeights(PyWeightsIO({name: value for name, value in values.items() if name in known}))
            self._session.weightsFromHost()
            self._weights_set = True

    def _run_backend(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Run models with text, sequences, or inputs that determine shapes, by the ONNX backend."""
        with self._lock:
            if self._backend is None:
                import onnx
                from popart.backend import BackendRep

                model = self._model.source()
                loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
                self._backend = BackendRep(loaded, self._options)
            arrays = {
                name: self._feed.inputs[name].array(value, self._name) if self._feed.inputs[name].plain else value
                for name, value in values.items()
            }
            return dict(zip(self._outputs, self._backend.run(arrays), strict=True))


def _is_tensor(entry: Mapping[str, Any]) -> bool:
    return not (entry.get("sequence") or entry.get("optional")) and entry["type"] not in ("string",)


def _joined(model: Model, args: Iterable[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Positional and named arguments as one dictionary."""
    args = tuple(args)
    order = model.inputs
    if len(args) > len(order):
        raise popart_runtime_error(f"{model._name}: got {len(args)} values, expected {len(order)}: {', '.join(order)}")
    joined = dict(zip(order, args, strict=False))
    if twice := [name for name in named if name in joined]:
        raise popart_runtime_error(f"{model._name}: '{twice[0]}' is given twice: by place and by name. Give it once")
    return joined | dict(named)


@explain_keywords({
    "providers": "give device, or nothing for the CPU",
    "sess_options": "give options={...}, num_threads or max_memory",
})  # fmt: skip
def load(
    model: Any,
    *,
    outputs: Sequence[str] | str | None = None,
    max_memory: int | str | None = None,
    num_threads: int | None = None,
    max_shapes: int = 8,
    precision: str | None = None,
    device: DeviceInfo | None = None,
    options: Mapping[str, Any] | None = None,
) -> Model:
    """Make a function of an ONNX model, for inference.

    The function takes batches of any size, even if the file has a fixed size, as long as the operators of the model
    allow it.
    A program is compiled for each set of input shapes when it is first used, and kept.

    Args:
        model: File name, bytes, ``onnx.ModelProto``, or what ``torch.onnx.export`` returns.
        outputs: Names of the tensors to return, or one of them, also of tensors inside the model; None: its outputs.
        max_memory: Limit of device memory in bytes, or text such as ``"2G"``. If the model does not fit, the first call
            raises an error.
        num_threads: Number of compute threads; None: one for each core that the process may use.
        max_shapes: Number of programs to keep; the least recently used one is dropped first.
        precision: Element type of products and convolutions: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: Device to run on; None: the CPU.
        options: Other members of ``SessionOptions`` by name.

    Returns:
        The model. ``model(images)`` returns the array of its only output, or a dictionary by name if there are several.
        Pass inputs in order, by name, or as a dictionary: arrays of NumPy, PyTorch, or any library with DLPack. Several
        threads may call it at the same time; the calls run one after the other.

    Raises:
        popart_exception: The file or bytes are not a model.
        FileNotFoundError: The file does not exist.
        AttributeError: There is no such option.
        TypeError: `model` or another argument has another type.
        ArgumentError: A number is out of range.
    """
    _require_kinds("load", device=device)
    made = session_options(
        options, max_memory=max_memory, num_threads=num_threads, max_shapes=max_shapes, precision=precision
    )
    chosen = optional(names, "load: outputs", outputs)
    if chosen == []:
        raise ArgumentError("load: outputs: got [], expected one name or more, or None for the outputs of the model")
    return Model(source_of(model), chosen, made, device)
