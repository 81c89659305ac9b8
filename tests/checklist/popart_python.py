"""The public names of the module `popart`, by section of the reference sheet popart-python.md.

`CALLS`: (section, name, parameters as the sheet has them); more than one row for a name: overloads. `MEMBERS`: what the
objects of a class have. `ENUMS`: members with their numbers. `MISSING`: names that the sheet has and we do not, with
the reason; a name that appears fails the test until it moves to its table.
"""

# section, name, parameters with defaults
CALLS = [
    ("1", "getTensorInfo", "array"),
    ("1", "getLogger", "name='all'"),
    ("1", "versionString", ""),
    ("1", "versionNumber", ""),
    ("1", "packageHash", ""),
    ("1", "getSupportedOperations", "includeInternal"),
    ("1", "getUnsupportedOperations", "opsetVersion"),
    ("1", "getSupportedOperationsDefinition", "includeInternal"),
    ("1", "initializePoplarDebugInfo", "filename, format='json'"),
    ("1", "closePoplarDebugInfo", ""),
    ("2", "DebugContext", ""),
    ("2", "DebugContext", "name"),
    ("2", "DebugContext", "name, loc"),
    ("2", "DebugContext", "debugInfo, name"),
    ("2", "DebugContext", "debugInfo, name, loc"),
    ("2", "SourceLocation", "functionName, fileName, lineNumber"),
    ("2", "DebugInfo", "debugContext, layer"),
    ("2", "DebugInfo.setValue", "name, value"),
    (
        "4",
        "AnchorReturnType",
        "anchorReturnTypeString, tileSet=TileSet.Compute, exchangeStrategy=ExchangeStrategy.JustInTime",
    ),
    (
        "4",
        "AnchorReturnType",
        "anchorReturnTypeString, returnPeriod, tileSet=TileSet.Compute, exchangeStrategy=ExchangeStrategy.JustInTime",
    ),
    ("4", "DataFlow", "batchesPerStep, anchorTensors"),
    ("4", "DataFlow", "batchesPerStep, anchorIds, anchorReturnType=AnchorReturnType('All')"),
    ("4", "InputSettings", "tileSet=TileSet.Compute, exchangeStrategy=ExchangeStrategy.JustInTime"),
    ("4", "InputSettings", "relicatedStreamMode=ReplicatedStreamMode.Replicate"),
    ("4", "InputShapeInfo", ""),
    ("4", "PyStepIO", "inputs, outputs"),
    (
        "4",
        "PyStepIOCallback",
        "input_callback, input_complete_callback, output_callback, output_complete_callback",
    ),
    ("4", "PyWeightsIO", "weights"),
    ("5.1", "Builder", "modelProtoOrFilename=None, opsets=None, builderCore=None"),
    ("5.1", "Builder.aiOnnxOpsetVersion", "version"),
    ("5.1", "Builder.reshape_const", "aiOnnx, args, shape, debugContext=''"),
    ("5.1", "Builder.createSubgraphBuilder", ""),
    ("5.2", "Builder.addUntypedInputTensor", "debugContext=''"),
    ("5.2", "Builder.getTensorShape", "id"),
    ("5.2", "Builder.getTensorDtypeString", "id"),
    ("5.2", "Builder.embedReplicationFactor", "replicationFactor"),
    ("5.3", "Builder.customOp", "opName, opVersion, domain, inputs, attributes, numOutputs=1, name=''"),
    (
        "6",
        "InferenceSession",
        "fnModel, dataFlow, deviceInfo, inputShapeInfo=InputShapeInfo(), patterns=None, userOptions=SessionOptions(), "
        "name='inference'",
    ),
    (
        "6",
        "TrainingSession",
        "fnModel, dataFlow, loss, optimizer, deviceInfo, inputShapeInfo=InputShapeInfo(), patterns=None, "
        "userOptions=SessionOptions(), name='training'",
    ),
    ("6", "InferenceSession.fromIr", "ir, deviceInfo, name='fromIr'"),
    *(
        ("6", f"{session}.{method}", parameters)
        for session in ("InferenceSession", "TrainingSession")
        for method, parameters in [
            ("initAnchorArrays", ""),
            ("prepareDevice", "loadEngine=True"),
            ("loadEngineAndConnectStreams", ""),
            ("weightsFromHost", ""),
            ("weightsToHost", ""),
            ("run", "stepio, debugName"),
            ("run", "programHandle, stepio, debugName=''"),
            ("modelToHost", "filename"),
            (
                "resetHostWeights",
                "modelProtoOrFilename, ignoreWeightsInModelWithoutCorrespondingHostWeight=False",
            ),
            ("updateExternallySavedTensorLocations", "fromLocation, toLocation"),
            ("setRandomSeed", "seedValue"),
            ("getRandomSeed", ""),
            ("getRNGState", ""),
            ("setRNGState", "rngValue"),
            ("getInfo", "id"),
            ("getSummaryReport", "resetProfile=True"),
            ("getReport", ""),
            ("getSerializedGraph", ""),
            ("getCycleCount", "id=''"),
            ("compileAndExport", "filename"),
            ("saveExecutable", "path, savePopartMetadata=True, saveVariables=True"),
            ("saveVariables", "path"),
            ("loadExecutable", "filename"),
            ("getIr", ""),
        ]
    ),
    ("6", "TrainingSession.updateOptimizerFromHost", "optimizer"),
    ("6", "TrainingSession.updateEngineCache", ""),
    ("6", "TrainingSession.broadcastWeights", "rootRank=0"),
    ("6", "TrainingSession.connectStreamToCallback", "streamHandle, callback, index=0"),
    ("7", "DeviceManager", ""),
    ("7", "DeviceManager.createCpuDevice", ""),
    ("7", "DeviceManager.createIpuModelDevice", "opts"),
    (
        "7",
        "DeviceManager.enumerateDevices",
        "pattern=SyncPattern.Full, numIpus=1, deviceType=DeviceType.Ipu, connectionType=DeviceConnectionType.Always, "
        "tilesPerIPU=0",
    ),
    *(
        (
            "7",
            f"DeviceManager.{method}",
            "numIpus=1, tilesPerIpu=0, pattern=SyncPattern.Full, connectionType=DeviceConnectionType.Always, "
            "selectionCriterion=DeviceSelectionCriterion.First",
        )
        for method in ("acquireAvailableDevice", "tryAcquireAvailableDevice")
    ),
    *(
        (
            "7",
            f"DeviceManager.{method}",
            "id, pattern=SyncPattern.Full, connectionType=DeviceConnectionType.Always",
        )
        for method in ("acquireDeviceById", "tryAcquireDeviceById")
    ),
    ("7", "DeviceManager.setOnDemandAttachTimeout", "attachTimeout"),
    ("8.1", "OptimizerValue", "val, isConst"),
    (
        "8.2",
        "SGD",
        "pyd, clip_norm_settings=[], accumulatorAndMomentum=SGDAccumulatorAndMomentum.Combined, "
        "accumType=DataType.UNDEFINED, accl1Type=DataType.UNDEFINED, debugContext='sgd'",
    ),
    ("8.2", "ConstSGD", "learning_rate, weight_decay=0.0, loss_scaling=1.0, clip_norm_settings=[]"),
    (
        "8.3",
        "Adam",
        "values, mode=AdamMode.Adam, weight_decay_mode=WeightDecayMode.Decay, accum_type=DataType.UNDEFINED, "
        "accl1_type=DataType.FLOAT, accl2_type=DataType.FLOAT, clip_norm_settings=[], scaled_optimizer_state=False, "
        "debugContext='adam'",
    ),
    (
        "8.4",
        "Adaptive",
        "values, mode=AdaptiveMode.RMSProp, weight_decay_mode=WeightDecayMode.Decay, accum_type=DataType.UNDEFINED, "
        "accl1_type=DataType.FLOAT, accl2_type=DataType.FLOAT, accl3_type=DataType.UNDEFINED, "
        "rmsprop_tf_variant=False, debugContext='adaptive'",
    ),
    ("8.5", "ClipNormSettings", "weightIds, maxNorm"),
    ("8.5", "ClipNormSettings.clipWeights", "weightIds, maxNorm"),
    ("8.5", "ClipNormSettings.clipAllWeights", "maxNorm"),
    ("9", "SessionOptions", ""),
    ("9", "SessionOptions.enableExplicitIR", "enable"),
    ("9", "SessionOptions.getGlobalReplicationFactor", ""),
    ("9", "TensorLocationSettings", ""),
    (
        "9",
        "TensorLocationSettings",
        "location, minElementsForOffChip=2, minElementsForReplicatedTensorSharding=8192",
    ),
    (
        "9",
        "TensorLocationSettings",
        "storage, minElementsForOffChip=2, minElementsForReplicatedTensorSharding=8192",
    ),
    (
        "9",
        "AutomaticLossScalingSettings",
        "enabled=False, toTrackTensors=None, binEdgeLocation=0.125, thresholdUpperCountProportion=1e-7, "
        "updatePeriod=1, gradientTensorTrackingMethod="
        "GradientTensorTrackingMethod.AllNonViewChangingGradientTensors",
    ),
    (
        "9",
        "ReplicatedCollectivesSettings",
        "prepareScheduleForMergingCollectives=False, mergeAllReduceCollectives=False, "
        "mergeReduceScatterCollectives=False, mergeAllGatherCollectives=False",
    ),
    ("9", "BatchSerializationSettings", ""),
    (
        "9",
        "BatchSerializationSettings",
        "factor, concatOnVirtualGraphChange, concatOnExecutionPhaseChange, concatOnPipelineStageChange, "
        "transformContext=BatchSerializationTransformContext.Fwd, method=BatchSerializationMethod.UnrollDynamic, "
        "batchSchedule=BatchSerializationBatchSchedule.Isomorphic",
    ),
    ("9", "AutodiffSettings", ""),
    ("9", "AutodiffSettings", "stitchStrategy"),
    ("9", "ExecutionPhaseSettings", ""),
    ("9", "AccumulateOuterFragmentSettings", ""),
    ("9", "AccumulateOuterFragmentSettings", "schedule, excludedVirtualGraphs=[]"),
    ("9", "NumIOTiles", ""),
    ("9", "NumIOTiles", "numIOTiles"),
    ("9", "ExperimentalSettings", ""),
    ("10", "CommGroup", ""),
    ("10", "CommGroup", "type, replicaGroupSize"),
    ("10", "CommGroup", "grouping"),
    ("10", "CommGroup.toReplicaGrouping", "numReplicas"),
    ("10", "VariableSettings", ""),
    ("10", "VariableSettings", "sharedVariableDomain_"),
    ("10", "VariableSettings", "retrievalMode_"),
    ("10", "VariableSettings", "sharedVariableDomain_, retrievalMode_"),
    ("10", "VariableSettings", "stride, groupSize, mode"),
    ("10", "VariableSettings.shapeOnReplica", "full_shape, replicaCount, name"),
    ("10", "VariableSettings.shapeOnHost", "replica_shape, replicaCount"),
    ("10", "VariableSettings.groups", "replicaCount"),
    ("10", "TensorLocation", ""),
    ("10", "TensorLocation", "storage"),
    ("10", "TensorLocation", "storage, replicatedTensorSharding"),
    ("10", "TensorLocation", "storage, replicatedTensorSharding, shardingDomain"),
    ("10", "TensorLocation", "storage, loadTileSet, storageTileSet, replicatedTensorSharding"),
    ("10", "TensorLocation", "storage, loadTileSet, storageTileSet, replicatedTensorSharding, shardingDomain"),
    ("11", "Patterns", ""),
    ("11", "Patterns", "level"),
    ("11", "Patterns", "patterns"),
    ("15", "Logger.setLevel", "level"),
    ("17", "GraphTransformer", "modelProtoOrFilename"),
    ("17", "GraphTransformer.convertINT64ToINT32", "clip=False"),
    ("17", "GraphTransformer.convertInitializersToConstants", "ids"),
    ("17", "GraphTransformer.saveInitializersExternally", "ids, filename"),
    ("17", "NumericsReport", "A0, A1, B0, B1"),
    ("17", "NumericsReport.report", "id"),
]

_SESSION = (
    "dataFlow replicationFactor accumulationFactor readWeights writeWeights copyDeviceWeightsToHost setEngineIsLoaded "
    "_serializeIr markHostWeightsOutOfSync markHostWeightsInSync areHostWeightsInSync"
)

# section, class, names
MEMBERS = [
    ("2", "DebugInfo", "setValue getId"),
    (
        "3",
        "TensorInfo",
        "set shape metaShape rank nelms nbytes dim strides dataType data_type data_type_lcase __eq__ __ne__",
    ),
    ("4", "AnchorReturnType", "id rp tileSet exchangeStrategy"),
    ("4", "DataFlow", "isAnchored nAnchors batchesPerStep anchors art setBatchesPerStep"),
    ("4", "InputSettings", "tileSet exchangeStrategy replicatedStreamMode"),
    ("4", "InputShapeInfo", "add get has"),
    ("4", "PyStepIO", "enableRuntimeAsserts"),
    (
        "5",
        "Builder",
        "aiOnnx aiOnnxOpset6 aiOnnxOpset7 aiOnnxOpset8 aiOnnxOpset9 aiOnnxOpset10 aiOnnxOpset11 aiOnnxMlOpset1 "
        "aiGraphcore aiGraphcoreOpset1 addInputTensor addInitializedInputTensor nameScope virtualGraph executionPhase "
        "pipelineStage recomputeOutput outputTensorLocation schedulePriority outlineAttributes commGroup "
        "recomputeOutputInBackwardPass getRecomputeOutputInBackwardPass excludePatterns setPartialsType "
        "getPartialsType setAvailableMemoryProportion setEnableConvDithering setSerializeMatMul setInplacePreferences "
        "getVirtualGraph getExecutionPhase getPipelineStage hasVirtualGraph hasExecutionPhase hasPipelineStage "
        "addNodeAttribute nodeHasAttribute getInt64NodeAttribute getInt64VectorNodeAttribute getFloatNodeAttribute "
        "getFloatVectorNodeAttribute getStringNodeAttribute getStringVectorNodeAttribute removeNodeAttribute "
        "getAllNodeAttributeNames",
    ),
    ("6", "InferenceSession", _SESSION + " getAllTensorIds checkInplacingAmbiguity"),
    ("6", "TrainingSession", _SESSION + " getTensorIds"),
    ("6", "OutOfMemoryException", "getSummaryReport getProfilePath"),
    ("6", "OutOfMemoryError", "isSuccessful getSummaryReport getProfilePath"),
    (
        "7",
        "DeviceManager",
        "createSimDevice createOfflineIPUDevice createOfflineIpuFromDeviceInfo createOfflineIpuFromSystemString",
    ),
    (
        "7",
        "DeviceInfo",
        "type connectionType version ipuVersion id numIpus tilesPerIPU tilesPerIpu driverIds isAttached "
        "numWorkerContexts attach tryAttachUntilTimeout detach __enter__ __exit__",
    ),
    ("8.1", "OptimizerValue", "val isConst"),
    ("8.1", "OptimizerValueMap", "getDefault"),
    ("8.1", "Optimizer", "getLossScalingVal"),
    (
        "8.2",
        "SGD",
        "learningRates weightDecays momentums dampenings velocityScalings nesterov insertSpecific getLossScalingVal",
    ),
    ("8.3", "Adam", "learningRates weightDecays beta1s beta2s epss maxWeightNorms insertSpecific"),
    ("8.4", "Adaptive", "learningRates weightDecays alphas momentums epss insertSpecific"),
    ("8.5", "ClipNormSettings", "weightIds maxNorm"),
    ("10", "CommGroup", "type replicaGroupSize"),
    (
        "10",
        "VariableSettings",
        "numReplicasReturningVariable getGroupCount getRealGroupSize getGroupRepresentative getSharedVariableDomain "
        "getReplicaGrouping isUsingCommGroup getCommGroupType getStride getGroupSize getRetrievalMode verify",
    ),
    ("10", "TensorLocation", "storage loadTileSet storageTileSet replicatedTensorSharding shardingDomain"),
    (
        "11",
        "Patterns",
        "enablePattern isPatternEnabled enableRuntimeAsserts PreUniRepl PostNRepl SoftMaxGradDirect "
        "NlllWithSoftMaxGradDirect OpToIdentity SubtractArg1GradOp MulArgGradOp MatMulOp MatMulLhsGradOp "
        "MatMulRhsGradOp InPlace",
    ),
    ("15", "Logger", "setLevel debug info warn error critical"),
    (
        "17",
        "GraphTransformer",
        "getModelProto convertFloatsToHalfs convertUINT8ToINT32 convertUINT16ToINT32 convertINT8ToINT32 "
        "convertINT16ToINT32 convertDoublesToFloats convertDoublesToHalfs convertBFloats16ToFloat32 "
        "removeUnusedInputs prepareNodesForTraining convertAllFixedPointInitializersToConstants",
    ),
    ("17", "NumericsReport", "fullReport getRelativeErrors"),
]

# Methods that a Builder object takes from its core.
BUILDER_OBJECT = (
    "addInputTensorFromParentGraph addOutputTensor getInputTensorIds getOutputTensorIds getValueTensorIds "
    "getTrainableTensorIds isInitializer getModelProto saveModelProto saveInitializersExternally setGraphName "
    "checkpointOutput getNameScope"
)

# Names that are no calls, or whose calls tests elsewhere show.
NAMES = (
    "__version__ defaultAiOnnxOpset defaultAiOnnxMlOpset defaultAiGraphcoreOpset AiOnnxOpset6 AiOnnxOpset7 "
    "AiOnnxOpset8 AiOnnxOpset9 AiOnnxOpset10 AiOnnxOpset11 AiOnnx6 AiOnnx7 AiOnnx8 AiOnnx9 "
    "AiOnnx10 AiOnnx11 AiOnnxMl1 AiGraphcore1 syncPatternFromString syncPatternToString builder "
    "session tensorinfo ReplicaGrouping NllLoss L1Loss IdentityLoss _throw_popart_error "
    "_throw_popart_internal_error _throw_popart_runtime_error _throw_poplibs_error _throw_poplar_error "
    "_throw_poplar_runtime_error _throw_application_runtime_error _throw_system_runtime_error "
    "_throw_recoverable_runtime_error _throw_unrecoverable_runtime_error _throw_unknown_runtime_error"
)

# section, name, members by number
ENUMS = [
    (
        "3",
        "DataType",
        "UINT8 INT8 FLOAT8_143 FLOAT8_152 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT FLOAT16 BFLOAT16 DOUBLE "
        "COMPLEX64 COMPLEX128 STRING UNDEFINED",
    ),
    ("3", "InitType", "NoInit Zero"),
    ("3", "TensorRemapType", "FwdBwdReverse FwdBwd Fwd"),
    ("3", "TileSet", "Compute IO"),
    ("3", "ExchangeStrategy", "JustInTime OverlapInnerLoop OverlapLoops OverlapStep"),
    ("3", "ReplicatedStreamMode", "Broadcast Replicate"),
    ("3", "AnchorReturnTypeId", "Final EveryN All Sum"),
    ("3", "ReductionType", "Sum Mean NoReduction"),
    ("3", "MeanReductionStrategy", "Running Post"),
    ("3", "ScatterReduction", "Sum Max Min Mul NoReduction"),
    ("3", "WeightDecayMode", "Decay L2Regularization"),
    ("3", "SGDAccumulatorAndMomentum", "Combined Separate"),
    ("3", "AdamMode", "Adam AdamNoBias AdaMax Lamb LambNoBias"),
    ("3", "AdaptiveMode", "AdaGrad RMSProp CenteredRMSProp AdaDelta"),
    (
        "3",
        "GradientTensorTrackingMethod",
        "AllNonViewChangingGradientTensors ConvAndMatmulGradients GradientsOfUserSpecifiedTensors",
    ),
    ("3", "BatchSerializationTransformContext", "Fwd Bwd"),
    ("3", "BatchSerializationMethod", "UnrollDynamic UnrollStatic Loop"),
    ("3", "BatchSerializationBatchSchedule", "Scheduler Isomorphic OverlapOnIo OverlapOnCompute"),
    ("3", "AutodiffStitchStrategy", "RecomputeMinimal RecomputeAllNonInputs AddFwdOutputs SafeAddFwdOutputs"),
    ("3", "SubgraphCopyingStrategy", "OnEnterAndExit JustInTime"),
    ("3", "PatternsLevel", "NoPatterns Minimal Default All"),
    ("3", "RecomputationType", "NoRecompute Standard NormOnly Pipeline RecomputeAll"),
    ("3", "RecomputeType", "Undefined Checkpoint Recompute Recomputed"),
    ("3", "TensorStorage", "OnChip OffChip"),
    ("3", "ReplicatedTensorSharding", "Off On"),
    ("3", "ExecutionPhaseIOSchedule", "Preload OnDemand"),
    ("3", "ExecutionPhaseSchedule", "Interleaving Batch BatchClusteredIO"),
    (
        "3",
        "AccumulateOuterFragmentSchedule",
        "Scheduler Serial OverlapCycleOptimized OverlapMemoryOptimized",
    ),
    ("3", "SyncPattern", "Full SinglePipeline ReplicaAndLadder"),
    ("3", "MergeVarUpdateType", "Off All AutoLoose AutoTight"),
    ("3", "VirtualGraphMode", "Off Manual Auto ExecutionPhases"),
    ("3", "SyntheticDataMode", "Off Zeros RandomNormal RandomUniform"),
    ("3", "IrSerializationFormat", "JSON"),
    ("3", "Instrumentation", "Outer Inner"),
    ("3", "DeviceType", "IpuModel Cpu Ipu OfflineIpu Sim"),
    ("3", "DeviceConnectionType", "Always OnDemand Never"),
    ("3", "DeviceSelectionCriterion", "First Random"),
    ("3", "VariableRetrievalMode", "OnePerGroup AllReduceReplicas AllReplicas"),
    ("3", "CommGroupType", "All Consecutive Orthogonal Ungrouped"),
    ("3", "RecoveryAction", "IPU_RESET LINK_RESET PARTITION_RESET FULL_RESET"),
]

# section 16: class, base
EXCEPTIONS = [
    ("popart_exception", Exception),
    ("popart_internal_exception", "popart_exception"),
    ("popart_runtime_error", "popart_exception"),
    ("OutOfMemoryException", "popart_exception"),
    ("poplibs_exception", Exception),
    ("poplar_exception", Exception),
    ("poplar_runtime_error", "poplar_exception"),
    ("poplar_application_runtime_error", "poplar_runtime_error"),
    ("poplar_system_runtime_error", "poplar_runtime_error"),
    ("poplar_recoverable_runtime_error", "poplar_system_runtime_error"),
    ("poplar_unrecoverable_runtime_error", "poplar_system_runtime_error"),
    ("poplar_unknown_runtime_error", "poplar_system_runtime_error"),
]

# section 14: text of each reserved prefix, by the middle of its function's name
PREFIXES = {
    "Gradient": "Gradient___",
    "UpdatedVar": "UpdatedVar___",
    "Accum": "Accum___",
    "Accl": "Accl___",
    "Accl1": "Accl1___",
    "Accl2": "Accl2___",
    "Accl3": "Accl3___",
    "Step": "Step___",
    "AcclToReduce": "AcclIntoReduce___",
    "AcclToUpdate": "AcclIntoUpdate___",
    "AcclFinalOut": "AcclOutOfAcclUpdate___",
    "FinalReducedGrad": "FinalReducedGradient___",
    "AdamUpdater": "AdamUpdater___",
    "LambR1Sq": "LambR1Sq___",
    "LambR2Sq": "LambR2Sq___",
    "Stashed": "Stashed___",
    "Restored": "Restored___",
    "LossScaling": "lossScaling_",
    "RandomSeed": "randomSeed___",
    "SeedModifier": "randomSeedModifier___",
    "RemoteArg": "RemoteArg___",
    "AutomaticLossScale": "AutomaticLossScaleProxy___",
}
SCALAR_PREFIXES = (
    "weightDecayScaleFactor0 scaledLearningRate0 scaledWeightDecay1 scaledLearningRate1 dampeningScaleFactor1 "
    "scaledMomentum1 learningRate weightDecay lossScaling maxWeightNorm adamBeta1 adamBeta2 adamEps step"
)
