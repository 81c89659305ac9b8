"""One node of com.microsoft, compared with ONNX Runtime, and its gradients with finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx import TensorProto
from tests.python.onnx.single_node import Array, Node, check_gradients, runtime_values, values

DOMAIN = "com.microsoft"


def microsoft(
    operator: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    outputs: str = "y",
    constant: Sequence[int] = (),
) -> Node:
    """A node of com.microsoft; inputs at `constant` are initializers."""
    return Node(operator, inputs, attributes or {}, outputs, opset=17, domain=DOMAIN, constant=constant)


def check_like_runtime(
    node: Node,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    element: int | Sequence[int] = TensorProto.FLOAT,
    steps: int = 0,
    gradients: Sequence[int] = (),
) -> None:
    """The node gives what ONNX Runtime gives.

    Args:
        node: The node.
        rtol: Relative tolerance of floats.
        atol: Absolute tolerance of floats.
        element: ONNX type numbers of the outputs, or one for all.
        steps: By how much integers may differ: sums of floats that are near a half are rounded either way.
        gradients: Inputs whose gradients are compared with finite differences.
    """
    expected, got = runtime_values(node, element), values(node)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if np.issubdtype(theirs.dtype, np.floating):
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
        else:
            assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0) <= steps
    if gradients:
        check_gradients(node, gradients)
