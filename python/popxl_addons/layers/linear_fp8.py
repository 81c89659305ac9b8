"""LinearFP8: a linear layer with matrix products of 8-bit floats, forward and backward."""

from math import prod

import popxl
from popxl import ops

from popxl_addons.layers.initial import normal
from popxl_addons.layers.linear import Linear
from popxl_addons.ops.fp8_amax_scale import fp8_amax_scale
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale

_METRICS = ("amax", "mse", "manual_scale")
_SPARE = 3  # spare powers of two between gradients and the end of the range


class LinearFP8(Linear):
    """``x @ weight + bias``, where x, weight and gradients are rounded to float8 before each product.

    It has a handwritten gradient: call it through `Module.call_module` or `create_graph`.

    Args:
        out_features: columns of the weight.
        bias: whether there is a bias.
        scale_metric: how to find the power of two before rounding: ``"amax"`` (the largest magnitude fits),
            ``"mse"`` (least mean squared error) or ``"manual_scale"``.
        scale: the power of two for ``"manual_scale"``.
        replica_grouping: replicas that share a weight, default all.

    Raises:
        ValueError: the metric is unknown.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        scale_metric: str = "amax",
        scale: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__(out_features, bias, replica_grouping)
        if scale_metric not in _METRICS:
            raise ValueError(f"LinearFP8: scale_metric: got {scale_metric!r}, expected one of {', '.join(_METRICS)}.")
        self.scale_metric = scale_metric
        self.scale = scale

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: float16 or float32 tensor of shape (…, in_features).

        Returns:
            Tensor of shape (…, out_features) and the dtype of x.
        """
        self.weight = self.add_variable_input(
            "weight", normal(x.shape[-1], self.out_features), x.dtype, replica_grouping=self.replica_grouping
        )
        x_scale, x8 = self._rounded(_rows(x), popxl.float8_143)
        w_scale, w8 = self._rounded(self.weight, popxl.float8_143)
        self.aux["x8"], self.aux["x_scale"] = x8, x_scale
        self.aux["w8"], self.aux["w_scale"] = w8, w_scale
        self.aux["shape"] = x.shape
        y = _product(x8, w8, w_scale, x_scale, x.dtype)
        if self.bias:
            y = y + self.add_bias(x.dtype)
        return y if x.rank == 2 else ops.reshape(y, (*x.shape[:-1], self.out_features))

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the gradient.

        Args:
            dy: gradient of the result.

        Returns:
            The gradient of x; those of the variables are assigned by name.
        """
        rows = _rows(dy)
        scale, dy8 = self._rounded(rows, popxl.float8_152)
        dx = _product(dy8, ops.transpose(self.aux["w8"]), self.aux["w_scale"], scale, dy.dtype)
        dw = _product(ops.transpose(dy8), self.aux["x8"], self.aux["x_scale"], scale, dy.dtype)
        self.var_grad["weight"] = ops.transpose(dw)
        if self.bias:
            self.var_grad["bias"] = ops.sum(rows, 0)
        return dx if len(self.aux["shape"]) == 2 else ops.reshape(dx, self.aux["shape"])

    def _rounded(self, t: popxl.Tensor, dtype: popxl.dtype) -> tuple[popxl.Tensor, popxl.Tensor]:
        """The power of two for t, and t times it in float8; for gradients (float8_152) with a margin."""
        if self.scale_metric == "manual_scale":
            scale = popxl.constant(self.scale, popxl.int32, "scale")
        else:
            scale = (fp8_amax_scale if self.scale_metric == "amax" else fp8_mse_scale)(t, dtype)
        if dtype == popxl.float8_152:
            lower = ops.cast(scale - _SPARE, popxl.float32)
            scale = ops.cast(ops.clip(lower, -31.0, 31.0), popxl.int32)
        return scale, ops.pow2scale_cast_to_fp8(t, scale, dtype)


def _rows(t: popxl.Tensor) -> popxl.Tensor:
    """Reshape to two dimensions: all but the last one are joined."""
    return t if t.rank == 2 else ops.reshape(t, (prod(t.shape[:-1]), t.shape[-1]))


def _product(
    lhs: popxl.Tensor, rhs: popxl.Tensor, a: popxl.Tensor, b: popxl.Tensor, dtype: popxl.dtype
) -> popxl.Tensor:
    """``lhs @ rhs`` without the powers of two a and b."""
    y = ops.matmul_pow2scaled(lhs, rhs, ops.negate(a) - b)
    return y if dtype == popxl.float16 else ops.cast(y, dtype)


__all__ = ["LinearFP8"]
