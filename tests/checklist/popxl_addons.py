"""The public names of the package `popxl_addons`, by section of the reference sheet popxl-addons.md.

`TOP`: names of the package itself. `NOT_TOP`: names that stand in a module only. `MODULES`: names by module. `CALLS`:
(section, module, name, parameters); a dot leads to a method. `MEMBERS`: (section, module, class, what its objects or
the class have). `ATTRIBUTES`: (section, name, expression that makes an object in an Ir, attributes).
"""

TOP = {
    "module": "Module NameScopeMeta create_grad_graph_info NamedTensors NamedVariableFactories VariableFactory "
    "add_variable_input add_replica_sharded_variable_input GraphWithNamedArgs BoundGraph GraphCache OrderedDict "
    "overrides duplicate_items GraphLike GradGraphInfoLike CalledGraphsGradInfo CalledGraphsGradInfoLike popxl dtypes "
    "Ir Tensor ReplicaGrouping HostTensor GradGraphInfo wraps warnings inspect contextmanager",
    "graph_cache": "GraphCache function bound_arguments tensor_hash argument_hash get_function_hash "
    "get_current_context weakref",
    "remote": "load_remote_graph store_remote_graph named_buffers named_variable_buffers create_remote_buffer",
    "route_tensor": "route_tensor_into_graph is_subgraph",
    "ops": "cross_entropy cross_entropy_with_grad host_load host_store fp8_amax_scale",
    "transforms": "autodiff autodiff_with_accumulation set_available_memory_proportion_by_ipu "
    "set_graph_available_memory_proportion_by_ipu batch_serialise batch_serialise_fwd_and_grad batch_serial_buffer "
    "RemoteHandle pipelined_execution recompute_graph add_recompute_inputs suffix_graph_name disable_fc_pass "
    "enable_fc_pass",
    "seed_variable": "seed_variable",
    "streams": "InputStreams OutputStreams",
    "utils": "timer OrderedDict WeightsDict",
    "task_session": "TaskSession write_variables_pb",
    "performance_utils": "total_FLOPs evaluate_ir_FLOPs evaluate_FLOPs print_FLOPs format_flops_scientific",
    "debugging": "print_tensor print_text",
    "array_munging": "shard unshard_arrays unshard repeat repeat_axis split2D shard2D unshard2D repeat_shard "
    "tensor_parallel_input pad_axis squeeze_safe handle_negative_axis",
}
SUB_MODULES = "module graph ops transforms streams utils remote rts"
NOT_TOP = (
    "tensor_parallel_output DotTree to_mapping sanitise NamedTensorData print_named_tensors NamedReplicaGrouping "
    "fill_none_group is_cross_instance NamedRemoteBuffers load_remote store_remote replica_sharded_spec "
    "apply_pre_alias_patterns repeat_graph remap_grad_info initialise_memmap_dir_from_checkpoint AdamOptimizerStep "
    "TensorInput run_module"
)

MODULES = {
    "dot_tree": "DotTree to_mapping sanitise",
    "named_tensors": "NamedTensors NamedTensorData TensorMap print_named_tensors",
    "named_replica_grouping": "NamedReplicaGrouping fill_none_group get_instance_replica_grouping is_cross_instance "
    "get_ild_size_from_popdist get_ild_replica_grouping is_cross_ild",
    "remote": "NamedRemoteBuffers load_remote store_remote",
    "rts": "replica_sharded_spec gather_replica_sharded_tensor all_gather_replica_sharded_graph "
    "reduce_replica_sharded_tensor reduce_replica_sharded_graph",
    "patterns": "apply_pre_alias_patterns",
    "transforms.repeat_graph": "repeat_graph",
    "transforms.autodiff": "autodiff autodiff_with_accumulation remap_grad_info",
    "transforms.batch_serialisation": "batch_serialise batch_serialise_fwd_and_grad batch_serial_buffer RemoteHandle",
    "transforms.recomputation": "recompute_graph add_recompute_inputs",
    "transforms.use_fc_pass": "enable_fc_pass disable_fc_pass",
    "array_munging": "tensor_parallel_output",
    "task_session": "TaskSession write_variables_pb initialise_memmap_dir_from_checkpoint",
    "testing_utils": "ops_of_type TensorInput run_module",
    "module": "Module NameScopeMeta create_grad_graph_info",
    "graph": "GraphWithNamedArgs BoundGraph",
    "graph_common": "GraphLike GradGraphInfoLike CalledGraphsGradInfo CalledGraphsGradInfoLike",
    "graph_cache": "GraphCache function bound_arguments tensor_hash argument_hash get_function_hash",
    "variable_factory": "VariableFactory NamedVariableFactories add_variable_input add_replica_sharded_variable_input",
    "performance_utils": "evaluate_FLOPs",
    "seed_variable": "seed_variable",
    "route_tensor": "route_tensor_into_graph is_subgraph called_graph_paths connect_call_op connect_loop_op "
    "connect_tensor_to_ops_on_path",
    "ops.streams": "host_load host_store",
    "ops.fp8_amax_scale": "fp8_amax_scale",
    "ops.cross_entropy": "cross_entropy cross_entropy_with_grad",
    "ops.replicated_strided_collectives": "replicated_all_reduce_strided",
    "ops.replicated_all_reduce_TP.replicated_all_reduce_TP": "replicated_all_reduce",
    "streams": "InputStreams OutputStreams",
    "utils": "timer OrderedDict WeightsDict suffix_graph_name overrides duplicate_items null_context",
}

# What is not there yet, with the reason.
MISSING: dict[str, str] = {}

_VARIABLE = "name, data_iter, dtype=None, by_ref=False, replica_grouping=None"
_INIT = "prefix=None, empty=False, memmap_dir=None, read_only_if_exists=False"
_MAKE = "name=None, empty=False, memmap_dir=None, read_only_if_exists=False"
_GRADS = "grads_provided=None, grads_required=None"

CALLS = [
    ("2", "utils", "timer", "title=None, log_to_wandb=True"),
    ("2", "utils", "OrderedDict.idx", "i"),
    ("2", "utils", "WeightsDict", "*args, **kwargs"),
    ("2", "utils", "suffix_graph_name", "name, suffix"),
    ("2", "utils", "overrides", "cls, base_cls, method"),
    ("2", "utils", "duplicate_items", "iterable"),
    ("2", "utils", "null_context", ""),
    ("3", "dot_tree", "DotTree", "**kwargs"),
    ("3", "dot_tree", "DotTree.insert", "key, value, overwrite=False"),
    ("3", "dot_tree", "DotTree.update", "values, overwrite=False"),
    ("3", "dot_tree", "DotTree.get", "key"),
    ("3", "dot_tree", "DotTree.pop", "key"),
    ("3", "dot_tree", "DotTree.filter_keys", "keys"),
    ("3", "dot_tree", "DotTree.from_dict", "d"),
    ("3", "dot_tree", "DotTree.pack", "keys, values"),
    ("3", "dot_tree", "DotTree.map", "fn"),
    ("3", "dot_tree", "DotTree.to_mapping", "other"),
    ("3", "dot_tree", "to_mapping", "key_tree, value_tree"),
    ("3", "dot_tree", "sanitise", "name"),
    ("3.1", "named_tensors", "NamedTensors.remap", "mapping"),
    ("3.1", "named_replica_grouping", "NamedReplicaGrouping.build_groups", "names, value"),
    ("3.1", "named_tensors", "print_named_tensors", "named_tensors"),
    (
        "4.1",
        "variable_factory",
        "VariableFactory",
        "data_iter, dtype=None, name=None, by_ref=False, replica_grouping=None, shard_over=1",
    ),
    ("4.1", "variable_factory", "VariableFactory.create_input", "prefix=None"),
    ("4.1", "variable_factory", "VariableFactory.next_data", "empty=False"),
    (
        "4.1",
        "variable_factory",
        "VariableFactory.next_memmap",
        "memmap_dir, name, empty=False, read_only_if_exists=False",
    ),
    ("4.1", "variable_factory", "VariableFactory.create_tensor", _MAKE),
    ("4.1", "variable_factory", "VariableFactory.create_remote_tensor", f"buffer, entry, {_MAKE}"),
    ("4.2", "variable_factory", "add_variable_input", _VARIABLE),
    ("4.2", "variable_factory", "add_replica_sharded_variable_input", f"{_VARIABLE}, shard_over=None"),
    ("4.3", "variable_factory", "NamedVariableFactories.init", _INIT),
    ("4.3", "variable_factory", "NamedVariableFactories.init_remote", f"buffers, entry=0, {_INIT}"),
    ("4.3", "variable_factory", "NamedVariableFactories.init_zero", ""),
    ("4.3", "variable_factory", "NamedVariableFactories.init_undef", ""),
    ("5", "module", "Module", "cache=False, grad_inlining_error='error'"),
    ("5", "module", "Module.build", "*args, **kwargs"),
    ("5", "module", "Module.set_name_scope", "name"),
    ("5.1", "module", "Module.create_graph", "*args, **kwargs"),
    ("5.2", "module", "Module.add_variable_input", f"{_VARIABLE}, overwrite=False"),
    ("5.2", "module", "Module.add_replica_sharded_variable_input", f"{_VARIABLE}, shard_over=None"),
    ("5.2", "module", "Module.add_variable_inputs", "name, variable_f, overwrite=False"),
    ("5.2", "module", "Module.add_variable_factory", "variable_f, name=None"),
    ("5.3", "module", "Module.from_list", "sub_modules"),
    ("5.3", "module", "Module.from_variable_factories", "inputs"),
    ("5.3", "module", "Module.get", "key"),
    ("5.4", "module", "Module.build_grad", "*grads"),
    ("5.4", "module", "Module.create_grad_graph", f"fwd_graph, {_GRADS}"),
    (
        "5.4",
        "module",
        "create_grad_graph_info",
        "ir, fwd_graph, grad_graph, grad_input_to_fwd_output, grad_output_to_fwd_input, fwd_tensors",
    ),
    ("5.5", "module", "Module.call_module", f"module, name=None, autodiff='auto', {_GRADS}"),
    ("6", "graph", "BoundGraph", "graph, args=None"),
    ("6", "graph", "BoundGraph.call", "*targs, args=None"),
    ("6", "graph", "BoundGraph.call_with_info", "*targs, args=None"),
    ("6", "graph", "BoundGraph.bind", "args"),
    ("6", "graph", "BoundGraph.subgraph_io_map", "*targs, args=None, outs=None"),
    (
        "7",
        "graph",
        "GraphWithNamedArgs",
        "graph, args=None, grad_graph_info=None, from_module=None, aux=None, called_graphs_grad_info=None",
    ),
    ("7", "graph", "GraphWithNamedArgs.from_grad_graph", "grad_graph_info, args=None"),
    ("7", "graph", "GraphWithNamedArgs.bind", "args=None"),
    ("7", "graph", "GraphWithNamedArgs.call", "*targs, args=None"),
    ("7", "graph", "GraphWithNamedArgs.call_with_info", "*targs, args=None"),
    ("7", "graph", "GraphWithNamedArgs.copy", ""),
    ("7", "graph", "GraphWithNamedArgs.print_schedule", ""),
    (
        "7",
        "graph",
        "GraphWithNamedArgs.autodiff",
        f"{_GRADS}, called_graphs_grad_info=None, method='auto', force=False",
    ),
    ("9", "graph_cache", "GraphCache", ""),
    ("9", "graph_cache", "GraphCache.create_graph", "fn, *args, **kwargs"),
    ("9", "graph_cache", "bound_arguments", "fn, *args, **kwargs"),
    ("9", "graph_cache", "tensor_hash", "t"),
    ("9", "graph_cache", "argument_hash", "arg"),
    ("9", "graph_cache", "get_function_hash", "fn, *args, **kwargs"),
    ("9", "graph_cache", "function", "fn"),
    ("11", "streams", "InputStreams.from_streams", "streams"),
    ("11", "streams", "OutputStreams.from_streams", "streams"),
    ("11", "ops.streams", "host_load", "t, dtype, name"),
    ("11", "ops.streams", "host_store", "t"),
    ("12", "task_session", "TaskSession", "inputs, outputs, state, max_checkpoints=1, *args, **kwargs"),
    ("12", "task_session", "TaskSession.run", "inputs=None, downcast_inputs=True"),
    ("12", "task_session", "TaskSession.add_session_state_info", "info"),
    ("12", "task_session", "TaskSession.get_named_tensors_data", ""),
    ("12", "task_session", "TaskSession.load_from_session", "src, report_missing='none'"),
    ("12", "task_session", "TaskSession.save_checkpoint", "checkpoint_dir"),
    ("12", "task_session", "TaskSession.load_checkpoint", "checkpoint_dir, report_missing='warn', skip_memmap=False"),
    ("12", "task_session", "TaskSession.wandb_histogram", "name, step, data"),
    ("12", "task_session", "TaskSession.wandb_variable_histograms", "step=0"),
    ("12", "task_session", "write_variables_pb", "session, weights"),
    ("12", "task_session", "initialise_memmap_dir_from_checkpoint", "checkpoint_dir, memmap_dir"),
    ("13", "seed_variable", "seed_variable", "seed, replica_grouping=None"),
    ("14", "remote", "create_remote_buffer", "spec, entries=1, replica_group=None, shard_over=None"),
    ("14", "remote", "named_variable_buffers", "factories, entries=1, shard_over_dict=True"),
    ("14", "remote", "named_buffers", "tensors, entries=1"),
    ("14", "remote", "load_remote_graph", "buffers, entries=1, use_io_tiles=False"),
    ("14", "remote", "store_remote_graph", "buffers, entries=1, use_io_tiles=False"),
    ("14", "remote", "load_remote", "buffers, entry=0, use_io_tiles=False"),
    ("14", "remote", "store_remote", "buffers, tensors, entry=0, use_io_tiles=False"),
    ("15", "named_replica_grouping", "fill_none_group", "rg, none_value"),
    ("15", "named_replica_grouping", "is_cross_instance", "rg"),
    ("15", "named_replica_grouping", "get_instance_replica_grouping", "rg=None"),
    ("15", "named_replica_grouping", "get_ild_size_from_popdist", ""),
    ("15", "named_replica_grouping", "get_ild_replica_grouping", "rg=None"),
    ("15", "named_replica_grouping", "is_cross_ild", "rg"),
    ("16", "rts", "replica_sharded_spec", "t, shard_over"),
    ("16", "rts", "gather_replica_sharded_tensor", "t, use_io_tiles=False, replica_group=None"),
    ("16", "rts", "all_gather_replica_sharded_graph", "tensors, use_io_tiles=False, replica_groups=None"),
    ("16", "rts", "reduce_replica_sharded_tensor", "t, op='add', replica_group=None, shard_group=None"),
    (
        "16",
        "rts",
        "reduce_replica_sharded_graph",
        "tensors, op='add', use_io_tiles=False, shard_groups=None, replica_group=None",
    ),
    ("17", "route_tensor", "route_tensor_into_graph", "tensor, graph=None, modified=False"),
    ("17", "route_tensor", "is_subgraph", "parent, subgraph"),
    ("17", "route_tensor", "called_graph_paths", "parent, subgraph"),
    ("18.1", "transforms.autodiff", "autodiff", f"graph, {_GRADS}, called_graphs_grad_info=None"),
    (
        "18.2",
        "transforms.autodiff",
        "autodiff_with_accumulation",
        f"graph, tensors_to_accumulate_grads, {_GRADS}, called_graphs_grad_info=None, replica_groupings=None",
    ),
    ("18.2", "transforms.autodiff", "remap_grad_info", "grad_info, forward_graph, backward_graph"),
    ("18.3", "transforms.recomputation", "recompute_graph", "grad_graph"),
    ("18.3", "transforms.recomputation", "add_recompute_inputs", "grad_info"),
    ("18.4", "transforms.repeat_graph", "repeat_graph", "graph, repeat_count"),
    ("18.5", "transforms", "set_available_memory_proportion_by_ipu", "ir, proportions"),
    ("18.5", "transforms", "set_graph_available_memory_proportion_by_ipu", "graph, proportions"),
    ("18.5", "transforms", "disable_fc_pass", "ir"),
    ("18.5", "transforms", "enable_fc_pass", "ir"),
    ("18.6", "transforms", "RemoteHandle", "buffer, row_offset=0, shard_group=None"),
    ("18.6", "transforms", "batch_serial_buffer", "t, steps=1, rows=1, shard_group=None"),
    (
        "18.6",
        "transforms",
        "batch_serialise",
        "graph, steps, load_handles, store_streams, store_buffers, seed_input=None, rows=1, io_mode='io'",
    ),
    (
        "18.6",
        "transforms",
        "batch_serialise_fwd_and_grad",
        "forward_graph, gradient_graph, named_inputs_for_grad_graph, steps, load_handles, store_streams, "
        "store_buffers, seed_input=None, rows=1, io_mode='io'",
    ),
    ("18.7", "transforms", "pipelined_execution", "steps"),
    ("22", "array_munging", "shard", "x, n, axis"),
    ("22", "array_munging", "unshard", "x, axis"),
    ("22", "array_munging", "unshard_arrays", "xs, axis"),
    ("22", "array_munging", "repeat", "x, n, axis=0"),
    ("22", "array_munging", "repeat_axis", "x, n, axis=0"),
    ("22", "array_munging", "split2D", "x, n_1, n_2, axis_1, axis_2"),
    ("22", "array_munging", "repeat_shard", "x, n_repeats, n_shards, shard_axis, sharded_tensor='contiguous'"),
    ("22", "array_munging", "tensor_parallel_input", "input_data, tp, rf, repeat_fn=None"),
    (
        "22",
        "array_munging",
        "tensor_parallel_output",
        "output_data, num_host_transfers, tp, rf, data_shape, tp_identical=True, true_num_host_transfers=None",
    ),
    ("22", "array_munging", "pad_axis", "x, n, axis, value=0"),
    ("22", "array_munging", "squeeze_safe", "x, axis=None"),
    ("22", "array_munging", "handle_negative_axis", "x, axis"),
    ("23", "performance_utils", "evaluate_FLOPs", "graph"),
    ("23", "performance_utils", "evaluate_ir_FLOPs", "ir"),
    ("23", "performance_utils", "total_FLOPs", "ir"),
    ("23", "performance_utils", "print_FLOPs", "flops_breakdown, mode='type', numerical_format='nearest3'"),
    ("23", "performance_utils", "format_flops_scientific", "val, format='nearest3'"),
    ("23", "debugging", "print_tensor", "t, *args, level='DEBUG', **kwargs"),
    ("23", "debugging", "print_text", "text, num=None, level='DEBUG'"),
    ("24", "testing_utils", "ops_of_type", "ops, op_type"),
    ("24", "testing_utils", "TensorInput", "data, dtype=None"),
    ("24", "testing_utils", "run_module", "module, *args, weights=None, **kwargs"),
    ("25", "patterns", "apply_pre_alias_patterns", "ir, level='default'"),
]

MEMBERS = [
    ("2", "utils", "WeightsDict", "update keys items values"),
    (
        "3",
        "dot_tree",
        "DotTree",
        "insert update get pop copy filter_keys keys values len keys_flat values_flat len_flat to_dict from_dict "
        "unpack pack map to_mapping _clear",
    ),
    ("3.1", "named_tensors", "NamedTensors", "tensors named_tensors remap"),
    ("4.3", "variable_factory", "NamedVariableFactories", "init init_remote init_zero init_undef replica_groupings"),
    ("5", "module", "Module", "build build_grad implements_grad_graph create_graph create_grad_graph call_module"),
    ("7", "graph", "GraphWithNamedArgs", "from_grad_graph bind call call_with_info grad_graph_info copy autodiff"),
    ("11", "streams", "InputStreams", "from_streams keys items values"),
    ("12", "task_session", "TaskSession", "dataloader expected_inputs _full_input_shape"),
    ("18.6", "transforms.batch_serialisation", "BatchSerialResult", "remap_tensors"),
]

# section, how an object is made (`x`: a variable of the main graph, `module`: one with a variable w), what it has
ATTRIBUTES = [
    ("4.1", "addons.VariableFactory(lambda: data, name='w')", "data_iter name by_ref replica_sharded replica_grouping "
     "dtype shape meta_shape"),
    ("5", "module", "aux var_grad called_graphs_grad_info grad_inlining_error"),
    ("6", "addons.BoundGraph(graph.graph)", "graph args"),
    ("7", "graph", "graph args called_graphs_grad_info autodiff_applied"),
    ("18.6", "addons.RemoteHandle(buffer)", "buffer row_offset shard_group"),
]  # fmt: skip
