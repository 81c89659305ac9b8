"""Random tensors. They depend only on the seed, the shape and the other arguments."""

from collections.abc import Iterable

import numpy as np
from popart._arrays import as_shape
from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.dtypes import dtype
from popxl.ops.elementwise import _ONNX_NUMBER
from popxl.ops.utils import check_in_graph, emit_one
from popxl.tensor import Tensor, constant


def _random(
    op_type: str, seed_tensor: Tensor, shape: Iterable[int], dtype: dtype, output: str, **attributes: float
) -> Tensor:
    if dtype not in (dtypes.float16, dtypes.float32):
        raise popart_exception(f"{op_type}: got dtype {dtype}, expected float16 or float32.")
    attributes = {k: float(v) for k, v in attributes.items()}
    return emit_one(
        op_type,
        {"seed_tensor": seed_tensor},
        output,
        {"shape": list(as_shape(shape, op_type)), "dtype": _ONNX_NUMBER[dtype.name], **attributes},
    )


def random_uniform(
    seed_tensor: Tensor, shape: Iterable[int], low: float = 0.0, high: float = 1.0, dtype: dtype = dtypes.float32
) -> Tensor:
    """Draw from the uniform distribution on [low, high).

    Args:
        seed_tensor: uint32 tensor of shape (2,).
        shape: shape of the result.
        low: lower bound, included.
        high: upper bound, excluded.
        dtype: float16 or float32.

    Returns:
        Tensor of that shape and dtype (ONNX RandomUniform-1, Philox of the seed).

    Raises:
        popart_exception: the dtype is none of these, or the seed is not a uint32 tensor of shape (2,).
    """
    return _random("RandomUniform", seed_tensor, shape, dtype, "random_uniform_out", low=low, high=high)


def random_normal(
    seed_tensor: Tensor, shape: Iterable[int], mean: float = 0.0, std: float = 1.0, dtype: dtype = dtypes.float32
) -> Tensor:
    """Draw from the normal distribution.

    Args:
        seed_tensor: uint32 tensor of shape (2,).
        shape: shape of the result.
        mean: mean.
        std: standard deviation.
        dtype: float16 or float32.

    Returns:
        Tensor of that shape and dtype (ONNX RandomNormal-1, Philox of the seed).

    Raises:
        popart_exception: the dtype is none of these, or the seed is not a uint32 tensor of shape (2,).
    """
    return _random("RandomNormal", seed_tensor, shape, dtype, "random_normal_out", mean=mean, scale=std)


def create_random_seed(seed: Tensor, modifier: Tensor) -> Tensor:
    """Derive a seed, uint32 of shape (2,), from another one and a uint32 scalar."""
    return emit_one("ModifyRandomSeed", {"seed": seed, "modifier": modifier}, "modified_seed")


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """Derive n seeds.

    Args:
        seed: uint32 tensor of shape (2,).
        n: number of seeds.

    Returns:
        n different seeds, uint32 tensors of shape (2,).

    Raises:
        ValueError: the seed is not a uint32 tensor of shape (2,).
    """
    check_in_graph(get_current_graph(), seed=seed)
    if seed.shape != (2,) or seed.dtype != dtypes.uint32:
        raise ValueError(f"seed: got {seed}, expected a uint32 tensor of shape (2,).")
    return tuple(create_random_seed(seed, constant(np.array(i, np.uint32))) for i in range(n))
