"""LinearGQ: a linear layer with a 4-bit weight, for inference."""

from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy

from popxl_addons.layers.initial import torch_weights, zeros
from popxl_addons.layers.linear import Linear
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.group_quantize_decompress import group_quantize_compress_numpy, group_quantize_decompress
from popxl_addons.utils import WeightsDict

_PACKED = ("weight_compressed", "weight_decompression_scale", "weight_decompression_bias")


class LinearGQ(Linear):
    """``x @ decompressed weight + bias``.

    Args:
        out_features: columns of the weight.
        bias: whether there is a bias.
        replica_grouping: replicas that share a weight, default all.
        group_size: elements that share a scale; a multiple of 4.
        dim: axis of the weight (in, out) along which groups are formed: -1 or 1, or 0.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        group_size: int = 0,
        dim: int = -1,
    ) -> None:
        super().__init__(out_features, bias, replica_grouping)
        self.group_size = group_size
        self.dim = dim

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: tensor of shape (…, in_features).

        Returns:
            Tensor of shape (…, out_features) and the dtype of x.

        Raises:
            ZeroDivisionError: the group size is 0.
        """
        along_columns = self.dim in (-1, 1)
        rows, grouped = x.shape[-1], self.out_features
        if not along_columns:
            rows, grouped = grouped, rows
        groups = grouped // self.group_size
        shapes = ((rows, groups, self.group_size // 4), (rows, groups, 1), (rows, groups, 1))
        dtypes = (popxl.uint16, x.dtype, x.dtype)
        packed = [
            self.add_variable_input(
                name, zeros(*shape, dtype=dtype.as_numpy()), dtype, replica_grouping=self.replica_grouping
            )
            for name, shape, dtype in zip(_PACKED, shapes, dtypes)
        ]
        y = x @ group_quantize_decompress(*packed, dim=-1 if along_columns else 0)
        return y + self.add_bias(x.dtype) if self.bias else y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors,
        nn_layer: Any,
        dtype: popxl.dtype = popxl.float32,
        group_size: int = 64,
        dim: int = -1,
    ) -> WeightsDict:
        """Return the values of a ``torch.nn.Linear`` by variable, the weight compressed.

        Args:
            variables: variables of the layer.
            nn_layer: PyTorch's layer.
            dtype: element type of scales and biases.
            group_size: as in the layer.
            dim: as in the layer.

        Returns:
            Variable → array.
        """
        weight = to_numpy(nn_layer.weight.detach(), popxl.float32).T
        packed, *factors = group_quantize_compress_numpy(weight, group_size, dim)
        weights = torch_weights(variables, dtype, lambda _, value: value, bias=nn_layer.bias)
        values: list[np.ndarray] = [packed, *(f.astype(dtype.as_numpy()) for f in factors)]
        weights.update({variables[name]: value for name, value in zip(_PACKED, values)})
        return weights


__all__ = ["LinearGQ", "group_quantize_compress_numpy"]
