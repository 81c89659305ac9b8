"""Weights, optimizer state and accumulators in parts over replicas: the bits of whole ones, less memory, refusals."""

from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import popart
import pytest

from tests.python.popart import option_walk
from tests.python.popart import test_optimizers as optimizers
from tests.python.popart import test_pipelining as pipelines
from tests.python.popart import test_transform_combinations as transforms
from tests.python.popart.optimizer_formulas import Reduction
from tests.python.popart.test_accumulation import CASES
from tests.python.popart.training_runs import options_with, ready, saved_state, training_session

KINDS = ("weight", "optimizerState", "accumulator")
SUBSETS = [kinds for size in (1, 2, 3) for kinds in combinations(KINDS, size)]
ZERO = [("optimizerState",), ("optimizerState", "accumulator"), KINDS]  # ZeRO 1, 2, 3
ON = popart.ReplicatedTensorSharding.On
ON_CHIP, OFF_CHIP = popart.TensorStorage.OnChip, popart.TensorStorage.OffChip
LOSS = "L1:0"
UPDATES, BATCH, WIDTHS = 20, 3, (5, 7, 6)  # parts of 9, 11, 18 and 21 elements and the like: with and without padding


def location(storage=ON_CHIP, domain=None):
    return popart.TensorLocation(storage, ON, domain or popart.CommGroup())


def in_parts(*kinds, least=2, storage=ON_CHIP, domain=None):
    """Members of session options: these kinds in parts, the smallest tensors too."""
    settings = popart.TensorLocationSettings(location(storage, domain), 2, least)
    return {f"{kind}TensorLocationSettings": settings for kind in kinds}


def sharded(*kinds, least=2, storage=ON_CHIP, domain=None, **given):
    return options_with(**in_parts(*kinds, least=least, storage=storage, domain=domain), **given)


def model(widths=WIDTHS, batch=BATCH, dtype=np.float32, serialised=False):
    rng = np.random.default_rng(5)
    builder = popart.Builder()
    h = builder.addInputTensor("FLOAT16" if dtype == np.float16 else "FLOAT", [batch, widths[0]], "x")
    for i, (rows, columns) in enumerate(pairwise(widths)):
        w = builder.addInitializedInputTensor(rng.normal(0, rows**-0.5, (rows, columns)).astype(dtype), f"w{i}")
        b = builder.addInitializedInputTensor(rng.normal(0, 0.1, columns).astype(dtype), f"b{i}")
        product = builder.aiOnnx.matmul([h, w])
        if serialised:
            builder.setSerializeMatMul({product}, "output_channels", columns, False)
        h = builder.aiOnnx.tanh([builder.aiOnnx.add([product, b])])
    loss = builder.aiGraphcore.l1loss([h], 0.5, reduction=popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def adam(**more):
    return popart.Adam({"defaultLearningRate": (0.01, False)}, **more)


def lead_of(options):
    replicas, factor = options.replicatedGraphCount, options.accumulationFactor
    return ((factor,) if factor > 1 else ()) + ((replicas,) if replicas > 1 else ())


def train(session, loss, lead, updates=UPDATES, seed=8, dtype=np.float32):
    """The losses of some updates."""
    anchors = session.initAnchorArrays()
    rng = np.random.default_rng(seed)
    losses = []
    for _ in range(updates):
        session.run(popart.PyStepIO({"x": rng.normal(size=(*lead, BATCH, WIDTHS[0])).astype(dtype)}, anchors))
        losses.append(anchors[loss].copy())
    return np.stack(losses)


def outcome(options, optimizer, folder, updates=UPDATES, dtype=np.float32, **given):
    """Losses, then weights and optimizer state."""
    proto, loss = model(dtype=dtype, **given)
    session = ready(training_session(proto, loss, optimizer, options))
    losses = train(session, loss, lead_of(options), updates, dtype=dtype)
    return losses.tobytes(), saved_state(session, folder)


def test_state_that_begins_at_zero_takes_no_memory_on_the_host():
    """Neither whole nor in parts."""
    proto, loss = model(widths=(512, 512, 512))
    copies = []
    for options in (sharded(replicas=2), sharded("optimizerState", replicas=2)):
        report = ready(training_session(proto, loss, adam(), options)).getSummaryReport()
        copies.append(int(next(line.split()[2] for line in report.splitlines() if "host copies:" in line)))
    assert copies[1] < copies[0] + 64 * 1024, copies


def planned_variables(session):
    report = session.getSummaryReport()
    return next(int(line.split()[1]) for line in report.splitlines() if line.strip().startswith("variables:"))


@pytest.mark.parametrize("kinds", SUBSETS, ids="+".join)
@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("name", ["sgd", "momentum", "separate", "adam"])
def test_the_same_bits(name, replicas, kinds, tmp_path):
    make, _ = CASES[name]
    plain = outcome(sharded(replicas=replicas), make(), tmp_path)
    assert outcome(sharded(*kinds, replicas=replicas), make(), tmp_path) == plain


@pytest.mark.parametrize("kinds", SUBSETS, ids="+".join)
@pytest.mark.parametrize("name", ["sgd", "momentum", "separate", "nesterov", "adam"])
def test_accumulation(name, kinds, tmp_path):
    """To the bit, unless replicas meet in each micro-batch: then the order of sums is another."""
    make, _ = CASES[name]
    meets_early = "accumulator" in kinds or ("optimizerState" in kinds and name in ("momentum", "nesterov"))
    updates = 3 if meets_early else UPDATES
    plain = outcome(sharded(replicas=2, factor=3), make(), tmp_path, updates)
    parts = outcome(sharded(*kinds, replicas=2, factor=3), make(), tmp_path, updates)
    if not meets_early:
        assert parts == plain
    assert parts[1].keys() == plain[1].keys()
    for key, value in plain[1].items():
        found, expected = (np.frombuffer(v, np.float32) for v in (parts[1][key], value))
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6, err_msg=key)


def weights_after(case, reduction, *kinds, updates=UPDATES, checks=False):
    """Of the network of test_optimizers."""
    options = optimizers.options_for(reduction)
    options.enableFloatingPointChecks = checks
    for kind in kinds:
        setattr(options, f"{kind}TensorLocationSettings", popart.TensorLocationSettings(location(), 2, 2))
    optimizer = case.optimizer(case.values, case.scale, False)
    session = ready(training_session(optimizers.model_bytes(), optimizers.LOSS, optimizer, options, []))
    data = np.random.default_rng(32).normal(size=(updates, reduction.factor, reduction.replicas, 5, 6))
    for update in data.astype(np.float32):
        session.run(popart.PyStepIO({"x": update}, {}))
    return optimizers.read(session)


@pytest.mark.parametrize("kinds", [("optimizerState",), KINDS], ids="+".join)
@pytest.mark.parametrize("name", optimizers.CASES)
def test_every_optimizer(name, kinds):
    """Norms (of Lamb, of clipping) are sums over parts: another order. All else keeps its bits."""
    case, reduction = optimizers.CASES[name], Reduction(1, 2, mean=True)
    whole, parts = weights_after(case, reduction), weights_after(case, reduction, *kinds)
    for key, value in whole.items():
        if case.clip or "Lamb" in name:
            np.testing.assert_allclose(parts[key], value, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(parts[key], value)


@pytest.mark.parametrize("name", optimizers.CASES)
def test_padding_makes_no_nan(name):
    """With the smallest eps that there is; 24 and 4 elements on five replicas have padding."""
    case, reduction = optimizers.CASES[name], Reduction(1, 5, mean=True)
    if case.family != "SGD":
        case = replace(case, values=case.values | {"eps": 1e-45})
    weights = weights_after(case, reduction, *KINDS, updates=3, checks=True)
    assert all(np.isfinite(value).all() for value in weights.values())


@pytest.mark.parametrize("mode", [popart.AdamMode.Adam, popart.AdamMode.Lamb])
def test_an_eps_that_the_loss_scale_makes_zero_is_refused(mode):
    """It would divide zeros by zero, in padding first."""
    values = {"defaultLearningRate": (0.01, False), "defaultEps": (1e-40, False), "lossScaling": (1e-10, False)}
    proto, loss = model()
    with pytest.raises(popart.popart_exception, match=r"eps times lossScaling of .* is 0 in FLOAT: got 1e-40"):
        training_session(proto, loss, popart.Adam(values, mode=mode, scaled_optimizer_state=True))
    training_session(proto, loss, popart.Adam(values, mode=mode))


@pytest.mark.parametrize("name", ["combined_clip", "separate_clip", "Lamb_clip_all", "Adam_half", "separate_half"])
def test_norms_and_half_state_with_accumulation(name):
    case = optimizers.CASES[name]
    whole, parts = (weights_after(case, Reduction(2, 2), *kinds, updates=3) for kinds in ((), KINDS))
    for key, value in whole.items():
        tolerance = {"rtol": 2e-3, "atol": 2e-3} if case.half else {"rtol": 2e-5, "atol": 1e-6}
        np.testing.assert_allclose(parts[key], value, **tolerance)


@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
def test_float16(kinds, tmp_path):
    plain = outcome(sharded(replicas=2), adam(), tmp_path, dtype=np.float16)
    assert outcome(sharded(*kinds, replicas=2), adam(), tmp_path, dtype=np.float16) == plain


@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
def test_automatic_loss_scaling(kinds, tmp_path):
    results = []
    for options in (sharded(replicas=2, factor=2), sharded(*kinds, replicas=2, factor=2)):
        options.automaticLossScalingSettings.enabled = True
        optimizer = popart.Adam({"defaultLearningRate": (0.01, False), "lossScaling": (16.0, False)})
        results.append(outcome(options, optimizer, tmp_path, 4, dtype=np.float16)[1])
    assert results[0]["lossScaleUpdateFactor"] == results[1]["lossScaleUpdateFactor"]
    if "accumulator" in kinds:
        for whole, parts in ((results[0][name], results[1][name]) for name in ("w0", "w1")):
            np.testing.assert_allclose(np.frombuffer(parts, np.float16), np.frombuffer(whole, np.float16), atol=5e-3)
    else:
        assert results[1] == results[0]


@pytest.mark.parametrize("storage", [ON_CHIP, OFF_CHIP])
@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
def test_convolutions(kinds, storage, tmp_path):
    results = []
    for parts in ((), kinds):
        rng = np.random.default_rng(1)
        builder = popart.Builder()
        h = builder.addInputTensor("FLOAT", [2, 3, 8, 8], "x")
        for i, (columns, rows) in enumerate(pairwise((3, 17, 20))):
            weights = rng.normal(0, 0.2, (rows, columns, 3, 3)).astype(np.float32)
            w = builder.addInitializedInputTensor(weights, f"w{i}")
            h = builder.aiOnnx.relu([builder.aiOnnx.conv([h, w], [1, 1], 1, [3, 3], [1, 1, 1, 1], [1, 1])])
        loss = builder.aiGraphcore.identityloss([h], reduction=popart.ReductionType.Sum)
        options = sharded(*parts, replicas=2, storage=storage)
        session = ready(training_session(builder.getModelProto(), loss, adam(), options))
        anchors = session.initAnchorArrays()
        for _ in range(5):
            session.run(popart.PyStepIO({"x": rng.normal(size=(2, 2, 3, 8, 8)).astype(np.float32)}, anchors))
        results.append((anchors[loss].tobytes(), saved_state(session, tmp_path)))
    assert results[1] == results[0]


@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
@pytest.mark.parametrize("group", ["Consecutive", "Orthogonal"])
def test_groups_smaller_than_all_replicas(group, kinds, tmp_path):
    domain = popart.CommGroup(getattr(popart.CommGroupType, group), 2)
    plain = outcome(sharded(replicas=4), adam(), tmp_path)
    assert outcome(sharded(*kinds, replicas=4, domain=domain), adam(), tmp_path) == plain


@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
def test_off_chip(kinds, tmp_path):
    """Parts in remote memory."""
    plain = outcome(sharded(replicas=2, factor=1), adam(), tmp_path)
    options = sharded(*kinds, replicas=2, storage=OFF_CHIP)
    assert outcome(options, adam(), tmp_path) == plain
    session = ready(training_session(*model(), adam(), options))
    assert "remote memory" in session.getSummaryReport()


@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas", "AllReduceReplicas"])
@pytest.mark.parametrize("stride", [1, 2])
def test_weights_with_one_value_per_group(stride, mode, tmp_path):
    """Each group shares out its own value."""
    first = np.random.default_rng(3).normal(size=(2, 5)).astype(np.float32)
    data = np.random.default_rng(4).normal(size=(4, 5)).astype(np.float32)
    results = []
    for kinds in ((), KINDS):
        builder = popart.Builder()
        builder.embedReplicationFactor(4)
        x = builder.addInputTensor("FLOAT", [5], "x")
        settings = popart.VariableSettings(stride, 2, getattr(popart.VariableRetrievalMode, mode))
        w = builder.addInitializedInputTensor(first, settings, "w")
        loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], reduction=popart.ReductionType.Sum)
        options = sharded(*kinds, replicas=4)
        session = ready(training_session(builder.getModelProto(), loss, adam(), options))
        for _ in range(3):
            session.run(popart.PyStepIO({x: data}, session.initAnchorArrays()))
        session.weightsToHost()
        arrays = {w: np.empty((4, 5) if mode == "AllReplicas" else (2, 5), np.float32)}
        session.readWeights(popart.PyWeightsIO(arrays))
        assert tuple(session.getInfo(w).shape()) == (5,)
        results.append((arrays[w], saved_state(session, tmp_path)))
    np.testing.assert_array_equal(results[1][0], results[0][0])
    assert results[1][1] == results[0][1]


def test_memory_falls():
    """Bytes of variables per replica: w whole weights, w state twice, all in parts over 4 replicas."""
    widths = (64, 64, 64)
    weights = 2 * (64 * 64 + 64) * 4

    def variables(*kinds, factor=1):
        options = sharded(*kinds, replicas=4, factor=factor)
        return planned_variables(ready(training_session(*model(widths), adam(), options)))

    scalars = variables() - 3 * weights  # step counters, values of the optimizer
    assert 0 < scalars < 1024
    assert variables("optimizerState") == weights + 2 * weights / 4 + scalars
    assert variables("weight") == weights / 4 + 2 * weights + scalars
    assert variables(*KINDS) == 3 * weights / 4 + scalars
    assert variables(factor=2) == 4 * weights + scalars
    assert variables("accumulator", factor=2) == 3 * weights + weights / 4 + scalars
    assert variables(*KINDS, factor=2) == weights + scalars


def test_gathered_weights_do_not_stay():
    """Eight layers with weights in parts: two or so are whole at one time."""
    widths = (96,) * 9
    weight = 96 * 96 * 4

    def bytes_of(*kinds):
        session = ready(training_session(*model(widths, 1), popart.ConstSGD(0.1), sharded(*kinds, replicas=2)))
        report = session.getSummaryReport().splitlines()
        arena = next(int(line.split()[1]) for line in report if line.strip().startswith("activations:"))
        return arena + planned_variables(session), arena

    whole, _ = bytes_of()
    parts, arena = bytes_of("weight")
    assert arena < 5 * weight  # a gathered weight, the same in panels, a gradient and its sum
    assert parts < whole


def test_small_tensors_stay_whole():
    widths = (64, 64)
    options = sharded(*KINDS, replicas=2, least=65)
    plain, parts = (
        planned_variables(ready(training_session(*model(widths), adam(), o))) for o in (sharded(replicas=2), options)
    )
    assert plain - parts == 3 * 64 * 64 * 4 / 2


def test_a_tensor_by_name_comes_before_its_kind():
    off = popart.TensorLocation(ON_CHIP)
    widths = (64, 64)

    def variables(*kinds, **names):
        options = sharded(*kinds, replicas=2, tensorLocationSettingsOverride=names)
        return planned_variables(ready(training_session(*model(widths), adam(), options)))

    w, b = 64 * 64 * 4, 64 * 4
    assert variables() - variables(Accl1___w0=location()) == w / 2
    assert variables() - variables(*KINDS, w0=off, b0=off, Accl2___w0=off) == (w + 2 * b) / 2
    assert variables() - variables("weight", w0=off, Accl2___b0=location()) == b


def test_state_goes_on_with_another_sharding(tmp_path):
    """Saved in parts over two replicas, resumed whole, in parts over four, and in parts again."""
    session = ready(training_session(*model(), adam(), sharded(*KINDS, replicas=2)))
    train(session, LOSS, (2,), 5)
    path = tmp_path / "saved.onnx"
    session.modelToHost(str(path))
    goes_on = train(session, LOSS, (2,), 5, seed=9).tobytes(), saved_state(session, tmp_path)
    for kinds in ((), *ZERO):
        resumed = ready(training_session(str(path), LOSS, adam(), sharded(*kinds, replicas=2)))
        assert (train(resumed, LOSS, (2,), 5, seed=9).tobytes(), saved_state(resumed, tmp_path)) == goes_on
    others = []
    for kinds in ((), *ZERO):
        resumed = ready(training_session(str(path), LOSS, adam(), sharded(*kinds, replicas=4)))
        others.append((train(resumed, LOSS, (4,), 5, seed=9).tobytes(), saved_state(resumed, tmp_path)))
    assert all(other == others[0] for other in others)


def test_the_host_sees_whole_tensors(tmp_path):
    session = ready(training_session(*model(), adam(), sharded(*KINDS, replicas=4)))
    assert tuple(session.getInfo("w0").shape()) == (5, 7)
    assert tuple(session.getInfo("Accl1___w0").shape()) == (5, 7)
    arrays = {"w0": np.empty((5, 7), np.float32), "b1": np.empty(6, np.float32)}

    def read():
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(arrays))
        return arrays["w0"].copy()

    first = read()
    np.testing.assert_array_equal(first, np.random.default_rng(5).normal(0, 5**-0.5, (5, 7)).astype(np.float32))
    new = np.arange(35, dtype=np.float32).reshape(5, 7)
    session.writeWeights(popart.PyWeightsIO({"w0": new}))
    session.weightsFromHost()
    np.testing.assert_array_equal(read(), new)
    session.resetHostWeights(model()[0])
    session.weightsFromHost()
    np.testing.assert_array_equal(read(), first)


@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
def test_anchors_are_whole(kinds):
    """A weight and its state after the update, a reduced gradient, and their values of the plain run."""
    names = ["w0", "Accl1___w0", "UpdatedVar___w0", "FinalReducedGradient___w0", "Gradient___w0"]
    results = []
    for options in (sharded(replicas=2), sharded(*kinds, replicas=2)):
        proto, _ = model()
        session = ready(training_session(proto, LOSS, adam(), options, names))
        anchors = session.initAnchorArrays()
        for _ in range(2):
            session.run(popart.PyStepIO({"x": np.linspace(-1, 1, 30, dtype=np.float32).reshape(2, 3, 5)}, anchors))
        results.append({name: anchors[name].copy() for name in names})
    for name in names:
        assert results[0][name].shape == (2, 5, 7)
        np.testing.assert_array_equal(results[1][name], results[0][name])


@pytest.mark.parametrize("constant", [False, True])
def test_inference_gathers_its_weights(constant):
    results = []
    for kinds in ((), ("weight",)):
        proto, _ = model()
        session = popart.InferenceSession(
            fnModel=proto,
            dataFlow=popart.DataFlow(1, ["Tanh:0/1"]),
            deviceInfo=popart.DeviceManager().createCpuDevice(),
            userOptions=sharded(*kinds, replicas=2, constantWeights=constant),
        )
        ready(session)
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.linspace(-1, 1, 30, dtype=np.float32).reshape(2, 3, 5)}, anchors))
        results.append(anchors["Tanh:0/1"].copy())
    np.testing.assert_array_equal(*results)
    assert planned_variables(session) < (5 * 7 + 7 + 7 * 6 + 6) * 4 / 2 + 16 + 64


@pytest.mark.parametrize("kinds", [(), *ZERO], ids="+".join)
def test_serialised_products_are_updated_whole(kinds, tmp_path):
    """Parts of products and parts over replicas do not go together in one update."""
    options = sharded(*kinds, replicas=2)
    plain = outcome(sharded(replicas=2, enableSerializedMatmuls=False), adam(), tmp_path, serialised=True)
    found = outcome(options, adam(), tmp_path, serialised=True)
    for key, value in plain[1].items():
        np.testing.assert_allclose(
            np.frombuffer(found[1][key], np.float32), np.frombuffer(value, np.float32), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("rule", ["NoRecompute", "Standard", "RecomputeAll"])
def test_with_other_transforms(rule, tmp_path):
    """Dropout, norms, a residual path: computed again, outlined, accumulated, off chip."""
    plain = transforms.trained(tmp_path, (), 2, 2, {"enableOutlining": False})
    given = {"autoRecomputation": getattr(popart.RecomputationType, rule)}
    for storage, outlines in product((ON_CHIP, OFF_CHIP), (False, True)):
        parts = in_parts("weight", "optimizerState", storage=storage)
        losses, state = transforms.trained(tmp_path, (), 2, 2, {**given, **parts, "enableOutlining": outlines})
        np.testing.assert_array_equal(losses, plain[0])
        assert state == plain[1], (storage, outlines)


OTHERS = {
    "merged": {"mergeVarUpdate": popart.MergeVarUpdateType.All},
    "phases": {"executionPhaseSettings.phases": 2, "virtualGraphMode": popart.VirtualGraphMode.ExecutionPhases},
    "batch": {"batchSerializationSettings.factor": BATCH},
}


@pytest.mark.parametrize("kinds", ZERO, ids="+".join)
@pytest.mark.parametrize("name", OTHERS)
def test_with_options_that_change_the_program(name, kinds, tmp_path):
    results = []
    for parts in ((), kinds):
        options = sharded(*parts, replicas=2)
        for member, value in OTHERS[name].items():
            option_walk.assign(options, member, value)
        results.append(outcome(options, adam(), tmp_path))
    assert results[1] == results[0]


@pytest.mark.parametrize("kinds", [("optimizerState",), ("weight", "optimizerState")], ids="+".join)
def test_pipelines(kinds, tmp_path):
    results = []
    for parts in ((), kinds):
        network = pipelines.Network(3)
        staged = {"enablePipelining": True, "virtualGraphMode": pipelines.Manual} if parts else {}
        options = sharded(*parts, replicas=2, factor=5, **staged)
        losses, state = pipelines.train(tmp_path, network, options, optimizer="adam", batches=1)
        results.append(([run[network.loss].tobytes() for run in losses], state))
    assert results[1] == results[0]


def test_kept_programs_know_what_is_in_parts(tmp_path):
    plain = outcome(sharded(replicas=2), adam(), tmp_path)
    cached = {"enableEngineCaching": True, "cachePath": str(tmp_path / "cache")}
    for _ in range(2):
        assert outcome(sharded(*KINDS, replicas=2, **cached), adam(), tmp_path) == plain
    session = ready(training_session(*model(), adam(), sharded(*KINDS, replicas=2)))
    train(session, LOSS, (2,), 3)
    session.saveExecutable(str(tmp_path / "program.popef"))
    other = training_session(*model(), adam(), sharded(*KINDS, replicas=2))
    other.loadExecutable(str(tmp_path / "program.popef"))
    ready(other)
    assert train(other, LOSS, (2,), 3, seed=9).tobytes() == train(session, LOSS, (2,), 3, seed=9).tobytes()


def test_one_replica_has_nothing_to_share_out(tmp_path):
    assert outcome(sharded(*KINDS), adam(), tmp_path) == outcome(sharded(), adam(), tmp_path)


def refused(match, *kinds, names=None, domain=None, model=model()):  # noqa: B008
    options = sharded(*kinds, replicas=4, domain=domain, tensorLocationSettingsOverride=names or {})
    with pytest.raises(popart.popart_exception, match=match):
        training_session(*model, adam(), options)


def test_refusals():
    three = popart.CommGroup(popart.CommGroupType.Consecutive, 3)
    refused(r"shardingDomain of '\w+': groups of 3 replicas do not divide 4 replicas", "weight", domain=three)
    refused(r"shardingDomain of '\w+': groups of 0 replicas", "weight", domain=popart.CommGroup(three.type, 0))
    refused("'Tanh:0' cannot be sharded over replicas: it is not a weight, optimizer", names={"Tanh:0": location()})
    refused("'x' cannot be sharded over replicas: it is not a weight, optimizer", names={"x": location()})
    refused("'Step___w0' has 1 elements and cannot be sharded", names={"Step___w0": location()})


def test_groups_that_cut_across_those_of_a_weight_are_refused():
    builder = popart.Builder()
    builder.embedReplicationFactor(4)
    x = builder.addInputTensor("FLOAT", [5], "x")
    pairs = popart.VariableSettings(1, 2, popart.VariableRetrievalMode.OnePerGroup)
    w = builder.addInitializedInputTensor(np.ones((2, 5), np.float32), pairs, "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([x, w])], reduction=popart.ReductionType.Sum)
    model = builder.getModelProto(), loss
    across = popart.CommGroup(popart.CommGroupType.Orthogonal, 2)
    refused("groups cut across the replicas that share the variable", "weight", domain=across, model=model)


def test_what_the_model_changes_stays_whole():
    """Statistics of a normalisation; by name they are refused."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4, 6, 2, 2], "x")
    ones = np.ones(6, np.float32)
    scale, bias, mean, var = (
        builder.addInitializedInputTensor(ones, name) for name in ("scale", "bias", "mean", "var")
    )
    y = builder.aiOnnx.batchnormalization([x, scale, bias, mean, var], 5)[0]
    loss = builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum)
    model = builder.getModelProto(), loss
    refused("'mean' cannot be sharded over replicas: .* changes it", names={"mean": location()}, model=model)
    session = ready(training_session(*model, adam(), sharded(*KINDS, replicas=2)))
    session.run(popart.PyStepIO({"x": np.ones((2, 4, 6, 2, 2), np.float32)}, session.initAnchorArrays()))
