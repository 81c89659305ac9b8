"""The public names of the package `popxl` but its operators, by section of the reference sheet popxl.md.

`ALL`: what ``from popxl import *`` gives. `CALLS`: (section, name, parameters). `MEMBERS`: (section, class, properties
and methods). `ENUMS`: members in order. `MODULES`: names to be found in a module besides.
"""

ALL = """
get_current_graph get_main_graph get_ir gcg gmg gir in_sequence name_scope ipu io_tiles dtype bool int8 int16 int32
int64 uint8 uint16 uint32 uint64 half float8_143 float8_152 float16 float float32 double float64 complex64 complex128
Graph Ir Module create_seeds RemoteBuffer remote_buffer ReplicaGrouping HostToDeviceStream DeviceToHostStream h2d_stream
d2h_stream Tensor variable remote_variable remote_replica_sharded_variable replica_sharded_variable constant graph_input
graph_output TensorByRef TensorSpec TensorStorage TensorLocation ReplicatedTensorSharding TileSet ExecutionContext
Session
"""

MODULES = {
    "popxl": "ops transforms fp8_utils replica_sharded_buffer __version__",
    "popxl.context": "get_current_context op_debug_context debug_context_frame_offset get_current_graph gcg "
    "get_main_graph gmg get_ir gir ipu io_tiles name_scope in_sequence _execution_context",
    "popxl.tensor": "Tensor Variable Constant HostTensor HostScalarTensor TensorLike ScalarType host_tensor_types "
    "TensorByRef TensorSpec variable constant graph_input graph_output remote_variable replica_sharded_variable "
    "remote_replica_sharded_variable replica_sharded_buffer",
    "popxl.utils": "to_numpy table_to_string HW_DEVICE_CONNECTION_TIMEOUT downcast_np_dtypes "
    "host_pow2scale_cast_to_fp8 host_pow2scale_cast_from_fp8",
    "popxl.errors": "UndefinedValue",
    "popxl.dtypes": "dtype bool half float double float8_143 float8_152",
    "popxl.fp8_utils": "host_pow2scale_cast_to_fp8 host_pow2scale_cast_from_fp8 host_fp8_mse_scale "
    "host_fp8_mse_scale_pb",
    "popxl.random_seed": "create_seeds uint64_to_two_uint32 two_uint32_to_uint64 MAX_UINT64",
    "popxl.streams": "HostToDeviceStream DeviceToHostStream h2d_stream d2h_stream",
    "popxl.session": "Session",
    "popxl.remote_buffer": "RemoteBuffer remote_buffer",
    "popxl.replica_grouping": "ReplicaGrouping",
    "popxl.tensorlocation": "TensorStorage ReplicatedTensorSharding TensorLocation TileSet ExecutionContext",
    "popxl.transforms": "ExpectedConnectionType ExpectedConnection GradGraphInfo autodiff merge_exchange "
    "io_tile_exchange decompose_sum",
    "popxl.transforms.autodiff": "ExpectedConnectionType ExpectedConnection GradGraphInfo autodiff",
    "popxl.ops.call": "CallSiteInfo call call_with_info",
    "popxl.ops.utils": "check_in_graph check_tensor_ipu_and_tile_set handle_negative_axis convert_optional_float "
    "convert_optional_int convert_optional_dtype convert_optional_int64_list cast_if_needed",
}

_HOST = "log2_scale=None, nan_on_overflow=None"
_VARIABLE = "dtype=None, name=None, downcast=True"
_REMOTE = f"data, remote_buffer, offset=0, {_VARIABLE}, replica_grouping=None, retrieval_mode='one_per_group', {_HOST}"

CALLS = [
    ("2", "Ir", "replication=1"),
    ("2", "Ir.create_graph", "fn, *args, **kwargs"),
    ("2", "Ir.create_empty_graph", "name=None"),
    ("2", "Ir.dot_checkpoint", "check, save_dir=None"),
    ("2", "Ir.get_all_h2d_streams", ""),
    ("2", "Ir.get_all_d2h_streams", ""),
    ("2", "Ir.replica_grouping", "stride=1, group_size=None"),
    ("2", "Ir.replica_grouping_from_assignments", "assignment"),
    ("3", "Graph.get_tensor", "tensor_id"),
    ("3", "Graph.register_op_created_hook", "fn"),
    ("3", "Graph.remove_op_created_hook", "handle"),
    ("5", "Tensor.strides", "shape=None"),
    ("5", "Tensor.transpose", "permutation=None"),
    ("5", "Tensor.transpose_", "permutation=None"),
    ("5", "Tensor.reshape", "shape"),
    ("5", "Tensor.reshape_", "shape"),
    *(("5", f"Tensor.{name}", "") for name in ["flatten", "flatten_", "detach", "detach_", "diag"]),
    ("5", "Tensor.copy_to_ipu", "destination, source=None"),
    ("5", "tensor.Variable.copy_to_ipu", "dst, src"),
    ("5", "tensor.Constant.copy_to_ipu", "dst, src"),
    ("6", "variable", f"data, {_VARIABLE}, replica_grouping=None, retrieval_mode=None, {_HOST}"),
    ("6", "constant", f"data, {_VARIABLE}, {_HOST}"),
    ("6", "remote_variable", _REMOTE),
    ("6", "remote_replica_sharded_variable", _REMOTE),
    ("6", "replica_sharded_buffer", "shape, dtype, replica_grouping=None, shard_over=None, entries=1"),
    (
        "6",
        "replica_sharded_variable",
        f"data, {_VARIABLE}, replica_grouping=None, shard_over=None, retrieval_mode='one_per_group', {_HOST}",
    ),
    ("6", "graph_input", "shape, dtype, name=None, by_ref=False, meta_shape=None"),
    ("6", "graph_output", "t"),
    ("6", "TensorSpec", "shape, dtype, meta_shape=()"),
    ("6", "TensorSpec.to_dict", ""),
    ("6", "TensorSpec.to_tuple", ""),
    ("7", "dtype.from_name", "name"),
    ("7", "dtype.as_dtype", "type_value"),
    ("7", "dtype.as_numpy", ""),
    ("7", "dtype.as_torch", ""),
    ("9", "utils.to_numpy", f"x, dtype=None, downcast=True, copy=True, {_HOST}"),
    ("10", "h2d_stream", "shape, dtype, name=None"),
    ("10", "d2h_stream", "shape, dtype, name=None"),
    *(("11", name, "") for name in ["get_current_graph", "gcg", "get_main_graph", "gmg", "get_ir", "gir", "io_tiles"]),
    ("11", "ipu", "ipu"),
    ("11", "name_scope", "name"),
    ("11", "in_sequence", "mode=True"),
    ("11", "context.get_current_context", ""),
    ("11", "context.debug_context_frame_offset", "i"),
    ("12", "Module.build", "*args, **kwargs"),
    ("13", "Session", "ir, device_desc='cpu', weights_to_host_on_exit=True"),
    ("13", "Session.run", "inputs=None, downcast_inputs=True"),
    ("13", "Session.run_with_outputs", "inputs=None, outputs=None, downcast_inputs=True"),
    *(("13", f"Session.{name}", "") for name in ["weights_to_host", "weights_from_host", "expected_inputs"]),
    ("13", "Session.create_host_outputs", ""),
    ("13", "Session.get_tensor_data", "tensor"),
    ("13", "Session.get_tensors_data", "tensors"),
    ("13", "Session.write_variable_data", "tensor, data"),
    ("13", "Session.write_variables_data", "tensors_to_data"),
    ("14", "RemoteBuffer", "tensor_shape, tensor_dtype, entries"),
    ("14", "remote_buffer", "tensor_shape, tensor_dtype, entries=1"),
    ("14", "RemoteBuffer.set_remote_buffer_info", "tensor_dtype, tensor_shape, entries"),
    ("14", "RemoteBuffer.validate_tensor_matches_buffer", "t, num_shards=1"),
    ("15", "ReplicaGrouping.transpose", ""),
    (
        "16",
        "create_seeds",
        "seed, offset=0, batches_per_step=1, gradient_accumulation_factor=1, replicas=1",
    ),
    ("16", "random_seed.uint64_to_two_uint32", "num"),
    ("16", "random_seed.two_uint32_to_uint64", "a, b"),
    ("17", "fp8_utils.host_pow2scale_cast_to_fp8", "src, dtype=None, log2_scale=0, nan_on_overflow=True"),
    ("17", "fp8_utils.host_pow2scale_cast_from_fp8", "src, dtype=None, log2_scale=0"),
    ("17", "fp8_utils.host_fp8_mse_scale", "src, dtype=None"),
    ("17", "fp8_utils.host_fp8_mse_scale_pb", "src, dtype"),
    (
        "18",
        "TensorLocation",
        "storage=TensorStorage.OnChip, replicated_tensor_sharding=ReplicatedTensorSharding.Off",
    ),
    ("20", "utils.table_to_string", "rows, delimiter=' | ', header=True"),
    (
        "21.1",
        "transforms.autodiff",
        "graph, grads_provided=None, grads_required=None, called_graphs_grad_info=None, return_all_grad_graphs=False",
    ),
    ("21.2", "transforms.GradGraphInfo.inputs_dict", "fwd_call_info"),
    ("21.2", "transforms.GradGraphInfo.fwd_graph_ins_to_grad_parent_outs", "grad_call_info"),
    ("21.2", "transforms.GradGraphInfo.fwd_parent_ins_to_grad_parent_outs", "fwd_call_info, grad_call_info"),
    ("21.3", "transforms.merge_exchange", ""),
    ("21.3", "transforms.io_tile_exchange", "verify_overlap=True"),
    ("21.4", "transforms.decompose_sum", "graph"),
]

_SITE = "inputs outputs parent_input parent_output graph_to_parent parent_to_graph set_parent_input_modified"
_INDEX = (
    "called_graph graph_to_parent_input_index parent_to_graph_input_index graph_to_parent_output_index "
    "parent_to_graph_output_index"
)

MEMBERS = [
    ("2", "Ir", "main_graph num_host_transfers replication_factor instance_replication_factor id"),
    (
        "3",
        "Graph",
        "name id ir main_graph inputs outputs inputs_by_name tensors variables constants called_graphs __contains__ "
        "__eq__ __hash__ __enter__ __exit__",
    ),
    (
        "5",
        "Tensor",
        "id name scope dtype shape rank nelms meta_shape spec location_info T T_ ipu tile_set ir in_sync_with_ipu "
        "__add__ __radd__ __iadd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __mod__ __rmod__ "
        "__matmul__ __rmatmul__ __pow__ __rpow__ __neg__ __and__ __rand__ __or__ __ror__ __invert__ __getitem__ "
        "__len__",
    ),
    ("5", "tensor.Variable", "shape_on_host shape_on_replica"),
    ("6", "TensorSpec", "shape dtype meta_shape keys values items"),
    ("7", "dtype", "name is_int is_floating_point is_complex is_signed"),
    ("10", "HostToDeviceStream", "dtype shape spec tensor_id"),
    ("10", "DeviceToHostStream", "dtype shape spec tensor_id"),
    ("13", "Session", "ir is_attached __enter__ __exit__"),
    ("14", "RemoteBuffer", "remote_buffer_id tensor_shape tensor_dtype entries meta_shape"),
    ("15", "ReplicaGrouping", "stride group_size num_groups assignment is_const const_rg to_device_map to_host_map"),
    ("18", "TensorLocation", "storage replicated_tensor_sharding"),
    (
        "21.2",
        "transforms.GradGraphInfo",
        "graph forward_graph expected_inputs expected_outputs inputs outputs",
    ),
    ("21.2", "transforms.ExpectedConnection", "fwd_tensor connection_type"),
    ("ops 13.1", "ops.CallSiteInfo", f"{_SITE} {_INDEX}"),
    ("ops 13.2", "ops.control.LoopSiteInfo", f"{_SITE} {_INDEX}"),
    ("ops 13.3", "ops.control.ConditionalSiteInfo", f"{_SITE} {_INDEX} is_parent_index_in_then_branch"),
]

ABSENT = [  # what the sheet says does not exist
    ("3", "Graph", "print_schedule call bind autodiff"),
    ("5", "Tensor", "__floordiv__ __isub__ __imul__ __abs__ __bool__"),
]

ENUMS = [
    ("11", "ExecutionContext", "Normal AccumulateOuterFragment WeightsFromHostFragment WeightsToHostFragment "
     "OptimizerFromHostFragment Subgraph"),
    ("18", "TensorStorage", "OnChip OffChip"),
    ("18", "ReplicatedTensorSharding", "Off On"),
    ("18", "TileSet", "Compute IO Undefined"),
    ("21.2", "transforms.ExpectedConnectionType", "Fwd FwdGrad"),
]  # fmt: skip

# name, is_int, is_floating_point, is_signed, is_complex, NumPy type, Python type, torch type
DTYPES = [
    ("bool", 0, 0, 0, 0, "bool", "bool", "bool"),
    ("int8", 1, 0, 1, 0, "int8", None, "int8"),
    ("int16", 1, 0, 1, 0, "int16", None, "int16"),
    ("int32", 1, 0, 1, 0, "int32", None, "int32"),
    ("int64", 1, 0, 1, 0, "int64", None, "int64"),
    ("uint8", 1, 0, 0, 0, "uint8", None, "uint8"),
    ("uint16", 1, 0, 0, 0, "uint16", None, None),
    ("uint32", 1, 0, 0, 0, "uint32", None, None),
    ("uint64", 1, 0, 0, 0, "uint64", None, None),
    ("float8_143", 0, 1, 1, 0, [("float8_143", "u1")], None, None),
    ("float8_152", 0, 1, 1, 0, [("float8_152", "u1")], None, None),
    ("float16", 0, 1, 1, 0, "float16", None, "float16"),
    ("float32", 0, 1, 1, 0, "float32", "float", "float32"),
    ("float64", 0, 1, 1, 0, "float64", None, "float64"),
    ("complex64", 0, 0, 1, 1, "complex64", None, "complex64"),
    ("complex128", 0, 0, 1, 1, "complex128", None, "complex128"),
]
ALIASES = {"half": "float16", "float": "float32", "double": "float64"}

# session options of a new Ir (section 2)
OPTIONS = {
    "virtualGraphMode": "Manual",
    "useHostCopyOps": True,
    "enableExplicitMainLoops": True,
    "explicitRecomputation": True,
    "aliasZeroCopy": True,
    "enableInplaceAmbiguityChecking": True,
    "enableVariablesCaching": False,
    "decomposeGradSum": True,
}
