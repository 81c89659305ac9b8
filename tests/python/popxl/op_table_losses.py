"""Rows of op_table.py: norms, losses, images, updates of variables, and collectives of the only replica."""

from typing import Any

import numpy as np
import popxl
import torch
from op_table import ALL, Row, X, integers, numbers
from popxl import ops
from torch.nn import functional

FLOAT = ("float32",)
updates, collectives = ops.var_updates, ops.collectives


def norms() -> list[Row]:
    """Section 9: softmax and norms."""
    image, scale, bias = numbers(2, 6, 3, 5), numbers(6, low=0.5), numbers(6, low=-1.0, high=1.0)
    three = (0, 1, 2)

    def softmax(axis: int) -> Any:
        return lambda x: (
            x.flatten(axis).softmax(-1).reshape(x.shape) if axis else x.flatten().softmax(0).reshape(x.shape)
        )

    rows = [Row(f"softmax-{a}", lambda x, a=a: ops.softmax(x, a), [X], softmax(a % 3), ALL) for a in (0, 1, 2, -1, -2)]
    rows += [
        Row(
            f"group_norm-{groups}",
            lambda x, w, b, g=groups: ops.group_norm(x, w, b, g, 1e-3),
            [image, scale, bias],
            lambda x, w, b, g=groups: functional.group_norm(x, g, w, b, 1e-3),
            three,
            tolerance=20,
        )
        for groups in (1, 2, 6)
    ]
    return [
        *rows,
        Row(
            "layer_norm",
            lambda x, w, b: ops.layer_norm(x, w, b, 1e-3),
            [numbers(7, 6), scale, bias],
            lambda x, w, b: functional.layer_norm(x, (6,), w, b, 1e-3),
            three,
            tolerance=20,
        ),
        Row(
            "batch_norm_inference",
            lambda *ts: ops.batch_norm_inference(*ts, epsilon=1e-2),
            [image, scale, bias, bias * 2, scale + 0.1],
            lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b, eps=1e-2),
            tolerance=8,
        ),
    ]


def losses() -> list[Row]:
    """Section 9: losses; labels in any shape with as many elements as there are rows."""
    probs = np.exp(numbers(3, 4, 5))
    probs = (probs / probs.sum(-1, keepdims=True)).astype(np.float32)
    labels = integers(3, 4, high=5)
    rows = []

    def loss(reduction: str, ignore: int, log_prob: bool = False) -> Any:
        def formula(p: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            log = p if log_prob else p.log()
            flat = log.reshape(-1, 5), k.long().reshape(-1)
            result = functional.nll_loss(*flat, ignore_index=ignore, reduction=reduction)
            return result.reshape(k.shape) if reduction == "none" else result

        return formula

    for reduction in ("mean", "sum", "none"):
        for ignore in (None, 2):
            rows.append(
                Row(
                    f"nll_loss-{reduction}-{ignore}",
                    lambda p, k, i=ignore, r=reduction: ops.nll_loss(p, k, i, r),
                    [probs, labels],
                    loss(reduction, -1 if ignore is None else ignore),
                    ALL,
                    tolerance=4,
                )
            )
        rows.append(
            Row(
                f"nll_loss-log-{reduction}",
                lambda p, k, r=reduction: ops.nll_loss(p, k, 1, r, True),
                [np.log(probs), labels],
                loss(reduction, 1, True),
                ALL,
                tolerance=4,
            )
        )

        def with_gradient(p: torch.Tensor, k: torch.Tensor, r: str = reduction) -> tuple:
            known = (k.reshape(-1) != 2)[:, None]
            difference = (p.reshape(-1, 5) - functional.one_hot(k.long().reshape(-1), 5)) * known * 3
            count = known.sum() if r == "mean" else 1
            return loss(r, 2)(p, k), (difference / count).reshape(p.shape)

        for shape in ((3, 4), (2, 6), (12,)):
            rows.append(
                Row(
                    f"nll_loss_with_softmax_grad-{reduction}-{shape}",
                    lambda p, k, r=reduction: ops.nll_loss_with_softmax_grad(p, k, 3.0, 2, r),
                    [probs, labels.reshape(shape)],
                    with_gradient,
                    tolerance=4,
                )
            )
    rows.append(
        Row("nll_loss-uint32", ops.nll_loss, [probs, labels.astype(np.uint32)], loss("mean", -1), ALL, tolerance=4)
    )
    return rows


def sampled(low: float, step: float, perBin: int, bins: int, size: int) -> torch.Tensor:
    """Weights (bins, size) of the means over interpolated samples along an axis."""
    weights = torch.zeros(bins, size, dtype=torch.float64)
    for i in range(bins * perBin):
        at = min(max(low + (i + 0.5) * step, 0), size - 1)
        for element in range(size):
            weights[i // perBin, element] += max(0.0, 1 - abs(at - element)) / perBin
    return weights


def images() -> list[Row]:
    """Section 10."""
    image, modes = numbers(1, 2, 5, 4), {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
    rows = []
    for mode, theirs in modes.items():
        for scales in ((2.0, 3.0), (1.4, 2.0), (0.6, 0.5)):

            def build(x: popxl.Tensor, m: str = mode, s: tuple = scales) -> popxl.Tensor:
                form = {"nearest": ("floor", "asymmetric")}.get(m, ("round_prefer_floor", "half_pixel"))
                return ops.interpolate(x, (1.0, 1.0, *s), m, *form)

            def formula(x: torch.Tensor, t: str = theirs, s: tuple = scales) -> torch.Tensor:
                corners = {} if t == "nearest" else {"align_corners": False}
                return functional.interpolate(x, scale_factor=s, mode=t, recompute_scale_factor=False, **corners)

            wanted = () if mode == "linear" else ALL
            rows.append(Row(f"interpolate-{mode}-{scales}", build, [image], formula, wanted, tolerance=4))
    boxes, which = np.array([[0.5, 0, 3, 4], [1, 1, 2.5, 3]], np.float32), np.array([1, 0], np.int32)

    def regions(x: torch.Tensor, r: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        found = []
        for (x1, y1, x2, y2), i in zip(r.tolist(), k.tolist(), strict=True):
            down = sampled(y1, max(y2 - y1, 1) / 6, 2, 3, x.shape[2])
            along = sampled(x1, max(x2 - x1, 1) / 4, 2, 2, x.shape[3])
            found.append(down @ x[i].double() @ along.T)
        return torch.stack(found)

    rows.append(
        Row(
            "roi_align",
            lambda x, r, k: ops.roi_align(x, r, k, (3, 2), 1.0, 2),
            [numbers(2, 3, 6, 5), boxes, which],
            regions,
            ALL,
            tolerance=2,
        )
    )
    align = {"align_corners": True}
    rows.append(
        Row(
            "interpolate-corners",
            lambda x: ops.interpolate(x, (1.0, 1.0, 2.0, 3.0), "linear", "floor", "align_corners"),
            [image],
            lambda x: functional.interpolate(x, scale_factor=(2, 3), mode="bilinear", **align),
            tolerance=4,
        )
    )
    return rows


def var_updates() -> list[Row]:
    """Section 15."""
    t, x, positive = numbers(3, 5), numbers(3, 5)[::-1].copy(), numbers(3, 5, low=0.3)
    half = x.astype(np.float16)
    pair, f = [t, x], np.float32(0.3)
    w, step = numbers(3, 5, low=-1.0, high=1.0), np.float32(2)
    places = np.array([2, 0, 2], np.uint32)

    def adam(m: torch.Tensor, v: torch.Tensor, n: int, decay: float, w: Any) -> torch.Tensor:
        m, v = (m / (1 - 0.9**n), v / (1 - 0.99**n)) if n else (m, v)
        return m / (v.sqrt() + 1e-3) + decay * w

    return [
        Row("accumulate_", updates.accumulate_, pair, lambda t, x: t + x),
        Row("accumulate_-mixed", updates.accumulate_, [t, half], lambda t, x: t + x, dtypes=FLOAT),
        Row(
            "accumulate_-number",
            lambda t, x: updates.accumulate_(t, x, 0.3),
            pair,
            lambda t, x: t + 0.3 * x,
            dtypes=FLOAT,
        ),
        Row("accumulate_-tensor", updates.accumulate_, [*pair, f], lambda t, x, f: t + f * x, dtypes=FLOAT),
        Row("accumulate_square_", lambda t, x: updates.accumulate_square_(t, x, 0.5), pair, lambda t, x: t + x * x / 2),
        Row("accumulate_mean_", lambda t, x: updates.accumulate_mean_(t, x, 3), pair, lambda t, x: t * 0.75 + x / 4),
        Row("accumulate_mean_-tensor", updates.accumulate_mean_, [*pair, step], lambda t, x, n: (t * n + x) / (n + 1)),
        Row(
            "accumulate_moving_average_",
            lambda t, x: updates.accumulate_moving_average_(t, x, 0.75),
            pair,
            lambda t, x: 0.75 * t + 0.25 * x,
        ),
        Row(
            "accumulate_moving_average_square_",
            lambda t, x: updates.accumulate_moving_average_square_(t, x, 0.75),
            pair,
            lambda t, x: 0.75 * t + 0.25 * x * x,
        ),
        Row("accumulator_scale_", lambda t: updates.accumulator_scale_(t, 0.5), [t], lambda t: t / 2),
        Row("accumulator_scale_-tensor", updates.accumulator_scale_, [t, f], lambda t, f: t * f, dtypes=FLOAT),
        Row(
            "accumulator_scale_-nan",
            lambda t: updates.accumulator_scale_(t, 0.0),
            [np.array([np.nan, 1], np.float32)],
            lambda t: t.nan_to_num() * 0,
        ),
        Row("accumulator_zero_", updates.accumulator_zero_, [t], lambda t: t * 0),
        Row(
            "sparse_accumulate_",
            lambda t, x, i: updates.sparse_accumulate_(t, x, i, 0, 2.0),
            [*pair, places],
            lambda t, x, i: t.index_add(0, i.long(), 2 * x),
        ),
        Row(
            "sparse_accumulate_-axis",
            lambda t, x, i: updates.sparse_accumulate_(t, x, i, 1),
            [t, x[:, :3].copy(), places],
            lambda t, x, i: t.index_add(1, i.long(), x),
        ),
        Row("copy_var_update_", updates.copy_var_update_, pair, lambda t, x: x),
        Row(
            "adam_updater",
            lambda m, v: updates.adam_updater(m, v, epsilon=1e-3),
            [x, positive],
            lambda m, v: adam(m, v, 0, 0, 0),
            tolerance=4,
        ),
        Row(
            "adam_updater-bias",
            lambda m, v, n: updates.adam_updater(m, v, None, n, None, 0.9, 0.99, 1e-3),
            [x, positive, step],
            lambda m, v, n: adam(m, v, 3, 0, 0),
            dtypes=FLOAT,
            tolerance=8,
        ),
        Row(
            "lamb_updater-decay",
            lambda m, v, n, w: updates.lamb_updater(m, v, w, n, 0.1, 0.9, 0.99, 1e-3),
            [x, positive, step, w],
            lambda m, v, n, w: adam(m, v, 3, 0.1, w),
            dtypes=FLOAT,
            tolerance=8,
        ),
        Row(
            "adam_updater-tensors",
            lambda m, v, w, d, e: updates.adam_updater(m, v, w, None, d, epsilon=e),
            [x, positive, w, f, np.float32(1e-3)],
            lambda m, v, w, d, e: m / (v.sqrt() + e) + d * w,
            dtypes=FLOAT,
            tolerance=4,
        ),
        Row(
            "adamax_updater",
            lambda m, v, n, w: updates.adamax_updater(m, v, w, n, 0.1, 0.9, 1e-3),
            [x, positive, step, w],
            lambda m, v, n, w: m / (1 - 0.9**3) / (v + 1e-3) + 0.1 * w,
            dtypes=FLOAT,
            tolerance=4,
        ),
        Row(
            "adam_var_update",
            lambda t, x, a, b: updates.adam_var_update(t, x, a, b, 0.1, 2.0),
            [t, x, np.float32(9), np.float32(16)],
            lambda t, x, a, b: t - 0.1 * 2 / 4 * x,
            dtypes=FLOAT,
        ),
        Row(
            "adam_var_update-zero",
            lambda t, x, a, b: updates.adam_var_update(t, x, a, b, 0.1),
            [t, x, np.float32(0), np.float32(16)],
            lambda t, x, a, b: t - 0.1 * x,
            dtypes=FLOAT,
        ),
    ]
