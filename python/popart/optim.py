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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import popart_core

from popart._arguments import ArgumentError, flag, names, number, optional
from popart._names import explain_keywords
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


def _betas(what: str, value: Any) -> tuple[float, float]:
    expected = "two numbers, such as (0.9, 0.999)"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{what}: betas: got {value!r}, expected {expected}")
    betas = list(value)
    if len(betas) != 2:
        raise ArgumentError(f"{what}: betas: got {value!r}, expected {expected}")
    return number(f"{what}: betas", betas[0]), number(f"{what}: betas", betas[1])


def _numbers(what: str, values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers by their names in the core: one name for each beta. The core checks their ranges."""
    numbers = {}
    for name, value in values.items():
        if name == "betas":
            numbers["beta1"], numbers["beta2"] = _betas(what, value)
        elif name == "max_weight_norm" and value is None:
            numbers[name] = math.inf
        else:
            numbers[name] = number(f"{what}: {name}", value)
    return numbers


def _group(what: str, index: int, group: Any) -> tuple[list[str], dict[str, float]]:
    if not isinstance(group, Mapping):
        raise TypeError(f"{what}: groups: got {group!r}, expected dictionaries with 'params' and numbers by argument")
    if "params" not in group:
        raise ValueError(
            f"groups: group {index} does not say whose it is: got {sorted(group)}, expected 'params': names or globs "
            "of weights"
        )
    of = f"{what}: group {index}"
    return names(f"{of}: params", group["params"]), _numbers(of, {k: v for k, v in group.items() if k != "params"})


# Arguments of other libraries, with their names here.
_OTHER_NAMES = {
    "learning_rate": "give lr",
    "params": "the trainer knows the weights; numbers for some of them are groups=[{'params': [...], 'lr': ...}]",
    "beta_1": "give betas",
    "beta_2": "give betas",
    "epsilon": "give eps",
    "clipnorm": "give clip_grad_norm",
    "clipvalue": "give clip_grad_value",
    "max_grad_norm": "give clip_grad_norm",
}


class Optimizer(popart_core._PyTorchOptimizer):
    """Base class of the optimizers of PyTorch. Use one of its subclasses."""

    @explain_keywords(_OTHER_NAMES)
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
            TypeError: An argument has another kind, such as text for a number.
            ValueError: A group has no names of weights.
            popart_exception: A number is outside PyTorch's range, or a group has a number that the optimizer does not
                have.
        """
        what = f"optim.{type(self).__name__}"
        if isinstance(groups, Mapping | str):
            raise TypeError(f"{what}: groups: got {groups!r}, expected a list of dictionaries")
        clip_norm = optional(number, f"{what}: clip_grad_norm", clip_grad_norm)
        clip_value = optional(number, f"{what}: clip_grad_value", clip_grad_value)
        scale = optional(number, f"{what}: loss_scale", loss_scale, above=0)
        super().__init__(
            getattr(popart_core._PyTorchMode, type(self).__name__),
            _numbers(what, values),
            {name: flag(f"{what}: {name}", value) for name, value in flags.items()},
            math.inf if clip_norm is None else clip_norm,
            math.inf if clip_value is None else clip_value,
            flag(f"{what}: maximize", maximize),
            (1.0, True) if scale is None else (scale, False),
            [_group(what, i, group) for i, group in enumerate(groups)],
        )
        self._values = {**values, **{name: value for name, value in flags.items() if value}}

    def _set_lr(self, lr: float) -> None:
        popart_core._PyTorchOptimizer.lr.fset(self, number(f"optim.{type(self).__name__}: lr", lr))

    def _set_lr_factor(self, factor: float) -> None:
        popart_core._PyTorchOptimizer.lr_factor.fset(self, number(f"optim.{type(self).__name__}: lr_factor", factor))

    if TYPE_CHECKING:
        lr: float
        lr_factor: float
    else:  # reading calls no Python: every step reads both
        lr = popart_core._PyTorchOptimizer.lr.setter(_set_lr)
        lr_factor = popart_core._PyTorchOptimizer.lr_factor.setter(_set_lr_factor)

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
        values = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "max_weight_norm": max_weight_norm,
        }
        super().__init__(values, {}, **common)
