"""Operators of users: those of loaded C++ libraries, and those with kernels in NumPy or PyTorch."""

import atexit
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import popart_core

from popxl.context import get_current_context
from popxl.dtypes import dtype
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor, TensorSpec

Kernel = Callable[..., Any]
_FRAMEWORKS = ("numpy", "torch")
_definitions: dict[tuple[str, str, int], "_Definition"] = {}
atexit.register(popart_core._forgetPythonOps)


def custom_op(
    name: str,
    *inputs: Tensor,
    domain: str,
    version: int = 1,
    attributes: Mapping[str, Any] | None = None,
    num_outputs: int = 1,
) -> tuple[Tensor, ...]:
    """Add an operator that a user has registered to the current graph.

    Args:
        name: type of the operator, as registered.
        *inputs: operands of the operator.
        domain: domain of the operator.
        version: version of the operator.
        attributes: numbers, strings, and lists of one of them.
        num_outputs: number of results.

    Returns:
        One tensor per result, named ``<name>_out``.

    Raises:
        TypeError: an input is not a tensor.
        ValueError: a tensor belongs to another graph, the tensors are on different IPUs or tile sets, or the number of
            results is negative.
        popart_exception: no such operator is registered, it refuses its inputs or attributes, or it has another number
            of results.
    """
    ctx = get_current_context()
    graph = ctx.graph
    if num_outputs < 0:
        raise ValueError(f"custom_op '{name}': wrong number of outputs: got {num_outputs}, expected 0 or more.")
    named = {f"inputs_{i}": t for i, t in enumerate(inputs)}
    check_in_graph(graph, **named)
    check_tensor_ipu_and_tile_set(**named)
    outputs = graph._create_tensor_ids([f"{name}_out"] * num_outputs)
    settings = ctx._get_op_settings(name.lower())
    row = f"{domain}.{name}:{version}"
    op = graph._create_op(row, [t.id for t in inputs], outputs, dict(attributes or {}), settings)
    ctx._op_created(op)
    return tuple(graph.ir._tensor(graph, op.outTensor(i)) for i in range(num_outputs))


@dataclass
class _Definition:
    """The functions of an operator in Python; a later definition of the same name replaces them."""

    name: str
    forward: Kernel
    backward: Kernel | None
    shapes: Kernel | None
    torch: bool

    def specs(self, arguments: Mapping[str, Any], inputs: Sequence[TensorSpec]) -> list[TensorSpec]:
        """Return the specs of the results.

        Raises:
            TypeError: the function `shapes` does not return TensorSpecs.
        """
        if self.shapes is None:
            if not inputs:
                raise TypeError(f"{self.name}: an operator without inputs needs `shapes`.")
            return [inputs[0]]
        specs = _listed(self.shapes(*inputs, **arguments))
        if not all(isinstance(s, TensorSpec) for s in specs):
            raise TypeError(f"{self.name}: `shapes` must give popxl.TensorSpec: got {specs}.")
        return specs

    def differentiable(self) -> bool:
        """Whether the operator has a gradient."""
        return self.backward is not None or self.torch

    def infos(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> list[tuple[str, list[int]]]:
        """Convert specs for the core."""
        specs = self.specs(json.loads(text), [TensorSpec(shape, dtype.as_dtype(name)) for name, shape in inputs])
        return [(s.dtype.as_numpy().name, list(s.shape)) for s in specs]

    def run(self, text: str, inputs: list[np.ndarray], outputs: list[tuple[str, list[int]]]) -> list[np.ndarray]:
        """Call the forward function."""
        results = self._call(self.forward, inputs, json.loads(text))
        return self._checked("forward", results, [(name, tuple(shape)) for name, shape in outputs])

    def run_gradient(self, text: str, given: list[np.ndarray], outputs: list[Any]) -> list[np.ndarray]:
        """Call the backward function: from inputs and gradients of the results to gradients of the inputs."""
        inputs, gradients = given[: len(outputs)], given[len(outputs) :]
        arguments = json.loads(text)
        if self.backward is None:
            results = self._automatic(inputs, gradients, arguments)
        else:
            results = self._call(self.backward, [*gradients, *inputs], arguments)
        results = [np.zeros_like(x) if g is None else g for x, g in zip(inputs, results, strict=False)] + results[
            len(inputs) :
        ]
        return self._checked("backward", results, [(x.dtype.name, x.shape) for x in inputs])

    def _call(self, function: Kernel, arrays: list[np.ndarray], arguments: Mapping[str, Any]) -> list[Any]:
        if self.torch:
            import torch

            return _listed(function(*(torch.from_numpy(a) for a in arrays), **arguments))
        return _listed(function(*arrays, **arguments))

    def _automatic(self, inputs: list[np.ndarray], gradients: list[np.ndarray], arguments: Mapping[str, Any]) -> list:
        """Compute the gradients by PyTorch's autograd."""
        import torch

        tensors = [torch.from_numpy(x) for x in inputs]
        wanted = [t.requires_grad_() for t in tensors if t.is_floating_point()]
        with torch.enable_grad():
            results = _listed(self.forward(*tensors, **arguments))
        pairs = [(r, torch.from_numpy(g)) for r, g in zip(results, gradients, strict=True) if r.requires_grad]
        if not pairs:
            return [None] * len(inputs)
        found = iter(torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True))
        return [next(found) if t.is_floating_point() else None for t in tensors]

    def _checked(self, what: str, results: list[Any], expected: list[tuple[str, tuple[int, ...]]]) -> list[np.ndarray]:
        if len(results) != len(expected):
            raise ValueError(f"{self.name}: `{what}` gives {len(results)} results, expected {len(expected)}.")
        arrays = [np.asarray(r.detach().numpy() if hasattr(r, "detach") else r) for r in results]
        for i, (array, (name, shape)) in enumerate(zip(arrays, expected, strict=True)):
            if array.shape != shape:
                raise ValueError(f"{self.name}: result {i} of `{what}` has shape {array.shape}, expected {shape}.")
            arrays[i] = np.ascontiguousarray(array, np.dtype(name)).reshape(shape)
        return arrays


def _latest(key: tuple[str, str, int], method: str) -> Kernel:
    """Return a function that calls a method of the latest definition of the name."""
    return lambda *args: getattr(_definitions[key], method)(*args)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def define_op(
    name: str,
    forward: Kernel,
    backward: Kernel | None = None,
    shapes: Kernel | None = None,
    *,
    domain: str = "python",
    version: int = 1,
    framework: str = "numpy",
) -> Callable[..., Any]:
    """Define an operator whose kernel is a Python function.

    Args:
        name: type of the operator, as printed schedules show it.
        forward: function of the input arrays, and of the arguments of a call by name, that returns the result or a list
            of results. They are converted to the element types that `shapes` returns.
        backward: function of the gradients of the results, then the inputs (and the arguments by name), that returns
            the gradient of each input; None means zero. Without it the operator has no gradient, with PyTorch the one
            of autograd.
        shapes: function of the inputs' TensorSpecs (and the arguments by name) that returns the TensorSpec of the
            result or a list of them; default: one result like the first input.
        domain: domain of the operator.
        version: version of the operator.
        framework: ``"numpy"``: functions get arrays; ``"torch"``: they get tensors on the CPU.

    Returns:
        A function of tensors, and of arguments by name (numbers, strings, None, lists and dictionaries of them). It
        adds the operator to the current graph and returns its result, or a tuple if `shapes` returns several.

    Raises:
        ValueError: unknown framework.
        popart_exception: the operator is registered by a library, or is one of PopART's.
    """
    if framework not in _FRAMEWORKS:
        raise ValueError(f"define_op: framework: got {framework!r}, expected one of {', '.join(_FRAMEWORKS)}.")
    key = (domain, name, version)
    made = _Definition(name, forward, backward, shapes, framework == "torch")
    if key not in _definitions:
        latest = (_latest(key, method) for method in ("infos", "run", "run_gradient", "differentiable"))
        popart_core._registerPythonOp(*key, *latest)
    _definitions[key] = made

    def add(*inputs: Tensor, **arguments: Any) -> Any:
        check_in_graph(get_current_context().graph, **{f"inputs_{i}": t for i, t in enumerate(inputs)})
        count = len(_definitions[key].specs(arguments, [t.spec for t in inputs]))
        text = json.dumps(arguments, sort_keys=True)
        results = custom_op(
            name, *inputs, domain=domain, version=version, attributes={"arguments": text}, num_outputs=count
        )
        return results[0] if count == 1 else results

    add.__name__ = name
    add.__doc__ = forward.__doc__
    return add
