"""Softmax, normalisation, dropout and losses."""

from popart._arrays import as_shape
from popart_core import popart_exception

from popxl import dtypes
from popxl.context import get_current_graph
from popxl.ops.utils import add_op, check_in_graph, checked_axis, emit, emit_one
from popxl.tensor import Tensor, constant

_LOSS_REDUCTIONS = {"mean": "Mean", "sum": "Sum", "none": "NoReduction"}


def softmax(t: Tensor, axis: int) -> Tensor:
    """Softmax over all dimensions from `axis` on, as if they were one.

    Args:
        t: tensor of any shape.
        axis: first of these dimensions; with the last axis it is the usual softmax.

    Returns:
        Tensor of the shape and dtype of t (floats; ONNX Softmax-11).

    Raises:
        popart_exception: the axis is out of range.
    """
    check_in_graph(get_current_graph(), t=t)
    return emit_one("Softmax", {"t": t}, "softmax_out", {"axis": checked_axis("softmax", t, axis), "flatten": 1})


def group_norm(t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-05) -> Tensor:
    """Normalise each group of channels per sample.

    Args:
        t: tensor of shape (N, C, …).
        weight: scale of shape (C,).
        bias: offset of shape (C,).
        num_groups: number of groups; divides C.
        eps: added to the variance.

    Returns:
        Tensor of the shape and dtype of t (floats; ai.graphcore GroupNormalization-1, Wu & He 2018).

    Raises:
        popart_exception: num_groups does not divide C, or weight or bias has a wrong shape.
    """
    names = ["group_norm_out", "group_norm_mean", "group_norm_inv_std_dev"]
    inputs = {"t": t, "weight": weight, "bias": bias}
    attributes = {"num_groups": num_groups, "epsilon": float(eps)}
    return add_op("GroupNormalization", inputs, names, attributes, wanted=1)[0]


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-05) -> Tensor:
    """`group_norm` with one group: all dimensions except 0 are normalised together (Ba et al. 2016).

    Args:
        t: the tensor.
        weight: scale of shape (C,).
        bias: offset of shape (C,).
        eps: term added to the variance.

    Returns:
        The result.
    """
    return group_norm(t, weight, bias, 1, eps)


def batch_norm_inference(
    t: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-05, momentum: float = 0.9
) -> Tensor:
    """Return (t - mean) / sqrt(var + epsilon) * scale + bias, floats (ONNX BatchNormalization-15).

    Args:
        t: tensor of shape (N, C, …).
        scale: shape (C,).
        bias: shape (C,).
        mean: shape (C,).
        var: shape (C,).
        epsilon: added to the variance.
        momentum: not used.

    Returns:
        Tensor of the shape and dtype of t.

    Raises:
        popart_exception: the rank of t is below 3, or a parameter has a wrong shape.
    """
    check_in_graph(get_current_graph(), t=t)
    if t.rank < 3:
        raise popart_exception(f"batch_norm_inference: t: got shape {t.shape}, expected rank 3 or more: (N, C, …).")
    inputs = {"t": t, "scale": scale, "bias": bias, "mean": mean, "var": var}
    attributes = {"epsilon": float(epsilon), "momentum": float(momentum), "training_mode": 0}
    return emit_one("BatchNormalization", inputs, "batch_norm_out", attributes)


def _check_probability(what: str, p: float) -> None:
    if not 0 <= p < 1:
        raise ValueError(f"{what}: got {p}, expected a probability in [0, 1).")


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Set elements to zero with probability p and scale the others by 1 / (1 - p).

    Args:
        t: tensor of any shape.
        seed_tensor: uint32 tensor of shape (2,); the mask depends on it and the shape only.
        p: probability in [0, 1).

    Returns:
        Tensor of the shape and dtype of t (floats; Srivastava et al. 2014).

    Raises:
        ValueError: p is outside [0, 1).
    """
    _check_probability("p", p)
    inputs = {"t": t, "seed_tensor": seed_tensor}
    return emit_one("Dropout", inputs, "dropout_out", {"ratio": float(p), "training_mode": 1})


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: tuple[int, ...], ratio: float) -> Tensor:
    """Dropout with one mask of `shape`, broadcast to t; see `dropout`.

    Args:
        t: the tensor.
        seed_tensor: seed, uint32 of shape (2,).
        shape: shape of the mask; it broadcasts to that of t.
        ratio: share of elements that become zero.

    Returns:
        The result.
    """
    _check_probability("ratio", ratio)
    inputs = {"t": t, "seed_tensor": seed_tensor}
    return emit_one(
        "ShapedDropout",
        inputs,
        "shapeddropout_out",
        {"shape": list(as_shape(shape, "shaped_dropout")), "ratio": float(ratio)},
    )


def _reduction(value: str) -> str:
    if value not in _LOSS_REDUCTIONS:
        raise ValueError(f"reduction: got {value!r}, expected one of {', '.join(_LOSS_REDUCTIONS)}.")
    return _LOSS_REDUCTIONS[value]


def nll_loss(
    probs: Tensor, labels: Tensor, ignore_index: int | None = None, reduction: str = "mean", log_prob: bool = False
) -> Tensor:
    """Return the negative log likelihood -log(probs[label]).

    Args:
        probs: probabilities of shape (…, C), or log probabilities with `log_prob`.
        labels: integers of shape (…).
        ignore_index: label whose rows are ignored.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        log_prob: `probs` contains log probabilities.

    Returns:
        Float tensor of the dtype of probs: a scalar, with ``"none"`` the shape of labels (ai.graphcore Nll-1).

    Raises:
        ValueError: unknown reduction.
        popart_exception: shapes do not match.
    """
    attributes = {
        "reduction": _reduction(reduction),
        "ignoreIndex": ignore_index,
        "inputIsLogProbability": int(log_prob),
    }
    return emit_one("Nll", {"probs": probs, "labels": labels}, "loss", attributes)


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: float | Tensor = 1,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Return the loss and the gradient of the softmax's input.

    Args:
        probs: output of a softmax, shape (…, C).
        labels: integers of shape (…).
        loss_grad: factor of the gradient; the loss is not multiplied.
        ignore_index: label whose rows are ignored.
        reduction: as in `nll_loss`.

    Returns:
        (loss, (probs - onehot(labels)) * loss_grad / count).

    Raises:
        ValueError: unknown reduction.
    """
    check_in_graph(get_current_graph(), probs=probs, labels=labels)
    reduction = _reduction(reduction)
    if not isinstance(loss_grad, Tensor):
        loss_grad = constant(loss_grad, dtypes.float32)
    inputs = {"probs": probs, "labels": labels, "loss_grad": loss_grad}
    attributes = {"reduction": reduction, "ignoreIndex": ignore_index}
    loss, dx = emit("NlllWithSoftmaxGradDirect", inputs, ["loss", "dx"], attributes)
    return loss, dx
