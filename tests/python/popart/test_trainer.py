"""popart.Trainer against PyTorch: the same weights and losses, whatever the batch is cut into."""

import io
import sys
import warnings

import numpy as np
import onnxruntime
import popart
import pytest
import torch
from torch import nn

import onnx

WIDTH, CLASSES = 6, 4
DYNAMIC = {"x": {0: "batch"}, "logits": {0: "batch"}}
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


class Network(nn.Module):
    def __init__(self, norm=False, dropout=0.0):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.second = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.norm = nn.BatchNorm1d(8) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.second(self.dropout(self.norm(self.first(x)).relu()))


def exported(module, batch=8, dynamic=DYNAMIC, training=False):
    out = io.BytesIO()
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, torch.zeros(batch, WIDTH), out, dynamo=False, input_names=["x"], output_names=["logits"],
            dynamic_axes=dynamic, do_constant_folding=False, training=mode,
        )  # fmt: skip
    return out.getvalue()


def data(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, WIDTH, generator=generator)
    return x, x[:, :CLASSES].argmax(1)


def batches(count, size, seed=0):
    x, y = data(count, seed)
    return list(zip(x.split(size), y.split(size), strict=True))


def cross_entropy(model=None):
    return "cross_entropy"


def by_torch(module, groups, lr=0.05, momentum=0.9):
    """Weights after an update for each group of batches: the mean loss of all their samples."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=momentum)
    losses = []
    for group in groups:
        x, y = torch.cat([b[0] for b in group]), torch.cat([b[1] for b in group])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def weights_of(module):
    return {name: value.detach().numpy() for name, value in module.state_dict().items() if value.dim()}


def assert_weights(trainer, module):
    for name, value in weights_of(module).items():
        np.testing.assert_allclose(trainer.weights[name], value, err_msg=name, **CLOSE)


def trainer_of(module, optimizer=None, dynamic=DYNAMIC, batch=8, **arguments):
    training = any(isinstance(m, nn.BatchNorm1d | nn.Dropout) for m in module.modules())
    return popart.Trainer(
        exported(module, batch, dynamic, training),
        loss="cross_entropy",
        optimizer=optimizer or popart.optim.SGD(lr=0.05, momentum=0.9),
        **arguments,
    )


@pytest.mark.parametrize("dynamic", [DYNAMIC, None], ids=["open", "fixed"])
def test_steps_are_those_of_torch(dynamic):
    module = Network()
    trainer = trainer_of(module, dynamic=dynamic)
    assert trainer.inputs == ["x", "labels"]
    given = batches(48, 8)
    losses = [trainer.step({"x": x, "labels": y}) for x, y in given]
    np.testing.assert_allclose(losses, by_torch(module, [[b] for b in given]), **CLOSE)
    assert_weights(trainer, module)


@pytest.mark.parametrize("dynamic", [DYNAMIC, None], ids=["open", "fixed"])
def test_a_partial_last_batch_counts_with_its_own_mean(dynamic):
    module = Network()
    trainer = trainer_of(module, dynamic=dynamic)
    given = batches(29, 8)  # 8, 8, 8, 5
    history = trainer.fit(given, epochs=2, progress=False)
    losses = by_torch(module, [[b] for b in given] * 2)
    assert_weights(trainer, module)
    means = [np.average(losses[i : i + 4], weights=[8, 8, 8, 5]) for i in (0, 4)]
    np.testing.assert_allclose(history["loss"], means, **CLOSE)


@pytest.mark.parametrize("count", [32, 29, 40, 43])
def test_accumulation_takes_several_batches_of_the_loader(count):
    """Also where the last update has fewer of them, or one that is smaller."""
    module = Network()
    trainer = trainer_of(module, accumulation=4)
    given = batches(count, 4)
    trainer.fit(given, epochs=3, progress=False)
    by_torch(module, [given[i : i + 4] for i in range(0, len(given), 4)] * 3)
    assert_weights(trainer, module)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_replicas_share_a_batch(accumulation):
    module = Network()
    trainer = trainer_of(module, replicas=2, accumulation=accumulation)
    given = batches(40 + 3, 8)
    trainer.fit(given, epochs=2, progress=False)
    by_torch(module, [given[i : i + accumulation] for i in range(0, len(given), accumulation)] * 2)
    assert_weights(trainer, module)


def test_evaluation_has_the_weights_of_training_and_its_form_of_norms():
    module = Network(norm=True)
    trainer = trainer_of(module)
    # ONNX keeps the variance of the batch, PyTorch that of n - 1 samples: a large batch brings them together.
    given, held_out = batches(160, 80), batches(19, 8, seed=5)
    trainer.fit(given, epochs=2, progress=False)
    by_torch(module, [[b] for b in given] * 2)
    module.eval()
    x, y = data(19, seed=5)
    with torch.no_grad():
        logits = module(x)
    values = trainer.evaluate(held_out, ["accuracy", lambda outputs, batch: float(outputs.mean())])
    np.testing.assert_allclose(values["loss"], nn.functional.cross_entropy(logits, y).item(), rtol=1e-3)
    assert values["accuracy"] == pytest.approx((logits.argmax(1) == y).float().mean().item())
    np.testing.assert_allclose(values["<lambda>"], logits.mean().item(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(trainer.predict(x), logits, rtol=5e-3, atol=1e-3)
    trained = {name for name, _ in module.named_parameters()}
    for name, value in weights_of(module).items():  # evaluation changed nothing
        np.testing.assert_allclose(trainer.weights[name], value, **(CLOSE if name in trained else {"rtol": 5e-3}))


def test_weights_are_read_and_set_by_name():
    module = Network()
    trainer = trainer_of(module)
    assert sorted(trainer.weights) == sorted(weights_of(module))
    np.testing.assert_array_equal(trainer.weights["first.weight"], weights_of(module)["first.weight"])
    x, y = data(8)
    with torch.no_grad():
        module.first.weight.mul_(2)
    trainer.weights["first.weight"] = 2 * trainer.weights["first.weight"]
    np.testing.assert_allclose(trainer.predict(x), module(x).detach(), **CLOSE)
    trainer.step((x, y))
    by_torch(module, [[(x, y)]])
    assert_weights(trainer, module)
    trainer.weights["second.bias"] = np.ones(CLASSES)
    np.testing.assert_array_equal(trainer.weights["second.bias"], np.ones(CLASSES, np.float32))
    with pytest.raises(KeyError, match=r"no weight 'first.weigth'.*first\.weight"):
        trainer.weights["first.weigth"]
    with pytest.raises(popart.popart_exception, match=r"'second.bias': got shape \[2\], expected \[4\]"):
        trainer.weights["second.bias"] = np.ones(2)


@pytest.mark.parametrize("kind", ["frozen", "trainable"])
def test_some_weights_stay(kind):
    module = Network()
    names = {"frozen": ["first.*"], "trainable": ["second.*"]}[kind]
    trainer = trainer_of(module, **{kind: names})
    given = batches(32, 8)
    trainer.fit(given, progress=False)
    module.first.requires_grad_(False)
    by_torch(module, [[b] for b in given])
    x, _ = data(8, seed=3)
    np.testing.assert_allclose(trainer.predict(x), module(x).detach(), **CLOSE)


@pytest.mark.parametrize("kind", ["frozen", "trainable"])
def test_frozen_weights_are_read_and_not_set(kind):
    """As state_dict() of PyTorch has them."""
    module = Network()
    trainer = trainer_of(module, **{kind: {"frozen": ["first.*"], "trainable": ["second.*"]}[kind]})
    before = {name: value.numpy().copy() for name, value in module.state_dict().items()}
    trainer.step(data(8))
    assert sorted(trainer.weights) == sorted(before) and len(trainer.weights) == len(before)
    for name, value in trainer.weights.items():
        assert value.shape == before[name].shape
        assert np.array_equal(value, before[name]) == name.startswith("first."), name
    trainer.weights["first.weight"][:] = 0  # a copy
    np.testing.assert_array_equal(trainer.weights["first.weight"], before["first.weight"])
    with pytest.raises(popart.popart_exception, match=r"'first.weight' does not train \(.*\): it is a constant of"):
        trainer.weights["first.weight"] = np.zeros((8, WIDTH))


def test_weights_include_statistics_and_what_the_loss_does_not_read():
    module = Network(norm=True)
    trainer = trainer_of(module, train_batch_norm=True)
    x, y = data(8)
    trainer.step((x, y))
    values = dict(trainer.weights)
    module.train()
    module(x)
    state = module.state_dict()
    np.testing.assert_allclose(values["norm.running_mean"], state["norm.running_mean"], **CLOSE)
    assert values["norm.running_var"].shape == state["norm.running_var"].shape
    builder = popart.Builder(exported(module))
    builder.addInitializedInputTensor(np.arange(3, dtype=np.float32), "unread")
    trainer = popart.Trainer(builder.getModelProto(), "cross_entropy", popart.optim.SGD())
    np.testing.assert_array_equal(trainer.weights["unread"], [0, 1, 2])


@pytest.mark.parametrize("accumulation", [1, 2])
def test_steps_of_all_kinds_in_turn(accumulation):
    """Steps that are like the one before take a shorter way; those that are not must not take it."""
    module = Network()
    trainer = trainer_of(module, accumulation=accumulation, outputs=["logits"])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    x, y = data(8)
    wide = np.zeros((8, 2 * WIDTH), np.float32)
    wide[:, ::2] = x
    kept = []
    for batch in (
        (x, y), (x, y), [x.numpy(), y.numpy()], {"x": x, "labels": y}, {"x": x.numpy(), "labels": y.int().numpy()},
        (wide[:, ::2], y), data(4, 1), data(4, 2), data(6, 3), (x, y), "lr", (x, y), (x, y), "evaluate", (x, y),
        {"labels": y.numpy().astype(np.int32), "x": x.double().numpy(), "more": 1},
    ):  # fmt: skip
        if batch == "lr":
            trainer.optimizer.lr = optimizer.param_groups[0]["lr"] = 0.02
            continue
        if batch == "evaluate":
            trainer.evaluate([data(3, 5)])
            continue
        now_x, now_y = (batch["x"], batch["labels"]) if isinstance(batch, dict) else batch
        logits = module(torch.as_tensor(np.ascontiguousarray(now_x)).float())
        loss = nn.functional.cross_entropy(logits, torch.as_tensor(now_y).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(trainer.step(batch), loss.item(), **CLOSE)
        kept.append((trainer.results["logits"].reshape(-1, CLASSES), logits.detach().numpy()))
    for ours, theirs in kept:  # arrays of later steps are others
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert_weights(trainer, module)
    with pytest.raises(popart.popart_exception, match="the data has no 'labels'"):
        trainer.step({"x": x})
    with pytest.raises(popart.popart_exception, match="got float32, expected int32"):
        trainer.step((x, y.float()))


def test_another_optimizer_takes_the_place_of_one():
    module = Network()
    trainer = popart.Trainer(exported(module), "cross_entropy", popart.SGD({"defaultLearningRate": (0.05, False)}))
    x, y = data(8)
    before = trainer.step((x, y))
    trainer.step((x, y))
    trainer.optimizer = popart.SGD({"defaultLearningRate": (0.0, False)})
    values = dict(trainer.weights)
    assert trainer.step((x, y)) < before
    for name, value in trainer.weights.items():
        np.testing.assert_array_equal(value, values[name])


def test_steps_like_the_one_before_call_little():
    """Counts calls of Python functions, which do not depend on the machine."""
    module = Network()
    trainer = trainer_of(module)
    x, y = data(8)
    batch = {"x": x.numpy(), "labels": y.int().numpy()}
    trainer.step(batch)
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        trainer.step(batch)
    finally:
        sys.setprofile(None)
    assert [name for name in calls if name != "<lambda>"] == ["step", "cut", "_run", "results", "mean_loss"]


def test_more_tensors_come_back():
    module = Network()
    trainer = trainer_of(module, outputs=["logits"])
    x, y = data(8)
    expected = module(x).detach()
    trainer.step((x, y))
    np.testing.assert_allclose(trainer.results["logits"], expected, **CLOSE)


@pytest.mark.parametrize("dynamic", [DYNAMIC, None], ids=["open", "fixed"])
def test_inference_form_equals_onnxruntime(tmp_path, dynamic):
    module = Network(norm=True, dropout=0.5)
    trainer = trainer_of(module, dynamic=dynamic, seed=1)
    trainer.fit(batches(40, 8), progress=False)
    trainer.save(tmp_path / "inference.onnx")
    onnx.checker.check_model(str(tmp_path / "inference.onnx"))
    x, _ = data(8, seed=3)
    found = onnxruntime.InferenceSession(tmp_path / "inference.onnx").run(None, {"x": x.numpy()})[0]
    np.testing.assert_allclose(found, trainer.predict(x), **CLOSE)
    np.testing.assert_allclose(popart.load(tmp_path / "inference.onnx")(x), trainer.predict(x), **CLOSE)


def test_batch_norms_of_a_file_for_inference_can_train():
    module = Network(norm=True)
    module.eval()
    trainer = popart.Trainer(
        exported(module), "cross_entropy", popart.optim.SGD(lr=0.05, momentum=0.9), train_batch_norm=True
    )
    given = batches(40, 8)
    losses = [trainer.step(batch) for batch in given]
    np.testing.assert_allclose(losses, by_torch(module, [[b] for b in given]), **CLOSE)
    for name, value in module.named_parameters():
        np.testing.assert_allclose(trainer.weights[name], value.detach(), err_msg=name, **CLOSE)
    np.testing.assert_allclose(trainer.weights["norm.running_mean"], module.norm.running_mean, **CLOSE)


def test_weights_in_another_file(tmp_path):
    module = Network()
    model = onnx.load_from_string(exported(module))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    trainer = popart.Trainer(tmp_path / "m.onnx", "cross_entropy", popart.optim.SGD(lr=0.05, momentum=0.9))
    x, y = data(8)
    np.testing.assert_allclose(trainer.predict(x), module(x).detach(), **CLOSE)
    trainer.step((x, y))
    by_torch(module, [[(x, y)]])
    assert_weights(trainer, module)
    assert trainer.evaluate([(x, y)])["loss"] > 0


def test_seeds_give_the_same_bits():
    given = batches(40, 8)

    def losses(seed):
        trainer = trainer_of(Network(dropout=0.5), seed=seed)
        return [trainer.step(batch) for batch in given]

    assert losses(7) == losses(7)
    assert losses(7) != losses(8)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_state_goes_on_with_the_same_bits(tmp_path, accumulation):
    given = batches(12 * 10 + 5, 12)
    make = lambda: trainer_of(  # noqa: E731
        Network(norm=True, dropout=0.3), popart.optim.AdamW(lr=0.01), seed=4, accumulation=accumulation
    )
    whole = make()
    for batch in given[:6]:
        whole.step(batch)
    whole.save_state(tmp_path / "state.safetensors", {"note": 3})
    expected = [whole.step(batch) for batch in given[6:]]
    again = make()
    assert again.load_state(tmp_path / "state.safetensors")["note"] == 3
    assert [again.step(batch) for batch in given[6:]] == expected


def test_memory_and_recomputation_change_no_numbers():
    given = batches(32, 8)

    def losses(**arguments):
        trainer = trainer_of(Network(), **arguments)
        return [trainer.step(batch) for batch in given]

    plain = losses()
    np.testing.assert_allclose(losses(recompute=True), plain, rtol=1e-6)
    np.testing.assert_allclose(losses(max_memory="1M", num_threads=1), plain, rtol=1e-6)


def test_optimizers_of_popart_train_too():
    module = Network()
    sgd = popart.SGD({"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)})
    trainer = trainer_of(module, sgd)
    given = batches(80, 8)
    losses = [trainer.step(batch) for batch in given]
    np.testing.assert_allclose(losses, by_torch(module, [[b] for b in given]), **CLOSE)
    with pytest.raises(popart.popart_exception, match=r"a schedule needs an optimizer of popart\.optim"):
        trainer.fit(batches(8, 8), schedule=popart.optim.cosine(), progress=False)


def test_a_loss_of_code_and_one_of_the_model():
    module = Network()
    given = batches(32, 8)
    losses = by_torch(module, [[b] for b in given])

    def smooth(builder):
        labels = builder.addInputTensor("INT32", [8], "labels")
        return popart.losses.cross_entropy(builder, "logits", labels)

    trainer = popart.Trainer(exported(Network()), smooth, popart.optim.SGD(lr=0.05, momentum=0.9))
    np.testing.assert_allclose([trainer.step(b) for b in given], losses, **CLOSE)
    builder = popart.Builder(exported(Network(), dynamic=None))
    loss = smooth(builder)
    builder.addOutputTensor(loss)
    trainer = popart.Trainer(builder.getModelProto(), loss, popart.optim.SGD(lr=0.05, momentum=0.9))
    np.testing.assert_allclose([trainer.step(b) for b in given], losses, **CLOSE)
    assert trainer.evaluate(batches(16, 8), ["accuracy"])["accuracy"] <= 1


def test_mean_squared_error_of_values():
    module = Network()
    trainer = popart.Trainer(exported(module), "mse", popart.optim.AdamW(lr=0.01))
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    x, targets = torch.randn(8, WIDTH), torch.randn(8, CLASSES)
    for _ in range(5):
        loss = nn.functional.mse_loss(module(x), targets)
        np.testing.assert_allclose(trainer.step((x, targets)), loss.item(), **CLOSE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    values = trainer.evaluate([(x, targets)], ["mse", "mae"])
    difference = (module(x) - targets).detach()
    assert values["mse"] == pytest.approx(difference.square().mean().item(), rel=1e-4)
    assert values["mae"] == pytest.approx(difference.abs().mean().item(), rel=1e-4)


class LastState(nn.Module):
    """Time comes first in its input, samples in its output."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(WIDTH, CLASSES)

    def forward(self, x):
        return self.rnn(x)[1][0]


class Rows(nn.Module):
    """All rows of all samples together."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.linear(x).reshape(12, CLASSES)


def exported_as_it_is(network, x):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, x, file, dynamo=False, do_constant_folding=False)
    return file.getvalue()


@pytest.mark.parametrize(("module", "labels"), [(LastState, 3), (Rows, 12)])
def test_labels_may_have_another_first_dimension_than_inputs(module, labels):
    torch.manual_seed(5)
    network = module()
    x, y = torch.randn(4, 3, WIDTH), torch.randn(labels, CLASSES)
    trainer = popart.Trainer(exported_as_it_is(network, x), loss="mse", optimizer=popart.optim.SGD(lr=0.1))
    if module is Rows:  # the file fixes its batch: before the first step, the session has that one
        assert_weights(trainer, network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), y)
        loss.backward()
        optimizer.step()
        assert trainer.step((x, y)) == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"accumulation": 2}, {"replicas": 2}])
def test_labels_may_be_probabilities(settings):
    network = Network()
    x, y = data(8)[0], torch.rand(8, CLASSES, generator=torch.Generator().manual_seed(3)).softmax(1)
    trainer = popart.Trainer(
        exported(network), loss="categorical_cross_entropy", optimizer=popart.optim.SGD(lr=0.1), **settings
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        assert trainer.step((x, y)) == pytest.approx(loss.item(), rel=1e-5)
    assert_weights(trainer, network)
    right = (network(x).argmax(1) == y.argmax(1)).double().mean().item()
    assert trainer.evaluate([(x, y)], ["accuracy"])["accuracy"] == right


def test_a_file_that_fixes_its_batch_says_so():
    """The number of rows is a constant of a Reshape, so that only batches of the file's size can be computed."""
    file = exported_as_it_is(Rows(), torch.zeros(4, 3, WIDTH))
    trainer = popart.Trainer(file, loss="mse", optimizer=popart.optim.SGD(lr=0.1))
    with pytest.raises(
        popart.popart_exception, match=r"the file fixes its batch.*Export it with an open batch\. Reshape"
    ):
        trainer.step((torch.randn(3, 3, WIDTH), torch.randn(12, CLASSES)))


def two_inputs(sizes):
    """A file of two inputs with these first dimensions."""
    builder = popart.Builder()
    x, scale = (builder.addInputTensor("FLOAT", [size, 4], name) for size, name in zip(sizes, "xs", strict=True))
    weight = builder.addInitializedInputTensor(np.ones((4, 2), np.float32), "w")
    builder.addOutputTensor(builder.aiOnnx.matmul([builder.aiOnnx.mul([x, scale]), weight]))
    return builder.getModelProto()


@pytest.mark.parametrize("arguments", [{"accumulation": 2}, {"replicas": 2}], ids=str)
def test_a_batch_that_cannot_be_open_is_not_cut(arguments):
    with pytest.raises(popart.popart_exception, match=r"expected 1, as no input has an open dim.*'x' \[8, 4\]"):
        popart.Trainer(two_inputs((8, 1)), "mse", popart.optim.SGD(), **arguments)


@pytest.mark.parametrize(("arguments", "text"), [
    ({"loss": "cross_entropi"}, "expected the name of a loss or a tensor of the model. Nearest names: cross_entropy"),
    ({"frozen": ["frist.*"]}, r"frozen: the model has no weight 'frist.\*'"),
    ({"trainable": ["first.weigth"]}, "no weight 'first.weigth'. Nearest names: first.weight"),
    ({"accumulation": 0}, "accumulation: got 0, expected a whole number, 1 or more"),
    ({"recompute": "Standrad"}, "recompute: got 'Standrad', expected True, False or one of .* names: Standard"),
])  # fmt: skip
def test_arguments_that_are_refused(arguments, text):
    with pytest.raises(popart.popart_exception, match=text):
        popart.Trainer(exported(Network()), **{"loss": "cross_entropy", "optimizer": popart.optim.SGD(), **arguments})


@pytest.mark.parametrize("loss", [None, 3, nn.CrossEntropyLoss()], ids=str)
def test_losses_that_are_none(loss):
    with pytest.raises(TypeError, match=r"expected the name of a loss .*cross_entropy.*takes a Builder"):
        popart.Trainer(exported(Network()), loss, popart.optim.SGD())


def test_one_name_in_place_of_a_list(tmp_path):
    trainer = trainer_of(Network(), frozen="first.*", outputs="logits")
    trainer.fit(
        batches(16, 8), validate=batches(16, 8), metrics="accuracy", log=str(tmp_path / "run.csv"), progress=False
    )
    assert {t.name for t in trainer.session.trainableTensors() if t.trains} == {"second.weight", "second.bias"}
    assert trainer.results["logits"].shape == (8, CLASSES)
    assert trainer.evaluate(batches(16, 8), "accuracy").keys() == {"loss", "accuracy"}
    assert (tmp_path / "run.csv").read_text().startswith("epoch,")


def test_files_of_state_that_are_none(tmp_path):
    (tmp_path / "text").write_text("no state, but more than eight bytes")
    with pytest.raises(popart.popart_exception, match="text' holds no state of a trainer"):
        trainer_of(Network()).load_state(tmp_path / "text")


def test_batches_of_nested_values():
    """As data sets of PyTorch and Keras give them: inputs by name or together, and labels."""
    builder = popart.Builder()
    left, right = (builder.addInputTensor("FLOAT", ["batch", WIDTH], name) for name in ("left", "right"))
    weight = builder.addInitializedInputTensor(np.ones((WIDTH, CLASSES), np.float32), "w")
    builder.addOutputTensor(builder.aiOnnx.matmul([builder.aiOnnx.sub([left, right]), weight]))
    x, y = data(8)

    def loss_of(batch):
        trainer = popart.Trainer(builder.getModelProto(), loss="cross_entropy", optimizer=popart.optim.SGD(lr=0.1))
        trainer.step(batch)
        return trainer.step(batch)

    expected = loss_of({"left": x, "right": 2 * x, "labels": y})
    for batch in (
        (x, 2 * x, y),
        ({"left": x, "right": 2 * x}, y),
        ({"right": 2 * x, "left": x, "further": 1}, {"labels": y}),
        (x, {"right": 2 * x}, y),
        ((x, 2 * x), y),
        [[x, 2 * x], y],
    ):
        assert loss_of(batch) == expected


@pytest.mark.parametrize(("batch", "text"), [
    (data(0), "'x': got no samples, expected 1 or more"),
    ({"x": data(8)[0]}, "the data has no 'labels'"),
    ((data(8)[0],), "the data gives 1 values: got 2 inputs: x, labels"),
    ((data(8)[0], np.eye(CLASSES)[data(8)[1]]), r"'labels': got shape \[8, 4\], .*categorical_cross_entropy"),
    (({"x": data(8)[0]},), r"the data gives 1 values \(x by name\): got 2 inputs: x, labels"),
    ((data(8), *data(8)), "the data gives 4 values: got 2 inputs: x, labels"),
    ((data(8)[0][:, :3], data(8)[1]), r"'x': got shape \[8, 3\], expected \[batch, 6\]"),
    ((data(8)[0], data(8)[1].double()), "'labels': got float64, expected int32"),
])  # fmt: skip
def test_batches_that_are_refused(batch, text):
    trainer = trainer_of(Network())
    with pytest.raises(popart.popart_exception, match=text):
        trainer.step(batch)
    trainer.step(data(8))  # the trainer goes on
