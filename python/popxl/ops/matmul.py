"""Matrix products."""

from popxl import dtypes
from popxl.context import _CURRENT_CONTEXT, get_current_graph
from popxl.dtypes import dtype
from popxl.ops._float8 import FLOAT8, check_log2_scale, check_scaled
from popxl.ops.elementwise import _ONNX_NUMBER
from popxl.ops.utils import check_in_graph, check_memory_proportion, emit_one
from popxl.tensor import Tensor


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: float | None = None,
    output_type: dtype | None = None,
    partials_type: dtype | None = None,
) -> Tensor:
    """Return the matrix product by NumPy's rules: 1-D operands are promoted, leading dimensions broadcast.

    Args:
        lhs: tensor of shape (…, M, K).
        rhs: tensor of shape (…, K, N), same dtype.
        available_memory_proportion: hint in (0, 1].
        output_type: dtype of the result, default that of the operands.
        partials_type: float16 or float32; sums are float32 or wider in any case.

    Returns:
        Tensor of shape (…, M, N); the dimension added to a 1-D operand is removed (numeric; ONNX MatMul-13).

    Raises:
        ValueError: the partials type, or the session option partialsTypeMatMuls, is unknown.
        popart_exception: an operand is a scalar, or dtypes or inner sizes differ.
    """
    check_memory_proportion(available_memory_proportion)
    if partials_type not in (None, dtypes.float16, dtypes.float32):
        raise ValueError(f"partials_type: got {partials_type}, expected float16 or float32.")
    option = _CURRENT_CONTEXT.ir._options.partialsTypeMatMuls
    if option and option.lower() not in ("half", "float"):
        raise ValueError(f"SessionOptions.partialsTypeMatMuls: got {option!r}, expected '', 'half' or 'float'.")
    attributes = {} if output_type is None else {"output_type": _ONNX_NUMBER[output_type.name]}
    return emit_one("MatMul", {"lhs": lhs, "rhs": rhs}, "matmul_out", attributes)


def matmul_pow2scaled(
    lhs: Tensor, rhs: Tensor, log2_scale: Tensor, available_memory_proportion: float | None = None
) -> Tensor:
    """Multiply float8 matrices of either format by NumPy's rules, as `matmul` does.

    Args:
        lhs: float8 tensor of shape (…, M, K).
        rhs: float8 tensor of shape (…, K, N).
        log2_scale: int32 scalar: the result is multiplied by 2 to this power, -32 to 31.
        available_memory_proportion: hint for tiles; no effect.

    Returns:
        The float16 tensor of shape (…, M, N); sums are float32 and rounded once. It has no gradient.

    Raises:
        TypeError: an operand is not a float8 tensor, or log2_scale is not int32.
        ValueError: log2_scale is not a scalar, or the proportion is outside (0, 1].
        popart_exception: shapes do not fit.
    """
    check_memory_proportion(available_memory_proportion)
    check_scaled("matmul_pow2scaled", log2_scale, lhs=lhs, rhs=rhs)
    return emit_one("MatMul", {"lhs": lhs, "rhs": rhs, "log2_scale": log2_scale}, "matmul_pow2scaled_out")


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtype) -> Tensor:
    """Round ``t * 2^log2_scale`` to float8, to nearest even; values above the largest one become NaN.

    Args:
        t: float16 or float32 tensor.
        log2_scale: int32 scalar, -32 to 31.
        data_type: float8_143 or float8_152.

    Returns:
        Tensor of the shape of t. It has no gradient.

    Raises:
        TypeError: data_type or the dtype of t is none of these, or log2_scale is not int32.
        ValueError: log2_scale is not a scalar.
    """
    if data_type not in FLOAT8:
        raise TypeError(f"pow2scale_cast_to_fp8: data_type must be float8_143 or float8_152: got {data_type}.")
    check_in_graph(get_current_graph(), t=t, log2_scale=log2_scale)
    if t.dtype not in _WIDE:
        raise TypeError(f"pow2scale_cast_to_fp8: argument `t` must be float16 or float32: got {t.dtype}.")
    return _scaled_cast("Pow2ScaleThenCast", "pow2scale_cast_to_fp8", t, log2_scale, data_type)


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtype) -> Tensor:
    """Return ``t * 2^log2_scale`` in float16 or float32.

    Args:
        t: float8 tensor.
        log2_scale: int32 scalar, -32 to 31.
        data_type: float16 or float32.

    Returns:
        Tensor of the shape of t. It has no gradient.

    Raises:
        TypeError: data_type is none of these, t is not a float8 tensor, or log2_scale is not int32.
        ValueError: log2_scale is not a scalar.
    """
    if data_type not in _WIDE:
        raise TypeError(f"pow2scale_cast_from_fp8: data_type must be float16 or float32: got {data_type}.")
    check_scaled("pow2scale_cast_from_fp8", log2_scale, t=t)
    return _scaled_cast("CastThenPow2Scale", "pow2scale_cast_from_fp8", t, log2_scale, data_type)


def _scaled_cast(op_type: str, function: str, t: Tensor, log2_scale: Tensor, data_type: dtype) -> Tensor:
    check_log2_scale(function, log2_scale)
    attributes = {"to": _ONNX_NUMBER[data_type.name]}
    return emit_one(op_type, {"t": t, "log2_scale": log2_scale}, f"{t.name}_{data_type.name}", attributes)


_WIDE = (dtypes.float16, dtypes.float32)
