"""What options of training and of replicas are refused for: class of the exception, and what the message names.

Pipelines and virtual graphs have a table of their own (`test_pipelining_refusals.py`); what needs a model of its own is
refused in the tests of the feature: recomputation, serialised products and batches, execution phases, loss scaling,
rounding at random, state in parts.
"""

from dataclasses import dataclass, field

import numpy as np
import popart
import pytest

import onnx
from tests.python.popart.training_runs import training_session

Error, Internal, Runtime = popart.popart_exception, popart.popart_internal_exception, popart.popart_runtime_error
Groups, Retrieval = popart.CommGroupType, popart.VariableRetrievalMode.OnePerGroup
REPLICAS = {"enableReplicatedGraphs": True, "replicatedGraphCount": 4}
SCALING = "automaticLossScalingSettings"


def set_to(made, **members):
    """An object of settings with other members."""
    for name, value in members.items():
        setattr(made, name, value)
    return made


def phases(**members):
    mode = popart.VirtualGraphMode.ExecutionPhases
    settings = set_to(popart.ExecutionPhaseSettings(), **members)
    return {"virtualGraphMode": mode, "executionPhaseSettings": settings}


def scaling(**members):
    return {SCALING: set_to(popart.AutomaticLossScalingSettings(), enabled=True, **members)}


def session(settings=None, training=True, device=None, optimizer=None, **options):
    """A product and its loss; `settings`: of the weight."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 8], "x")
    w = builder.addInitializedInputTensor(np.ones((8, 8), np.float32), *([settings] if settings else []), "w")
    y = builder.aiOnnx.matmul([x, w])
    loss = builder.aiGraphcore.identityloss([y])
    given = set_to(popart.SessionOptions(), **options)
    device = device or popart.DeviceManager().createCpuDevice()
    if not training:
        return popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=given)
    optimizer = optimizer or popart.SGD({"defaultLearningRate": (0.1, False)})
    return training_session(builder.getModelProto(), loss, optimizer, given, device=device)


def grouped(type, size):
    return popart.VariableSettings(popart.CommGroup(type, size))


def ipus(count):
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": count})


def clipped(*groups):
    norms = [
        popart.ClipNormSettings.clipWeights(g, 1.0) if g else popart.ClipNormSettings.clipAllWeights(1.0)
        for g in groups
    ]
    return popart.SGD({"defaultLearningRate": (0.1, False)}, clip_norm_settings=norms)


def sgd(**values):
    given = {f"default{name[0].upper()}{name[1:]}": value for name, value in values.items()}
    return popart.SGD(given | {"defaultLearningRate": (0.1, False)})


def replaced(first, second):
    """A new optimizer for a session of another."""

    def call():
        made = session(optimizer=first)
        made.prepareDevice()
        made.weightsFromHost()
        made.updateOptimizerFromHost(second)

    return call


def with_own_rate():
    made = sgd()
    made.insertSpecific("w", {"learningRate": (0.2, False)})
    return made


def own_values(made, **values):
    return lambda: made.insertSpecific("w", {name: (value, True) for name, value in values.items()})


@dataclass
class Refusal:
    """A situation: what is done, and which words the message has."""

    words: tuple[str, ...]
    options: dict = field(default_factory=dict)  # of `session`
    error: type = Error
    call: object = None  # instead of `session`
    prepares: bool = False  # refused when the device is prepared


REFUSALS = {
    # ---- replicas
    "no_replicas": Refusal(("replicatedGraphCount", "got 0"), REPLICAS | {"replicatedGraphCount": 0}),
    "less_than_no_replicas": Refusal(("replicatedGraphCount", "got -1"), REPLICAS | {"replicatedGraphCount": -1}),
    "no_global_replicas": Refusal(("globalReplicationFactor", "got 0"), {"globalReplicationFactor": 0}),
    "negative_offset": Refusal(("globalReplicaOffset", "got -1"), {"globalReplicaOffset": -1}),
    "offset_beyond_the_replicas": Refusal(
        ("globalReplicaOffset", "globalReplicationFactor", "got 3 and 2"),
        {"globalReplicaOffset": 3, "globalReplicationFactor": 2},
    ),
    "more_replicas_here_than_in_all": Refusal(
        ("replicatedGraphCount", "globalReplicationFactor", "got 4 and 2"),
        REPLICAS | {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 2},
    ),
    "one_local_replica": Refusal(
        ("enableReplicatedGraphs", "replicatedGraphCount 1"),
        REPLICAS | {"replicatedGraphCount": 1, "enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 2},
    ),
    "replicas_that_processes_do_not_divide": Refusal(
        ("globalReplicationFactor", "multiple of replicatedGraphCount", "got 6 and 4"),
        REPLICAS | {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 6},
    ),
    "an_offset_between_processes": Refusal(
        ("globalReplicaOffset", "got 2, with 4 replicas here of 8"),
        REPLICAS | {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 8, "globalReplicaOffset": 2},
    ),
    "an_offset_behind_all_replicas": Refusal(
        ("globalReplicaOffset", "got 8, with 4 replicas here of 8"),
        REPLICAS | {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 8, "globalReplicaOffset": 8},
    ),
    "a_timeout_that_is_none": Refusal(
        ("replicas.timeout", "got 'never'"), {"engineOptions": {"replicas.timeout": "never"}}, prepares=True
    ),
    "a_comparison_that_is_none": Refusal(
        ("replicas.compare", "got 'some'", "'numbers' or 'all'"),
        {"engineOptions": {"replicas.compare": "some"}},
        prepares=True,
    ),
    "shared_memory_that_is_no_truth": Refusal(
        ("replicas.sharedMemory", "got 'auto'", "'true' or 'false'"),
        {"engineOptions": {"replicas.sharedMemory": "auto"}},
        prepares=True,
    ),
    "ipus_that_replicas_do_not_divide": Refusal(
        ("got 3 IPUs", "4 replicas"), REPLICAS | {"device": lambda: ipus(3)}, prepares=True
    ),
    # ---- groups of replicas
    "a_consecutive_group_of_none": Refusal(
        ("Consecutive", "above 0"), error=Internal, call=lambda: grouped(Groups.Consecutive, 0).verify()
    ),
    "an_orthogonal_group_of_none": Refusal(
        ("Orthogonal", "above 0"), error=Internal, call=lambda: grouped(Groups.Orthogonal, 0).verify()
    ),
    "no_stride": Refusal(("stride", "above 0"), error=Internal, call=lambda: popart.VariableSettings(0, 2, Retrieval)),
    "a_group_size_of_none": Refusal(
        ("group size", "above 0"), error=Internal, call=lambda: popart.VariableSettings(1, 0, Retrieval)
    ),
    **{
        f"a_group_of_three_of_four_{kind.name}": Refusal(
            ("must divide", "3", "4 replicas"), REPLICAS | {"settings": grouped(kind, 3)}
        )
        for kind in (Groups.Consecutive, Groups.Orthogonal)
    },
    "values_for_other_groups": Refusal(
        ("'w'", "[3, 5]", "expected 2 groups"),
        call=lambda: grouped(Groups.Consecutive, 2).shapeOnReplica([3, 5], 4, "w"),
    ),
    "a_weight_without_values_for_its_groups": Refusal(
        ("'w'", "[8, 8]", "expected 2 groups"), REPLICAS | {"settings": grouped(Groups.Consecutive, 2)}
    ),
    # ---- accumulation
    "micro_batches_without_accumulation": Refusal(
        ("accumulationFactor", "enableGradientAccumulation", "got 2"), {"accumulationFactor": 2}
    ),
    "no_micro_batches": Refusal(("accumulationFactor", "got 0"), {"accumulationFactor": 0}),
    "accumulation_in_inference": Refusal(
        ("enableGradientAccumulation", "training"),
        {"enableGradientAccumulation": True, "accumulationFactor": 2, "training": False},
    ),
    "no_reduction": Refusal(
        ("accumulationAndReplicationReductionType", "Sum or Mean"),
        {"accumulationAndReplicationReductionType": popart.ReductionType.NoReduction},
    ),
    "clipping_of_all_and_of_some": Refusal(("clip-all", "got 2 groups"), {"optimizer": lambda: clipped([], ["w"])}),
    "clipping_of_no_weight": Refusal(("'nowhere'", "clip"), {"optimizer": lambda: clipped(["nowhere"])}),
    # ---- execution phases
    "phases_without_their_mode": Refusal(
        ("executionPhaseSettings.phases", "virtualGraphMode ExecutionPhases", "got 2"),
        phases(phases=2) | {"virtualGraphMode": popart.VirtualGraphMode.Off},
    ),
    "negative_phases": Refusal(("executionPhaseSettings.phases", "got -1"), phases(phases=-1)),
    "phases_by_turns_on_three": Refusal(("executionPhaseSettings.stages", "got 3"), phases(phases=2, stages=3)),
    # ---- virtual graphs
    "a_split_ratio_above_one": Refusal(
        ("virtualGraphSplitRatios", "got 1.5"),
        {"virtualGraphMode": popart.VirtualGraphMode.Auto, "virtualGraphSplitRatios": [0.5, 1.5]},
    ),
    "a_split_ratio_of_none": Refusal(
        ("virtualGraphSplitRatios", "got 0"),
        {"virtualGraphMode": popart.VirtualGraphMode.Auto, "virtualGraphSplitRatios": [0.0]},
    ),
    # ---- batches in parts, explicit programs
    "a_negative_number_of_parts": Refusal(
        ("batchSerializationSettings.factor", "got -2"),
        {"batchSerializationSettings": popart.BatchSerializationSettings(-2, True, True, True)},
    ),
    "main_loops_without_host_copies": Refusal(
        ("enableExplicitMainLoops", "useHostCopyOps"), {"enableExplicitMainLoops": True}
    ),
    "zero_copy_of_implicit_pipelines": Refusal(
        ("aliasZeroCopy", "implicit pipelining"),
        {
            "aliasZeroCopy": True,
            "explicitRecomputation": True,
            "enablePipelining": True,
            "virtualGraphMode": popart.VirtualGraphMode.Manual,
        },
    ),
    "sums_in_another_type": Refusal(("partialsTypeMatMuls", "'double'"), {"partialsTypeMatMuls": "double"}),
    "zero_copy_without_recomputation": Refusal(("aliasZeroCopy", "explicitRecomputation"), {"aliasZeroCopy": True}),
    # ---- loss scaling
    "a_bin_edge_outside": Refusal(("binEdgeLocation", "got 1.5"), scaling(binEdgeLocation=1.5)),
    "a_threshold_outside": Refusal(
        ("thresholdUpperCountProportion", "got -0.5"), scaling(thresholdUpperCountProportion=-0.5)
    ),
    "a_period_of_none": Refusal(("updatePeriod", "got 0"), scaling(updatePeriod=0)),
    "tensors_to_track_by_another_method": Refusal(
        ("toTrackTensors", "gradientTensorTrackingMethod"), scaling(toTrackTensors=["w"])
    ),
    "a_loss_scale_of_none": Refusal(("loss scaling", "got 0"), call=lambda: popart.SGD({"lossScaling": (0.0, False)})),
    # ---- values of optimizers
    "nesterov_and_dampening": Refusal(
        ("Nesterov", "dampening 0.1"),
        call=lambda: popart.SGD(
            {"nesterov": (True, True), "defaultMomentum": (0.9, True), "defaultDampening": (0.1, True)}
        ),
    ),
    "a_negative_rate_of_a_weight": Refusal(("learning rate", "got -1"), call=own_values(sgd(), learningRate=-1.0)),
    "a_value_that_there_is_not": Refusal(("'rate'", "learningRate"), call=own_values(sgd(), rate=1.0)),
    "no_eps_of_a_weight": Refusal(("eps", "got 0"), call=own_values(popart.Adam({}), eps=0.0)),
    "a_negative_decay_of_adam": Refusal(
        ("weight decay", "got -1"), call=lambda: popart.Adam({"defaultWeightDecay": (-1.0, True)})
    ),
    "no_eps_of_rmsprop": Refusal(("eps", "got 0"), call=lambda: popart.Adaptive({"defaultEps": (0.0, True)})),
    "a_key_of_another_family": Refusal(
        ("'defaultBeta1'", "defaultAlpha"), call=lambda: popart.Adaptive({"defaultBeta1": (0.1, True)})
    ),
    "a_variant_of_another_mode": Refusal(
        ("rmsprop_tf_variant", "RMSProp"),
        call=lambda: popart.Adaptive({}, mode=popart.AdaptiveMode.AdaGrad, rmsprop_tf_variant=True),
    ),
    # ---- replaced optimizers
    **{
        f"another_optimizer_{name}": Refusal((words,), error=Runtime, call=replaced(first, second))
        for name, words, first, second in (
            ("constness", "learning rates", sgd(), popart.SGD({"defaultLearningRate": (0.1, True)})),
            ("constant", "momentums", sgd(momentum=(0.9, True)), sgd(momentum=(0.8, True))),
            ("norms", "clip norm settings", clipped([]), sgd()),
            ("own_values_less", "learning rates", with_own_rate(), sgd()),
            ("own_values_more", "learning rates", sgd(), with_own_rate()),
            (
                "velocity",
                "strategies",
                sgd(momentum=(0.9, True)),
                popart.SGD(
                    {"defaultMomentum": (0.9, True), "defaultLearningRate": (0.1, False)},
                    accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
                ),
            ),
            ("adam", "Adam modes", popart.Adam({}), popart.Adam({}, mode=popart.AdamMode.Lamb)),
            (
                "decay",
                "weight decay modes",
                popart.Adam({}),
                popart.Adam({}, weight_decay_mode=popart.WeightDecayMode.L2Regularization),
            ),
            ("adaptive", "Adaptive modes", popart.Adaptive({}), popart.Adaptive({}, mode=popart.AdaptiveMode.AdaDelta)),
        )
    },
    # ---- rounding at random
    "the_state_of_random_numbers_unasked": Refusal(
        ("getRNGState", "enableLoadAndOffloadRNGState"), error=Runtime, call=lambda: session().getRNGState()
    ),
    # ---- buffers
    "a_buffer_that_is_no_weight": Refusal(
        ("updatableNamedBuffers", "'ww'", "Nearest existing names: w"), {"updatableNamedBuffers": ["ww"]}
    ),
    "no_depth": Refusal(("defaultBufferingDepth", "got 0"), {"defaultBufferingDepth": 0}),
    "no_depth_of_a_stream": Refusal(("bufferingDepthMap", "got 0", "'x'"), {"bufferingDepthMap": {"x": 0}}),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name):
    refusal = REFUSALS[name]

    def made():
        return session(**{key: value() if callable(value) else value for key, value in refusal.options.items()})

    call = made().prepareDevice if refusal.prepares else refusal.call or made
    with pytest.raises(refusal.error) as raised:
        call()
    assert [word for word in refusal.words if word not in str(raised.value)] == [], str(raised.value)


def on_io_tiles(storage=True):
    io, compute = popart.TileSet.IO, popart.TileSet.Compute
    tiles = (compute, io) if storage else (io, compute)
    off = popart.ReplicatedTensorSharding.Off
    return popart.TensorLocation(popart.TensorStorage.OffChip, *tiles, off)


def test_what_is_refused_is_accepted_without_it():
    session(numIOTiles=32, weightTensorLocationSettings=popart.TensorLocationSettings(on_io_tiles())).prepareDevice()
    session(numIOTiles=1, tensorLocationSettingsOverride={"w": on_io_tiles(storage=False)}).prepareDevice()
    session(**REPLICAS).prepareDevice()
    session(**phases(phases=2, stages=1)).prepareDevice()
    session(enableGradientAccumulation=True, accumulationFactor=2, optimizer=clipped(["w"])).prepareDevice()


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_operation_beyond_the_device_is_named(replicas):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4], "x")
    with builder.virtualGraph(0):
        y = builder.aiOnnx.tanh([x])
    with builder.virtualGraph(6):
        z = builder.aiOnnx.mul([y, y])
    given = {"virtualGraphMode": popart.VirtualGraphMode.Manual, "enableReplicatedGraphs": replicas > 1}
    options = set_to(popart.SessionOptions(), replicatedGraphCount=replicas, **given)
    made = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [z]), ipus(4), userOptions=options)
    with pytest.raises(Error) as raised:
        made.prepareDevice()
    words = (f"got 4 IPUs, expected {7 * replicas} = 7 IPUs per replica", "virtual graph 6", "Tanh:0_c6")
    assert [word for word in words if word not in str(raised.value)] == [], str(raised.value)


def test_an_optimizer_with_values_for_an_unknown_weight_is_refused():
    made = popart.SGD({"defaultLearningRate": (0.1, False)})
    made.insertSpecific("ww", {"learningRate": (0.2, False)})
    with pytest.raises(Error, match=r"insertSpecific: 'ww' is not a weight of the model. .*Nearest names: w"):
        session(optimizer=made)
    trained = session()
    with pytest.raises(Error, match="'ww' is not a weight"):
        trained.updateOptimizerFromHost(made)


@pytest.mark.parametrize("shape", [[2.5], [1, 3.0], ["2"], [None]])
def test_shapes_of_other_than_whole_numbers_are_refused(shape):
    with pytest.raises(TypeError, match=r"TensorInfo: the shape has sizes that are not integers: got"):
        popart.TensorInfo("FLOAT", shape)
    assert popart.TensorInfo("FLOAT", [np.int64(3), 2]).shape() == [3, 2]


@pytest.mark.parametrize(
    ("shape", "kind", "fits"),
    [
        ([3], "FLOAT", True),
        ([4], "FLOAT", False),
        (["n"], "FLOAT", True),
        ([1, 3], "FLOAT", False),
        ([3], "DOUBLE", False),
    ],
)
def test_an_initializer_must_be_what_its_input_declares(shape, kind, fits):
    types = {"FLOAT": onnx.TensorProto.FLOAT, "DOUBLE": onnx.TensorProto.DOUBLE}
    inputs = [
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3]),
        onnx.helper.make_tensor_value_info("w", types[kind], shape),
    ]
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    nodes = [onnx.helper.make_node("Mul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], [weight])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()
    device = popart.DeviceManager().createCpuDevice()
    if fits:
        popart.InferenceSession(proto, popart.DataFlow(1, ["y"]), device)
        return
    with pytest.raises(Error, match="Initializer 'w': it differs from the graph input of its name"):
        popart.InferenceSession(proto, popart.DataFlow(1, ["y"]), device)
