"""Every optimizer against its formula (optimizer_formulas.py): 20 updates, one by one.

With one micro-batch, accumulation, two replicas and both; values that are constant, and values that change on the way.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import popart
import pytest
import torch

import onnx
from tests.python.popart import optimizer_formulas as formulas
from tests.python.popart.optimizer_formulas import Reduction
from tests.python.popart.training_runs import training_session

RNG = np.random.default_rng(31)
FIRST = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in {"w": (6, 4), "b": (4,)}.items()}
LOSS = "IdentityLoss:0"
UPDATES = 20
CHANGES = (7, 13)  # updates before which values change, where they may

SEPARATE = popart.SGDAccumulatorAndMomentum.Separate
L2 = popart.WeightDecayMode.L2Regularization
HALF = popart.DataType.FLOAT16
FACTORY = {
    "SGD": {"weightDecay": 0.0, "momentum": 0.0, "dampening": 0.0, "velocityScaling": 1.0},
    "Adam": {"weightDecay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "maxWeightNorm": 10.0},
    "Adaptive": {"weightDecay": 0.0, "alpha": 0.99, "momentum": 0.0, "eps": 1e-6},
}


@dataclass
class Case:
    """One way to configure an optimizer."""

    family: str  # class of popart
    formula: Callable[..., formulas.Formula]
    values: dict[str, float]
    arguments: dict[str, object] = field(default_factory=dict)  # of the class
    settings: dict[str, object] = field(default_factory=dict)  # of the formula
    specific: dict[str, dict[str, float]] = field(default_factory=dict)
    scale: float = 1.0
    clip: tuple[tuple[list[str], float], ...] = ()  # groups of weights with their largest norms; no weights: all
    half: bool = False  # state in FLOAT16

    def optimizer(self, values: dict[str, float], scale: float, constant: bool) -> popart.Optimizer:
        """The optimizer with these values in place of its own."""
        keys = {f"default{key[0].upper()}{key[1:]}": (value, constant) for key, value in values.items()}
        arguments = dict(self.arguments)
        if self.settings.get("nesterov"):
            keys["nesterov"] = (True, True)
        keys["lossScaling"] = (scale, constant)
        if self.clip:
            every = popart.ClipNormSettings.clipAllWeights
            arguments["clip_norm_settings"] = [
                popart.ClipNormSettings.clipWeights(ids, norm) if ids else every(norm) for ids, norm in self.clip
            ]
        made = getattr(popart, self.family)(keys, **arguments)
        for weight, own in self.specific.items():
            made.insertSpecific(weight, {key: (value, constant) for key, value in own.items()})
        return made


def sgd(formula, clip=(), scale=1.0, specific=None, nesterov=False, arguments=None, half=False, **values):
    separate = {"accumulatorAndMomentum": SEPARATE} if formula is formulas.SeparateSgd else {}
    return Case(
        "SGD",
        formula,
        {"learningRate": 0.05, **values},
        separate | (arguments or {}),
        {"nesterov": nesterov},
        specific or {},
        scale,
        clip,
        half,
    )


def adam(mode, l2=False, scale=1.0, scaled_state=False, clip=(), specific=None, half=False, **values):
    arguments = {"mode": getattr(popart.AdamMode, mode)}
    if l2:
        arguments["weight_decay_mode"] = L2
    if scaled_state:
        arguments["scaled_optimizer_state"] = True
    if half:
        arguments |= {"accl1_type": HALF, "accl2_type": HALF}
    settings = {"mode": mode, "l2": l2, "scaled_state": scaled_state}
    every = {"learningRate": 0.02, "beta2": 0.95, **values}
    return Case("Adam", formulas.Adam, every, arguments, settings, specific or {}, scale, clip, half)


def adaptive(mode, l2=False, tf=False, scale=1.0, specific=None, half=False, **values):
    arguments = {"mode": getattr(popart.AdaptiveMode, mode), "rmsprop_tf_variant": tf}
    if l2:
        arguments["weight_decay_mode"] = L2
    if half:
        arguments |= {"accl1_type": HALF, "accl2_type": HALF, "accl3_type": HALF}
    settings = {"mode": mode, "l2": l2, "tf": tf, "momentum": "momentum" in values}
    every = {"learningRate": 0.02, "alpha": 0.9, **values}
    return Case("Adaptive", formulas.Adaptive, every, arguments, settings, specific or {}, scale, (), half)


PLAIN, COMBINED, APART = formulas.PlainSgd, formulas.CombinedSgd, formulas.SeparateSgd
SLOW = {"learningRate": 1.0, "eps": 1e-3}  # AdaDelta's first steps are about the root of eps
OWN_SGD = {"b": {"learningRate": 0.2, "weightDecay": 0.3, "momentum": 0.5}}
CASES = {
    "sgd": sgd(PLAIN),
    "sgd_decay": sgd(PLAIN, weightDecay=0.1, dampening=0.25, scale=8.0),
    "sgd_specific": sgd(PLAIN, specific={"b": {"learningRate": 0.2, "weightDecay": 0.3}}, weightDecay=0.1),
    "sgd_clip_all": sgd(PLAIN, clip=(([], 0.7),), scale=2.0),
    "sgd_clip_groups": sgd(PLAIN, clip=((["w"], 0.8), (["b"], 0.1))),
    "combined": sgd(COMBINED, momentum=0.9),
    "combined_all": sgd(COMBINED, momentum=0.8, weightDecay=0.1, dampening=0.2, velocityScaling=2.0, scale=4.0),
    "combined_specific": sgd(COMBINED, specific=OWN_SGD, momentum=0.9, weightDecay=0.1),
    "combined_clip": sgd(COMBINED, clip=((["w", "b"], 0.9),), momentum=0.9),
    "combined_nesterov": sgd(COMBINED, nesterov=True, momentum=0.8, weightDecay=0.1, velocityScaling=2.0, scale=4.0),
    "separate": sgd(APART, momentum=0.9),
    "separate_all": sgd(APART, momentum=0.8, weightDecay=0.1, dampening=0.2, velocityScaling=2.0, scale=4.0),
    "separate_specific": sgd(APART, specific=OWN_SGD, momentum=0.9, weightDecay=0.1),
    "separate_clip": sgd(APART, clip=(([], 0.9),), momentum=0.9, weightDecay=0.1),
    "separate_nesterov": sgd(APART, nesterov=True, momentum=0.8, weightDecay=0.1, velocityScaling=2.0, scale=4.0),
    "separate_half": sgd(
        APART, arguments={"accumType": HALF, "accl1Type": HALF}, half=True, momentum=0.9, weightDecay=0.1
    ),
    **{f"{mode}": adam(mode, scale=8.0) for mode in ("Adam", "AdamNoBias", "AdaMax", "Lamb", "LambNoBias")},
    **{f"{mode}_decay": adam(mode, weightDecay=0.2) for mode in ("Adam", "AdamNoBias", "AdaMax", "Lamb", "LambNoBias")},
    **{f"{mode}_l2": adam(mode, l2=True, weightDecay=0.2, scale=4.0) for mode in ("Adam", "AdamNoBias", "AdaMax")},
    "Lamb_l2": adam("Lamb", l2=True, weightDecay=0.2, maxWeightNorm=2.0),
    "LambNoBias_l2": adam("LambNoBias", l2=True, weightDecay=0.2, maxWeightNorm=2.0),
    "Adam_specific": adam("Adam", specific={"b": {"beta1": 0.5, "learningRate": 0.1, "eps": 0.01}}, weightDecay=0.1),
    "Adam_clip": adam("Adam", l2=True, clip=((["w"], 0.5), (["b"], 0.1)), weightDecay=0.1, scale=4.0),
    "Lamb_clip_all": adam("Lamb", clip=(([], 0.5),)),
    "Adam_scaled_state": adam("Adam", scaled_state=True, scale=16.0, weightDecay=0.1, eps=1e-3),
    "AdaMax_scaled_state": adam("AdaMax", scaled_state=True, scale=16.0, weightDecay=0.1, eps=1e-3),
    "LambNoBias_scaled_state": adam("LambNoBias", scaled_state=True, scale=16.0, weightDecay=0.1, eps=1e-3),
    "Adam_scaled_state_l2": adam("Adam", l2=True, scaled_state=True, scale=16.0, weightDecay=0.1, eps=1e-3),
    "Adam_half": adam("Adam", half=True, eps=1e-3),
    "AdaMax_half": adam("AdaMax", half=True, eps=1e-3),
    **{mode: adaptive(mode, scale=8.0) for mode in ("AdaGrad", "RMSProp", "CenteredRMSProp")},
    **{f"{m}_decay": adaptive(m, weightDecay=0.2) for m in ("AdaGrad", "RMSProp", "CenteredRMSProp")},
    **{f"{m}_l2": adaptive(m, l2=True, weightDecay=0.2) for m in ("AdaGrad", "RMSProp", "CenteredRMSProp")},
    **{f"{m}_momentum": adaptive(m, momentum=0.8, weightDecay=0.1) for m in ("AdaGrad", "RMSProp", "CenteredRMSProp")},
    "AdaDelta": adaptive("AdaDelta", scale=8.0, **SLOW),
    "AdaDelta_decay": adaptive("AdaDelta", weightDecay=0.2, **SLOW),
    "AdaDelta_l2": adaptive("AdaDelta", l2=True, weightDecay=0.2, **SLOW),
    "AdaDelta_momentum": adaptive("AdaDelta", momentum=0.8, **SLOW),
    "RMSProp_tf": adaptive("RMSProp", tf=True, weightDecay=0.05),
    "RMSProp_tf_momentum": adaptive("RMSProp", tf=True, momentum=0.8, weightDecay=0.05, scale=4.0),
    "CenteredRMSProp_tf": adaptive("CenteredRMSProp", tf=True, momentum=0.8),
    "RMSProp_specific": adaptive("RMSProp", specific={"b": {"alpha": 0.5, "learningRate": 0.1}}, weightDecay=0.1),
    "RMSProp_half": adaptive("RMSProp", half=True, momentum=0.8, eps=1e-2),
}

# reduction, and whether values are constants of the program
RUNS = {
    "one": (Reduction(), True),
    "one_changing": (Reduction(), False),
    "accumulated_mean": (Reduction(3, 1, mean=True), False),
    "accumulated_sum": (Reduction(3, 1), True),
    "replicas_mean": (Reduction(1, 2, mean=True), True),
    "replicas_sum": (Reduction(1, 2), False),
    "both_mean": (Reduction(2, 2, mean=True), True),
    "both_sum": (Reduction(2, 2), False),
    "both_running": (Reduction(2, 2, mean=True, running=True), True),
}


def options_for(reduction: Reduction) -> popart.SessionOptions:
    options = popart.SessionOptions()
    options.enableGradientAccumulation = reduction.factor > 1
    options.accumulationFactor = reduction.factor
    options.enableReplicatedGraphs = reduction.replicas > 1
    options.replicatedGraphCount = reduction.replicas
    options.accumulationAndReplicationReductionType = (
        popart.ReductionType.Mean if reduction.mean else popart.ReductionType.Sum
    )
    strategies = popart.MeanReductionStrategy
    options.meanAccumulationAndReplicationReductionStrategy = (
        strategies.Running if reduction.running else strategies.Post
    )
    return options


def session_for(model, optimizer, reduction: Reduction):
    """A prepared session of ``model``, or of the network of ``model_bytes``."""
    session = training_session(model, LOSS, optimizer, options_for(reduction), [])  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    return session


def model_bytes() -> bytes:
    """Loss: half the sum of the squares of tanh(x w + b)."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [5, 6], "x")
    w, b = (builder.addInitializedInputTensor(FIRST[name], name) for name in ("w", "b"))
    y = builder.aiOnnx.tanh([builder.aiOnnx.add([builder.aiOnnx.matmul([x, w]), b])])
    half = builder.aiOnnx.constant(np.array(0.5, np.float32))
    y = builder.aiOnnx.mul([builder.aiOnnx.mul([y, y]), half])
    assert builder.aiGraphcore.identityloss([y], reduction=popart.ReductionType.Sum) == LOSS
    return builder.getModelProto()


def gradients(weights: dict[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """Of the loss, for data ``[factor, replicas, 5, 6]``."""
    y = np.tanh(x @ weights["w"] + weights["b"])
    back = y * (1 - y * y)
    return {"w": np.swapaxes(x, -1, -2) @ back, "b": back.sum(-2)}


def read(session) -> dict[str, np.ndarray]:
    session.weightsToHost()
    arrays = {name: np.empty_like(value) for name, value in FIRST.items()}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def changed(values: dict[str, float]) -> dict[str, float]:
    """Other values, all legal; the velocity's scale stays, because what is stored is scaled by it."""
    factors = {"learningRate": 0.5, "weightDecay": 1.5, "beta1": 0.9, "beta2": 0.95, "alpha": 0.95, "momentum": 0.9,
               "dampening": 0.5, "eps": 2.0, "maxWeightNorm": 0.5}  # fmt: skip
    return {key: value * factors.get(key, 1.0) for key, value in values.items()}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", CASES)
def test_follows_its_formula(name, run):
    case, (reduction, constant) = CASES[name], RUNS[run]
    session = session_for(model_bytes(), case.optimizer(case.values, case.scale, constant), reduction)
    weights = {key: value.astype(np.float64) for key, value in FIRST.items()}
    stored = (lambda value: np.float64(np.float16(value))) if case.half else (lambda value: value)
    of = {key: case.formula(reduction, stored, **case.settings) for key in weights}
    values, own, scale = dict(case.values), dict(case.specific), case.scale
    data = np.random.default_rng(32).normal(size=(UPDATES, reduction.factor, reduction.replicas, 5, 6))
    data = data.astype(np.float32)
    for update in range(UPDATES):
        if update in CHANGES and not constant:
            values = changed(values)
            own = {key: changed(specific) for key, specific in own.items()}
            scale = scale * 2
            case.specific, before = own, case.specific
            session.updateOptimizerFromHost(case.optimizer(values, scale, constant))
            case.specific = before
        hyper = {key: {**FACTORY[case.family], **values, **own.get(key, {})} for key in weights}
        session.run(popart.PyStepIO({"x": data[update]}, {}))
        found = gradients(weights, data[update].astype(np.float64))
        steps = {key: of[key].begin(weights[key], scale * found[key], hyper[key], scale) for key in weights}
        for ids, limit in case.clip:
            members = ids or list(steps)
            norm = np.sqrt(sum((steps[key] ** 2).sum() for key in members))
            for key in members:
                steps[key] = steps[key] * limit / max(norm, limit)
        weights = {key: of[key].finish(weights[key], steps[key], hyper[key], scale) for key in weights}
    result = read(session)
    for key, value in weights.items():
        moved = np.abs(value - FIRST[key]).max()
        assert moved > 5e-4, "the weights hardly moved"
        # a value of FLOAT16 state has 11 bits
        np.testing.assert_allclose(result[key], value, rtol=0, atol=(1e-2 if case.half else 1e-3) * moved + 2e-6)


TORCH = {
    "sgd_decay": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.2),
    "combined": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.2),
    "separate": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.0, weight_decay=0.2),
    "combined_nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.2, nesterov=True),
    "separate_nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.2, nesterov=True),
    "Adam_l2": lambda p: torch.optim.Adam(p, 0.1, (0.9, 0.999), 1e-6, weight_decay=0.2),
    "Adam_decay": lambda p: torch.optim.AdamW(p, 0.1, (0.9, 0.999), 1e-6, weight_decay=0.2),
    "AdaGrad_l2": lambda p: torch.optim.Adagrad(p, 0.1, weight_decay=0.2, eps=1e-6),
    "RMSProp_l2": lambda p: torch.optim.RMSprop(p, 0.1, 0.99, 1e-6, weight_decay=0.2),
    "CenteredRMSProp_l2": lambda p: torch.optim.RMSprop(p, 0.1, 0.99, 1e-6, weight_decay=0.2, centered=True),
    "RMSProp_momentum": lambda p: torch.optim.RMSprop(p, 0.1, 0.99, 1e-6, weight_decay=0.0, momentum=0.9),
    "AdaDelta_l2": lambda p: torch.optim.Adadelta(p, 0.1, 0.99, 1e-6, weight_decay=0.2),
}


@pytest.mark.parametrize("name", TORCH)
def test_formulas_are_those_of_torch(name):
    case = CASES[name]
    hyper = {**FACTORY[case.family], "learningRate": 0.1, "momentum": 0.9, "dampening": 0.0}
    hyper["weightDecay"] = 0.0 if name == "RMSProp_momentum" else 0.2
    formula = case.formula(Reduction(), **case.settings)
    weight = FIRST["w"].astype(np.float64)
    parameter = torch.tensor(weight, requires_grad=True)
    optimizer = TORCH[name]([parameter])
    for gradient in np.random.default_rng(33).normal(size=(UPDATES, *weight.shape)):
        step = formula.begin(weight, gradient[None, None], hyper, 1.0)
        weight = formula.finish(weight, step, hyper, 1.0)
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
    np.testing.assert_allclose(weight, parameter.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_norms_of_clipping_are_those_of_gradients_over_all_replicas():
    case = CASES["sgd_clip_groups"]
    reduction = Reduction(2, 2)
    session = popart.TrainingSession(
        model_bytes(),
        popart.DataFlow(1, ["GlobalNorm___0", "GlobalNorm___1"], popart.AnchorReturnType("Final")),
        LOSS,
        case.optimizer(case.values, 1.0, True),
        popart.DeviceManager().createCpuDevice(),
        userOptions=options_for(reduction),
    )
    session.prepareDevice()
    session.weightsFromHost()
    data = RNG.normal(size=(2, 2, 5, 6)).astype(np.float32)
    norms = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": data}, norms))
    whole = gradients({key: value.astype(np.float64) for key, value in FIRST.items()}, data)
    for i, (ids, _limit) in enumerate(case.clip):
        expected = np.linalg.norm(whole[ids[0]].sum((0, 1)))
        np.testing.assert_allclose(norms[f"GlobalNorm___{i}"], [expected] * 2, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.half])
def test_state_has_the_type_asked_for(name, tmp_path):
    case = CASES[name]
    session = session_for(model_bytes(), case.optimizer(case.values, case.scale, True), Reduction(2))
    path = str(tmp_path / "trained.onnx")
    session.modelToHost(path)
    types = {i.name: i.data_type for i in onnx.load(path).graph.initializer if i.name.endswith("___w")}
    accumulators = {key: kind for key, kind in types.items() if key.startswith("Accl")}
    assert accumulators
    assert set(accumulators.values()) == {onnx.TensorProto.FLOAT16}
