"""Optimizers with PyTorch's names, arguments, defaults and formulas, and schedules for their learning rates.

Sessions and ``popart.Trainer`` accept them. The learning rate can change between steps; all other numbers are constants
of the program. The formulas, and the differences to PopART's own optimizers, are in docs/guides/optimizers.md.

Example::

    optimizer = popart.optim.AdamW(
        lr=1e-3, clip_grad_norm=1.0, groups=[{"params": ["*.bias", "*norm*"], "weight_decay": 0.0}]
    )
    optimizer.lr = 1e-4  # sent with session.updateOptimizerFromHost(optimizer)
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import popart_core

from popart.schedules import Schedule, constant, cosine, linear, one_cycle, step

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Common",
    "Lamb",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "constant",
    "cosine",
    "linear",
    "one_cycle",
    "step",
]

Groups = Sequence[Mapping[str, Any]]


class Common(TypedDict, total=False):
    """Keyword arguments of all optimizers.

    Args:
        maximize: Whether to maximise the loss.
        groups: Groups of weights with their own numbers, as PyTorch's parameter groups: dictionaries with ``params``,
            names or
            globs of weights, and numbers by argument, such as ``lr`` and ``weight_decay``. A group with ``lr`` 0 is
            frozen: it has no gradient and no state.
        clip_grad_norm: Largest joint norm of all gradients, as ``torch.nn.utils.clip_grad_norm_``.
        clip_grad_value: Largest absolute value of gradients, as ``torch.nn.utils.clip_grad_value_``; not with the norm.
        loss_scale: Factor of the loss in the backward pass; updates divide by it.
    """

    maximize: bool
    groups: Groups
    clip_grad_norm: float | None
    clip_grad_value: float | None
    loss_scale: float | None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers by their names in the core: one name for each beta."""
    numbers = {}
    for name, value in values.items():
        if name == "betas":
            numbers["beta1"], numbers["beta2"] = (float(beta) for beta in value)
        else:
            numbers[name] = float(value)
    return numbers


def _group(index: int, group: Mapping[str, Any]) -> tuple[list[str], dict[str, float]]:
    if "params" not in group:
        raise ValueError(
            f"groups: group {index} does not say whose it is: got {sorted(group)}, expected 'params': names or globs "
            "of weights"
        )
    names = [group["params"]] if isinstance(group["params"], str) else list(group["params"])
    return names, _numbers({name: value for name, value in group.items() if name != "params"})


class Optimizer(popart_core._PyTorchOptimizer):
    """Base class of the optimizers of PyTorch. Use one of its subclasses."""

    def __init__(
        self,
        values: Mapping[str, Any],
        flags: Mapping[str, bool],
        *,
        maximize: bool = False,
        groups: Groups = (),
        clip_grad_norm: float | None = None,
        clip_grad_value: float | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """See the subclasses, and `Common`.

        Raises:
            ValueError: A group has no names of weights.
            popart_exception: A number is outside PyTorch's range, or a group has a number that the optimizer does not
                have.
        """
        super().__init__(
            getattr(popart_core._PyTorchMode, type(self).__name__),
            _numbers(values),
            dict(flags),
            math.inf if clip_grad_norm is None else clip_grad_norm,
            math.inf if clip_grad_value is None else clip_grad_value,
            maximize,
            (1.0, True) if loss_scale is None else (loss_scale, False),
            [_group(i, group) for i, group in enumerate(groups)],
        )
        self._values = {**values, **{name: flag for name, flag in flags.items() if flag}}

    def __repr__(self) -> str:
        values = {**self._values, "lr": float(f"{self.lr:.7g}")}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


class SGD(Optimizer):
    """Stochastic gradient descent as ``torch.optim.SGD``, with momentum and Nesterov momentum."""

    def __init__(
        self,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            momentum: Factor of the previous update's velocity; 0: there is no velocity.
            dampening: 1 minus the factor of gradients in the velocity; the first gradient has the factor 1.
            weight_decay: Factor of the weight that is added to the gradient.
            nesterov: Whether to use Nesterov momentum; needs momentum and no dampening.
            **common: See `Common`.

        Raises:
            ValueError: A group has no ``params``.
            popart_exception: A number is outside its range.
        """
        values = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(values, {"nesterov": nesterov}, **common)


class _AdamForm(Optimizer):
    """Base class of Adam, with decay in the gradient, and AdamW."""

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        amsgrad: bool,
        **common: "Unpack[Common]",
    ) -> None:
        """Pass the arguments of both to the core."""
        values = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(values, {"amsgrad": amsgrad}, **common)


class Adam(_AdamForm):
    """Adam as ``torch.optim.Adam`` (Kingma and Ba 2015)."""

    def __init__(
        self,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            betas: Factors of the previous averages of gradients and of their squares.
            eps: Added to the denominator.
            weight_decay: Factor of the weight that is added to the gradient.
            amsgrad: Whether to use the largest average of squares so far (Reddi et al. 2018).
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        super().__init__(lr, betas, eps, weight_decay, amsgrad, **common)


class AdamW(_AdamForm):
    """Adam with decay of the weight itself, as ``torch.optim.AdamW`` (Loshchilov and Hutter 2019)."""

    def __init__(
        self,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            betas: As `Adam`.
            eps: As `Adam`.
            weight_decay: Each update subtracts ``lr * weight_decay`` times the weight.
            amsgrad: As `Adam`.
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        super().__init__(lr, betas, eps, weight_decay, amsgrad, **common)


class RMSprop(Optimizer):
    """RMSprop as ``torch.optim.RMSprop`` (Hinton 2012; centered: Graves 2013)."""

    def __init__(
        self,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            alpha: Factor of the previous averages.
            eps: Added to the denominator.
            weight_decay: Factor of the weight that is added to the gradient.
            momentum: Factor of the previous update's step.
            centered: Whether to use the variance instead of the mean square.
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        values = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(values, {"centered": centered}, **common)


class Adagrad(Optimizer):
    """Adagrad as ``torch.optim.Adagrad`` (Duchi et al. 2011)."""

    def __init__(
        self,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            lr_decay: The learning rate is divided by ``1 + lr_decay * t`` after t updates.
            weight_decay: Factor of the weight that is added to the gradient.
            initial_accumulator_value: Initial value of the sums of squares.
            eps: Added to the denominator.
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        values = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
        }
        super().__init__(values, {}, **common)


class Adadelta(Optimizer):
    """Adadelta as ``torch.optim.Adadelta`` (Zeiler 2012)."""

    def __init__(
        self,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            rho: Factor of the previous averages.
            eps: Added under the square roots.
            weight_decay: Factor of the weight that is added to the gradient.
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        values = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(values, {}, **common)


class Adamax(Optimizer):
    """Adamax as ``torch.optim.Adamax`` (Kingma and Ba 2015)."""

    def __init__(
        self,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            betas: Factors of the previous average of gradients and of their largest absolute value.
            eps: Added to the absolute values of gradients.
            weight_decay: Factor of the weight that is added to the gradient.
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        values = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(values, {}, **common)


class Lamb(Optimizer):
    """Lamb (You et al. 2020, algorithm 2): Adam's step, scaled by the ratio of the norms of weight and step."""

    def __init__(
        self,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        max_weight_norm: float | None = None,
        **common: "Unpack[Common]",
    ) -> None:
        """Make the optimizer.

        Args:
            lr: Learning rate.
            betas: As `Adam`.
            eps: As `Adam`.
            weight_decay: Factor of the weight that is added to the step.
            max_weight_norm: Upper bound of the norm of a weight: the paper's function of the norm is
                ``min(norm, max_weight_norm)``; None: no bound.
            **common: See `Common`.

        Raises:
            ValueError: As `SGD`.
            popart_exception: As `SGD`.
        """
        limit = math.inf if max_weight_norm is None else max_weight_norm
        values = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "max_weight_norm": limit}
        super().__init__(values, {}, **common)
