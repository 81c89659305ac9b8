"""LayerNormDistributed: a layer norm whose axis is divided among the replicas of a group."""

import popxl

from popxl_addons.layers.initial import ones, zeros
from popxl_addons.module import Module
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed


class LayerNormDistributed(Module):
    """Layer normalisation of rows whose columns are divided among replicas.

    Args:
        replica_grouping: replicas that hold the parts of a row; required.

    Raises:
        AttributeError: there is no grouping.
    """

    def __init__(self, replica_grouping: popxl.ReplicaGrouping | None = None) -> None:
        super().__init__()
        self.replica_grouping = replica_grouping
        # compat: without a grouping this fails (tests/python/popxl_addons/test_layers.py)
        self.variable_grouping = replica_grouping.transpose()

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            x: this replica's columns, of shape (N, C).
            eps: added to the variance.

        Returns:
            Tensor of the shape and dtype of x.

        Raises:
            AssertionError: the rank of x is not 2.
        """
        group = self.variable_grouping
        self.weight = self.add_variable_input("weight", ones(x.shape[-1]), x.dtype, replica_grouping=group)
        self.bias = self.add_variable_input("bias", zeros(x.shape[-1]), x.dtype, replica_grouping=group)
        return layer_norm_distributed(x, self.weight, self.bias, eps, self.replica_grouping)
