"""The interface that ONNX defines for runtimes (``onnx.backend``), on top of inference sessions.

    import onnx, popart.backend as backend
    outputs = backend.prepare(onnx.load("model.onnx"), "CPU").run([x])

If the model leaves dimensions open, a program is compiled for each set of shapes, and the most recently used programs
are kept (``engineOptions["max_shape_programs"]``, 8 by default). Inputs that determine shapes (axes, repeats, the new
shape of Reshape, ...) become constants of a program.

A sequence is a list of arrays, an absent optional value is None, text is an array of str, and a map, as ZipMap makes
it, is a dictionary. Text and images are processed on the host, before and after the program.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx.backend.base
import onnx.helper
import onnx.numpy_helper
import popart_core
from popart_core import AnchorReturnType, DataFlow, DeviceManager, InputShapeInfo, PyStepIO, SessionOptions

import onnx
from popart._host_ops import as_text, is_text
from popart._host_steps import HostSteps, split_model
from popart._model_inputs import SIZES_FROM_DATA
from popart.session import InferenceSession
from popart.tensorinfo import TensorInfo

Array = np.ndarray
# The tensors of an output: name, and for each size that depends on data its tensor and dimension.
_Output = list[tuple[str, list[tuple[str, int]]]]


class BackendRep(onnx.backend.base.BackendRep):
    """A model ready to run."""

    def __init__(self, model: onnx.ModelProto, options: SessionOptions | None = None) -> None:
        """Keep a copy of ``model``; it is compiled at the first run.

        Args:
            model: A checked model.
            options: Session options; None means the default ones.
        """
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        self._options = options if options is not None else SessionOptions()
        if "max_shape_programs" not in self._options.engineOptions:
            self._options.engineOptions["max_shape_programs"] = "8"
        self._options.followTrainingMode = True  # the interface requires that nodes run as written
        known = {tensor.name for tensor in model.graph.initializer}
        known |= {tensor.values.name for tensor in model.graph.sparse_initializer}
        self._input_names = [value.name for value in model.graph.input if value.name not in known]
        self._output_names = [value.name for value in model.graph.output]
        self._session: InferenceSession | None = None
        self._constants: dict[str, Array] = {}
        self._streams: list[str] = []
        self._host: HostSteps | None = None
        self._program: onnx.ModelProto | None = None  # the model without the nodes that run on the host
        self._outlook = False  # whether an output is not one tensor of known size
        self._may_vary = False  # whether sizes of outputs may depend on data
        self._results: dict[str, _Output] = {}  # the outputs of the program
        self._built_for: Any = None

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Compute the outputs.

        Args:
            inputs: One value for each graph input that is not an initializer, in order, or a dictionary by name. A
                value is an array, for a sequence a list of arrays; for an optional value it may be None. A dictionary
                may contain graph inputs that are also initializers; its value then replaces theirs.
            **kwargs: Not used.

        Returns:
            The graph outputs, in order.

        Raises:
            popart_exception: The model is not supported, or an array does not fit it.
        """
        values = self._named(inputs)
        if self._program is None:
            self._host = split_model(self._model)
            self._program = self._model if self._host is None else self._host.program
            self._outlook = not all(value.type.HasField("tensor_type") for value in self._program.graph.output)
            self._may_vary = _has_operator(self._program, SIZES_FROM_DATA)
        if self._host is None:
            results = self._run_program(values)
        else:
            text = {v.name for v in self._model.graph.input if v.type.tensor_type.elem_type == onnx.TensorProto.STRING}
            given = {name: as_text(value, name) if name in text else value for name, value in values.items()}
            known = self._host.run_before(given)
            fed = [value.name for value in self._program.graph.input if value.name in known] + self._host.feeds
            results = self._host.run_after({**known, **self._run_program({name: known[name] for name in fed})})
        return tuple(results[name] for name in self._output_names)

    def _run_program(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the program by name. If there are none, nothing runs."""
        assert self._program is not None
        declared = {value.name: value.type for value in self._program.graph.output}
        if not declared:
            return {}
        inputs = {value.name: value.type for value in self._program.graph.input}
        arrays: dict[str, Array] = {}
        for name, value in values.items():
            arrays.update(_flat(name, value, inputs.get(name, onnx.TypeProto())))
        self._compile(arrays, [name for name, value in values.items() if value is not None])
        try:
            tensors = self._run_session(arrays)
        except popart_core.popart_runtime_error:
            if not self._streams or not _has_operator(self._program, frozenset({"If", "Loop"})):
                raise
            # A branch that does not fit was taken, or a loop had more iterations than there is room for: compile again
            # with the input values as constants.
            self._built_for = None
            self._build(arrays, set(arrays), [name for name, value in values.items() if value is not None])
            tensors = self._run_session(arrays)
        results: dict[str, Any] = {}
        for name, parts in self._results.items():
            found = [_cut(tensors[part], {axis: int(tensors[length]) for length, axis in of}) for part, of in parts]
            if [part for part, _ in parts] == [name]:
                results[name] = found[0]
            else:
                sequence = _held(declared[name]).HasField("sequence_type")
                absent = not parts and declared[name].HasField("optional_type") and not sequence
                results[name] = None if absent else found
        return results

    def _run_session(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """All tensors of the program by name."""
        if self._session is None:
            return {}
        tensors = self._session.initAnchorArrays()
        self._session.run(PyStepIO({name: arrays[name] for name in self._streams}, tensors))
        return {name: _as_onnx(array) for name, array in tensors.items()}

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        if not isinstance(inputs, Sequence):
            inputs = [inputs]
        if len(inputs) != len(self._input_names):
            raise popart_core.popart_exception(
                f"model '{self._model.graph.name}': wrong number of inputs: got {len(inputs)}, "
                f"expected {len(self._input_names)}: {self._input_names}"
            )
        return dict(zip(self._input_names, inputs, strict=True))

    def _compile(self, arrays: dict[str, Array], present: list[str]) -> None:
        """Compile a program for these arrays, or keep the one there is: it serves other shapes, not other constants.

        A program is specific to the lengths of sequences, to which optional values are present, and to all shapes if
        they decide which outputs there are.
        """
        built_for = self._structure(arrays, present)
        if built_for == self._built_for and all(np.array_equal(arrays[n], a) for n, a in self._constants.items()):
            if self._session is not None:
                self._session.setInputShapes({name: arrays[name] for name in self._streams})
            return
        self._built_for = None
        shaping = {name for name, array in arrays.items() if array.ndim <= 1 and array.dtype.kind in "iu"}
        small = {name for name, array in arrays.items() if array.ndim <= 1}
        attempts = [set[str](), *(names for names in (shaping, small, set(arrays)) if names)]
        for constants in attempts[:-1]:
            popart_core._expect_errors(True)
            try:
                self._build(arrays, constants, present)
                self._built_for = self._structure(arrays, present)
                return
            except popart_core.unknown_value_error:
                pass  # the next attempt turns more inputs into constants
            finally:
                popart_core._expect_errors(False)
        self._build(arrays, attempts[-1], present)
        self._built_for = self._structure(arrays, present)

    def _structure(self, arrays: dict[str, Array], present: list[str]) -> Any:
        fixed = arrays.keys() if self._outlook else arrays.keys() - self._open_names()
        return present, {name: (arrays[name].dtype, arrays[name].shape) for name in fixed}

    def _open_names(self) -> set[str]:
        """Inputs of the program whose shapes a session takes from each run."""
        assert self._program is not None
        whole = {value.name for value in self._program.graph.input if value.type.HasField("tensor_type")}
        return whole | (set() if self._host is None else set(self._host.feeds))

    def _build(self, arrays: dict[str, Array], constants: set[str], present: list[str]) -> None:
        assert self._program is not None
        model = onnx.ModelProto()
        model.CopyFrom(self._program)
        feeds = [] if self._host is None else self._host.feeds
        kept = [value for value in self._program.graph.input if value.name not in constants]
        kept += [_fed(name, arrays[name]) for name in feeds if name not in constants]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        for i in reversed(range(len(model.graph.initializer))):
            if model.graph.initializer[i].name in arrays:  # the array replaces its value
                del model.graph.initializer[i]
        for name in sorted(constants):
            model.graph.initializer.append(onnx.numpy_helper.from_array(arrays[name], name))
        streams = [name for name in arrays if name not in constants]
        results: dict[str, _Output] = {value.name: [(value.name, [])] for value in model.graph.output}
        if self._outlook or self._may_vary:
            shapes = _shapes_of(arrays, streams, kept, present)
            found = popart_core._output_tensors(model.SerializeToString(), shapes, self._options.constantWeights)
            self._outlook = self._outlook or any(lengths for parts in found.values() for _, lengths in parts)
            results = found if self._outlook else results
        named = streams if self._outlook else sorted(set(streams) - self._open_names())
        shapes = _shapes_of(arrays, named, kept, present)
        wanted = [
            tensor
            for parts in results.values()
            for name, lengths in parts
            for tensor in (name, *(length for length, _ in lengths))
        ]
        session = self._session_of(model, wanted, shapes) if wanted else None
        if session is not None:
            session.setInputShapes({name: arrays[name] for name in streams})
        self._session, self._streams, self._results = session, streams, results
        self._constants = {name: arrays[name] for name in constants}

    def _session_of(self, model: onnx.ModelProto, wanted: list[str], shapes: InputShapeInfo) -> InferenceSession:
        session = InferenceSession(
            model.SerializeToString(),
            DataFlow(1, {name: AnchorReturnType("All") for name in wanted}),
            DeviceManager().createCpuDevice(),
            inputShapeInfo=shapes,
            userOptions=self._options,
            name="backend",
        )
        session.prepareDevice()
        return session


def _has_operator(model: onnx.ModelProto, types: frozenset[str]) -> bool:
    """Whether a node of the model, or of a graph inside it, has one of the operator types."""

    def has(node: onnx.NodeProto) -> bool:
        graphs = [graph for attribute in node.attribute for graph in [attribute.g, *attribute.graphs]]
        return node.op_type in types or any(has(inner) for graph in graphs for inner in graph.node)

    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return any(has(node) for node in nodes)


def _shapes_of(
    arrays: Mapping[str, Array], names: Sequence[str], inputs: Sequence[onnx.ValueInfoProto], present: Sequence[str]
) -> InputShapeInfo:
    """Types and shapes of the named arrays, and of the empty sequences that are present."""
    shapes = InputShapeInfo()
    for value in inputs:
        if value.type.HasField("optional_type") and value.name in present and value.name not in arrays:
            shapes.add(value.name, TensorInfo("BOOL", []))
    for name in names:
        shapes.add(name, TensorInfo(arrays[name].dtype.name, arrays[name].shape))
    return shapes


def _held(kind: onnx.TypeProto) -> onnx.TypeProto:
    """The element type of an optional type; other types unchanged."""
    return kind.optional_type.elem_type if kind.HasField("optional_type") else kind


def _flat(name: str, value: Any, kind: onnx.TypeProto) -> dict[str, Array]:
    """Split one input into tensors.

    Returns:
        Its tensors by name: those of a sequence are "name/0", "name/1", ….

    Raises:
        popart_exception: The value does not fit the type of the input.
    """
    if value is None and kind.HasField("optional_type"):
        return {}
    if isinstance(value, list | tuple) and _held(kind).HasField("sequence_type"):
        return {f"{name}/{i}": np.asarray(element, order="C") for i, element in enumerate(value)}
    if not isinstance(value, np.ndarray | np.generic) or _held(kind).HasField("sequence_type") or is_text(value):
        raise popart_core.popart_exception(
            f"input '{name}': maps and sequences of sequences are not supported: got {type(value).__name__}, expected "
            "an array of numbers, or a list of arrays for a sequence"
        )
    return {name: np.asarray(value, order="C")}


def _cut(array: Array, sizes: Mapping[int, int]) -> Array:
    """The array without the elements beyond `sizes`, which are given by dimension."""
    return array[tuple(slice(sizes.get(i)) for i in range(array.ndim))] if sizes else array


def _as_onnx(array: Array) -> Array:
    """Convert FLOAT8 arrays from PopART's named bytes to the types of ml_dtypes, which onnx uses."""
    names = {"float8_143": ml_dtypes.float8_e4m3fnuz, "float8_152": ml_dtypes.float8_e5m2fnuz}
    return array.view(names[array.dtype.names[0]]) if array.dtype.names else array


def _fed(name: str, array: Array) -> onnx.ValueInfoProto:
    """An input of the program whose value the host computes, with any shape of this rank."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, [f"{name}/{i}" for i in range(array.ndim)])


class Backend(onnx.backend.base.Backend):
    """PopART as an ONNX backend."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the device is supported; an unsupported model raises an error when it is compiled."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Make a model ready to run.

        Args:
            model: The model.
            device: "CPU".
            **kwargs: ``options``, the session options.

        Returns:
            A `BackendRep`.

        Raises:
            popart_exception: The device is not supported. The model itself is checked when it runs.
        """
        if not cls.supports_device(device):
            raise popart_core.popart_exception(f"backend: unknown device: got '{device}', expected 'CPU'")
        return BackendRep(model, **kwargs)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepare and run a model once.

        Returns:
            As `BackendRep.run`.

        Raises:
            popart_exception: As `prepare` and `BackendRep.run`.
        """
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run one operator on arrays.

        Args:
            node: The operator.
            inputs: One array per non-empty input name.
            device: "CPU".
            outputs_info: Not used: types and shapes follow from the operator.
            **kwargs: ``opset_version``, the operator set of ``node`` (default: the newest of the installed onnx).

        Returns:
            The outputs, in order.

        Raises:
            popart_exception: The operator is not supported, or an array does not fit it.
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(array) for array in inputs]
        names = [name for name in node.input if name]
        values = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], node.op_type, values, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``device`` (such as "CPU" or "CPU:0") is supported."""
        return device.partition(":")[0] == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
