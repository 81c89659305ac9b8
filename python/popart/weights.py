"""Weights as safetensors files, by tensor name: those of sessions of popart and popxl, and of ONNX models.

Needs the package ``safetensors``; models also ``onnx``. The weights of a training session include its optimizer state.

Example::

    import popart.weights

    popart.weights.save(session, "weights.safetensors")
    popart.weights.load(session, "weights.safetensors")
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from popart_core import PyWeightsIO, popart_runtime_error

from popart._names import nearest_names
from popart.session import InferenceSession, TrainingSession, _numpy_dtype


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"popart.weights: the package '{package}' is needed: pip install {package}") from error


def _model(source: Any) -> Any:
    """Load the ONNX model of bytes or a file name."""
    onnx = _package("onnx")
    return onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(str(source))


def _popxl_variables(session: Any) -> dict[str, Any]:
    return {variable.name: variable for variable in session.ir.main_graph.variables}


def _session_values(session: InferenceSession | TrainingSession) -> dict[str, np.ndarray]:
    infos = {name: session.getInfo(name) for name in session._variableIds()}
    values = {name: np.empty(i.shape(), _numpy_dtype(i.data_type_lcase())) for name, i in infos.items()}
    session.weightsToHost()
    session.readWeights(PyWeightsIO(values))
    return values


def values_of(source: Any) -> dict[str, np.ndarray]:
    """Return the weights of a session or model.

    Args:
        source: A prepared session of popart, a session of popxl, or an ONNX model as bytes or file name.

    Returns:
        Values by tensor name. Those of a training session of popart include the optimizer's state.

    Raises:
        popart_runtime_error: The session is not prepared.
        ImportError: A model is given and ``onnx`` is not installed.
    """
    if isinstance(source, InferenceSession | TrainingSession):
        return _session_values(source)
    if isinstance(source, bytes | str | Path):
        to_array = _package("onnx.numpy_helper").to_array
        return {tensor.name: to_array(tensor) for tensor in _model(source).graph.initializer}
    variables = _popxl_variables(source)
    data = source.get_tensors_data(variables.values())
    return {name: np.array(data[variable]) for name, variable in variables.items()}


def save(source: Any, filename: str | Path, metadata: dict[str, str] | None = None) -> list[str]:
    """Write the weights of a session or model to a safetensors file.

    Args:
        source: As `values_of`.
        filename: File to write.
        metadata: Texts by name, stored in the file.

    Returns:
        Names of the tensors written.

    Raises:
        ImportError: ``safetensors`` is not installed.
        popart_runtime_error: As `values_of`.
    """
    values = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in values_of(source).items()}
    _package("safetensors.numpy").save_file(values, str(filename), metadata)
    return sorted(values)


def _checked(values: dict[str, np.ndarray], wanted: dict[str, Any], strict: bool) -> dict[str, np.ndarray]:
    """The `wanted` values, after a check of their shapes; with `strict` the names must be the same."""
    for name, value in values.items():
        if name in wanted and tuple(value.shape) != tuple(wanted[name]):
            raise popart_runtime_error(
                f"popart.weights: '{name}': got shape {list(value.shape)}, expected {list(wanted[name])}"
            )
        if strict and name not in wanted:
            raise popart_runtime_error(
                f"popart.weights: '{name}' of the file is not a weight{nearest_names(name, wanted)}. Pass "
                "strict=False to leave it out"
            )
    if strict and (missing := sorted(set(wanted) - set(values))):
        raise popart_runtime_error(
            f"popart.weights: the file has no {missing[:3]}{nearest_names(missing[0], values)}. Pass strict=False to "
            "keep the present values"
        )
    return {name: value for name, value in values.items() if name in wanted}


def load(target: Any, filename: str | Path, strict: bool = True) -> Any:
    """Load the weights of a session or model from a safetensors file.

    Args:
        target: As the source of `values_of`; a session copies them to the device.
        filename: File to read.
        strict: Whether file and target must have the same names.

    Returns:
        Names of the tensors that were set; for a model its bytes with the new values.

    Raises:
        ImportError: ``safetensors`` is not installed.
        popart_runtime_error: A shape differs; with `strict`, only one of the two has a name.
        TypeError: An element type differs (popxl only).
    """
    values = _package("safetensors.numpy").load_file(str(filename))
    if isinstance(target, InferenceSession | TrainingSession):
        chosen = _checked(values, {name: target.getInfo(name).shape() for name in target._variableIds()}, strict)
        target.writeWeights(PyWeightsIO(chosen))
        target.weightsFromHost()
        return sorted(chosen)
    if isinstance(target, bytes | str | Path):
        model, from_array = _model(target), _package("onnx.numpy_helper").from_array
        tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for name, value in _checked(values, {name: t.dims for name, t in tensors.items()}, strict).items():
            tensors[name].CopyFrom(from_array(value, name))
        return model.SerializeToString()
    variables = _popxl_variables(target)
    chosen = _checked(values, {name: v.shape_on_host for name, v in variables.items()}, strict)
    target.write_variables_data({variables[name]: value for name, value in chosen.items()})
    return sorted(chosen)
