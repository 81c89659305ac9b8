"""popart.ir: the older name of popxl, as a thin layer over it.

Members that are properties in popxl are methods here. Both spellings work, because the returned objects can be called
and then return themselves. Functions have the older argument orders and results.
"""

from popxl.module import Module
from popxl.random_seed import create_seeds
from popxl.tensor import TensorByRef

from popart.ir.context import (
    gcg,
    get_current_graph,
    get_main_graph,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
    pipeline_stage,
    virtual_graph,
)
from popart.ir.dtypes import (
    bool,
    complex64,
    complex128,
    double,
    dtype,
    float,
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
from popart.ir.graph import Graph, Ir
from popart.ir.streams import DeviceToHostStream, HostToDeviceStream, d2h_stream, h2d_stream
from popart.ir.tensor import Tensor, constant, subgraph_input, subgraph_output, variable

from popart.ir import transforms  # noqa: F401  isort: skip

__all__ = [
    "DeviceToHostStream",
    "Graph",
    "HostToDeviceStream",
    "Ir",
    "Module",
    "Tensor",
    "TensorByRef",
    "bool",
    "complex64",
    "complex128",
    "constant",
    "create_seeds",
    "d2h_stream",
    "double",
    "dtype",
    "float",
    "float16",
    "float32",
    "float64",
    "gcg",
    "get_current_graph",
    "get_main_graph",
    "gmg",
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
    "pipeline_stage",
    "subgraph_input",
    "subgraph_output",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variable",
    "virtual_graph",
]
