"""Updates of popart's optimizers as formulas in NumPy, float64.

They follow docs/compat/optimizers.md. Each class is one family and holds the state of one weight. ``begin`` takes the
gradients of an update and returns the tensor that clipping by global norm scales; ``finish`` takes it scaled and
returns the new weight. Hyper-parameters are a dictionary by the keys of ``insertSpecific`` and may differ from call to
call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Values = Mapping[str, float]


@dataclass(frozen=True)
class Reduction:
    """How gradients of micro-batches and replicas become one.

    Args:
        factor: Micro-batches per update.
        replicas: Replicas.
        mean: Mean over both, otherwise their sum.
        running: The mean is taken as gradients come, so that no factor is left for the update.
    """

    factor: int = 1
    replicas: int = 1
    mean: bool = False
    running: bool = False

    @property
    def left(self) -> int:
        """What the update still has to divide by."""
        return self.factor * self.replicas if self.mean and not self.running else 1

    def joined(self, gradients: np.ndarray) -> np.ndarray:
        """The accumulated gradient, of gradients ``[factor, replicas, *weight]``."""
        return gradients.mean((0, 1)) if self.mean and self.running else gradients.sum((0, 1))


class Formula:
    """State and reduction of one weight; ``stored`` rounds state to the type it is kept in."""

    def __init__(self, reduction: Reduction, stored: Callable = lambda value: value, **settings: object) -> None:
        """Start without state."""
        self.reduction, self.stored, self.settings = reduction, stored, settings
        self.state: dict[str, np.ndarray | float] = {}

    def __getitem__(self, name: str) -> np.ndarray | float:
        """A state, 0 before its first update."""
        return self.state.get(name, 0.0)

    def __setitem__(self, name: str, value: np.ndarray | float) -> None:
        """Keep a state."""
        self.state[name] = self.stored(value)


class PlainSgd(Formula):
    """SGD without velocity."""

    def begin(self, w: np.ndarray, gradients: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The gradient, still loss scaled."""
        return self.reduction.joined(gradients)

    def finish(self, w: np.ndarray, g: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The new weight."""
        rate = h["learningRate"] * (1 - h["dampening"])
        return w * (1 - rate * h["weightDecay"]) - rate / (scale * self.reduction.left) * g


class CombinedSgd(Formula):
    """SGD with one tensor for velocity and accumulation: changed values act on the velocity one update later."""

    def begin(self, w: np.ndarray, gradients: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The velocity, or Nesterov's step."""
        red, vs, dm = self.reduction, h["velocityScaling"], h["dampening"]
        if "v" not in self.state:
            self["v"] = (1 - dm) * h["weightDecay"] * vs * w
        accumulating = red.factor > 1
        self.r = red.replicas if accumulating else 1
        shares = {(True, False): red.replicas, (False, True): 1 / red.replicas}.get((accumulating, red.mean), 1.0)
        scaled = (1 - dm) * vs * shares / (scale * (red.factor if red.mean else 1))
        self["v"] = self.r * self["v"] + scaled * gradients.sum((0, 1))
        if not self.settings.get("nesterov"):
            return self["v"]
        g = gradients.sum((0, 1)) / (red.factor * red.replicas if red.mean else 1)
        return vs * self.r * (g / scale + h["weightDecay"] * w) + h["momentum"] * self["v"]

    def finish(self, w: np.ndarray, step: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The new weight."""
        w = w - h["learningRate"] / (h["velocityScaling"] * self.r) * step
        self["v"] = (
            h["momentum"] / self.r * self["v"] + (1 - h["dampening"]) * h["weightDecay"] * h["velocityScaling"] * w
        )
        return w


class SeparateSgd(Formula):
    """SGD with a velocity beside the accumulator."""

    def begin(self, w: np.ndarray, gradients: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The velocity, or Nesterov's step."""
        g = self.reduction.joined(gradients) / (scale * self.reduction.left)
        vs, decay = h["velocityScaling"], h["weightDecay"] * w
        self["v"] = h["momentum"] * self["v"] + (1 - h["dampening"]) * vs * (decay + g)
        return vs * (g + decay) + h["momentum"] * self["v"] if self.settings.get("nesterov") else self["v"]

    def finish(self, w: np.ndarray, step: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The new weight."""
        return w - h["learningRate"] / h["velocityScaling"] * step


class Unscaled(Formula):
    """What Adam and the adaptive optimizers do first."""

    def begin(self, w: np.ndarray, gradients: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The gradient, with the weight's decay in L2 mode."""
        g = self.reduction.joined(gradients) / (self.unit(scale)[0] * self.reduction.left)
        return g + self.unit(scale)[1] * h["weightDecay"] * w if self.settings["l2"] else g

    def unit(self, scale: float) -> tuple[float, float]:
        """What gradients are divided by, and what decay and eps are multiplied by."""
        return (1.0, scale) if self.settings.get("scaled_state") else (scale, 1.0)


class Adam(Unscaled):
    """Adam, AdamNoBias, AdaMax, Lamb and LambNoBias, by setting ``mode``."""

    def follow(self, unit: float) -> None:
        """Bring the moments of scaled state into another unit."""
        change = unit / self.state.get("unit", unit)
        self.state["unit"] = unit
        self["m"] = self["m"] * change
        self["v"] = self["v"] * (change if self.settings["mode"] == "AdaMax" else change**2)

    def finish(self, w: np.ndarray, g: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The new weight."""
        mode, b1, b2 = self.settings["mode"], h["beta1"], h["beta2"]
        unit = self.unit(scale)[1]
        self.follow(unit)
        self["m"] = b1 * self["m"] + (1 - b1) * g
        self["v"] = np.maximum(b2 * self["v"], abs(g)) if mode == "AdaMax" else b2 * self["v"] + (1 - b2) * g * g
        self.state["t"] = t = self["t"] + 1
        m, v = self["m"], self["v"]
        if not mode.endswith("NoBias"):
            m = m / (1 - b1**t)
        if mode in ("Adam", "Lamb"):
            v = v / (1 - b2**t)
        x = m / ((v if mode == "AdaMax" else np.sqrt(v)) + h["eps"] * unit)
        if not self.settings["l2"]:
            x = x + h["weightDecay"] * w
        ratio = 1.0
        if mode.startswith("Lamb"):
            own, other = min(np.linalg.norm(w), h["maxWeightNorm"]), np.linalg.norm(x)
            ratio = own / other if own > 0 and other > 0 else 1.0
        return w - h["learningRate"] * ratio * x


class Adaptive(Unscaled):
    """AdaGrad, RMSProp, CenteredRMSProp and AdaDelta, by setting ``mode``; ``tf`` is TensorFlow's variant."""

    def finish(self, w: np.ndarray, g: np.ndarray, h: Values, scale: float) -> np.ndarray:
        """The new weight."""
        mode, tf, a, eps = self.settings["mode"], self.settings.get("tf", False), h["alpha"], h["eps"]
        if "v1" not in self.state:
            self["v1"] = np.full_like(w, float(tf))
        self["v1"] = self["v1"] + g * g if mode == "AdaGrad" else a * self["v1"] + (1 - a) * g * g
        second = self["v1"]
        if mode == "CenteredRMSProp":
            self["v2"] = a * self["v2"] + (1 - a) * g
            second = second - self["v2"] ** 2
        if mode == "AdaDelta":
            x = g * np.sqrt(self["v2"] + eps) / np.sqrt(second + eps)
            self["v2"] = a * self["v2"] + (1 - a) * x * x
        else:
            x = g / (np.sqrt(second + eps) if tf else np.sqrt(second) + eps)
        rate, decay = h["learningRate"], 0.0 if self.settings["l2"] else h["weightDecay"]
        if not self.settings.get("momentum"):
            return w - rate * (x + decay * w)
        if tf:
            self["v3"] = h["momentum"] * self["v3"] + rate * x
            return w * (1 - decay) - self["v3"]
        self["v3"] = h["momentum"] * self["v3"] + x
        return w - rate * (self["v3"] + decay * w)
