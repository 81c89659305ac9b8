"""popxl_addons: modules with variables, named tensors and transforms on top of popxl."""

import subprocess

from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import (
    GraphCache,
    argument_hash,
    bound_arguments,
    function,
    get_function_hash,
    tensor_hash,
)
from popxl_addons.graph_common import CalledGraphsGradInfo, CalledGraphsGradInfoLike, GradGraphInfoLike, GraphLike
from popxl_addons.module import Module, NameScopeMeta
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote import (
    create_remote_buffer,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote_graph,
)
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.utils import OrderedDict, WeightsDict, duplicate_items, overrides, suffix_graph_name, timer
from popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

from popxl_addons import ops, transforms  # isort: skip
from popxl_addons.ops import cross_entropy, cross_entropy_with_grad, host_load, host_store  # isort: skip
from popxl_addons.transforms import (  # isort: skip
    BatchSerialResult,
    RemoteHandle,
    add_recompute_inputs,
    autodiff,
    autodiff_with_accumulation,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    disable_fc_pass,
    enable_fc_pass,
    pipelined_execution,
    recompute_graph,
    set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu,
)


def _git_commit() -> "str | None":
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def __getattr__(name: str) -> object:
    if name == "GIT_COMMIT":
        return _git_commit()
    raise AttributeError(f"module 'popxl_addons' has no attribute '{name}'")


__all__ = [
    "BatchSerialResult",
    "BoundGraph",
    "CalledGraphsGradInfo",
    "CalledGraphsGradInfoLike",
    "GradGraphInfoLike",
    "GraphCache",
    "GraphLike",
    "GraphWithNamedArgs",
    "InputStreams",
    "Module",
    "NameScopeMeta",
    "NamedTensors",
    "NamedVariableFactories",
    "OrderedDict",
    "OutputStreams",
    "RemoteHandle",
    "VariableFactory",
    "WeightsDict",
    "add_recompute_inputs",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "argument_hash",
    "autodiff",
    "autodiff_with_accumulation",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
    "bound_arguments",
    "create_remote_buffer",
    "cross_entropy",
    "cross_entropy_with_grad",
    "disable_fc_pass",
    "duplicate_items",
    "enable_fc_pass",
    "function",
    "get_function_hash",
    "host_load",
    "host_store",
    "load_remote_graph",
    "named_buffers",
    "named_variable_buffers",
    "ops",
    "overrides",
    "pipelined_execution",
    "recompute_graph",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
    "store_remote_graph",
    "suffix_graph_name",
    "tensor_hash",
    "timer",
    "transforms",
]
