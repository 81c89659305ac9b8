"""Printed forms of the module `popart`: section, what it is, an expression, `str`, `repr` (None: as `str`).

`DOCUMENTED` are the forms that the reference sheet states, and those that enumerations have in Python
(`<Name.MEMBER: number>`). `OWN`: forms of objects of which it says nothing; ours show what the
object holds.
"""

DOCUMENTED = [
    ("3", "SyncPattern.Full", "full", "<SyncPattern.Full: 0>"),
    ("3", "SyncPattern.SinglePipeline", "singlePipeline", "<SyncPattern.SinglePipeline: 1>"),
    ("3", "SyncPattern.ReplicaAndLadder", "replicaAndLadder", "<SyncPattern.ReplicaAndLadder: 2>"),
    ("3", "DeviceType.IpuModel", "ipu-model", "<DeviceType.IpuModel: 0>"),
    ("3", "DeviceType.Cpu", "cpu", "<DeviceType.Cpu: 1>"),
    ("3", "DeviceType.Ipu", "ipu", "<DeviceType.Ipu: 2>"),
    ("3", "DeviceType.OfflineIpu", "offline-ipu", "<DeviceType.OfflineIpu: 3>"),
    ("3", "DeviceType.Sim", "sim", "<DeviceType.Sim: 4>"),
    ("3", "DataType.FLOAT", "DataType.FLOAT", "<DataType.FLOAT: 11>"),
    ("3", "BatchSerializationTransformContext.Forward", "BatchSerializationTransformContext.Fwd",
     "<BatchSerializationTransformContext.Fwd: 0>"),
    ("5.1", "Builder().aiOnnx", "AiOnnx10", None),
    *(("5.1", f"Builder().aiOnnxOpset{n}", f"AiOnnx{n}", None) for n in range(6, 12)),
    ("5.1", "Builder(opsets={'ai.onnx': 11, 'ai.graphcore': 1}).aiOnnx", "AiOnnx11", None),
    ("5.1", "Builder().aiGraphcore", "AiGraphcore1", None),
    ("5.1", "Builder().aiOnnxMlOpset1", "AiOnnxMl1", None),
    ("7", "DeviceManager().createCpuDevice()",
     "Device Type:cpu Connection Type:always Id:0 Version:cpu NumIPUs:1 NumTilesPerIPU:1 DeviceIds: {0}", None),
    ("7", "DeviceManager().createIpuModelDevice({'numIPUs': 2, 'tilesPerIPU': 4})",
     "Device Type:ipu-model Connection Type:always Id:0 Version:ipu2 NumIPUs:2 NumTilesPerIPU:4 DeviceIds: {0}", None),
    ("7", "DeviceManager().createOfflineIPUDevice({'ipuVersion': 'ipu21'})",
     "Device Type:offline-ipu Connection Type:never Id:0 Version:ipu21 NumIPUs:1 NumTilesPerIPU:1472 DeviceIds: {0}",
     None),
    ("11", "Patterns(['PreUniRepl', 'PostNRepl'])", "PreUniRepl PostNRepl", None),
    ("16", "popart_exception('why')", "why", "popart_exception('why')"),
    ("1", "getSupportedOperations(False)[0]", "ai.graphcore.Abort:1", None),
    ("6", "OutOfMemoryError()", "", None),
]  # fmt: skip

OWN = [
    ("3", "TensorInfo('FLOAT', [2, 3])", "TensorInfo(float32[2, 3])"),
    ("4", "AnchorReturnType('all')", "AnchorReturnType('All')"),
    ("4", "AnchorReturnType('EveryN', 2)", "AnchorReturnType('EveryN', 2)"),
    ("4", "DataFlow(2, {'y': AnchorReturnType('Final')})",
     "DataFlow(batchesPerStep=2, anchorTensors={'y': AnchorReturnType('Final')})"),
    ("4", "InputSettings()", "InputSettings(tileSet=TileSet.Compute, exchangeStrategy=ExchangeStrategy.JustInTime, "
     "replicatedStreamMode=ReplicatedStreamMode.Replicate)"),
    ("8.1", "OptimizerValue(0.5, True)", "OptimizerValue(val=0.5, isConst=True)"),
    ("8.1", "SGD({}).momentums()", "OptimizerValueMap(default=OptimizerValue(val=0, isConst=True))"),
    ("8.2", "ConstSGD(0.25)", "ConstSGD(learningRates=OptimizerValue(val=0.25, isConst=True), "
     "weightDecays=OptimizerValue(val=0, isConst=True))"),
    ("8.5", "ClipNormSettings.clipWeights(['w'], 2.0)", "ClipNormSettings(weightIds=['w'], maxNorm=2)"),
    ("9", "SessionOptions()", "SessionOptions()"),
    ("9", "NumIOTiles(3)", "NumIOTiles(3)"),
    ("9", "AutodiffSettings()", "AutodiffSettings(stitchStrategy=AutodiffStitchStrategy.RecomputeAllNonInputs)"),
    ("9", "SessionOptions().engineOptions", "{}"),
    ("9", "TensorLocationSettings()", "TensorLocationSettings(location=TensorLocation(storage=TensorStorage.OnChip, "
     "loadTileSet=TileSet.Compute, storageTileSet=TileSet.Compute, "
     "replicatedTensorSharding=ReplicatedTensorSharding.Off, shardingDomain=CommGroup(type=CommGroupType.All, "
     "replicaGroupSize=0)), minElementsForOffChip=2, minElementsForReplicatedTensorSharding=8192)"),
    ("10", "CommGroup(CommGroupType.Consecutive, 2)", "CommGroup(type=CommGroupType.Consecutive, replicaGroupSize=2)"),
    ("10", "ReplicaGrouping(4, 1, 2)", "ReplicaGrouping(numReplicas=4, stride=1, groupSize=2)"),
    ("10", "VariableSettings(2, 2, VariableRetrievalMode.AllReplicas)",
     "VariableSettings(stride=2, groupSize=2, retrievalMode_=VariableRetrievalMode.AllReplicas)"),
]  # fmt: skip
