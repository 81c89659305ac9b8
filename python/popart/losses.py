"""Losses: functions that read any output of a model, losses by name, and the loss objects of old programs.

    loss = popart.losses.cross_entropy(builder, "logits", labels)          # adds nodes, gives the id
    attached = popart.losses.attach(builder, "cross_entropy")              # adds the labels too

Old programs: ``TrainingSession(..., losses=[NllLoss("probs", "labels", "loss")])``.
"""

import popart_core
from popart_core import ReductionType

from popart.loss_functions import (
    binary_cross_entropy,
    categorical_cross_entropy,
    cosine_embedding,
    cross_entropy,
    ctc,
    hinge,
    hinge_embedding,
    huber,
    kl_divergence,
    mae,
    mse,
    nll,
    smooth_l1,
    triplet_margin,
)
from popart.loss_registry import AttachedLoss, LossInput, attach, function, names

__all__ = [
    "AttachedLoss",
    "IdentityLoss",
    "L1Loss",
    "Loss",
    "LossInput",
    "NllLoss",
    "attach",
    "binary_cross_entropy",
    "categorical_cross_entropy",
    "cosine_embedding",
    "cross_entropy",
    "ctc",
    "function",
    "hinge",
    "hinge_embedding",
    "huber",
    "kl_divergence",
    "mae",
    "mse",
    "names",
    "nll",
    "smooth_l1",
    "triplet_margin",
]


class Loss:
    """Base class of the loss objects: names, reduction and placement."""

    def __init__(self, kind: str, inputs: list[str], output: str, reduction: ReductionType, scale: float = 1.0) -> None:
        """Describe a loss.

        Args:
            kind: Catalog name: ``"Nll"``, ``"L1"`` or ``"IdentityLoss"``.
            inputs: Ids of the tensors it reads.
            output: Id of its scalar result.
            reduction: How the elements are reduced: sum, mean or not at all.
            scale: Factor of the L1 loss.
        """
        self._kind, self._inputs, self._output = kind, inputs, output
        self._reduction, self._scale = reduction, scale
        self._virtual_graph: int | None = None
        self._pipeline_stage: int | None = None

    def input(self, index: int) -> str:
        """Id of input number ``index``."""
        return self._inputs[index]

    def output(self, index: int = 0) -> str:
        """Id of the result.

        Returns:
            The id.

        Raises:
            IndexError: The index is not 0.
        """
        if index != 0:
            raise IndexError(f"{self._kind} loss: output {index} does not exist, it has one output")
        return self._output

    def virtualGraph(self, virtualGraphId: int) -> "Loss":
        """Place the loss on a virtual graph (an IPU). Changes no result.

        Args:
            virtualGraphId: Number of the IPU.

        Returns:
            This loss.
        """
        self._virtual_graph = virtualGraphId
        return self

    def pipelineStage(self, stage: int) -> "Loss":
        """Place the loss in a pipeline stage, by its number `stage`. Changes no result."""
        self._pipeline_stage = stage
        return self

    def _core(self) -> "popart_core._LossObject":
        return popart_core._LossObject(
            self._kind,
            self._inputs,
            self._output,
            self._scale,
            self._reduction,
            self._virtual_graph,
            self._pipeline_stage,
        )


class NllLoss(Loss):
    """Negative log likelihood of the labelled class: sum or mean of ``-log(probs[i, labels[i]])``."""

    def __init__(
        self, probsId: str, labelsId: str, outputId: str, reduction: ReductionType = ReductionType.Sum
    ) -> None:
        """Make the loss.

        Args:
            probsId: Probabilities ``(N, C)``.
            labelsId: Class numbers ``(N,)``.
            outputId: Name of the result.
            reduction: Sum or mean over the rows, or none.
        """
        super().__init__("Nll", [probsId, labelsId], outputId, reduction)


class L1Loss(Loss):
    """``lambda`` times the sum of absolute values."""

    def __init__(
        self, inputId: str, outputId: str, lambda_: float, reduction: ReductionType = ReductionType.Sum
    ) -> None:
        """Make the loss.

        Args:
            inputId: Tensor of any shape.
            outputId: Name of the result.
            lambda_: Factor.
            reduction: Sum or mean over the elements, or none.
        """
        super().__init__("L1", [inputId], outputId, reduction, lambda_)


class IdentityLoss(Loss):
    """The sum or mean of a tensor, or the tensor itself."""

    def __init__(self, inputId: str, outputId: str, reduction: ReductionType = ReductionType.Sum) -> None:
        """Make the loss.

        Args:
            inputId: Tensor of any shape.
            outputId: Name of the result.
            reduction: Sum or mean over the elements, or none.
        """
        super().__init__("IdentityLoss", [inputId], outputId, reduction)
