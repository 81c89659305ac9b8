"""LayerNorm: rows are normalised to mean 0 and variance 1, then scaled and shifted."""

from typing import Any

import popxl
from popxl import ops

from popxl_addons.layers.initial import ones, torch_weights, zeros
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class LayerNorm(Module):
    """Layer normalisation of the rows of a matrix."""

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: tensor of shape (N, C).
            eps: added to the variance.

        Returns:
            Tensor of the shape and dtype of x.

        Raises:
            ValueError: the rank of x is not 2.
        """
        if x.rank != 2:
            raise ValueError(f"LayerNorm: x: got shape {x.shape}, expected (N, C). Reshape it first.")
        columns, dtype = x.shape[1], x.dtype
        self.weight = self.add_variable_input("weight", ones(columns), dtype)
        self.bias = self.add_variable_input("bias", zeros(columns), dtype)
        return ops.layer_norm(x, self.weight, self.bias, eps)

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """Return the values of a ``torch.nn.LayerNorm`` by variable.

        Args:
            variables: variables of the layer.
            nn_layer: PyTorch's layer.
            dtype: element type of the variables.

        Returns:
            Variable → array, flattened.
        """
        return torch_weights(
            variables, dtype, lambda _, value: value.reshape(-1), weight=nn_layer.weight, bias=nn_layer.bias
        )
