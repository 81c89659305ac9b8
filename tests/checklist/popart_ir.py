"""The public names of the older package `popart.ir`, by section of the reference sheet popart-ir-legacy.md."""

ALL = """
get_current_graph get_main_graph gcg gmg ipu virtual_graph pipeline_stage in_sequence name_scope io_tiles dtype bool
int8 int16 int32 int64 uint8 uint16 uint32 uint64 half float16 float float32 double float64 complex64 complex128 Graph
Ir Tensor variable constant subgraph_input subgraph_output TensorByRef HostToDeviceStream DeviceToHostStream
h2d_stream d2h_stream create_seeds Module
"""

OPS = """
add call call_with_info CallInfo cast detach detach_ div dropout dynamic_slice dynamic_update dynamic_update_ gather
tied_gather gelu group_norm layer_norm host_load host_store increment_mod increment_mod_ init io_tile_copy ipu_copy
logical_and logical_not logical_or matmul SerialiseMode mul nll_loss_with_softmax_grad negate random_uniform
random_normal print_tensor reshape reshape_ flatten flatten_ remote_load remote_load_ remote_store repeat scaled_add
scaled_add_ scatter slice slice_ softmax split squeeze sub transpose transpose_
"""

MODULES = {
    "popart.ir": "transforms",
    "popart.ir.tensor": "Tensor Variable Constant variable constant",
    "popart.ir.context": "get_current_context in_sequence ipu virtual_graph pipeline_stage name_scope io_tiles",
    "popart.ir.dtypes": "dtype float32 half",
    "popart.ir.remote_buffer_handle": "RemoteBufferHandle",
    "popart.ir.transforms": "autodiff merge_exchange",
    "popart.ir.transforms.autodiff": "autodiff GradGraphInfo ExpectedConnection ExpectedConnectionType "
    "get_expected_forward_inputs_from_call",
    "popart.ir.ops.collectives": "replicated_all_gather replicated_all_reduce replicated_all_reduce_ "
    "replicated_reduce_scatter CollectiveOperator CommGroup CommGroupType",
    "popart.ir.ops.var_updates": "accumulate_ accumulate_square_ accumulate_mean_ accumulate_moving_average_ "
    "accumulate_moving_average_square_ adam_updater lamb_updater adamax_updater copy_var_update_",
    "popart.ir.ops.equal": "equal",
}

CALLS = [
    ("2", "Ir", ""),
    ("2", "Ir.create_graph", "fn, *args, **kwargs"),
    ("2", "Ir.create_empty_graph", "name=None"),
    ("2", "Ir.dot_checkpoint", "check"),
    ("2", "subgraph_input", "shape, dtype, name=None, by_ref=False"),
    ("2", "subgraph_output", "t"),
    ("2", "in_sequence", "enabled=True"),
    ("2", "pipeline_stage", "stage"),
    ("2", "h2d_stream", "shape, dtype, name=None"),
    ("2", "d2h_stream", "shape, dtype, name=None"),
    ("3", "variable", "data, dtype=None, name=None, downcast=True"),
    ("3", "constant", "data, dtype=None, name=None, downcast=True"),
    ("5", "ops.call", "subgraph, *subgraph_fn_param_inputs, subgraph_in_to_parent_in=None"),
    ("5", "ops.call_with_info", "subgraph, *inputs, subgraph_in_to_parent_in=None, check_inputs=True"),
    ("5", "ops.repeat", "repeat_subgraph, repeat_trip_count, *inputs, subgraph_in_to_parent_in=None"),
    ("6", "ops.init", "shape, dtype, name=None"),
    (
        "6",
        "ops.matmul",
        "lhs, rhs, available_memory_proportion=None, serialise_mode=SerialiseMode.NoSerialisation, serialise_factor=1, "
        "output_type=None, partials_type=None",
    ),
    ("6", "ops.detach_", "x"),
    ("6", "ops.print_tensor", "t, title=None, print_self=True, print_gradient=False"),
    *(("6", f"ops.remote_{name}", "t, offset=None, remote_buffer_handle=None") for name in ["load", "load_", "store"]),
    ("6", "ops.collectives.replicated_all_gather", "t, group=None"),
    (
        "6",
        "remote_buffer_handle.RemoteBufferHandle",
        "remote_buffer_id=None, tensor_shape=None, tensor_dtype=None, repeats=1",
    ),
    (
        "8",
        "transforms.autodiff.autodiff",
        "graph, grads_provided=None, grads_required=None, called_graphs_grad_info=None, return_all_grad_graphs=False",
    ),
    ("8", "transforms.autodiff.get_expected_forward_inputs_from_call", "call_info, grad_info"),
]

MEMBERS = [
    ("2", "Ir", "main_graph create_graph create_empty_graph dot_checkpoint"),
    (
        "2",
        "Graph",
        "ir get_main_graph get_input_tensors get_output_tensors get_tensors get_variables get_constants get_tensor "
        "name id register_op_created_hook remove_op_created_hook __enter__",
    ),
    ("3", "Tensor", "id name dtype shape rank nelms ir T T_ transpose transpose_ reshape reshape_ detach detach_ "
     "flatten_ copy_to_ipu __add__ __sub__ __mul__ __truediv__ __matmul__ __neg__ __len__ __getitem__"),
    ("3", "dtype", "is_complex is_int is_floating_point is_signed as_dtype as_numpy"),
    (
        "5",
        "ops.CallInfo",
        "called_graph subgraph_in_to_op_in_index op_in_to_subgraph_in_index subgraph_out_to_op_out_index "
        "op_out_to_subgraph_out_index subgraph_to_op_tensor op_in_to_subgraph_in_tensor get_op_input_tensor "
        "get_op_output_tensor get_input_tensors get_output_tensors set_op_input_modified",
    ),
    ("6", "remote_buffer_handle.RemoteBufferHandle", "remote_buffer_id tensor_shape tensor_dtype repeats"),
    (
        "8",
        "transforms.autodiff.GradGraphInfo",
        "graph forward_graph expected_inputs expected_outputs get_input_tensors get_output_tensors",
    ),
]  # fmt: skip

ENUMS = [("6", "ops.SerialiseMode", "NoSerialisation ReducingDim InputChannels OutputChannels")]

# what a program calls on ir._pb_ir (section 7)
PROGRAM = (
    "setDataFlow getDataFlow getSessionOptions updateVertices setPatterns setIsPrepared removeIsolatedTensors "
    "removeIsolatedGraphs logIr getMainGraph getId"
)
