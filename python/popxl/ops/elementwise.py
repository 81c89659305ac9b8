"""Element-wise ops. Unary ones keep shape and dtype; binary ones broadcast as NumPy does and need equal dtypes."""

from typing import Any

from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.dtypes import dtype
from popxl.ops.utils import add_op, cast_if_needed, check_in_graph, check_tensor_ipu_and_tile_set, emit_one
from popxl.tensor import Tensor, TensorLike, constant


def _unary(op_type: str, t: Tensor, output: str) -> Tensor:
    return add_op(op_type, {"t": t}, [output])[0]


def _check_operands(**tensors: Tensor) -> None:
    """Check the placement of tensors before casts, whose own placement hides that of the operand."""
    check_in_graph(_graph(), **tensors)
    check_tensor_ipu_and_tile_set(**tensors)


def _binary(op_type: str, lhs: Tensor, rhs: Tensor, output: str) -> Tensor:
    return add_op(op_type, {"lhs": lhs, "rhs": rhs}, [output])[0]


def abs(t: Tensor) -> Tensor:
    """Return |t|, numeric (ONNX Abs-13)."""
    return _unary("Abs", t, "abs_out")


def ceil(t: Tensor) -> Tensor:
    """Round up to integers, floats (ONNX Ceil-13).

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    return _unary("Ceil", t, "ceil_out")


def floor(t: Tensor) -> Tensor:
    """Round down to integers, floats (ONNX Floor-13).

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    return _unary("Floor", t, "floor_out")


def sign(t: Tensor) -> Tensor:
    """Return -1, 0 or 1, numeric; NaN stays (ONNX Sign-13).

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    return _unary("Sign", t, "sign_out")


def cos(t: Tensor) -> Tensor:
    """Cosine of t in radians, floats (ONNX Cos-22)."""
    return _unary("Cos", t, "cos_out")


def sin(t: Tensor) -> Tensor:
    """Sine of t in radians, floats (ONNX Sin-22)."""
    return _unary("Sin", t, "sin_out")


def exp(t: Tensor) -> Tensor:
    """Return e^t, floats (ONNX Exp-13)."""
    return _unary("Exp", t, "exp_out")


def exp_(t: Tensor) -> Tensor:
    """Replace t by e^t; the result shares its memory."""
    return _unary("ExpInplace", t, "exp_inplace_out")


def log(t: Tensor) -> Tensor:
    """Return the natural logarithm, floats; NaN below 0 (ONNX Log-13).

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    return _unary("Log", t, "log_out")


def log2(t: Tensor) -> Tensor:
    """Return the logarithm to base 2, floats, computed as log(t) / log(2)."""
    check_in_graph(_graph(), t=t)
    return div(log(t), log(constant(2, t.dtype)))


def sqrt(t: Tensor) -> Tensor:
    """Return the square root, floats; NaN below 0 (ONNX Sqrt-13).

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    return _unary("Sqrt", t, "sqrt_out")


def tanh(t: Tensor) -> Tensor:
    """Hyperbolic tangent of t, floats (ONNX Tanh-13)."""
    return _unary("Tanh", t, "tanh_out")


def relu(t: Tensor) -> Tensor:
    """Return max(t, 0), floats and signed integers (ONNX Relu-14)."""
    return _unary("Relu", t, "relu_out")


def relu_(t: Tensor) -> Tensor:
    """Replace t by max(t, 0); the result shares its memory."""
    return _unary("ReluInplace", t, "relu_inplace_out")


def gelu(t: Tensor) -> Tensor:
    """Return 0.5 t (1 + tanh(sqrt(2/pi) (t + 0.044715 t^3))), floats (Hendrycks & Gimpel 2016)."""
    return _unary("Gelu", t, "gelu_out")


def gelu_(t: Tensor) -> Tensor:
    """Replace t by `gelu` of it; the result shares its memory."""
    return _unary("GeluInplace", t, "gelu_inplace_out")


def geluerf(t: Tensor) -> Tensor:
    """Return 0.5 t (1 + erf(t / sqrt(2))), floats (Hendrycks & Gimpel 2016)."""
    return _unary("GeluErf", t, "geluerf_out")


def geluerf_(t: Tensor) -> Tensor:
    """Replace t by `geluerf` of it; the result shares its memory."""
    return _unary("GeluErfInplace", t, "geluerf_inplace_out")


def swish(t: Tensor) -> Tensor:
    """Return t * sigmoid(t), floats (ONNX Swish-24 with alpha 1)."""
    return _unary("Swish", t, "swish_out")


def swish_(t: Tensor) -> Tensor:
    """Replace t by `swish` of it; the result shares its memory."""
    return _unary("SwishInplace", t, "swish_inplace_out")


def negate(t: Tensor) -> Tensor:
    """Return -t, floats and signed integers (ONNX Neg-13)."""
    return _unary("Neg", t, "negate_out")


def isnan(t: Tensor) -> Tensor:
    """Return a bool tensor: true where t is NaN; floats (ONNX IsNaN-20)."""
    return _unary("IsNaN", t, "isnan_out")


def isinf(t: Tensor) -> Tensor:
    """Return a bool tensor: true where t is infinite; floats (ONNX IsInf-20)."""
    return _unary("IsInf", t, "isinf_out")


def isfinite(t: Tensor) -> Tensor:
    """Return a bool tensor: true where t is neither NaN nor infinite; floats."""
    return identity(logical_not(logical_or(isnan(t), isinf(t))), "isfinite_out")


def logical_not(t: Tensor) -> Tensor:
    """Return the logical negation, bool (ONNX Not-1); other dtypes are cast to bool first.

    Args:
        t: the tensor.

    Returns:
        The result.
    """
    check_in_graph(_graph(), t=t)
    return _unary("Not", cast_if_needed(t, dtypes.bool), "not_out")


def identity(t: Tensor, output_name: str | None = None) -> Tensor:
    """Return a copy of t.

    Args:
        t: any tensor.
        output_name: name of the copy, default ``identity_<t.name>``.

    Returns:
        Tensor of the shape and dtype of t (ONNX Identity-25).
    """
    check_in_graph(_graph(), t=t)
    return _unary("Identity", t, output_name or f"identity_{t.name}")


rename = identity


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:
    """Limit t to [min, max], numeric (ONNX Clip-13); NaN stays."""
    return emit_one("Clip", {"t": t}, "clip_out", {"min": float(min), "max": float(max)})


clamp = clip


def cast(t: Tensor, data_type: dtype) -> Tensor:
    """Convert to another dtype; floats to integers truncate toward zero, to bool is non-zero.

    Args:
        t: the tensor.
        data_type: element type of the result.

    Returns:
        Tensor of the shape of t (ONNX Cast-25).

    Raises:
        TypeError: the target is not a popxl dtype, or a float8 type; use `pow2scale_cast_to_fp8`.
    """
    check_in_graph(_graph(), t=t)
    dtype._require(data_type, "cast")
    if data_type in (dtypes.float8_143, dtypes.float8_152):
        raise TypeError(f"Cannot cast to {data_type}; use ops.pow2scale_cast_to_fp8.")
    return emit_one("Cast", {"t": t}, f"{t.name}_{data_type.name}", {"to": _ONNX_NUMBER[data_type.name]})


_ONNX_NUMBER = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "float8_143": 18, "float8_152": 20,
}  # fmt: skip


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Return (t + increment) mod modulus, numeric, with the sign of C's fmod."""
    attributes = {"increment": float(increment), "modulus": float(modulus)}
    return emit_one("IncrementMod", {"t": t}, "increment_mod_out", attributes)


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """Replace t by (t + increment) mod modulus; the result shares its memory."""
    attributes = {"increment": float(increment), "modulus": float(modulus)}
    return emit_one("IncrementModInplace", {"t": t}, "increment_mod_inplace_out", attributes)


def detach(t: Tensor) -> Tensor:
    """Return t, any dtype; no gradient passes through."""
    return _unary("Detach", t, "detach_out")


def detach_(t: Tensor) -> Tensor:
    """As `detach`; the result shares the memory of t."""
    return _unary("DetachInplace", t, "detach_out")


# ---- two and three operands
def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs + rhs, numeric (ONNX Add-14); integers wrap."""
    return _binary("Add", lhs, rhs, "add_out")


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Add rhs to lhs in place; the broadcast shape must be that of lhs, else popart_exception."""
    return _binary("AddLhsInplace", lhs, rhs, "add_lhs_inplace_out")


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs - rhs, numeric (ONNX Sub-14); integers wrap."""
    return _binary("Sub", lhs, rhs, "sub_out")


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs * rhs, numeric (ONNX Mul-14); integers wrap."""
    return _binary("Mul", lhs, rhs, "mul_out")


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs / rhs, numeric (ONNX Div-14); integers truncate toward zero."""
    return _binary("Div", lhs, rhs, "div_out")


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return the remainder of lhs / rhs with the sign of lhs, numeric (C's fmod)."""
    return _binary("Fmod", lhs, rhs, "fmod_out")


def pow(t: Tensor, e: TensorLike) -> Tensor:
    """Return t to the power e, numeric (ONNX Pow-15); a value that is not a tensor becomes a constant.

    Args:
        t: the tensor.
        e: exponent of the dtype of t. The constant has its own inferred dtype: a float tensor needs ``2.0``, not ``2``.

    Returns:
        The result.

    Raises:
        popart_exception: the dtypes differ, or the shapes do not fit.
    """
    check_in_graph(_graph(), t=t)
    exponent = e if isinstance(e, Tensor) else constant(e)
    if isinstance(exponent, Tensor) and exponent.dtype != t.dtype:
        raise popart_exception(
            f"pow: the exponent has another type than the tensor {t.name}: got {exponent.dtype.name}, expected "
            f"{t.dtype.name}. Write a number of that type, as 2.0, or cast the exponent."
        )
    return emit_one("Pow", {"t": t, "e": exponent}, "pow_out")


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return a bool tensor: lhs == rhs; any dtype (ONNX Equal-19)."""
    return _binary("Equal", lhs, rhs, "equal_out")


def greater(input: Tensor, other: Tensor) -> Tensor:
    """Return a bool tensor: input > other; numeric (ONNX Greater-13)."""
    return emit_one("Greater", {"input": input, "other": other}, "greater_out")


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs and rhs, bool (ONNX And-7); other dtypes are cast to bool first."""
    _check_operands(lhs=lhs, rhs=rhs)
    return _binary("And", cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool), "and_out")


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs or rhs, bool (ONNX Or-7); other dtypes are cast to bool first."""
    _check_operands(lhs=lhs, rhs=rhs)
    return _binary("Or", cast_if_needed(lhs, dtypes.bool), cast_if_needed(rhs, dtypes.bool), "or_out")


def maximum(*ts: Tensor) -> Tensor:
    """Return the element-wise maximum of one or more tensors, numeric (ONNX Max-13)."""
    return emit_one("Max", {f"ts_{i}": t for i, t in enumerate(ts)}, "maximum_out")


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Return lhs where the condition holds, else rhs (ONNX Where-16); the condition is cast to bool."""
    _check_operands(condition=condition, lhs=lhs, rhs=rhs)
    condition = cast_if_needed(condition, dtypes.bool)
    return emit_one("Where", {"condition": condition, "lhs": lhs, "rhs": rhs}, "where_out")


def _scaled_add(op_type: str, X: Tensor, Y: Tensor, a: Any, b: Any, output: str) -> Tensor:
    scales = {"scale0": a, "scale1": b}
    inputs = {"X": X, "Y": Y} | {name: s if isinstance(s, Tensor) else None for name, s in scales.items()}
    attributes = {name: float(s) for name, s in scales.items() if not isinstance(s, Tensor)}
    return emit_one(op_type, inputs, output, attributes, optional=scales)


def scaled_add(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:
    """Return a X + b Y with the dtype of X; X and Y have the same shape, a and b are numbers or float scalars."""
    check_in_graph(_graph(), X=X, Y=Y)
    return _scaled_add("ScaledAdd", X, Y, a, b, "scaled_add_out")


def scaled_add_(X: Tensor, Y: Tensor, a: float | Tensor = 1.0, b: float | Tensor = 1.0) -> Tensor:
    """Replace X by a X + b Y; as `scaled_add`, the result shares the memory of X."""
    check_in_graph(_graph(), X=X, Y=Y)
    return _scaled_add("ScaledAddLhsInplace", X, Y, a, b, f"scaled_add__{X.name}")


def _graph() -> Any:
    return get_current_graph()
