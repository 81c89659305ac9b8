"""What sharding and pipelining refuse: class of the exception, and what the message names."""

import numpy as np
import popart
import pytest

Manual, Auto = popart.VirtualGraphMode.Manual, popart.VirtualGraphMode.Auto
WIDTH = 4


class Chain:
    """One operation per entry of `places`: its virtual graph, and its stage where there are two numbers.

    Args:
        places: One entry per layer, then one for the loss; None: without a virtual graph.
    """

    def __init__(self, *places, share=False, mark=None):
        self.builder = builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        h = builder.addInputTensor("FLOAT", [2, WIDTH], "x")
        w = builder.addInitializedInputTensor(np.ones((WIDTH, WIDTH), np.float32), "w")
        self.made = []
        for i, place in enumerate(places[:-1]):
            h = builder.aiOnnx.matmul([h, w]) if share or not i else builder.aiOnnx.tanh([h])
            self.put(h, place)
            if mark:
                builder.recomputeOutputInBackwardPass(h, mark)
        self.loss = builder.aiGraphcore.identityloss([h], debugContext="loss")
        self.put(self.loss, places[-1])

    def put(self, output, place):
        """Give the operation that makes `output` its place."""
        self.made.append(output)
        graph, stage = place if isinstance(place, tuple) else (place, None)
        if graph is not None:
            self.builder.virtualGraph(output, graph)
        if stage is not None:
            self.builder.pipelineStage(output, stage)


def session(chain, factor=0, batches=3, anchors=None, training=True, device=None, clip=(), **given):
    options = popart.SessionOptions()
    options.enablePipelining = True
    options.virtualGraphMode = Manual
    if factor:
        options.enableGradientAccumulation, options.accumulationFactor = True, factor
    for name, value in given.items():
        setattr(options, name, value)
    common = {
        "fnModel": chain.builder.getModelProto(),
        "dataFlow": popart.DataFlow(batches, anchors or [chain.loss]),
        "deviceInfo": device or popart.DeviceManager().createCpuDevice(),
        "userOptions": options,
    }
    if not training:
        return popart.InferenceSession(**common)
    return popart.TrainingSession(
        loss=chain.loss, optimizer=popart.ConstSGD(0.1, clip_norm_settings=list(clip)), **common
    )


def refused(*fragments, chain, **how):
    with pytest.raises(popart.popart_exception) as raised:
        session(chain, **how)
    for fragment in fragments:
        assert fragment in str(raised.value), str(raised.value)


# ---- virtual graphs


def test_only_some_operations_are_placed():
    refused("only some operations", "got 2 of 3", chain=Chain(0, None, 1), enablePipelining=False)


def test_no_operation_is_placed():
    refused("got 0 of 3", "virtualGraph", chain=Chain(None, None, None), enablePipelining=False)


def test_off_ignores_placement():
    off = popart.VirtualGraphMode.Off
    session(Chain(0, None, 1), enablePipelining=False, virtualGraphMode=off).prepareDevice()


def test_not_enough_split_points():
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": "8"})
    refused(
        "not enough split points", "got 2, expected 7",
        chain=Chain(None, None, None), virtualGraphMode=Auto, enablePipelining=False, device=device,
    )  # fmt: skip


def test_shared_weights_are_not_split():
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": "2"})
    chain = Chain(None, None, None, share=True)
    session(chain, virtualGraphMode=Auto, device=device)
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": "4"})
    refused("got 1, expected 3", chain=chain, virtualGraphMode=Auto, device=device)


def test_a_virtual_graph_beyond_the_device():
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": "2"})
    made = session(Chain(0, 1, 2), batches=5, device=device)
    with pytest.raises(popart.popart_exception, match="got 2 IPUs, expected 3"):
        made.prepareDevice()


# ---- pipelining


def test_one_virtual_graph():
    # checked before anchors are looked up
    refused("two virtual graphs", "[0]", chain=Chain(0, 0, 0), anchors=["nowhere"])


def test_virtual_graph_mode_off():
    refused("virtualGraphMode Off", chain=Chain(0, 1, 1), virtualGraphMode=popart.VirtualGraphMode.Off)


def test_only_some_operations_have_a_stage():
    refused("only some operations", "got 2 of 3", "pipelineStage", chain=Chain((0, 0), 1, (1, 1)))


def test_negative_stage():
    refused("pipeline stage", "got -1", chain=Chain((0, -1), (1, 1), (1, 1)))


def test_a_stage_on_two_virtual_graphs():
    refused("stage 0", "different virtual graphs", "MatMul", chain=Chain((0, 0), (1, 0), (1, 1)))


@pytest.mark.parametrize("explicit", [False, True])
def test_virtual_graphs_that_go_back(explicit):
    chain = Chain(0, 1, 0)
    options = dict.fromkeys(("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"), explicit)
    refused("goes back", f"'{chain.made[1]}'", chain=chain, **options)


def test_stages_that_go_back():
    chain = Chain((0, 1), (1, 0), (1, 1))
    refused("goes back", f"'{chain.made[0]}'", chain=chain)


def test_marks():
    chain = Chain(0, 1, 1, mark=popart.RecomputeType.Recompute)
    refused("MatMul", "recomputeOutput", "autoRecomputation", chain=chain)


def test_depth_of_batches():
    refused("batchesPerStep", "got 2, expected 3", chain=Chain(0, 1, 1), batches=2)
    refused("batchesPerStep", "got 4, expected 5", chain=Chain(0, 1, 2), batches=4)
    session(Chain(0, 1, 2), batches=5)


def test_depth_of_accumulation():
    refused("accumulationFactor", "got 4, expected 5", chain=Chain(0, 1, 2), factor=4, batches=9)
    session(Chain(0, 1, 2), factor=5, batches=1)


def test_depth_of_inference():
    refused("batchesPerStep", "got 2, expected 3", chain=Chain(0, 1, 2), batches=2, training=False)
    session(Chain(0, 1, 2), batches=3, training=False)


def test_a_weight_on_two_virtual_graphs():
    refused("variable 'w'", "[0, 1]", chain=Chain(0, 1, 1, share=True))


def test_recomputation_in_two_stages():
    chain = Chain(0, 0, 1, 1)
    refused(
        "two pipeline stages", "computed again", chain=chain, autoRecomputation=popart.RecomputationType.RecomputeAll
    )


def test_an_anchor_that_is_stashed():
    chain = Chain(0, 0, 1, 1)
    rule = popart.RecomputationType.Pipeline
    refused(f"'{chain.made[1]}'", "stashed", chain=chain, anchors=[chain.made[1]], autoRecomputation=rule)
    session(chain, anchors=[chain.made[0]], autoRecomputation=rule)


def test_clipping_needs_another_schedule():
    chain, clip = Chain(0, 1, 1), [popart.ClipNormSettings.clipAllWeights(1.0)]
    refused("Serial", "clipNormSettings", "Scheduler", chain=chain, clip=clip)
    schedule = popart.AccumulateOuterFragmentSchedule.Scheduler
    settings = popart.AccumulateOuterFragmentSettings(schedule)
    session(chain, clip=clip, accumulateOuterFragmentSettings=settings)


class Branch:
    """A model whose last operation is an If on virtual graph 1; its branches' operations are on `inner`."""

    def __init__(self, inner):
        self.builder = builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        x = builder.addInputTensor("FLOAT", [2, WIDTH], "x")
        condition = builder.addInputTensor("BOOL", [], "condition")
        h = builder.aiOnnx.tanh([x])
        builder.virtualGraph(h, 0)
        branches = []
        for name in ("then", "else"):
            sub = builder.createSubgraphBuilder()
            sub.setGraphName(name)
            sub.addInputTensorFromParentGraph(h)
            out = sub.aiOnnx.relu([h])
            if inner is not None:
                sub.virtualGraph(out, inner)
            sub.addOutputTensor(out)
            branches.append(sub)
        self.loss = builder.aiOnnx.logical_if([condition], 1, *reversed(branches))[0]
        builder.virtualGraph(self.loss, 1)


@pytest.mark.parametrize(("inner", "found"), [(None, "none"), (0, "0")])
def test_operations_of_subgraphs(inner, found):
    refused("Relu", "If", f"got {found}, expected 1", chain=Branch(inner), training=False)


def test_subgraphs_on_the_virtual_graph_of_their_caller():
    session(Branch(1), training=False)


# ---- explicit pipelining


def test_explicit_pipelining_needs_explicit_recomputation():
    refused("explicitRecomputation", chain=Chain(0, 1, 1), useHostCopyOps=True, enableExplicitMainLoops=True)


def test_explicit_pipelining_returns_no_every_n():
    explicit = dict.fromkeys(("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"), True)
    chain = Chain(0, 1, 1)
    every = {chain.loss: popart.AnchorReturnType("EveryN", 2)}
    refused("EveryN", chain.loss, chain=chain, anchors=every, batches=4, **explicit)
    session(chain, anchors={chain.loss: popart.AnchorReturnType("Sum")}, **explicit)


# ---- the program of forward passes


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"enablePipelining": False}, "enablePipelining off"),
        (
            dict.fromkeys(("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation"), True),
            "explicit pipelining",
        ),
        ({}, "enableGradientAccumulation off"),
    ],
)
def test_program_of_forward_passes(given, found):
    refused(found, chain=Chain(0, 1, 1), createImplicitPipeliningFwdOnlyProgram=True, **given)
