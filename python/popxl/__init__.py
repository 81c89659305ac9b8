"""popxl: programs written op by op. Build graphs of ops on tensors, differentiate them, run them in a Session."""

try:
    import popart_core
except ModuleNotFoundError as e:
    raise RuntimeError(
        f"popxl could not be imported: {e}. The compiled part of PopART may be missing for this version of Python."
    ) from e

from popxl.context import (
    gcg,
    get_current_graph,
    get_ir,
    get_main_graph,
    gir,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
)
from popxl.dtypes import (
    bool,
    complex64,
    complex128,
    double,
    dtype,
    float,
    float8_143,
    float8_152,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from popxl.graph import Graph
from popxl.ir import Ir
from popxl.module import Module
from popxl.random_seed import create_seeds
from popxl.remote_buffer import RemoteBuffer, remote_buffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.session import Session
from popxl.streams import DeviceToHostStream, HostToDeviceStream, d2h_stream, h2d_stream
from popxl.tensor import (
    Tensor,
    TensorByRef,
    TensorSpec,
    constant,
    graph_input,
    graph_output,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,  # noqa: F401
    replica_sharded_variable,
    variable,
)
from popxl.tensorlocation import ExecutionContext, ReplicatedTensorSharding, TensorLocation, TensorStorage, TileSet

from popxl import _indexing, fp8_utils, ops, transforms, utils  # noqa: F401  isort: skip
from popxl.custom import custom_op, define_op  # isort: skip

from popart._names import suggest_in_classes as _suggest_in_classes  # isort: skip
from popart._names import suggest_in_modules as _suggest_in_modules  # isort: skip

# Ir, Graph and Tensor have no such hook: with one, each of the many attribute look-ups of a build takes ten times as
# long. Python's tracebacks suggest similar names for them.
_suggest_in_classes(Session, HostToDeviceStream, DeviceToHostStream, RemoteBuffer, ReplicaGrouping)
_suggest_in_modules("popxl", "popxl.ops", "popxl.ops.collectives", "popxl.ops.var_updates", "popxl.transforms")

__version__ = popart_core.versionString()

__all__ = [
    "DeviceToHostStream",
    "ExecutionContext",
    "Graph",
    "HostToDeviceStream",
    "Ir",
    "Module",
    "RemoteBuffer",
    "ReplicaGrouping",
    "ReplicatedTensorSharding",
    "Session",
    "Tensor",
    "TensorByRef",
    "TensorLocation",
    "TensorSpec",
    "TensorStorage",
    "TileSet",
    "bool",
    "complex64",
    "complex128",
    "constant",
    "create_seeds",
    "custom_op",
    "d2h_stream",
    "define_op",
    "double",
    "dtype",
    "float",
    "float8_143",
    "float8_152",
    "float16",
    "float32",
    "float64",
    "gcg",
    "get_current_graph",
    "get_ir",
    "get_main_graph",
    "gir",
    "gmg",
    "graph_input",
    "graph_output",
    "h2d_stream",
    "half",
    "in_sequence",
    "int8",
    "int16",
    "int32",
    "int64",
    "io_tiles",
    "ipu",
    "name_scope",
    "remote_buffer",
    "remote_replica_sharded_variable",
    "remote_variable",
    "replica_sharded_variable",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variable",
]
