"""Ops that update variables and optimizer state in place.

They return the updated tensor, an alias of their first input. Factors are floats or
scalar tensors. `X` may have another float dtype than `t`.
"""

from typing import Any

from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops.utils import check_in_graph, emit_one
from popxl.tensor import Tensor, constant

Factor = float | Tensor
_OPTIONAL = frozenset(
    ("factor", "W", "weight", "time_step", "weight_decay", "beta1", "beta2", "epsilon", "lr", "max_weight_norm")
)


def _factor(name: str, value: Factor | None) -> tuple[dict[str, Tensor | None], dict[str, Any]]:
    """Return (inputs, attributes) for a parameter that is a tensor, a float or absent."""
    if isinstance(value, Tensor):
        return {name: value}, {}
    return {name: None}, {} if value is None else {name: float(value)}


def _accumulate(t: Tensor, X: Tensor, kind: str, f: Factor | None, output: str) -> Tensor:
    check_in_graph(get_current_graph(), t=t, X=X)
    inputs, attributes = _factor("factor", f)
    attributes["accumulation_type"] = kind
    return emit_one("Accumulate", {"t": t, "X": X, **inputs}, f"{output}__{t.name}", attributes, optional=_OPTIONAL)


def accumulate_(t: Tensor, X: Tensor, f: Factor | None = None) -> Tensor:
    """T += X, or t += f X."""
    return _accumulate(t, X, "Add" if f is None else "DampenedAdd", f, "accumulate")


def accumulate_square_(t: Tensor, X: Tensor, f: Factor = 1.0) -> Tensor:
    """T += f X^2."""
    return _accumulate(t, X, "DampenedAddSquare", f, "accumulate_square")


def accumulate_mean_(t: Tensor, X: Tensor, step: Factor) -> Tensor:
    """Running mean: t = t step / (step + 1) + X / (step + 1)."""
    if not isinstance(step, Tensor):
        step = constant(step, dtypes.float32)
    return _accumulate(t, X, "Mean", step, "accumulate_mean")


def accumulate_moving_average_(t: Tensor, X: Tensor, f: Factor) -> Tensor:
    """T = f t + (1 - f) X."""
    return _accumulate(t, X, "MovingAverage", f, "accumulate_moving_avg")


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: Factor) -> Tensor:
    """T = f t + (1 - f) X^2."""
    return _accumulate(t, X, "MovingAverageSquare", f, "accumulate_moving_avg_square")


def accumulator_scale_(t: Tensor, f: Factor) -> Tensor:
    """T = f t; a factor of 0 gives exact zeros."""
    check_in_graph(get_current_graph(), t=t)
    inputs, attributes = _factor("factor", f)
    return emit_one(
        "AccumulatorScale", {"t": t, **inputs}, f"accumulator_scale__{t.name}", attributes, optional=_OPTIONAL
    )


def accumulator_zero_(t: Tensor) -> Tensor:
    """T = 0."""
    return accumulator_scale_(t, 0.0)


def sparse_accumulate_(
    t: Tensor, X: Tensor, indices: Tensor, axis: int = 0, f: Factor | None = None, W: Tensor | None = None
) -> Tensor:
    """t[indices[i]] += f X[i] along an axis; contributions of equal indices are added.

    Args:
        t: tensor of any shape.
        X: tensor with one slice per index.
        indices: integer vector.
        axis: axis of t.
        f: factor, default 1.
        W: layout hint.

    Returns:
        t, updated (ai.graphcore PopartSparseAccumulate-1).
    """
    check_in_graph(get_current_graph(), t=t, X=X, indices=indices)
    inputs, attributes = _factor("factor", f)
    inputs = {"t": t, "X": X, "indices": indices, **inputs, "W": W}
    attributes = {**attributes, "axis": axis}
    return emit_one("PopartSparseAccumulate", inputs, f"sparse_accumulate__{t.name}", attributes, optional=_OPTIONAL)


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:
    """T = X, of the same shape and dtype."""
    check_in_graph(get_current_graph(), t=t, X=X)
    return emit_one("CopyVarUpdate", {"t": t, "X": X}, f"updated__{t.name}")


def _require_weight(weight: Tensor | None, decay: Factor | None) -> None:
    if weight is None and (isinstance(decay, Tensor) or decay):
        raise ValueError("weight_decay needs the weight: pass `weight`.")


def _updater(mode: str, m: Tensor, v: Tensor, weight: Tensor | None, step: Tensor | None, **scalars: Any) -> Tensor:
    check_in_graph(get_current_graph(), acc_first_order=m, acc_second_order=v)
    _require_weight(weight, scalars["weight_decay"])
    decays = isinstance(scalars["weight_decay"], Tensor) or bool(scalars["weight_decay"])
    inputs: dict[str, Tensor | None] = {
        "weight": weight if decays else None, "acc_first_order": m, "acc_second_order": v, "time_step": step,
    }  # fmt: skip
    attributes: dict[str, Any] = {"mode": mode}
    for name, value in scalars.items():
        more_inputs, more_attributes = _factor(name, value)
        inputs.update(more_inputs)
        attributes.update(more_attributes)
    return emit_one("AdamUpdater", inputs, "Updater", attributes, optional=_OPTIONAL)


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Factor | None = None,
    beta1: Factor | None = None,
    beta2: Factor | None = None,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """Return m / (sqrt(v) + epsilon) + weight_decay * weight.

    Args:
        acc_first_order: first moment m.
        acc_second_order: second moment v.
        weight: needed for weight decay; not used without it.
        time_step: scalar, first incremented in place. If given, the moments are divided by 1 - beta^time_step.
        weight_decay: factor of the weight.
        beta1: needed with `time_step`.
        beta2: needed with `time_step`.
        epsilon: added to the root.

    Returns:
        Tensor of the shape of m and the dtype of weight, or of m without weight decay (Kingma & Ba 2015).

    Raises:
        ValueError: weight or betas are missing.
    """
    _require_weight(weight, weight_decay)
    missing = [name for name, beta in (("beta1", beta1), ("beta2", beta2)) if beta is None]
    if time_step is not None and missing:
        raise ValueError(f"adam_updater: bias correction (time_step) needs beta1 and beta2: {missing[0]} is missing.")
    mode = "AdamNoBias" if time_step is None else "Adam"
    scalars = {"weight_decay": weight_decay, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    return _updater(mode, acc_first_order, acc_second_order, weight, time_step, **scalars)


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Factor | None = None,
    beta1: Factor | None = None,
    beta2: Factor | None = None,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """As `adam_updater`."""
    return adam_updater(acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon)


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Factor | None = None,
    beta1: Factor = 0.9,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """Return m / (1 - beta1^time_step) / (v + epsilon) + weight_decay * weight, where v is the infinity norm.

    Returns:
        Tensor of the shape and dtype of m (Kingma & Ba 2015, section 7.1).

    Raises:
        ValueError: time_step or weight is missing.
    """
    _require_weight(weight, weight_decay)
    if time_step is None:
        raise ValueError("adamax_updater needs time_step.")
    scalars = {"weight_decay": weight_decay, "beta1": beta1, "beta2": None, "epsilon": epsilon}
    return _updater("AdaMax", acc_first_order, acc_second_order, weight, time_step, **scalars)


def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: Factor | None = None,
    max_weight_norm: Factor | None = None,
) -> Tensor:
    """T -= learning_rate ratio x, ratio = min(sqrt(r1), max_weight_norm) / sqrt(r2).

    Args:
        t: weight, changed in place.
        x: update.
        r1: sum of squares of the weight.
        r2: sum of squares of the update.
        learning_rate: default 1.
        max_weight_norm: upper bound of the weight's norm.

    Returns:
        t, updated.

    Raises:
        popart_exception: max_weight_norm is the number 0, or shapes do not fit.
    """
    if not isinstance(max_weight_norm, Tensor) and max_weight_norm == 0:
        raise popart_exception("adam_var_update: max_weight_norm: got 0, which would stop all updates; leave it out.")
    inputs: dict[str, Tensor | None] = {"t": t, "x": x, "r1": r1, "r2": r2}
    attributes: dict[str, Any] = {}
    for name, value in (("lr", 1.0 if learning_rate is None else learning_rate), ("max_weight_norm", max_weight_norm)):
        more_inputs, more_attributes = _factor(name, value)
        inputs.update(more_inputs)
        attributes.update(more_attributes)
    return emit_one(
        "AdamVarUpdate", inputs, "adam_var_update_out", attributes, optional=_OPTIONAL, same_placement=False
    )


__all__ = [
    "accumulate_",
    "accumulate_mean_",
    "accumulate_moving_average_",
    "accumulate_moving_average_square_",
    "accumulate_square_",
    "accumulator_scale_",
    "accumulator_zero_",
    "adam_updater",
    "adam_var_update",
    "adamax_updater",
    "copy_var_update_",
    "lamb_updater",
    "sparse_accumulate_",
]
