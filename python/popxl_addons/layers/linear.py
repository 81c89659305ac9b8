"""Linear: a matrix product with a weight, with a bias."""

from typing import Any

import numpy as np
import popxl

from popxl_addons.layers.initial import normal, torch_weights, zeros
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class Linear(Module):
    """``x @ weight + bias``.

    Args:
        out_features: columns of the weight.
        bias: whether there is a bias.
        replica_grouping: replicas that share a weight, default all.
    """

    def __init__(
        self, out_features: int, bias: bool = True, replica_grouping: popxl.ReplicaGrouping | None = None
    ) -> None:
        super().__init__()
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: tensor of shape (…, in_features).

        Returns:
            Tensor of shape (…, out_features) and the dtype of x.
        """
        self.weight = self.add_variable_input(
            "weight", normal(x.shape[-1], self.out_features), x.dtype, replica_grouping=self.replica_grouping
        )
        y = x @ self.weight
        if self.bias:
            y = y + self.add_bias(x.dtype)
        return y

    def add_bias(self, dtype: popxl.dtype) -> popxl.Tensor:
        """Add the variable ``bias``, initially zeros."""
        self.b = self.add_variable_input(
            "bias", zeros(self.out_features), dtype, replica_grouping=self.replica_grouping
        )
        return self.b

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """Return the values of a ``torch.nn.Linear`` by variable.

        Args:
            variables: variables of the layer.
            nn_layer: PyTorch's layer.
            dtype: element type of the variables.

        Returns:
            Variable → array; the weight is transposed.
        """
        return torch_weights(variables, dtype, _transposed, weight=nn_layer.weight, bias=nn_layer.bias)


def _transposed(name: str, value: np.ndarray) -> np.ndarray:
    return value.T if name == "weight" else value
