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
from popxl_addons.transforms import add_recompute_inputs, autodiff, recompute_graph  # isort: skip


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
    "VariableFactory",
    "WeightsDict",
    "add_recompute_inputs",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "argument_hash",
    "autodiff",
    "bound_arguments",
    "create_remote_buffer",
    "cross_entropy",
    "cross_entropy_with_grad",
    "duplicate_items",
    "function",
    "get_function_hash",
    "host_load",
    "host_store",
    "load_remote_graph",
    "named_buffers",
    "named_variable_buffers",
    "ops",
    "overrides",
    "recompute_graph",
    "store_remote_graph",
    "suffix_graph_name",
    "tensor_hash",
    "timer",
    "transforms",
]
