"""Trees of tensors and of their data."""

from typing import Dict, Mapping, Tuple

import numpy as np

import popxl
from popxl_addons.dot_tree import DotTree

TensorMap = Mapping[popxl.Tensor, popxl.Tensor]


class NamedTensors(DotTree[popxl.Tensor]):
    """Tree of tensors."""

    @property
    def tensors(self) -> Tuple[popxl.Tensor, ...]:
        """All tensors, sorted by tensor name."""
        return tuple(sorted(self.to_dict().values(), key=lambda t: t.name))

    @property
    def named_tensors(self) -> Dict[str, popxl.Tensor]:
        """Dotted name → tensor in insertion order."""
        return dict(self.to_dict())

    def remap(self, mapping: TensorMap) -> "NamedTensors":
        """Return the tree with every tensor replaced by ``mapping[tensor]``.

        Raises:
            KeyError: a tensor is missing.
        """
        return self.map(lambda t: mapping[t])


class NamedTensorData(DotTree[np.ndarray]):
    """Tree of arrays."""


def print_named_tensors(named_tensors: NamedTensors) -> NamedTensors:
    """Print each tensor when it executes; return the printed tensors under the same names."""
    import popxl.ops as ops

    return NamedTensors.from_dict({name: ops.print_tensor(t, name) for name, t in named_tensors.to_dict().items()})
