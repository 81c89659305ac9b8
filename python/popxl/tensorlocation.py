"""Where a tensor is stored: storage, sharding over replicas, tile set. Without effect on devices with one memory."""

from enum import Enum

from popart_core import ExecutionContext, TileSet  # noqa: F401


class TensorStorage(Enum):
    """Memory that holds the tensor."""

    OnChip = 0
    OffChip = 1


class ReplicatedTensorSharding(Enum):
    """Whether each replica holds only a shard of the tensor."""

    Off = 0
    On = 1


class TensorLocation:
    """Storage and sharding of a tensor: `storage` says on or off chip, `replicated_tensor_sharding` on or off."""

    def __init__(
        self,
        storage: TensorStorage = TensorStorage.OnChip,
        replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off,
    ) -> None:
        self._storage = storage
        self._replicated_tensor_sharding = replicated_tensor_sharding

    @property
    def storage(self) -> TensorStorage:
        """Memory that holds the tensor."""
        return self._storage

    @property
    def replicated_tensor_sharding(self) -> ReplicatedTensorSharding:
        """Whether the tensor is sharded over replicas."""
        return self._replicated_tensor_sharding

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorLocation)
            and self._storage == other._storage
            and self._replicated_tensor_sharding == other._replicated_tensor_sharding
        )

    def __hash__(self) -> int:
        return hash((self._storage, self._replicated_tensor_sharding))
