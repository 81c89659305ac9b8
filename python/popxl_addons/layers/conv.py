"""Conv2D: a convolution of images, with a bias."""

from typing import Any

import numpy as np
import popxl
from popxl import ops

from popxl_addons.layers.initial import normal, torch_weights, zeros
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


class Conv2D(Module):
    """Convolution over (N, C, H, W).

    Args:
        out_channels: channels of the result.
        kernel_size: size, or height and width.
        strides: along height and width.
        paddings: rows and columns added at (top, left, bottom, right), or a `pad_type` of `popxl.ops.conv`.
        dilations: along height and width.
        groups: number of groups of channels that are convolved separately.
        bias: whether there is a bias; after `build` the tensor of the bias.
        available_memory_proportions: hint for tiles.
        partials_types: hint for partial sums.
        enable_conv_dithering: hint for tiles.
        replica_grouping: replicas that share a weight, default all.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        strides: tuple[int, int] = (1, 1),
        paddings: tuple[int, int, int, int] | str = (0, 0, 0, 0),
        dilations: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        available_memory_proportions: list[float] | None = None,
        partials_types: list[str] | None = None,
        enable_conv_dithering: list[int] | None = None,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.kernel_size = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        self.strides = strides
        self.pad_type = paddings if isinstance(paddings, str) else "not_set"
        self.paddings = (0, 0, 0, 0) if isinstance(paddings, str) else paddings
        self.dilations = dilations
        self.groups = groups
        self.bias: Any = bias
        self.available_memory_proportions = available_memory_proportions
        self.partials_types = partials_types
        self.enable_conv_dithering = enable_conv_dithering
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: tensor of shape (N, C, H, W).

        Returns:
            Tensor of shape (N, out_channels, H', W') and the dtype of x.

        Raises:
            AssertionError: the rank of x is not 4.
        """
        assert x.rank == 4, f"Conv2D: x: got shape {x.shape}, expected (N, C, H, W)."
        shape = (self.out_channels, x.shape[1] // self.groups, *self.kernel_size)
        group = self.replica_grouping
        self.weight = self.add_variable_input("weight", normal(*shape), x.dtype, replica_grouping=group)
        y = ops.conv(
            x,
            self.weight,
            self.strides,
            self.paddings,
            self.dilations,
            self.groups,
            self.pad_type,
            self.available_memory_proportions,
            self.partials_types,
            self.enable_conv_dithering,
        )
        if self.bias is False:
            return y
        # compat: the tensor replaces the argument (tests/python/popxl_addons/test_layers.py)
        channels = (1, self.out_channels, 1, 1)
        self.bias = self.add_variable_input("bias", zeros(*channels), x.dtype, replica_grouping=group)
        return y + self.bias

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """Return the values of a ``torch.nn.Conv2d`` by variable.

        Args:
            variables: variables of the layer.
            nn_layer: PyTorch's layer.
            dtype: element type of the variables.

        Returns:
            Variable → array; the bias has four dimensions.
        """
        return torch_weights(variables, dtype, _four_dimensions, weight=nn_layer.weight, bias=nn_layer.bias)


def _four_dimensions(name: str, value: np.ndarray) -> np.ndarray:
    return value.reshape(1, -1, 1, 1) if name == "bias" else value
