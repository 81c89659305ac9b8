"""Names of `popart._internal.ir`, `popart_core` and the private parts of popxl that programs use, by sheet.

Sections: "25" of popxl-addons.md, "22" of popxl.md, "circ" of in-circulation.md, "7" of popart-ir-legacy.md.
"""

# members: class, names
MEMBERS = [
    ("25", "Ir", "setPatterns applyPreAliasPatterns applyInplacePattern getAllGraphs getSessionOptions"),
    ("7", "Ir", "setDataFlow getDataFlow updateVertices setIsPrepared removeIsolatedTensors removeIsolatedGraphs logIr "
     "getMainGraph getId removeGraph"),
    ("25", "Graph", "getOps getOpSchedule getCalledGraphs getInputIds getInputId getInputIndex getInputTensor "
     "getOutputId getOutputIndex getOutputTensor markAsOutput removeOutput eraseOp topoCons "
     "setCanBeRecursivelyAutodiffed id"),
    ("25", "Op", "id opType getInputTensors getOutputTensors getInputIndexMap getOutputIndexMap getCalledGraphs "
     "getCalledGraph getTripCountValue cloneIntoGraph connectInTensor createAndConnectOutTensor disconnectAllInputs "
     "disconnectAllOutputs setup outTensor outId inIndex hasInput hasInputTensor getVirtualGraphId "
     "setAvailableMemoryProportion getConvOptions setConvOptions useFullyConnectedPass setUseFullyConnectedPass "
     "opInToSubgraphInIndex subgraphInToOpInIndex addModified addLoopInput addLoopOutput getNumExplicitInputs "
     "getSourceIpu"),
    ("25", "Tensor", "id getGraph hasProducer getProducer consumers modifiedRegionsByOps info"),
    ("25", "TopoCons", "transferToSubgraph insert contains"),
    ("25", "view.Region", "getFull getEmpty"),
    ("circ", "TensorType", "ActGrad Const Stream Unknown Variable"),
]  # fmt: skip

NAMES = """
Op Graph Tensor Ir TensorType BwdGraphInfo ExpectedConnection ExpectedConnectionType.Fwd ExpectedConnectionType.FwdGrad
ExecutionContext.WeightsFromHostFragment ExecutionContext.WeightsToHostFragment patterns.Patterns patterns.PatternsLevel
op.CallOp op.LoopOp op.InitOp op.IpuCopyOp op.exchange.HostLoadOp op.exchange.HostStoreOp op.AddOp op.SubtractOp
op.MulOp op.MatMulOp op.GatherOp op.GeluOp op.GroupNormOp op.ReshapeOp op.TransposeOp op.SplitOp
"""

# what a call in popxl makes, for isinstance: class, operands, function of (ops, tensors)
CLASSES = [
    ("AddOp", lambda ops, x: x + x),
    ("SubtractOp", lambda ops, x: x - x),
    ("MulOp", lambda ops, x: x * x),
    ("MatMulOp", lambda ops, x: x @ x),
    ("GatherOp", lambda ops, x: ops.gather(x, ops.cast(ops.slice(x, 0, 1, axis=0), "int32"))),
    ("GeluOp", lambda ops, x: ops.gelu(x)),
    ("GroupNormOp", lambda ops, x: ops.group_norm(x, x[0], x[0], 1)),
    ("ReshapeOp", lambda ops, x: x.reshape((2, 8))),
    ("TransposeOp", lambda ops, x: x.transpose()),
    ("SplitOp", lambda ops, x: ops.split(x, 2)),
]

# private parts of popxl: module, names
PRIVATE = [
    ("25", "popxl.Graph", "_from_pb _create_tensor_id register_op_created_hook remove_op_created_hook"),
    ("25", "popxl.Tensor", "_from_pb_tensor"),
    ("25", "popxl.transforms.autodiff.GradGraphInfo", "_from_pb"),
    ("25", "popxl.transforms.autodiff.ExpectedConnection", "_from_pb _pb_ec"),
    ("25", "popxl.context", "get_current_context op_debug_context debug_context_frame_offset _execution_context"),
    ("25", "popxl.context.Context", "_get_op_settings _op_created _add_in_sequence_topocons"),
    ("22", "popxl.ops.utils", "check_in_graph check_tensor_ipu_and_tile_set handle_negative_axis "
     "convert_optional_float convert_optional_int convert_optional_dtype convert_optional_int64_list cast_if_needed"),
    ("25", "popxl.ops.collectives.collectives", "CollectiveOps to_collective_op"),
    ("25", "popxl.utils", "table_to_string to_numpy"),
    ("circ", "popxl.dtypes", "_NP_TO_POPXL _PT_TO_POPXL"),
]  # fmt: skip

# enumerations of popart_core: name, members
CORE = [("circ", "ScatterReduction", "Sum Max Min Mul NoReduction")]
