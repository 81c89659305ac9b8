"""Collectives over replicas and IPUs. With one replica they are identities up to shape."""

from popart_core import CommGroup, CommGroupType

from popxl.ops.collectives.collectives import (
    CollectiveOps,
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
    replica_sharded_slice,
    replicated_all_gather,
    replicated_all_reduce,
    replicated_all_reduce_,
    replicated_all_to_all,
    replicated_broadcast,
    replicated_reduce_scatter,
    replicated_slice,
    to_collective_op,
)

__all__ = [
    "CollectiveOps",
    "CommGroup",
    "CommGroupType",
    "all_reduce",
    "all_reduce_identical_grad_inputs",
    "all_reduce_identical_inputs",
    "replica_sharded_slice",
    "replicated_all_gather",
    "replicated_all_reduce",
    "replicated_all_reduce_",
    "replicated_all_to_all",
    "replicated_broadcast",
    "replicated_reduce_scatter",
    "replicated_slice",
    "to_collective_op",
]
