"""Embedding: rows of a table by number. The table may be divided among groups of replicas."""

import numpy as np
import popxl
from popxl import ops

from popxl_addons.layers.initial import normal
from popxl_addons.module import Module

_ROWS = 16  # the number of rows is a multiple of it


class Embedding(Module):
    """Rows of a table.

    If the table is divided, indices count from the first row of the replica's part (`offsets`). Rows of other parts are
    zero, so that the sum over the parts is the result.

    Args:
        dtype: element type of the table.
        vocab_size: rows of the whole table.
        hidden_size: columns.
        axis: axis of the table that indices select from.
        replica_grouping: replicas that share a part, default all; each of its groups has one part.
    """

    def __init__(
        self,
        dtype: popxl.dtype,
        vocab_size: int,
        hidden_size: int,
        axis: int = 0,
        replica_grouping: popxl.ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.axis = axis
        self.replica_grouping = replica_grouping
        self.n_shards = replica_grouping.num_groups if replica_grouping else 1
        self.vocab_shard_size = self.get_vocab_shard_size(vocab_size, self.n_shards)
        self.offsets = self.get_offsets(vocab_size, self.n_shards)

    @staticmethod
    def get_vocab_shard_size(vocab_size: int, n_shards: int) -> int:
        """Return the number of rows of a part: a multiple of 16, even if there is only one part.

        Args:
            vocab_size: rows of the whole table.
            n_shards: parts.

        Returns:
            Rows of each part.
        """
        rows = -(-vocab_size // n_shards)
        return -(-rows // _ROWS) * _ROWS

    @staticmethod
    def get_offsets(vocab_size: int, n_shards: int) -> np.ndarray:
        """Return the first row of each part.

        Args:
            vocab_size: rows of the whole table.
            n_shards: parts.

        Returns:
            Array of shape (n_shards,).
        """
        rows = Embedding.get_vocab_shard_size(vocab_size, n_shards)
        return np.arange(n_shards * rows, step=rows)

    def build(self, indices: popxl.Tensor) -> popxl.Tensor:
        """Add the ops of the layer.

        Args:
            indices: integers of any shape.

        Returns:
            Tensor of shape ``indices.shape + (hidden_size,)`` (axis 0).
        """
        self.weight = self.add_variable_input(
            "weight",
            normal(self.vocab_shard_size, self.hidden_size),
            self.dtype,
            replica_grouping=self.replica_grouping,
        )
        return ops.gather(self.weight, indices, self.axis, zero_OOR=self.n_shards > 1)
