"""popart.optim against torch.optim: the same weights after each of 50 updates."""

import math

import numpy as np
import popart
import pytest
import torch
from torch import nn

WIDTH, HIDDEN, BATCH, UPDATES = 6, 5, 8, 50
CHANGES = {15: 0.5, 30: 2.0}  # factors of the learning rate from these updates on
ROUNDING = {"rtol": 2e-4, "atol": 2e-5}  # float32, against float64 over 50 updates
NAMES = ("w1", "b1", "w2", "b2")


def network(dtype=torch.float64):
    """Weights of a network with one hidden layer, and its data."""
    generator = torch.Generator().manual_seed(5)
    shapes = {"w1": (WIDTH, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 3), "b2": (3,)}
    weights = {n: torch.randn(*s, generator=generator, dtype=torch.float32).to(dtype) for n, s in shapes.items()}
    x = torch.randn(UPDATES, BATCH, WIDTH, generator=generator, dtype=torch.float32)
    y = torch.randn(UPDATES, BATCH, 3, generator=generator, dtype=torch.float32)
    return weights, x, y


def model(weights, rows, serialised=False):
    """The same as ONNX, with the mean squared error; the first product in parts."""
    builder = popart.Builder()
    x, y = builder.addInputTensor("FLOAT", [rows, WIDTH], "x"), builder.addInputTensor("FLOAT", [rows, 3], "y")
    ids = {n: builder.addInitializedInputTensor(w.numpy().astype(np.float32), n) for n, w in weights.items()}
    ops = builder.aiOnnx
    product = ops.matmul([x, ids["w1"]])
    if serialised:
        builder.setSerializeMatMul({product}, "output_channels", HIDDEN)
    h = ops.tanh([ops.add([product, ids["b1"]])])
    error = ops.sub([ops.add([ops.matmul([h, ids["w2"]]), ids["b2"]]), y])
    loss = builder.aiGraphcore.identityloss([ops.mul([error, error])], popart.ReductionType.Mean)
    return builder.getModelProto(), loss


def trained_by_torch(make, updates=UPDATES, schedule=True, before=lambda parameters: None):
    """Weights after each update."""
    weights, x, y = network()
    parameters = {n: nn.Parameter(w.clone()) for n, w in weights.items()}
    optimizer = make(parameters)
    rates = [group["lr"] for group in optimizer.param_groups]
    seen = []
    for update in range(updates):
        factor = math.prod(f for at, f in CHANGES.items() if schedule and update >= at)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        optimizer.zero_grad()
        p = parameters
        out = torch.tanh(x[update].double() @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        ((out - y[update].double()) ** 2).mean().backward()
        before(list(parameters.values()))
        optimizer.step()
        seen.append({n: p.detach().numpy().copy() for n, p in parameters.items()})
    return seen


def trained_by_popart(
    optimizer, updates=UPDATES, schedule=True, accumulation=1, replicas=1, serialised=False, **members
):
    weights, x, y = network()
    proto, loss = model(weights, BATCH // accumulation // replicas, serialised)
    options = popart.SessionOptions()
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    options.enableGradientAccumulation, options.accumulationFactor = accumulation > 1, accumulation
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    for name, value in members.items():
        setattr(options, name, value)
    session = popart.TrainingSession(
        proto,
        popart.DataFlow(1, [loss]),
        loss,
        optimizer,
        popart.DeviceManager().createCpuDevice(),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    front = tuple(n for n in (accumulation, replicas) if n > 1)
    rows = (*front, BATCH // accumulation // replicas)
    anchors, seen = session.initAnchorArrays(), []
    for update in range(updates):
        optimizer.lr_factor = math.prod(f for at, f in CHANGES.items() if schedule and update >= at)
        session.updateOptimizerFromHost(optimizer)
        feeds = {"x": x[update].numpy().reshape(*rows, WIDTH), "y": y[update].numpy().reshape(*rows, 3)}
        session.run(popart.PyStepIO(feeds, anchors))
        values = {n: np.empty(tuple(w.shape), np.float32) for n, w in weights.items()}
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(values))
        seen.append(values)
    return seen


def assert_same(ours, expected, **tolerance):
    for update, (a, b) in enumerate(zip(ours, expected, strict=True)):
        for name in NAMES:
            np.testing.assert_allclose(
                a[name], b[name], err_msg=f"{name} after update {update}", **{**ROUNDING, **tolerance}
            )


CASES = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd_decay": ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    "sgd_momentum": ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05}),
    "sgd_dampening": ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.4, "weight_decay": 0.02}),
    "sgd_nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.03}),
    "sgd_maximize": ("SGD", {"lr": 0.01, "momentum": 0.5, "maximize": True}),
    "adam": ("Adam", {"lr": 0.02}),
    "adam_decay": ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "adam_amsgrad": ("Adam", {"lr": 0.02, "betas": (0.8, 0.9), "amsgrad": True, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.02}),
    "adamw_decay": ("AdamW", {"lr": 0.02, "weight_decay": 0.3, "betas": (0.8, 0.95)}),
    "adamw_amsgrad": ("AdamW", {"lr": 0.02, "amsgrad": True, "betas": (0.8, 0.9)}),
    "adamw_maximize": ("AdamW", {"lr": 0.01, "maximize": True}),
    "rmsprop": ("RMSprop", {"lr": 0.01}),
    "rmsprop_momentum": ("RMSprop", {"lr": 0.005, "alpha": 0.9, "momentum": 0.8, "weight_decay": 0.05}),
    "rmsprop_centered": ("RMSprop", {"lr": 0.005, "alpha": 0.9, "centered": True, "eps": 1e-3}),
    "rmsprop_all": (
        "RMSprop",
        {"lr": 0.005, "alpha": 0.9, "centered": True, "momentum": 0.5, "eps": 1e-2, "weight_decay": 0.1},
    ),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad_all": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.05, "initial_accumulator_value": 0.2, "eps": 1e-6},
    ),
    "adadelta": ("Adadelta", {}),
    "adadelta_all": ("Adadelta", {"lr": 2.0, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.05}),
    "adamax": ("Adamax", {}),
    "adamax_all": ("Adamax", {"lr": 0.02, "betas": (0.8, 0.9), "eps": 1e-2, "weight_decay": 0.1}),
}


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_torch(name, accumulation):
    kind, values = CASES[name]
    ours = trained_by_popart(getattr(popart.optim, kind)(**values), accumulation=accumulation)
    expected = trained_by_torch(lambda p: getattr(torch.optim, kind)(p.values(), **values))
    assert_same(ours, expected)


@pytest.mark.parametrize("name", ["sgd_dampening", "adamw_decay", "rmsprop_all", "adagrad_all"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_replicas_train_as_one(name, accumulation):
    kind, values = CASES[name]
    ours = trained_by_popart(getattr(popart.optim, kind)(**values), accumulation=accumulation, replicas=2)
    assert_same(ours, trained_by_torch(lambda p: getattr(torch.optim, kind)(p.values(), **values)))


ALL = ["sgd", *(name for name in CASES if name.endswith(("_all", "dampening", "nesterov", "_decay", "amsgrad")))]
SHARDED = popart.TensorLocationSettings(
    popart.TensorLocation(
        popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On, popart.CommGroup()
    ), 2, 2
)  # fmt: skip


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("how", ["parts of a product", "merged", "shared out"])
def test_updates_in_other_forms_are_the_same(how, name, accumulation):
    """Part by part of a weight, many weights at once, and parts of the state on each replica."""
    kind, values = CASES[name]
    members = {
        "parts of a product": {"serialised": True},
        "merged": {"mergeVarUpdate": popart.MergeVarUpdateType.All},
        "shared out": {"replicas": 2, "optimizerStateTensorLocationSettings": SHARDED},
    }[how]
    optimizer = getattr(popart.optim, kind)(**values)
    ours = trained_by_popart(optimizer, updates=20, accumulation=accumulation, **members)
    assert_same(ours, trained_by_torch(lambda p: getattr(torch.optim, kind)(p.values(), **values), updates=20))


def test_defaults_are_those_of_torch():
    import inspect

    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax"):
        ours = inspect.signature(getattr(popart.optim, name)).parameters
        theirs = inspect.signature(getattr(torch.optim, name)).parameters
        for argument, parameter in ours.items():
            if argument in theirs:
                assert parameter.default == theirs[argument].default, (name, argument)


@pytest.mark.parametrize("name", ["sgd_momentum", "sgd", "adamw_decay", "adam_decay", "adamax_all"])
@pytest.mark.parametrize("kind", ["norm", "value"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_gradients_are_clipped_as_torch_clips(name, kind, accumulation):
    of, values = CASES[name]
    limit = {"norm": 0.3, "value": 0.02}[kind]
    clip = {"norm": torch.nn.utils.clip_grad_norm_, "value": torch.nn.utils.clip_grad_value_}[kind]
    optimizer = getattr(popart.optim, of)(**values, **{f"clip_grad_{kind}": limit})
    expected = trained_by_torch(
        lambda p: getattr(torch.optim, of)(p.values(), **values), before=lambda p: clip(p, limit)
    )
    assert_same(trained_by_popart(optimizer, accumulation=accumulation), expected)
    plain = trained_by_torch(lambda p: getattr(torch.optim, of)(p.values(), **values), updates=1)
    if of == "SGD":
        assert not np.allclose(plain[0]["w1"], expected[0]["w1"], **ROUNDING)  # the limit is met


def test_tiny_gradients_are_clipped_with_the_epsilon_of_torch():
    """The norm is about 1e-6: torch adds 1e-6 to it."""
    limit = 1e-7
    optimizer = popart.optim.SGD(lr=1e4, clip_grad_norm=limit)
    expected = trained_by_torch(
        lambda p: torch.optim.SGD(p.values(), lr=1e4),
        updates=3,
        before=lambda p: ([q.grad.mul_(1e-6) for q in p], torch.nn.utils.clip_grad_norm_(p, limit)),
    )
    weights, x, y = network()
    proto, loss = model(weights, BATCH)
    builder = popart.Builder(proto)
    small = builder.aiGraphcore.scale([loss], 1e-6)
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, []), small, optimizer, popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.weightsFromHost()
    for update in range(3):
        session.run(popart.PyStepIO({"x": x[update].numpy(), "y": y[update].numpy()}, {}))
    values = {n: np.empty(tuple(w.shape), np.float32) for n, w in weights.items()}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(values))
    assert_same([values], expected[-1:])


GROUPS = [
    {"params": ["b*"], "weight_decay": 0.0, "lr": 0.05},
    {"params": "w2", "momentum": 0.5},
]


def torch_groups(parameters, groups, **values):
    """The groups with tensors in place of names."""
    of = {"b*": ["b1", "b2"], "w2": ["w2"]}
    named, made = set(), []
    for group in groups:
        names = [n for p in ([group["params"]] if isinstance(group["params"], str) else group["params"]) for n in of[p]]
        named.update(names)
        made.append({**group, "params": [parameters[n] for n in names]})
    return [{"params": [p for n, p in parameters.items() if n not in named]}, *made]


@pytest.mark.parametrize("accumulation", [1, 2])
def test_groups_have_numbers_of_their_own(accumulation):
    values = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    optimizer = popart.optim.SGD(**values, groups=GROUPS, clip_grad_norm=0.5)
    expected = trained_by_torch(
        lambda p: torch.optim.SGD(torch_groups(p, GROUPS), **values),
        before=lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5),
    )
    assert_same(trained_by_popart(optimizer, accumulation=accumulation), expected)


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_groups_of_adam(kind):
    groups = [{"params": ["b*"], "betas": (0.5, 0.7), "weight_decay": 0.0}, {"params": ["w2"], "eps": 1e-2, "lr": 0.1}]
    values = {"lr": 0.02, "weight_decay": 0.2}
    optimizer = getattr(popart.optim, kind)(**values, groups=groups)
    expected = trained_by_torch(lambda p: getattr(torch.optim, kind)(torch_groups(p, groups), **values))
    assert_same(trained_by_popart(optimizer), expected)


def session_of(optimizer):
    proto, loss = model(network()[0], BATCH)
    session = popart.TrainingSession(
        proto, popart.DataFlow(1, []), loss, optimizer, popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session


def groups_with(lr):
    return {"lr": 0.1, "momentum": 0.9, "groups": [{"params": ["b*"], "lr": lr, "weight_decay": 0.3}]}


def test_a_group_without_learning_rate_is_frozen():
    values = groups_with(0.0)
    expected = trained_by_torch(
        lambda p: torch.optim.SGD(torch_groups(p, values["groups"]), lr=values["lr"], momentum=values["momentum"])
    )
    assert_same(trained_by_popart(popart.optim.SGD(**values)), expected)
    session = session_of(popart.optim.SGD(**values))
    assert {t.name for t in session.trainableTensors() if t.trains} == {"w1", "w2"}
    assert not [name for name in session.getTensorIds() if name.endswith(("___b1", "___b2"))]


def test_a_frozen_group_cannot_train_later():
    """Programs have no gradients of it; PopART's optimizers refuse a changed constant in the same way."""
    session = session_of(popart.optim.SGD(**groups_with(0.0)))
    with pytest.raises(popart.popart_exception, match="group 0 has a learning rate of 0 in one of them, which freezes"):
        session.updateOptimizerFromHost(popart.optim.SGD(**groups_with(0.1)))
    session.updateOptimizerFromHost(popart.optim.SGD(**{**groups_with(0.0), "lr": 0.3}))
    session = session_of(popart.optim.SGD(**groups_with(0.1)))
    with pytest.raises(popart.popart_exception, match="group 0 has a learning rate of 0 in one of them, which freezes"):
        session.updateOptimizerFromHost(popart.optim.SGD(**groups_with(0.0)))


def test_a_learning_rate_of_0_that_can_change_freezes_nothing():
    """Of the optimizer itself: a schedule, or setting lr, may raise it."""
    session = session_of(popart.optim.SGD(lr=0.0, groups=[{"params": "b*", "weight_decay": 0.1}]))
    assert all(t.trains for t in session.trainableTensors())


def test_the_learning_rate_changes_without_a_new_program():
    optimizer = popart.optim.AdamW(lr=0.01)
    weights, x, y = network()
    proto, loss = model(weights, BATCH)
    session = popart.TrainingSession(
        proto, popart.DataFlow(1, [loss]), loss, optimizer, popart.DeviceManager().createCpuDevice()
    )
    session.prepareDevice()
    session.weightsFromHost()
    optimizer.lr = 0.0
    session.updateOptimizerFromHost(optimizer)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x[0].numpy(), "y": y[0].numpy()}, anchors))
    value = np.empty((WIDTH, HIDDEN), np.float32)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"w1": value}))
    np.testing.assert_array_equal(value, weights["w1"].numpy().astype(np.float32))
    with pytest.raises(popart.popart_exception, match="not a valid replacement: constant value 'eps' differs"):
        session.updateOptimizerFromHost(popart.optim.AdamW(lr=0.01, eps=1e-3))


def lamb(update, w, g, state, lr, betas, eps, decay, limit=math.inf):
    """You et al. 2020, algorithm 2, in float64."""
    m, v = state.get("m", 0.0), state.get("v", 0.0)
    state["m"], state["v"] = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    m, v = state["m"] / (1 - betas[0] ** (update + 1)), state["v"] / (1 - betas[1] ** (update + 1))
    x = m / (np.sqrt(v) + eps) + decay * w
    norm, size = min(np.linalg.norm(w), limit), np.linalg.norm(x)
    return w - lr * (norm / size if norm > 0 and size > 0 else 1.0) * x


@pytest.mark.parametrize("limit", [None, 1.0])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_lamb_is_that_of_its_paper(limit, accumulation):
    values = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1}
    weights, x, y = network()
    parameters = {n: nn.Parameter(w.clone()) for n, w in weights.items()}
    states, expected = {n: {} for n in weights}, []
    for update in range(UPDATES):
        p = parameters
        factor = math.prod(f for at, f in CHANGES.items() if update >= at)
        out = torch.tanh(x[update].double() @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        gradients = torch.autograd.grad(((out - y[update].double()) ** 2).mean(), list(p.values()))
        with torch.no_grad():
            for (name, weight), g in zip(p.items(), gradients, strict=True):
                new = lamb(
                    update, weight.numpy(), g.numpy(), states[name], values["lr"] * factor, values["betas"],
                    values["eps"], values["weight_decay"], math.inf if limit is None else limit,
                )  # fmt: skip
                weight.copy_(torch.from_numpy(new))
        expected.append({n: w.detach().numpy().copy() for n, w in p.items()})
    optimizer = popart.optim.Lamb(**values, max_weight_norm=limit)
    assert_same(trained_by_popart(optimizer, accumulation=accumulation), expected)


def test_a_loss_scale_changes_nothing():
    plain = trained_by_popart(popart.optim.AdamW(lr=0.02, clip_grad_norm=0.3), updates=10)
    scaled = trained_by_popart(popart.optim.AdamW(lr=0.02, clip_grad_norm=0.3, loss_scale=1024.0), updates=10)
    assert_same(scaled, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: popart.optim.SGD(lr=-1.0), "invalid lr: got -1, expected 0 or more"),
    (lambda: popart.optim.Adam(betas=(1.0, 0.9)), "invalid beta1: got 1, expected 0 or more and less than 1"),
    (lambda: popart.optim.SGD(nesterov=True), "nesterov needs momentum and no dampening"),
    (lambda: popart.optim.SGD(momentum=0.9, dampening=0.1, nesterov=True), "nesterov needs momentum"),
    (lambda: popart.optim.Adam(clip_grad_norm=1.0, clip_grad_value=1.0), "by norm and by value: got 1 and 1"),
    (lambda: popart.optim.Adam(clip_grad_norm=-1.0), "invalid maximum norm"),
    (lambda: popart.optim.SGD(groups=[{"params": "w", "betas": (0.1, 0.2)}]), "no number of this name: got 'beta1'"),
    (lambda: popart.optim.Adadelta(rho=1.5), "invalid rho: got 1.5"),
    (lambda: popart.optim.Lamb(eps=0.0), "Lamb: invalid eps: got 0, expected a value above 0"),
])  # fmt: skip
def test_numbers_out_of_range_are_refused(make, text):
    with pytest.raises(popart.popart_exception, match=text):
        make()


@pytest.mark.parametrize(("groups", "text"), [
    ([{"params": "w3"}], "no weight 'w3' of group 0. Nearest names: w"),
    ([{"params": "w*"}, {"params": "w2"}], "'w2': the weight is in two groups: got 0 and 1"),
])  # fmt: skip
def test_groups_of_other_weights_are_refused(groups, text):
    with pytest.raises(popart.popart_exception, match=text):
        trained_by_popart(popart.optim.SGD(groups=groups), updates=1)


def test_a_group_says_whose_it_is():
    with pytest.raises(ValueError, match="group 0 does not say whose it is"):
        popart.optim.SGD(groups=[{"lr": 0.1}])


def test_state_is_saved_and_trains_on(tmp_path):
    weights, x, y = network()
    proto, loss = model(weights, BATCH)

    def session_of(source, optimizer):
        session = popart.TrainingSession(
            source, popart.DataFlow(1, [loss]), loss, optimizer, popart.DeviceManager().createCpuDevice()
        )
        session.prepareDevice()
        session.weightsFromHost()
        return session

    def run(session, updates):
        anchors = session.initAnchorArrays()
        for update in updates:
            session.run(popart.PyStepIO({"x": x[update].numpy(), "y": y[update].numpy()}, anchors))
        return anchors[loss].copy()

    make = lambda: popart.optim.SGD(lr=0.1, momentum=0.9, dampening=0.3)  # noqa: E731
    whole = session_of(proto, make())
    run(whole, range(5))
    whole.modelToHost(str(tmp_path / "state.onnx"))
    expected = run(whole, range(5, 10))
    np.testing.assert_array_equal(run(session_of(str(tmp_path / "state.onnx"), make()), range(5, 10)), expected)
