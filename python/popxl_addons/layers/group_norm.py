"""GroupNorm: groups of channels are normalised to mean 0 and variance 1, then scaled and shifted."""

from typing import Any

import popxl
from popxl import ops

from popxl_addons.layers.initial import ones, torch_weights, zeros
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class GroupNorm(Module):
    """Group normalisation.

    Args:
        num_groups: number of groups of channels.
        replica_grouping: replicas that share the variables, default all.
        eps: added to the variance.
        cache: re-use graphs of equal arguments.
    """

    def __init__(
        self,
        num_groups: int,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        eps: float = 1e-5,
        cache: bool = False,
    ) -> None:
        super().__init__(cache=cache)
        self.num_groups = num_groups
        self.replica_grouping = replica_grouping
        self.eps = eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: tensor of shape (N, C, …).

        Returns:
            Tensor of the shape and dtype of x.
        """
        channels, group = x.shape[1], self.replica_grouping
        self.weight = self.add_variable_input("weight", ones(channels), x.dtype, replica_grouping=group)
        self.bias = self.add_variable_input("bias", zeros(channels), x.dtype, replica_grouping=group)
        return ops.group_norm(x, self.weight, self.bias, self.num_groups, self.eps)

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """Return the values of a ``torch.nn.GroupNorm`` by variable.

        Args:
            variables: variables of the layer.
            nn_layer: PyTorch's layer.
            dtype: element type of the variables.

        Returns:
            Variable → array.
        """
        return torch_weights(variables, dtype, lambda _, value: value, weight=nn_layer.weight, bias=nn_layer.bias)
