"""Transforms of graphs with named arguments."""

from popxl_addons.transforms.autodiff import autodiff, autodiff_with_accumulation
from popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult,
    RemoteHandle,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
)
from popxl_addons.transforms.pipelining import pipelined_execution
from popxl_addons.transforms.recomputation import add_recompute_inputs, recompute_graph
from popxl_addons.transforms.tile_hints import (
    disable_fc_pass,
    enable_fc_pass,
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
)
from popxl_addons.utils import suffix_graph_name

__all__ = [
    "BatchSerialResult",
    "RemoteHandle",
    "add_recompute_inputs",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "disable_fc_pass",
    "enable_fc_pass",
    "pipelined_execution",
    "recompute_graph",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
    "suffix_graph_name",
]
