"""Cases of the losses and of the direct softmax gradients."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.cases.case import Case, floats, ints
from tests.cases.torch_oracle import with_torch

LABELS = np.array([[1, 0, 3], [2, 2, 1]], np.int32)
TARGETS = np.array([[1, 0], [2, 3], [2, 1]], np.int64)
PROBABILITIES = with_torch(functional.softmax, dim=-1)(floats(2, 3, 4))
REDUCTIONS = {"Mean": "mean", "Sum": "sum", "NoReduction": "none"}
UNUSED = -100


def flat_nll(log_probabilities, labels, reduction: str, ignored: int | None):
    """Torch's nll loss over (…, C) and (…)."""
    classes = log_probabilities.shape[-1]
    ignore = UNUSED if ignored is None else ignored
    flat = log_probabilities.reshape(-1, classes), labels.reshape(-1).long()
    loss = functional.nll_loss(*flat, reduction=REDUCTIONS[reduction], ignore_index=ignore)
    return loss.reshape(labels.shape) if reduction == "NoReduction" else loss


def direct(reduction: str, ignored: int | None):
    """Return the oracle of the fused loss: loss and gradient of the softmax's input, which is d - p sum(d)."""

    def run(p, labels, g):
        log_p = p.log().requires_grad_()
        loss = flat_nll(log_p, labels, reduction, ignored)
        (d,) = torch.autograd.grad(loss, log_p, g.reshape(loss.shape))
        return loss, d - p * d.sum(-1, keepdim=True)

    return run


def options(**given: Any) -> dict[str, Any]:
    """Return the attributes that are not None."""
    return {k: v for k, v in given.items() if v is not None}


def nll_cases(reduction: str, ignored: int | None) -> list[Case]:
    """Nll on probabilities and log probabilities, and the fused forms."""
    attributes = options(reduction=reduction, ignoreIndex=ignored)
    g = floats(2, 3) if reduction == "NoReduction" else np.array(0.75, np.float32)
    name, both = f"{reduction}_ignoring_{ignored}", direct(reduction, ignored)
    fused = [PROBABILITIES, LABELS, g]
    return [
        Case(
            "Nll",
            [PROBABILITIES, LABELS],
            attributes,
            with_torch(lambda p, t: flat_nll(p.log(), t, reduction, ignored)),
            gradients=[0],
            name=name,
        ),
        Case(
            "Nll",
            [np.log(PROBABILITIES), LABELS],
            {**attributes, "inputIsLogProbability": 1},
            with_torch(lambda p, t: flat_nll(p, t, reduction, ignored)),
            gradients=[0],
            name=f"{name}_log",
        ),
        Case("NlllWithSoftmaxGradDirect", fused, attributes, with_torch(both), name=name),
        Case("SoftmaxGradDirect", fused, attributes, with_torch(lambda *t: both(*t)[1]), name=name),
    ]


def onnx_cases(reduction: str, ignored: int | None) -> list[Case]:
    """The ONNX losses with and without class weights."""
    attributes = options(reduction=reduction, ignore_index=ignored)
    settings = {"reduction": reduction, "ignore_index": UNUSED if ignored is None else ignored}
    name = f"{reduction}_ignoring_{ignored}"
    x, w = floats(3, 4, 2), np.array([0.5, 2.0, 1.5, 0.25], np.float32)
    cases = []
    for op, loss in (
        ("NegativeLogLikelihoodLoss", functional.nll_loss),
        ("SoftmaxCrossEntropyLoss", functional.cross_entropy),
    ):
        oracle = with_torch(loss, **settings)
        cases.append(Case(op, [x, TARGETS], attributes, oracle, gradients=[0], name=name))
        cases.append(Case(op, [x, TARGETS, w], attributes, oracle, gradients=[0], name=f"{name}_weighted"))
    return cases


def reduced(x, reduction: str):
    """Return sum, mean or the array itself."""
    return {"Mean": x.mean, "Sum": x.sum, "NoReduction": x.copy}[reduction]()


def scores_and_log(x, t):
    """Mean cross entropy and the log probabilities."""
    return functional.cross_entropy(x, t), functional.log_softmax(x, 1)


CASES = [
    *[case for reduction in REDUCTIONS for ignored in (None, 2) for case in nll_cases(reduction, ignored)],
    *[case for reduction in REDUCTIONS.values() for ignored in (None, 2) for case in onnx_cases(reduction, ignored)],
    Case(
        "SoftmaxCrossEntropyLoss", [floats(3, 4, 2), TARGETS], {}, with_torch(scores_and_log), gradients=[0], outputs=2
    ),
    *[
        Case(
            "L1",
            [floats(3, 4)],
            {"lambda": 0.25, "reduction": r},
            lambda x, r=r: reduced(0.25 * np.abs(x), r),
            gradients=[0],
        )
        for r in REDUCTIONS
    ],
    *[
        Case("IdentityLoss", [floats(3, 4)], {"reduction": r}, lambda x, r=r: reduced(x, r), gradients=[0])
        for r in REDUCTIONS
    ],
    *[
        Case(
            "NegativeLogLikelihoodLoss",
            [floats(40, 30, 50), ints(40, 50, low=0, high=30, dtype="int64"), floats(30, low=0.1)],
            {"reduction": r, "ignore_index": 3},
            gradients=[0],
            name=f"large-{r}",
        )
        for r in ("mean", "sum", "none")
    ],
    Case("Nll", [PROBABILITIES, LABELS[0]], refuses="labels must have the shape of the probabilities"),
    Case("Nll", [PROBABILITIES, LABELS], {"reduction": "Median"}, refuses="unknown reduction"),
    Case("L1", [floats()], {"lambda": 1.0}, refuses="needs at least one dimension"),
    Case("NegativeLogLikelihoodLoss", [floats(3, 4, 2), TARGETS[:2]], refuses="targets must have the input's shape"),
    Case("SoftmaxCrossEntropyLoss", [floats(3, 4, 2), TARGETS, floats(3)], refuses="one value per class"),
]
