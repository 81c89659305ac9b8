"""AdamOptimizerStep: one step of Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

from math import prod

import numpy as np
import popxl
from popxl import ops

from popxl_addons.first_values import Filled
from popxl_addons.module import Module

Number = int | float | popxl.Tensor


class AdamOptimizerStep(Module):
    """One step of Adam; the optimizer state is variables of the module."""

    def build(
        self,
        var: popxl.TensorByRef,
        grad: popxl.Tensor,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        *,
        lr: Number,
        beta1: Number = 0.9,
        beta2: Number = 0.999,
        eps: Number = 1e-5,
        weight_decay: Number = 1e-2,
        first_order_dtype: popxl.dtype = popxl.float16,
        bias_correction: bool = True,
        loss_scaling: Number = 1,
        global_norm: popxl.Tensor | None = None,
        global_norm_max: Number | None = None,
    ) -> None:
        """Update a variable in place: ``var -= lr (m' / (sqrt(v') + eps) + weight_decay var)``.

        Args:
            var: the variable, or a replica's part of it.
            grad: its gradient, of the same shape.
            replica_grouping: replicas that share the state, default all.
            lr: learning rate. This and the next numbers: numbers or scalar tensors.
            beta1: factor of the old value in the moving mean m of gradients.
            beta2: factor of the old value in the moving mean v of squares.
            eps: added to the square root.
            weight_decay: factor of the variable.
            first_order_dtype: element type of m; v is float32.
            bias_correction: divide m and v by ``1 - beta^step``.
            loss_scaling: factor by which the gradient is scaled.
            global_norm: norm of all gradients.
            global_norm_max: gradients are scaled so that their norm is at most this.

        Raises:
            AssertionError: a norm is given without its limit.
        """
        grad = _unscaled(grad, loss_scaling, global_norm, global_norm_max)
        with popxl.in_sequence():
            m = self._state("first_order", var, first_order_dtype, replica_grouping)
            ops.var_updates.accumulate_moving_average_(m, grad, f=beta1)
            v = self._state("second_order", var, popxl.float32, replica_grouping)
            ops.var_updates.accumulate_moving_average_square_(v, grad, f=beta2)
            step = None
            if bias_correction:
                step = self.add_variable_input(
                    "step", Filled((), 0, np.float64), popxl.float32, by_ref=True, replica_grouping=replica_grouping
                )
            update = ops.var_updates.adam_updater(
                m,
                v,
                weight=var,
                time_step=step,
                weight_decay=weight_decay,
                beta1=beta1,
                beta2=beta2,
                epsilon=eps,
            )
            ops.scaled_add_(var, update, b=ops.negate(lr) if isinstance(lr, popxl.Tensor) else -lr)

    def _state(
        self, name: str, var: popxl.Tensor, dtype: popxl.dtype, group: popxl.ReplicaGrouping | None
    ) -> popxl.Tensor:
        """Return zeros of the shape of the variable; sharded if it is sharded."""
        if not var.meta_shape:
            return self.add_variable_input(
                name, Filled(var.shape, 0, np.float32), dtype, by_ref=True, replica_grouping=group
            )
        return self.add_replica_sharded_variable_input(
            name,
            Filled(var.meta_shape, 0, np.float32),
            dtype,
            by_ref=True,
            replica_grouping=group,
            shard_over=prod(var.meta_shape) // prod(var.shape),
        )


def _unscaled(
    grad: popxl.Tensor, loss_scaling: Number, norm: popxl.Tensor | None, largest: Number | None
) -> popxl.Tensor:
    """Return the gradient without loss scaling and with limited norm, in float32 unless it needs no change."""
    scale: Number = 1
    if isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1:
        scale = 1 / _float32(loss_scaling)
    if norm is not None:
        assert largest is not None, "AdamOptimizerStep: global_norm needs global_norm_max."
        limit = _float32(largest)
        if not isinstance(limit, popxl.Tensor):
            limit = popxl.constant(limit, popxl.float32)
        scale = scale * limit / ops.maximum(_float32(norm), limit)
    if not isinstance(scale, popxl.Tensor) and scale == 1:
        return grad
    return _float32(grad) * scale


def _float32(value: Number) -> Number:
    """Cast a tensor to float32; return a number unchanged."""
    return ops.cast(value, popxl.float32) if isinstance(value, popxl.Tensor) else value
