"""Matrix products."""

from popxl import dtypes
from popxl._session_options import get_session_options
from popxl.context import get_current_graph
from popxl.dtypes import dtype
from popxl.ops.elementwise import _ONNX_NUMBER
from popxl.ops.utils import check_in_graph, check_memory_proportion, emit_one, unsupported
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
        Tensor of shape (…, M, N); 1-D operands lose their dimension again (numeric; ONNX MatMul-13).

    Raises:
        ValueError: another partials type, or a session option partialsTypeMatMuls that names none.
        popart_exception: scalars, different dtypes, or inner sizes differ.
    """
    check_memory_proportion(available_memory_proportion)
    if partials_type not in (None, dtypes.float16, dtypes.float32):
        raise ValueError(f"partials_type: got {partials_type}, expected float16 or float32.")
    option = get_session_options(get_current_graph().ir._pb_ir).partialsTypeMatMuls
    if option.lower() not in ("", "half", "float"):
        raise ValueError(f"SessionOptions.partialsTypeMatMuls: got {option!r}, expected '', 'half' or 'float'.")
    check_in_graph(get_current_graph(), lhs=lhs, rhs=rhs)
    attributes = {} if output_type is None else {"output_type": _ONNX_NUMBER[output_type.name]}
    return emit_one("MatMul", {"lhs": lhs, "rhs": rhs}, "matmul_out", attributes)


def matmul_pow2scaled(
    lhs: Tensor, rhs: Tensor, log2_scale: Tensor, available_memory_proportion: float | None = None
) -> Tensor:
    """Multiply float8 matrices.

    Args:
        lhs: left operand.
        rhs: right operand.
        log2_scale: int32 scalar: the result is multiplied by 2 to this power, -32 to 31.
        available_memory_proportion: hint for tiles; no effect.

    Returns:
        The result.

    Raises:
        popart_exception: float8 arithmetic is not supported yet.
    """
    raise unsupported("matmul_pow2scaled", "Use ops.matmul on float16 or float32 tensors.")


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtype) -> Tensor:
    """Round to float8.

    Args:
        t: the tensor.
        log2_scale: int32 scalar: the result is multiplied by 2 to this power, -32 to 31.
        data_type: element type of the result.

    Returns:
        The result.

    Raises:
        popart_exception: float8 arithmetic is not supported yet.
    """
    raise unsupported("pow2scale_cast_to_fp8", "Use float16 or float32 tensors.")


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtype) -> Tensor:
    """Convert from float8.

    Args:
        t: the tensor.
        log2_scale: int32 scalar: the result is multiplied by 2 to this power, -32 to 31.
        data_type: element type of the result.

    Returns:
        The result.

    Raises:
        popart_exception: float8 arithmetic is not supported yet.
    """
    raise unsupported("pow2scale_cast_from_fp8", "Use float16 or float32 tensors.")
