"""Arguments of wrong kinds and values are refused at the call, with the argument, what it got and what it expects."""

import io
import warnings

import numpy as np
import popart
import pytest
import torch
from popart._arguments import ArgumentError
from torch import nn


@pytest.fixture(scope="module")
def file():
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "batch"}, "y": {0: "batch"}}}
        torch.onnx.export(nn.Linear(3, 2), torch.zeros(4, 3), out, dynamo=False, **names)
    return out.getvalue()


def refused(error, text, call, *arguments, **named):
    """The error has the type and text, and is also what callers catch that know only the old types."""
    with pytest.raises(error, match=text) as caught:
        call(*arguments, **named)
    if error is ValueError and isinstance(caught.value, ArgumentError):
        assert isinstance(caught.value, popart.popart_exception)


WHOLE = "expected a whole number"


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"accumulation": "2"}, TypeError, f"Trainer: accumulation: got '2', {WHOLE}, 1 or more"),
    ({"accumulation": 2.0}, TypeError, f"accumulation: got 2.0, {WHOLE}"),
    ({"accumulation": True}, TypeError, f"accumulation: got True, {WHOLE}"),
    ({"accumulation": 0}, ValueError, f"accumulation: got 0, {WHOLE}, 1 or more"),
    ({"replicas": -1}, ValueError, f"replicas: got -1, {WHOLE}, 1 or more"),
    ({"replicas": None}, TypeError, "replicas: got None"),
    ({"seed": "a"}, TypeError, f"seed: got 'a', {WHOLE} from 0 to"),
    ({"seed": -1}, ValueError, "seed: got -1"),
    ({"seed": 2**64}, ValueError, "seed: got 18446744073709551616"),
    ({"max_shapes": 0}, ValueError, "Trainer: max_shapes: got 0"),
    ({"num_threads": "2"}, TypeError, "num_threads: got '2'"),
    ({"num_threads": 0}, ValueError, "num_threads: got 0"),
    ({"max_memory": -1}, ValueError, "max_memory: got -1"),
    ({"max_memory": 1.5}, TypeError, "max_memory: got 1.5"),
    ({"max_memory": "2 gigabytes"}, popart.popart_exception, "Trainer: max_memory: got '2 gigabytes', expected"),
    ({"precision": 16}, TypeError, "precision: got 16"),
    ({"precision": "float17"}, ValueError, "got 'float17', expected one of 'float32'.*Nearest names: float16"),
    ({"train_batch_norm": "no"}, TypeError, "train_batch_norm: got 'no', expected True or False"),
    ({"recompute": 2}, popart.popart_exception, "recompute: got 2"),
    ({"frozen": 3}, TypeError, "frozen: got 3, expected a name or a list of names"),
    ({"trainable": [nn.Linear(2, 2)]}, TypeError, "trainable: got .*, expected a name or a list of names"),
    ({"outputs": [1]}, TypeError, r"outputs: got \[1\]"),
    ({"output": 0}, TypeError, "output: got 0, expected text"),
    ({"inputs": 3}, TypeError, "inputs: got 3"),
    ({"loss_options": ["sum"]}, TypeError, r"loss_options: got \['sum'\], expected a dictionary of arguments"),
    ({"loss_options": {"label_smoothing": "a"}}, TypeError, "label_smoothing: got 'a', expected a finite number"),
    ({"loss_options": {"label_smoothing": 2.0}}, popart.popart_exception, "label.smoothing.*2"),
    ({"loss_options": {"ignore_index": 0.5}}, TypeError, "ignore_index: got 0.5"),
    ({"loss_options": {"reduction": "avg"}}, popart.popart_exception, "reduction: got 'avg'"),
    ({"loss_options": {"reduction": None}}, popart.popart_exception, "reduction: got None"),
    ({"loss_options": {"wieght": [1, 2]}}, TypeError, "wieght"),
    ({"options": [1]}, TypeError, r"options: got \[1\], expected a dictionary of members of SessionOptions"),
    ({"options": {"engineOptions": "a"}}, TypeError, "engineOptions: got 'a'"),
    ({"device": "cpu"}, TypeError, "device: got 'cpu', expected a device"),
    ({"optimizer": None}, TypeError, "there is no optimizer"),
    ({"optimizer": torch.optim.SGD}, TypeError, "optimizer: got .*popart.optim.AdamW"),
    ({"model": 3}, TypeError, "model: got int, expected a file name"),
])  # fmt: skip
def test_trainer(file, arguments, error, text):
    given = {"model": file, "loss": "cross_entropy", "optimizer": popart.optim.SGD(), **arguments}
    refused(error, text, popart.Trainer, **given)


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"epochs": -1}, ValueError, f"fit: epochs: got -1, {WHOLE}, 0 or more"),
    ({"epochs": "3"}, TypeError, "epochs: got '3'"),
    ({"epochs": 1.5}, TypeError, "epochs: got 1.5"),
    ({"save_every": -1}, ValueError, "save_every: got -1"),
    ({"save_every": None}, TypeError, "save_every: got None"),
    ({"log_every": -5}, ValueError, "log_every: got -5"),
    ({"patience": -1}, ValueError, "patience: got -1"),
    ({"patience": "2"}, TypeError, "patience: got '2'"),
    ({"monitor": 3}, TypeError, "monitor: got 3, expected text"),
    ({"mode": "best"}, popart.popart_exception, "mode: got 'best'"),
    ({"restore_best": 1}, TypeError, "restore_best: got 1, expected True or False"),
    ({"progress": "no"}, TypeError, "progress: got 'no'"),
    ({"on_step": 3}, TypeError, "on_step: got 3, expected a function"),
    ({"on_epoch": "print"}, TypeError, "on_epoch: got 'print', expected a function"),
    ({"checkpoint": 3}, TypeError, "checkpoint: got 3, expected the name of a file or folder"),
    ({"log": [3]}, TypeError, "log: got 3"),
    ({"schedule": 0.1}, TypeError, "schedule: got 0.1"),
    ({"schedule": lambda update: float("nan")}, ValueError, "lr_factor: got nan, expected a finite number"),
    ({"schedule": lambda update: None}, TypeError, "lr_factor: got None"),
    ({"schedule": lambda update: -1.0}, popart.popart_exception, "factor of the learning rate.*-1"),
    ({"metrics": [3], "validate": []}, TypeError, "metrics: got 3"),
    ({"validate": 3}, TypeError, "validate: got 3, expected batches"),
    ({"data": 3}, TypeError, "data: got 3, expected batches"),
    ({"data": "train"}, TypeError, "data: got 'train', expected batches"),
])  # fmt: skip
def test_fit(file, arguments, error, text):
    trainer = popart.Trainer(file, "mse", popart.optim.SGD())
    batch = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)
    before = trainer.weights["weight"].copy()
    refused(error, text, trainer.fit, **{"data": [batch], "progress": False, **arguments})
    np.testing.assert_array_equal(trainer.weights["weight"], before)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda t: t.evaluate(3), TypeError, "evaluate: data: got 3, expected batches"),
    (lambda t: t.save(3), TypeError, "save: path: got 3"),
    (lambda t: t.save("a.onnx", form="best"), ValueError, "save: form: got 'best', expected one of 'inference'"),
    (lambda t: t.save_state(None), TypeError, "save_state: path: got None"),
    (lambda t: t.save_state("a", facts=[1]), TypeError, r"save_state: facts: got \[1\]"),
    (lambda t: t.load_state(3), TypeError, "load_state: path: got 3"),
    (lambda t: setattr(t, "optimizer", 0.1), TypeError, "optimizer: got 0.1"),
    (lambda t: t.weights.__setitem__("weight", "a"), popart.popart_exception, "weight 'weight': got"),
])  # fmt: skip
def test_methods_of_trainer(file, tmp_path, monkeypatch, call, error, text):
    monkeypatch.chdir(tmp_path)
    refused(error, text, call, popart.Trainer(file, "mse", popart.optim.SGD()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"outputs": 3}, TypeError, "load: outputs: got 3"),
    ({"outputs": []}, ValueError, r"load: outputs: got \[\], expected one name or more"),
    ({"max_shapes": -1}, ValueError, "load: max_shapes: got -1"),
    ({"num_threads": 1.5}, TypeError, "load: num_threads: got 1.5"),
    ({"device": 0}, TypeError, "load: device: got 0"),
    ({"options": 3}, TypeError, "load: options: got 3"),
])  # fmt: skip
def test_load(file, arguments, error, text):
    refused(error, text, popart.load, file, **arguments)


def test_load_takes_the_name_of_one_output(file):
    assert popart.load(file, outputs="y").outputs == ["y"]


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda o: o.SGD(lr="a"), TypeError, "optim.SGD: lr: got 'a', expected a finite number"),
    (lambda o: o.SGD(lr=None), TypeError, "lr: got None"),
    (lambda o: o.SGD(lr=float("nan")), ValueError, "lr: got nan"),
    (lambda o: o.SGD(lr=float("inf")), ValueError, "lr: got inf"),
    (lambda o: o.SGD(lr=True), TypeError, "lr: got True"),
    (lambda o: o.SGD(momentum=[0.9]), TypeError, r"momentum: got \[0.9\]"),
    (lambda o: o.SGD(nesterov="yes"), TypeError, "nesterov: got 'yes', expected True or False"),
    (lambda o: o.SGD(maximize=1), TypeError, "maximize: got 1"),
    (lambda o: o.Adam(betas=(0.9,)), ValueError, r"optim.Adam: betas: got \(0.9,\), expected two numbers"),
    (lambda o: o.Adam(betas=0.9), TypeError, "betas: got 0.9, expected two numbers"),
    (lambda o: o.Adam(betas="ab"), TypeError, "betas: got 'ab', expected two numbers"),
    (lambda o: o.AdamW(betas=(0.9, "b")), TypeError, "betas: got 'b'"),
    (lambda o: o.AdamW(amsgrad=None), TypeError, "amsgrad: got None"),
    (lambda o: o.Adam(clip_grad_norm="1"), TypeError, "clip_grad_norm: got '1'"),
    (lambda o: o.Adam(clip_grad_value=0.0), popart.popart_exception, "largest value of gradients: got 0"),
    (lambda o: o.Adam(loss_scale=0), ValueError, "loss_scale: got 0, expected a finite number, above 0"),
    (lambda o: o.Adam(loss_scale=float("nan")), ValueError, "loss_scale: got nan"),
    (lambda o: o.Lamb(max_weight_norm="a"), TypeError, "max_weight_norm: got 'a'"),
    (lambda o: o.RMSprop(centered=2), TypeError, "centered: got 2"),
    (lambda o: o.Adagrad(lr_decay=float("inf")), ValueError, "lr_decay: got inf"),
    (lambda o: o.SGD(groups={"params": "w"}), TypeError, "groups: got .*, expected a list of dictionaries"),
    (lambda o: o.SGD(groups=["w"]), TypeError, "groups: got 'w', expected dictionaries"),
    (lambda o: o.SGD(groups=[{"params": 3}]), TypeError, "group 0: params: got 3"),
    (lambda o: o.SGD(groups=[{"params": "w", "lr": "a"}]), TypeError, "group 0: lr: got 'a'"),
    (lambda o: o.SGD(learning_rate=0.1), TypeError, "there is no argument 'learning_rate': give lr"),
    (lambda o: o.SGD(momentun=0.9), TypeError, "momentun"),
    (lambda o: setattr(o.SGD(), "lr", "a"), TypeError, "optim.SGD: lr: got 'a', expected a finite number"),
    (lambda o: setattr(o.SGD(), "lr", float("nan")), ValueError, "lr: got nan"),
    (lambda o: setattr(o.SGD(), "lr", -0.5), popart.popart_exception, "invalid lr: got -0.5"),
    (lambda o: setattr(o.SGD(), "lr_factor", None), TypeError, "lr_factor: got None"),
    (lambda o: o.constant(warmup=-1), ValueError, "schedule 'constant': warmup: got -1"),
    (lambda o: o.constant(warmup=1.5), TypeError, "warmup: got 1.5"),
    (lambda o: o.step(0), ValueError, "schedule 'step': step_size: got 0"),
    (lambda o: o.step("10"), TypeError, "step_size: got '1'"),
    (lambda o: o.step([]), ValueError, r"step_size: got \[\]"),
    (lambda o: o.step([3, 1.5]), TypeError, "step_size: got 1.5"),
    (lambda o: o.step(3, gamma=-1), ValueError, "gamma: got -1"),
    (lambda o: o.step(3, unit="day"), ValueError, "unit: got 'day', expected one of 'epoch', 'update'"),
    (lambda o: o.cosine(final="a"), TypeError, "final: got 'a'"),
    (lambda o: o.cosine(total=0), ValueError, "schedule 'cosine': total: got 0"),
    (lambda o: o.linear(final=float("nan")), ValueError, "final: got nan"),
    (lambda o: o.one_cycle(pct_start=2), ValueError, "pct_start: got 2"),
    (lambda o: o.one_cycle(div_factor=0), ValueError, "div_factor: got 0"),
])  # fmt: skip
def test_optimizers_and_schedules(make, error, text):
    refused(error, text, make, popart.optim)


def test_numbers_of_other_libraries_are_numbers(file):
    optimizer = popart.optim.Adam(lr=np.float32(0.5), betas=torch.tensor([0.5, 0.75]), eps=torch.tensor(0.25))
    assert (optimizer.lr, optimizer._value("beta2"), optimizer._value("eps")) == (0.5, 0.75, 0.25)
    optimizer.lr = np.float64(0.25)
    assert optimizer.lr == 0.25
    trainer = popart.Trainer(file, "mse", optimizer, accumulation=np.int64(2), seed=np.int32(3), max_shapes=np.uint8(2))
    batch = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)
    assert len(trainer.fit([batch], epochs=np.int64(2), progress=False)) == 2
    assert popart.optim.step(np.int64(2)).bind(None, 1)(4) == pytest.approx(0.01)


def test_tensors_of_16_bits_are_inputs(file):
    trainer, plain = (popart.Trainer(file, "mse", popart.optim.SGD(lr=0.1)) for _ in range(2))
    x, y = torch.randn(4, 3).bfloat16(), torch.randn(4, 2).half()
    for _ in range(2):  # the second step is like the first
        assert trainer.step((x, y)) == plain.step((x.float(), y.float()))
    np.testing.assert_array_equal(popart.load(file)(x), popart.load(file)(x.float()))


def test_a_cycle_of_two_updates():
    """The first update is the peak: PyTorch divides by zero here."""
    factor = popart.optim.one_cycle(pct_start=0.5, total=2).bind(None, None)
    assert factor(0) == 1 and factor(1) == pytest.approx(1 / 25 / 1e4)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda s: s(delta="a"), TypeError, "huber: delta: got 'a'"),
    (lambda s: s(delta=float("nan")), ValueError, "huber: delta: got nan"),
    (lambda s: s(delta=-1.0), popart.popart_exception, "delta: got -1"),
])  # fmt: skip
def test_losses(file, call, error, text):
    builder = popart.Builder(file)
    target = builder.addInputTensor("FLOAT", [4, 2], "target")
    refused(error, text, call, lambda **given: popart.losses.huber(builder, "y", target, **given))
